//! Notices that applied objects are changed or deleted by somebody else, whatever their kind: one watch of the metadata
//! of each kind that is applied, as long as there are objects of it. Of an object it keeps a few words, never a body,
//! and it applies nothing itself. Kinds with a health are left to the mirrors of [`crate::care`].
//!
//! It cannot fight with itself: what our own application has made of an object is known from the answer to it, and an
//! application that changes nothing is no event. Who else wants something different is met at a pace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base_client::{watch_fault, watch_metadata};
use base_controller::ObjectKey;
use futures::StreamExt;
use futures::stream::{BoxStream, unfold};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client, ResourceExt};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::naming::{MANAGED_BY, MANAGED_BY_GARDENER, ORIGIN, resource_of_origin};

/// How long after drift its ManagedResource is not called for by drift again: whoever writes over a field of ours again
/// and again is answered as often as this, and not as fast as two can write.
const DRIFT_PAUSE: Duration = Duration::from_secs(10);

/// What an object was when it was seen or written last.
#[derive(Clone, Debug, PartialEq)]
struct Mark {
    uid: Option<String>,
    version: Option<String>,
    /// Stands for all but the status, where a kind counts generations.
    meaning: Option<[u8; 32]>,
    origin: Option<ObjectKey>,
}

impl Mark {
    fn of(meta: &ObjectMeta, cluster_id: &str) -> Self {
        let meaning = meta.generation.map(|generation| {
            let all = serde_json::to_vec(&(generation, &meta.labels, &meta.annotations));
            Sha256::digest(all.unwrap_or_default()).into()
        });
        let origin = meta.annotations.as_ref().and_then(|all| all.get(ORIGIN));
        Self {
            uid: meta.uid.clone(),
            version: meta.resource_version.clone(),
            meaning,
            origin: origin.and_then(|origin| resource_of_origin(cluster_id, origin)),
        }
    }

    /// Whether both are the same object, the same beyond its status.
    fn is_as(&self, other: &Self) -> bool {
        let same_meaning = self.meaning.is_some() && self.meaning == other.meaning;
        self.uid == other.uid && (self.version == other.version || same_meaning)
    }
}

type Marks = BTreeMap<ObjectKey, Mark>;

/// One kind of which something is applied.
struct Watched {
    marks: Marks,
    stop: CancellationToken,
}

/// The kinds of a target of which something is applied.
pub(crate) struct Drifts(Arc<Inner>);

struct Inner {
    target: Client,
    cluster_id: String,
    stop: CancellationToken,
    kinds: Mutex<BTreeMap<(String, String), Watched>>,
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

    /// We have just written this object: as it is now it is wanted.
    pub(crate) fn wrote(&self, resource: &ApiResource, live: &DynamicObject) {
        if crate::care::is_mirrored(&resource.group, &resource.kind) {
            return;
        }
        let key = ObjectKey {
            namespace: live.namespace(),
            name: live.name_any(),
        };
        let mark = Mark::of(&live.metadata, &self.0.cluster_id);
        let mut kinds = self.0.kinds();
        let watched = kinds.entry(kind_of(resource)).or_insert_with(|| {
            let stop = self.0.stop.child_token();
            let watching = self.0.clone().watch(resource.clone());
            tokio::spawn(stop.clone().run_until_cancelled_owned(watching));
            Watched {
                marks: Marks::new(),
                stop,
            }
        });
        watched.marks.insert(key, mark);
    }

    /// We are about to delete this object.
    pub(crate) fn forget(&self, resource: &ApiResource, key: &ObjectKey) {
        let mut kinds = self.0.kinds();
        let kind = kind_of(resource);
        if let Some(watched) = kinds.get_mut(&kind) {
            watched.marks.remove(key);
            if watched.marks.is_empty() {
                watched.stop.cancel();
                kinds.remove(&kind);
            }
        }
    }
}

fn kind_of(resource: &ApiResource) -> (String, String) {
    (resource.api_version.clone(), resource.kind.clone())
}

impl Inner {
    fn kinds(&self) -> MutexGuard<'_, BTreeMap<(String, String), Watched>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn watch(self: Arc<Self>, resource: ApiResource) {
        let kind = kind_of(&resource);
        let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(self.target.clone(), &resource);
        let ours = Config::default().labels(&format!("{MANAGED_BY}={MANAGED_BY_GARDENER}"));
        let mut events = std::pin::pin!(watch_metadata(api, ours));
        // What was written after a list had begun need not be in it.
        let mut unlisted = BTreeSet::new();
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
                Err(error) => tracing::debug!("{}", watch_fault(error, &resource.plural)),
            }
        }
    }

    fn known(&self, kind: &(String, String)) -> BTreeSet<ObjectKey> {
        let kinds = self.kinds();
        let marks = kinds.get(kind).map(|watched| watched.marks.keys().cloned());
        marks.into_iter().flatten().collect()
    }

    fn seen(&self, kind: &(String, String), object: &PartialObjectMeta<DynamicObject>) {
        // One that goes cannot be mended before it is gone.
        if object.metadata.deletion_timestamp.is_some() {
            return;
        }
        let mark = Mark::of(&object.metadata, &self.cluster_id);
        let mut kinds = self.kinds();
        let Some(watched) = kinds.get_mut(kind) else { return };
        // One that is seen for the first time is our own doing.
        let before = watched.marks.insert(key_of(object), mark.clone());
        if let Some(before) = before.filter(|before| !before.is_as(&mark)) {
            self.call(before.origin);
        }
    }

    /// It is gone, or has lost the label by which it is watched.
    fn gone(&self, kind: &(String, String), key: &ObjectKey) {
        let mut kinds = self.kinds();
        if let Some(mark) = kinds.get_mut(kind).and_then(|watched| watched.marks.remove(key)) {
            self.call(mark.origin);
        }
    }

    fn call(&self, resource: Option<ObjectKey>) {
        if let Some(resource) = resource {
            // Nobody listens any more once all is being stopped.
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
    async fn drift_calls_at_once_and_then_once_per_pause_and_for_each_by_itself() {
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
