//! Notices that applied objects are changed or deleted by another writer, whatever their kind: one watch of the
//! metadata of each kind that is applied, as long as there are objects of it. Of an object it keeps a few words, never
//! a body, and it applies nothing itself. Kinds with a health are left to the caches of [`crate::care`].
//!
//! It cannot fight with itself: what our own application has made of an object is known from the answer to it, for which
//! events wait, and an application that changes nothing is no event. Who else wants something different is met at a pace.

mod marks;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api_meta::FaultClass;
use base_client::{watch_dynamic, watch_fault};
use base_controller::ObjectKey;
use futures::StreamExt;
use futures::stream::{BoxStream, unfold};
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client, ResourceExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::naming::{MANAGED_BY, MANAGED_BY_GARDENER};
use marks::{Mark, Marks};

/// How long after drift its ManagedResource is not called for by drift again: a writer that overwrites a field of ours
/// again and again is answered as often as this, and not as fast as two can write.
const DRIFT_PAUSE: Duration = Duration::from_secs(10);

/// One kind of which something is applied.
struct Watched {
    marks: Marks,
    /// Ends the watch.
    stop: CancellationToken,
}

/// The kinds of a target of which something is applied.
pub(crate) struct Drifts(Arc<Inner>);

struct Inner {
    target: Client,
    cluster_id: String,
    stop: CancellationToken,
    kinds: Mutex<BTreeMap<Kind, Watched>>,
    calls: mpsc::UnboundedSender<ObjectKey>,
}

impl Drifts {
    /// Nothing yet. The stream names the ManagedResources whose objects have drifted.
    pub(crate) fn new(
        target: Client,
        cluster_id: String,
        stop: CancellationToken,
    ) -> (Self, BoxStream<'static, ObjectKey>) {
        let (calls, called) = mpsc::unbounded_channel();
        let inner = Inner {
            target,
            cluster_id,
            stop,
            kinds: Mutex::default(),
            calls,
        };
        (Self(Arc::new(inner)), paced(called))
    }

    /// We are about to write this object: its events are evaluated when the answer is there.
    pub(crate) fn writing<'a>(&'a self, resource: &'a ApiResource, key: ObjectKey) -> Writing<'a> {
        if let Some(watched) = self.0.kinds().get_mut(&kind_of(resource)) {
            watched.marks.begin(key.clone());
        }
        Writing {
            drifts: self,
            resource,
            key,
            is_answered: false,
        }
    }

    /// `owner` wants this object no more.
    pub(crate) fn forget(&self, api_version: &str, kind: &str, key: &ObjectKey, owner: &ObjectKey) {
        let kind = (api_version.to_owned(), kind.to_owned());
        self.0.note(&kind, |marks| {
            marks.forget(key, owner);
            None
        });
    }
}

/// A write that is under way; dropped without an answer, it has failed.
pub(crate) struct Writing<'a> {
    drifts: &'a Drifts,
    resource: &'a ApiResource,
    key: ObjectKey,
    is_answered: bool,
}

impl Writing<'_> {
    /// It was answered: as the object is now it is wanted.
    pub(crate) fn wrote(mut self, live: &DynamicObject) {
        self.is_answered = true;
        if crate::care::is_cached(&self.resource.group, &self.resource.kind) {
            return;
        }
        let inner = &self.drifts.0;
        let mark = Mark::of(&live.metadata, &inner.cluster_id);
        let mut kinds = inner.kinds();
        let watched = kinds.entry(kind_of(self.resource)).or_insert_with(|| {
            let stop = inner.stop.child_token();
            let watching = inner.clone().watch(self.resource.clone());
            tokio::spawn(stop.clone().run_until_cancelled_owned(watching));
            Watched {
                marks: Marks::default(),
                stop,
            }
        });
        inner.call(watched.marks.wrote(&self.key, mark));
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            let inner = &self.drifts.0;
            inner.note(&kind_of(self.resource), |marks| marks.gave_up(&self.key));
        }
    }
}

/// apiVersion and kind.
type Kind = (String, String);

fn kind_of(resource: &ApiResource) -> Kind {
    (resource.api_version.clone(), resource.kind.clone())
}

impl Inner {
    fn kinds(&self) -> MutexGuard<'_, BTreeMap<Kind, Watched>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn watch(self: Arc<Self>, resource: ApiResource) {
        let kind = kind_of(&resource);
        let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(self.target.clone(), &resource);
        let ours = Config::default().labels(&format!("{MANAGED_BY}={MANAGED_BY_GARDENER}"));
        let mut events = std::pin::pin!(watch_dynamic(api, ours));
        // What was written after a list had begun need not be in it.
        let mut unlisted = BTreeSet::new();
        let mut refusal = String::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => unlisted = self.known(&kind),
                Ok(Event::InitApply(object)) => {
                    unlisted.remove(&key_of(&object));
                    self.seen(&kind, &object);
                }
                Ok(Event::InitDone) => std::mem::take(&mut unlisted)
                    .iter()
                    .for_each(|key| self.gone(&kind, key)),
                Ok(Event::Apply(object)) => self.seen(&kind, &object),
                Ok(Event::Delete(object)) => self.gone(&kind, &key_of(&object)),
                Err(error) => {
                    let fault = watch_fault(error, &resource.plural);
                    let text = fault.chain();
                    if fault.class == FaultClass::Access && text != refusal {
                        tracing::warn!("changes of others are not seen: {text}");
                        refusal = text;
                    } else {
                        tracing::debug!("{text}");
                    }
                }
            }
        }
    }

    fn known(&self, kind: &Kind) -> BTreeSet<ObjectKey> {
        let kinds = self.kinds();
        kinds.get(kind).map(|watched| watched.marks.keys()).unwrap_or_default()
    }

    fn seen(&self, kind: &Kind, object: &PartialObjectMeta<DynamicObject>) {
        // One that is being deleted cannot be restored before it is gone.
        if object.metadata.deletion_timestamp.is_none() {
            let mark = Mark::of(&object.metadata, &self.cluster_id);
            self.note(kind, |marks| marks.seen(key_of(object), mark));
        }
    }

    fn gone(&self, kind: &Kind, key: &ObjectKey) {
        self.note(kind, |marks| marks.gone(key));
    }

    /// Takes note of something about a kind, and ends its watch when no object of it is known any more.
    fn note(&self, kind: &Kind, note: impl FnOnce(&mut Marks) -> Option<ObjectKey>) {
        let mut kinds = self.kinds();
        let Some(watched) = kinds.get_mut(kind) else { return };
        self.call(note(&mut watched.marks));
        if watched.marks.is_empty() {
            watched.stop.cancel();
            kinds.remove(kind);
        }
    }

    fn call(&self, resource: Option<ObjectKey>) {
        if let Some(resource) = resource {
            // There is no receiver any more once all is being stopped.
            let _ = self.calls.send(resource);
        }
    }
}

fn key_of(object: &PartialObjectMeta<DynamicObject>) -> ObjectKey {
    ObjectKey {
        namespace: object.namespace(),
        name: object.name_any(),
    }
}

/// The first call for a ManagedResource at once, all that come within [`DRIFT_PAUSE`] after it as one at its end.
fn paced(called: mpsc::UnboundedReceiver<ObjectKey>) -> BoxStream<'static, ObjectKey> {
    let pace = Pace {
        called,
        quiet: BTreeMap::new(),
        owed: BTreeSet::new(),
    };
    unfold(pace, |mut pace| async move { pace.next().await.map(|key| (key, pace)) }).boxed()
}

struct Pace {
    called: mpsc::UnboundedReceiver<ObjectKey>,
    /// Who was called for, and until when not again.
    quiet: BTreeMap<ObjectKey, Instant>,
    owed: BTreeSet<(Instant, ObjectKey)>,
}

impl Pace {
    async fn next(&mut self) -> Option<ObjectKey> {
        loop {
            let now = Instant::now();
            self.quiet.retain(|_, until| *until > now);
            let due = self.owed.first().map(|(at, _)| *at);
            if due.is_some_and(|at| at <= now)
                && let Some((_, key)) = self.owed.pop_first()
            {
                self.quiet.insert(key.clone(), now + DRIFT_PAUSE);
                return Some(key);
            }
            tokio::select! {
                biased;
                key = self.called.recv() => {
                    let key = key?;
                    self.owed.insert((self.quiet.get(&key).copied().unwrap_or(now), key));
                }
                () = sleep_until(due.unwrap_or(now)), if due.is_some() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn drift_calls_immediately_then_once_per_pause_for_each_object() {
        let (calls, called) = mpsc::unbounded_channel();
        let mut paced = paced(called);
        let began = Instant::now();
        let key = |name: &str| ObjectKey::namespaced("n", name);
        for name in ["a", "a", "b", "a"] {
            calls.send(key(name)).unwrap();
        }
        let mut seen = Vec::new();
        for _ in 0..3 {
            seen.push((paced.next().await.unwrap().name, began.elapsed().as_secs()));
        }
        let seen: Vec<(&str, u64)> = seen.iter().map(|(name, at)| (name.as_str(), *at)).collect();
        assert_eq!(seen, [("a", 0), ("b", 0), ("a", 10)]);
        drop(calls);
        assert_eq!(paced.next().await, None);
    }
}
