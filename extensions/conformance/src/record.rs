//! Everything that happened to one object, from before it was created: each version that the watch showed, in order. It
//! only watches.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api_meta::Fault;
use futures::StreamExt;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::objects::{Objects, Seen};
use crate::version::Version;

/// Versions that are recorded of one object: hundreds of times what an extension writes. One that writes more is found
/// by those.
const VERSIONS_MAX: usize = 5_000;
/// How long a watch may take to begin: a list of at most one object.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(30);

/// One thing that happened.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    Present(Box<Version>),
    Gone,
}

impl Entry {
    pub(crate) fn version(&self) -> Option<&Version> {
        match self {
            Self::Present(version) => Some(version),
            Self::Gone => None,
        }
    }
}

#[derive(Default)]
struct State {
    entries: Vec<Entry>,
    listed: bool,
    /// How often versions may have been missed.
    gaps: usize,
    /// Why the watch does not begin.
    trouble: Option<String>,
}

/// The record of one object; ends when it is dropped.
pub(crate) struct Record {
    state: Arc<Mutex<State>>,
    changes: watch::Receiver<()>,
    _watching: AbortOnDropHandle<()>,
}

impl Record {
    /// Begins to watch; returns when the watch is established, so that nothing of what follows is missed.
    ///
    /// # Errors
    /// A watch that is refused or not answered.
    pub(crate) async fn begin(objects: &dyn Objects, name: &str) -> Result<Self, Fault> {
        let state = Arc::new(Mutex::new(State::default()));
        let (sender, changes) = watch::channel(());
        let mut events = objects.watch(name);
        let shared = state.clone();
        let watching = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                match event {
                    Ok(seen) => lock(&shared).note(seen),
                    Err(fault) => lock(&shared).trouble = Some(fault.chain()),
                }
                sender.send_replace(());
            }
        });
        let record = Self {
            state,
            changes,
            _watching: AbortOnDropHandle::new(watching),
        };
        let listed = record.until(|state| state.listed.then_some(()));
        if tokio::time::timeout(BEGIN_TIMEOUT, listed).await.is_err() {
            let why = lock(&record.state).trouble.take();
            let why = why.unwrap_or_else(|| "the API server does not answer".to_owned());
            let what = objects.kind().plural();
            return Err(Fault::dependency(format!("cannot watch {what}: {why}"))
                .hint("check that the kind is installed and that the kubeconfig may get, list and watch it"));
        }
        Ok(record)
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        lock(&self.state).entries.len()
    }

    /// The entries from `from` on.
    pub(crate) fn since(&self, from: usize) -> Vec<Entry> {
        lock(&self.state).entries.get(from..).unwrap_or_default().to_vec()
    }

    /// The newest version; nothing if the object is gone or not yet there.
    pub(crate) fn newest(&self) -> Option<Version> {
        lock(&self.state).entries.last()?.version().cloned()
    }

    /// Whether each version is known.
    pub(crate) fn is_whole(&self) -> bool {
        lock(&self.state).gaps == 0
    }

    /// Waits until `find` finds something among the entries from `from` on. Nothing when `timeout` is up.
    pub(crate) async fn wait<T>(
        &self,
        from: usize,
        timeout: Duration,
        find: impl Fn(&[Entry]) -> Option<T>,
    ) -> Option<T> {
        let found = self.until(|state| find(state.entries.get(from..).unwrap_or_default()));
        tokio::time::timeout(timeout, found).await.ok()
    }

    async fn until<T>(&self, find: impl Fn(&State) -> Option<T>) -> T {
        let mut changes = self.changes.clone();
        loop {
            changes.mark_unchanged();
            if let Some(found) = find(&lock(&self.state)) {
                return found;
            }
            if changes.changed().await.is_err() {
                // The watch never ends by itself.
                std::future::pending::<()>().await;
            }
        }
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn note(&mut self, seen: Seen) {
        match seen {
            // The first list is the beginning.
            Seen::Lists => self.gaps += usize::from(self.listed),
            Seen::Listed(version) => {
                self.listed = true;
                match version {
                    Some(version) => self.push(version),
                    None => self.gone(),
                }
            }
            Seen::Changed(version) => self.push(version),
            Seen::Gone => self.gone(),
        }
    }

    fn push(&mut self, version: Version) {
        let newest = self.entries.last().and_then(Entry::version);
        if newest.is_some_and(|newest| newest.resource_version() == version.resource_version()) {
            return;
        }
        if self.entries.len() >= VERSIONS_MAX {
            self.gaps += 1;
            self.entries.pop();
        }
        self.entries.push(Entry::Present(Box::new(version)));
    }

    fn gone(&mut self) {
        if matches!(self.entries.last(), Some(Entry::Present(_))) {
            self.entries.push(Entry::Gone);
        }
    }
}
