//! Deletes all objects of some kinds in a shoot and watches them go. It reads metadata only, page by page: a cluster of a
//! user may have a hundred thousand objects, and nothing else of them matters here.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api_meta::{ErrorCode, Fault, FaultClass, Subject};
use base_client::{fault_of, is_missing, some_of, watch_dynamic, watch_fault};
use base_clock::Clock;
use base_controller::ObjectKey;
use futures::future::try_join_all;
use futures::stream::iter;
use futures::{StreamExt, TryStreamExt};
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PropagationPolicy};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::time::Instant;

use super::super::super::operation::{Operation, left};

/// Selects what is not Gardener's own: that goes with the control plane.
pub(super) const USERS: &str = "shoot.gardener.cloud/no-cleanup!=true";
/// Objects per page, as kubectl lists.
const PAGE_SIZE: u32 = 500;
/// Requests for deletion at a time: the API server of a cluster with many objects is to answer its users as well.
const DELETIONS_MAX: usize = 10;
/// Pause before objects are deleted that were created since the last time: a controller outside the cluster would
/// otherwise be chased as fast as it creates them.
const ROUND_PAUSE: Duration = Duration::from_millis(500);

/// An object without spec and status.
pub(super) type Metadata = PartialObjectMeta<DynamicObject>;
/// Which objects of a user are deleted.
type Which<'w> = &'w (dyn Fn(&Metadata) -> bool + Send + Sync);

/// One kind after another, until nothing is left of any.
pub(super) struct Draining<'o> {
    pub(super) op: &'o Operation,
    /// A client of the shoot.
    pub(super) shoot: &'o Client,
    /// So long after the request for its deletion an object loses its finalizers.
    pub(super) grace: Duration,
    /// The annotation of the Shoot that sets `grace`.
    pub(super) annotation: &'static str,
    pub(super) until: Option<Instant>,
}

impl Draining<'_> {
    /// Deletes all objects of `kinds`, in their order, and waits until none is left.
    ///
    /// # Errors
    /// A dependency fault that names what is left when the time is up; what the API server returns.
    pub(super) async fn drain(&self, kinds: &[ApiResource], which: Which<'_>) -> Result<(), Fault> {
        for round in 0.. {
            // Twice at least: what still ran may have created objects of a kind that was empty before.
            let mut present = Vec::new();
            for kind in kinds {
                if self.request(kind, which).await? {
                    present.push(kind);
                }
            }
            if present.is_empty() {
                break;
            }
            let waits = present.iter().map(|kind| self.drained(kind, which));
            let remaining: Vec<String> = try_join_all(waits).await?.concat();
            if !remaining.is_empty() || left(self.until).is_zero() {
                return Err(self.late(&remaining));
            }
            if round > 0 {
                tokio::time::sleep(ROUND_PAUSE.min(left(self.until))).await;
            }
        }
        Ok(())
    }

    /// Requests the deletion of all objects of a kind. Whether there are any.
    pub(super) async fn request(&self, kind: &ApiResource, which: Which<'_>) -> Result<bool, Fault> {
        let all: Api<DynamicObject> = Api::all_with(self.shoot.clone(), kind);
        let mut params = ListParams::default().labels(USERS).limit(PAGE_SIZE);
        let mut any = false;
        loop {
            let page = match all.list_metadata(&params).await {
                Ok(page) => page,
                // The kind does not exist (any more): nothing of it is left.
                Err(error) if is_missing(&error) => return Ok(any),
                Err(error) => return Err(fault_of(error, &format!("list {} in the shoot", kind.plural))),
            };
            let found: Vec<Metadata> = page.items.into_iter().filter(|object| which(object)).collect();
            any |= !found.is_empty();
            let deletions = found.iter().filter(|object| !is_going(object));
            iter(deletions.map(Ok::<_, Fault>))
                .try_for_each_concurrent(DELETIONS_MAX, |object| self.delete(kind, object))
                .await?;
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(any),
            }
        }
    }

    async fn delete(&self, kind: &ApiResource, object: &Metadata) -> Result<(), Fault> {
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        match self.api_of(kind, object).delete(&object.name_any(), &params).await {
            Ok(_) => Ok(()),
            Err(error) if is_missing(&error) => Ok(()),
            Err(error) => Err(fault_of(error, &format!("delete {} {}", kind.kind, object.name_any()))),
        }
    }

    /// Watches until no object of a kind is left, or the time is up: then what is left, as "Kind namespace/name".
    async fn drained(&self, kind: &ApiResource, which: Which<'_>) -> Result<Vec<String>, Fault> {
        let title = Subject::Objects(format!("{} of the cluster {}", kind.plural, self.op.namespace()));
        let mut remaining = Remaining {
            kind,
            grace: self.grace,
            clock: &self.op.context.clock,
            present: BTreeMap::new(),
            listing: None,
            next_due: None,
        };
        let watched = tokio::time::timeout(left(self.until), self.watch(&title, &mut remaining, which)).await;
        self.op.waiting.over(&title);
        match watched {
            Ok(outcome) => outcome.map(|()| Vec::new()),
            Err(_) => Ok(remaining.named()),
        }
    }

    async fn watch(&self, title: &Subject, remaining: &mut Remaining<'_>, which: Which<'_>) -> Result<(), Fault> {
        let kind = remaining.kind;
        let all: Api<Metadata> = Api::all_with(self.shoot.clone(), kind);
        let mut events = std::pin::pin!(watch_dynamic(all, watcher::Config::default().labels(USERS)));
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = remaining.until_due() => {
                    for object in remaining.due() {
                        self.finalize(kind, &object).await?;
                    }
                    continue;
                }
            };
            match event {
                Some(Ok(event)) => {
                    for object in remaining.take(event, which) {
                        self.delete(kind, &object).await?;
                    }
                }
                Some(Err(error)) if is_without_kind(&error) => return Ok(()),
                Some(Err(error)) => {
                    let fault = watch_fault(error, &format!("{} in the shoot", kind.plural));
                    if matches!(fault.class, FaultClass::Access | FaultClass::Bug) {
                        return Err(fault);
                    }
                    self.op.waiting.note(title, &fault.to_string());
                    continue;
                }
                None => return Err(Fault::bug(format!("the watch of {} ended by itself", kind.plural))),
            }
            if remaining.listing.is_some() {
                continue;
            }
            if remaining.present.is_empty() {
                return Ok(());
            }
            self.op.waiting.note(title, &remaining.still_there());
        }
    }

    /// Removes the finalizers of an object whose time is up.
    async fn finalize(&self, kind: &ApiResource, object: &Metadata) -> Result<(), Fault> {
        let none = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let api = self.api_of(kind, object);
        match api.patch(&object.name_any(), &PatchParams::default(), &none).await {
            Ok(_) => Ok(()),
            Err(error) if is_missing(&error) => Ok(()),
            Err(error) => {
                let doing = format!("remove finalizers of {} {}", kind.kind, object.name_any());
                Err(fault_of(error, &doing))
            }
        }
    }

    fn api_of(&self, kind: &ApiResource, object: &Metadata) -> Api<DynamicObject> {
        match object.namespace() {
            Some(namespace) => Api::namespaced_with(self.shoot.clone(), &namespace, kind),
            None => Api::all_with(self.shoot.clone(), kind),
        }
    }

    fn late(&self, remaining: &[String]) -> Fault {
        let (seconds, annotation) = (self.grace.as_secs(), self.annotation);
        let still = some_of(remaining.iter());
        Fault::dependency(format!("objects in the shoot are still there: {still}"))
            .code(ErrorCode::CleanupClusterResources)
            .hint(format!(
                "look at the finalizers of the named objects in the shoot; they are removed {seconds}s after the request \
                 to delete (annotation {annotation} of the shoot)"
            ))
    }
}

/// What a watch shows of a kind.
struct Remaining<'o> {
    kind: &'o ApiResource,
    grace: Duration,
    clock: &'o Clock,
    present: BTreeMap<ObjectKey, Metadata>,
    /// What a list has shown so far, until it is complete.
    listing: Option<BTreeMap<ObjectKey, Metadata>>,
    /// No object is due before this.
    next_due: Option<Instant>,
}

impl Remaining<'_> {
    /// Takes up an event, and returns those whose deletion is still to be requested.
    fn take(&mut self, event: Event<Metadata>, which: Which<'_>) -> Vec<Metadata> {
        match event {
            Event::Init => self.listing = Some(BTreeMap::new()),
            Event::InitApply(object) => {
                if which(&object) {
                    self.listing
                        .get_or_insert_default()
                        .insert(ObjectKey::of(&object), object);
                }
            }
            Event::InitDone => {
                self.present = self.listing.take().unwrap_or_default();
                self.look_for_due();
                return self.present.values().filter(|one| !is_going(one)).cloned().collect();
            }
            Event::Apply(object) => {
                if which(&object) {
                    let new = (!is_going(&object)).then(|| object.clone());
                    let due = self.due_at(&object);
                    self.next_due = self.next_due.into_iter().chain(due).min();
                    self.present.insert(ObjectKey::of(&object), object);
                    return new.into_iter().collect();
                }
            }
            Event::Delete(object) => {
                self.present.remove(&ObjectKey::of(&object));
            }
        }
        Vec::new()
    }

    /// When an object has had its grace, from the time of its own deletion: every try of this task, and every gardenlet,
    /// counts from the same.
    fn due_at(&self, object: &Metadata) -> Option<Instant> {
        let deleted = object.metadata.deletion_timestamp.as_ref()?;
        let waited = Duration::try_from(self.clock.now().duration_since(deleted.0)).unwrap_or_default();
        let has_finalizers = !object.finalizers().is_empty();
        has_finalizers.then(|| Instant::now() + self.grace.saturating_sub(waited))
    }

    fn look_for_due(&mut self) {
        self.next_due = self.present.values().filter_map(|one| self.due_at(one)).min();
    }

    /// Returns when an object may be due; never, if none will be.
    async fn until_due(&self) {
        match self.next_due {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// Those whose finalizers are to be removed now. They count as without finalizers from here on: an event shows what
    /// became of them.
    fn due(&mut self) -> Vec<Metadata> {
        let now = Instant::now();
        let is_due = |object: &Metadata| self.due_at(object).is_some_and(|at| at <= now);
        let due: Vec<Metadata> = self.present.values().filter(|one| is_due(one)).cloned().collect();
        for object in &due {
            if let Some(known) = self.present.get_mut(&ObjectKey::of(object)) {
                known.metadata.finalizers = None;
            }
        }
        self.look_for_due();
        due
    }

    fn still_there(&self) -> String {
        format!("{} still there", some_of(self.present.keys()))
    }

    /// What is left, as "Kind namespace/name".
    fn named(&self) -> Vec<String> {
        let listed = self.listing.iter().flat_map(BTreeMap::keys);
        let places: BTreeSet<_> = self.present.keys().chain(listed).collect();
        let kind = &self.kind.kind;
        places.into_iter().map(|place| format!("{kind} {place}")).collect()
    }
}

fn is_going(object: &Metadata) -> bool {
    object.metadata.deletion_timestamp.is_some()
}

/// Whether the kind does not exist (any more).
fn is_without_kind(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) => is_missing(error),
        watcher::Error::WatchError(status) => status.code == 404,
        _ => false,
    }
}
