//! Keeps a graph true: one watch per kind that refers to others. Until each of them has been listed once, whatever hangs on
//! the graph is refused. It never writes, and a watch that breaks leaves what is known as it is until it is back.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::admit::{Write, admit};
use crate::decide::{Decision, Request, decide};
use crate::graph::Graph;
use crate::identity::Identity;
use crate::kinds::Kind;
use crate::objects::{
    BackupBucket, BackupEntry, Bastion, CertificateSigningRequest, ControllerDeployment, ControllerInstallation,
    CredentialsBinding, Holder, ManagedSeed, Project, SecretBinding, Seed, Shoot,
};
use crate::refusal::Refusal;

/// The kinds that are watched.
const WATCHED: [Kind; 12] = [
    Kind::BackupBucket,
    Kind::BackupEntry,
    Kind::Bastion,
    Kind::CertificateSigningRequest,
    Kind::ControllerDeployment,
    Kind::ControllerInstallation,
    Kind::CredentialsBinding,
    Kind::ManagedSeed,
    Kind::Project,
    Kind::SecretBinding,
    Kind::Seed,
    Kind::Shoot,
];

/// A graph with those who keep it true. Clones are handles to the same one.
#[derive(Clone, Debug)]
pub struct Keeper(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    graph: RwLock<Graph>,
    /// Kinds that have not been listed yet.
    missing: Mutex<BTreeSet<Kind>>,
    /// Sent to whenever an answer may be another than before.
    news: watch::Sender<()>,
    /// Whether the watches have been stopped.
    stopped: AtomicBool,
}

impl Default for Keeper {
    fn default() -> Self {
        Self(Arc::new(Inner {
            graph: RwLock::default(),
            missing: Mutex::new(BTreeSet::from(WATCHED)),
            news: watch::Sender::new(()),
            stopped: AtomicBool::new(false),
        }))
    }
}

impl Keeper {
    /// Watches until `stop`. What was known before stays known while it is listed again.
    pub async fn run(self, client: Client, stop: CancellationToken) {
        self.0.stopped.store(false, Ordering::Relaxed);
        let (keeper, client) = (&self, &client);
        let following: [BoxFuture<'_, ()>; WATCHED.len()] = [
            keeper.follow::<BackupBucket>(client).boxed(),
            keeper.follow::<BackupEntry>(client).boxed(),
            keeper.follow::<Bastion>(client).boxed(),
            keeper.follow::<CertificateSigningRequest>(client).boxed(),
            keeper.follow::<ControllerDeployment>(client).boxed(),
            keeper.follow::<ControllerInstallation>(client).boxed(),
            keeper.follow::<CredentialsBinding>(client).boxed(),
            keeper.follow::<ManagedSeed>(client).boxed(),
            keeper.follow::<Project>(client).boxed(),
            keeper.follow::<SecretBinding>(client).boxed(),
            keeper.follow::<Seed>(client).boxed(),
            keeper.follow::<Shoot>(client).boxed(),
        ];
        // Ends with `stop` alone: the watches are endless.
        let _ = stop.run_until_cancelled(futures::future::join_all(following)).await;
        self.0.stopped.store(true, Ordering::Relaxed);
        // Requests that wait for the first list are answered now: none will come.
        self.0.news.send_replace(());
    }

    /// Whether the watches have been stopped, after which no answer changes any more.
    pub fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::Relaxed)
    }

    /// The kinds that are still to be listed; none when the graph is complete.
    pub fn missing(&self) -> Vec<Kind> {
        self.0.missing().iter().copied().collect()
    }

    /// Whether the graph is complete.
    pub fn is_ready(&self) -> bool {
        self.0.missing().is_empty()
    }

    /// Decides by what is known now. While something is missing, what hangs on the graph is refused for now.
    pub fn decide(&self, identity: &Identity, request: &Request<'_>) -> Decision {
        let decision = decide(&self.0.graph(), identity, request);
        match decision {
            Decision::Deny(refusal) if refusal.may_change() => Decision::Deny(self.unless_ready(refusal)),
            other => other,
        }
    }

    /// Lets a write pass by what is known now, or not. While something is missing, none passes: that nothing else needs an
    /// object is known only when everything is.
    ///
    /// # Errors
    /// As [`admit`].
    pub fn admit(&self, identity: &Identity, write: &Write<'_>) -> Result<(), Refusal> {
        match admit(&self.0.graph(), identity, write) {
            Err(refusal) if refusal.may_change() => Err(self.unless_ready(refusal)),
            Ok(()) if Kind::of(write.group, write.resource).is_some() && !self.is_ready() => {
                Err(Refusal::unready(&self.missing_plurals()))
            }
            outcome => outcome,
        }
    }

    /// Is done when an answer may be another than at the time of this call.
    pub fn news(&self) -> BoxFuture<'static, ()> {
        let mut news = self.0.news.subscribe();
        async move {
            if news.changed().await.is_err() {
                // The keeper is gone, and with it all news.
                futures::future::pending::<()>().await;
            }
        }
        .boxed()
    }

    /// What the graph's size hangs on: as [`Graph::size`].
    pub fn size(&self) -> (usize, usize, usize) {
        self.0.graph().size()
    }

    /// A graph as it is after `fill`, complete.
    #[cfg(test)]
    pub(crate) fn fill(&self, fill: impl FnOnce(&mut Graph)) {
        fill(&mut self.0.graph_mut());
        self.0.missing().clear();
        self.0.news.send_replace(());
    }

    fn unless_ready(&self, refusal: Refusal) -> Refusal {
        match self.is_ready() {
            true => refusal,
            false => Refusal::unready(&self.missing_plurals()),
        }
    }

    fn missing_plurals(&self) -> String {
        let missing: Vec<&str> = self.0.missing().iter().map(|kind| kind.plural()).collect();
        missing.join(", ")
    }

    async fn follow<H>(&self, client: &Client)
    where
        H: Holder + Clone + DeserializeOwned + Send + 'static,
    {
        let api: Api<H> = Api::all(client.clone());
        let mut events = std::pin::pin!(base_client::watch(api, watcher::Config::default()));
        let mut listed = HashSet::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.take(event, &mut listed),
                Err(error) => {
                    let fault = base_client::watch_fault(error, H::HOLDER.plural());
                    tracing::warn!(class = %fault.class, "{fault}");
                }
            }
        }
    }

    fn take<H: Holder>(&self, event: Event<H>, listed: &mut HashSet<(String, String)>) {
        let inner = &self.0;
        let changed = match event {
            Event::Init => {
                listed.clear();
                false
            }
            Event::InitApply(object) => {
                let (namespace, name) = object.place();
                listed.insert((namespace.to_owned(), name.to_owned()));
                inner.graph_mut().put(&object)
            }
            Event::InitDone => {
                inner.graph_mut().retain(H::HOLDER, &std::mem::take(listed)) | inner.missing().remove(&H::HOLDER)
            }
            Event::Apply(object) => inner.graph_mut().put(&object),
            Event::Delete(object) => {
                let (namespace, name) = object.place();
                inner.graph_mut().remove(H::HOLDER, namespace, name)
            }
        };
        if changed {
            inner.news.send_replace(());
        }
    }
}

impl Inner {
    fn graph(&self) -> std::sync::RwLockReadGuard<'_, Graph> {
        self.graph.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn graph_mut(&self) -> std::sync::RwLockWriteGuard<'_, Graph> {
        self.graph.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn missing(&self) -> MutexGuard<'_, BTreeSet<Kind>> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
