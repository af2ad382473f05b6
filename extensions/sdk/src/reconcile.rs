//! The reconciler around every actuator: contract G.1. Order of writes: the `reconcile` annotation goes first,
//! then the finalizer comes, then status Processing; at the end status, then finalizer and annotations.
//! It never writes another kind's status and never acts for a shoot that is Failed.

use std::sync::Arc;
use std::time::Duration;

use api_extensions::{Cluster, ExtensionClass, ExtensionObject};
use api_meta::annotations::{self, operation};
use api_meta::{Fault, names};
use base_client::{add_finalizer, api_in, get, has_finalizer, patch_changed, remove_finalizer};
use base_clock::{Clock, Entropy};
use base_controller::{Cache, EventType, Next, ObjectKey, Recorder};
use kube::Api;
use tokio_util::sync::CancellationToken;

use crate::actuator::{Actuator, Context, Observer, Obsolete, Outcome};
use crate::cluster::ClusterView;
use crate::operation::{Facts, Operation, annotation_of, decide, noted, requested_at};
use crate::status::{begin, edit_status, fail, put_outcome, put_state, succeed};

/// One operation may take this long (upstream limits infrastructures, workers and bastions to it).
pub(crate) const OPERATION_TIMEOUT: Duration = Duration::from_secs(20 * 60);

/// What all reconcilers of an extension share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) client: kube::Client,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    pub(crate) recorder: Recorder,
    pub(crate) clusters: Cache<Cluster>,
    pub(crate) stop: CancellationToken,
}

/// An API handle for the place `object` lives in.
pub(crate) fn api_of<K: ExtensionObject>(client: &kube::Client, object: &K) -> Api<K> {
    api_in(client, object.meta().namespace.as_deref().unwrap_or_default())
}

impl Shared {
    /// The shoot of `object`: none for kinds and classes that belong to no shoot, a fault while it must exist and
    /// does not.
    fn cluster<K: ExtensionObject>(&self, object: &K, required: bool) -> Result<Option<ClusterView>, Fault> {
        let Some(namespace) = object.meta().namespace.as_deref() else {
            return Ok(None);
        };
        match self.clusters.get(&ObjectKey::cluster(namespace)) {
            Some(cluster) => ClusterView::new(cluster).map(Some),
            None if required && namespace != names::GARDEN_NAMESPACE && object.class() == ExtensionClass::Shoot => {
                Err(Fault::dependency(format!("there is no Cluster {namespace}"))
                    .hint("gardenlet writes it at the start of every shoot flow: look at gardenlet's log"))
            }
            None => Ok(None),
        }
    }

    fn context(&self, cluster: Option<ClusterView>, obsolete: CancellationToken) -> Context {
        Context {
            client: self.client.clone(),
            clock: self.clock.clone(),
            entropy: self.entropy.clone(),
            recorder: self.recorder.clone(),
            obsolete,
            cluster,
        }
    }
}

/// A primary registration at work.
pub(crate) struct Primary<K: ExtensionObject> {
    pub(crate) shared: Shared,
    pub(crate) cache: Cache<K>,
    pub(crate) actuator: Arc<dyn Actuator<K>>,
    pub(crate) finalizer: String,
}

impl<K: ExtensionObject> Primary<K> {
    fn facts<'a>(&self, object: &'a K) -> Facts<'a> {
        let (last_operation, observed_generation) = object.progress();
        Facts {
            annotation: annotation_of(object),
            requested: requested_at(object),
            confirmed: noted(object, annotations::CONFIRMATION_DELETION) == Some("true"),
            deleting: object.meta().deletion_timestamp.is_some(),
            generation: object.meta().generation.unwrap_or_default(),
            observed_generation,
            last_operation,
            held: has_finalizer(object, &self.finalizer),
        }
    }

    /// One turn for one object.
    pub(crate) async fn reconcile(self: Arc<Self>, known: Arc<K>) -> Result<Next, Fault> {
        if decide(&self.facts(&known)).is_err() {
            return Ok(Next::Change);
        }
        let api = api_of(&self.shared.client, &*known);
        let name = known.meta().name.clone().unwrap_or_default();
        // What we know may be older than our own last write, and then seem to request more.
        let Some(object) = get(&api, &name).await? else {
            return Ok(Next::Change);
        };
        let operation = match decide(&self.facts(&object)) {
            Ok(operation) => operation,
            Err(reason) => {
                tracing::debug!(kind = K::KIND, name, "left alone: {reason}");
                return Ok(Next::Change);
            }
        };
        let leaving = matches!(operation, Operation::Delete | Operation::Migrate);
        let cluster = self.shared.cluster(&object, !leaving)?;
        if cluster.as_ref().is_some_and(ClusterView::is_failed) {
            tracing::debug!(kind = K::KIND, name, "left alone: its shoot is Failed");
            return Ok(Next::Change);
        }
        let object = without_operation(&api, object, &[operation::RECONCILE]).await?;
        let object = if leaving {
            object
        } else {
            add_finalizer(&api, object, &self.finalizer).await?
        };
        let clock = &self.shared.clock;
        let object = edit_status(&api, &object, |object| begin(object, operation, clock.now())).await?;
        // Boxed because an actuator's future may be large, and every turn would carry it.
        match Box::pin(self.act(operation, &object, cluster)).await {
            Ok(done) => self.finish(&api, object, operation, done).await.map(|()| Next::Change),
            // The change that made it obsolete has called for another turn already.
            Err(fault) if fault.source.is::<Obsolete>() => Ok(Next::After(Duration::ZERO)),
            Err(fault) => {
                self.report(&api, &object, operation, &fault).await;
                Err(fault)
            }
        }
    }

    async fn act(&self, operation: Operation, object: &K, cluster: Option<ClusterView>) -> Result<Done<K>, Fault> {
        let obsolete = self.shared.stop.child_token();
        let forced = cluster.as_ref().is_some_and(ClusterView::is_force_deleted);
        let context = self.shared.context(cluster, obsolete.clone());
        let acting = async {
            match operation {
                Operation::Create | Operation::Reconcile => self
                    .actuator
                    .reconcile(&context, object)
                    .await
                    .map(|outcome| Done::Stays(Box::new(outcome))),
                Operation::Restore => self
                    .actuator
                    .restore(&context, object)
                    .await
                    .map(|outcome| Done::Stays(Box::new(outcome))),
                Operation::Delete if forced => self.actuator.force_delete(&context, object).await.map(|()| Done::Goes),
                Operation::Delete => self.actuator.delete(&context, object).await.map(|()| Done::Goes),
                Operation::Migrate => self.actuator.migrate(&context, object).await.map(Done::Leaves),
            }
        };
        let deadline = tokio::time::timeout(OPERATION_TIMEOUT, acting);
        tokio::select! {
            biased;
            ended = deadline => ended.unwrap_or_else(|_| Err(Fault::dependency(format!(
                "the operation did not end within {} minutes", OPERATION_TIMEOUT.as_secs() / 60
            )))),
            never = watch_for_change(self.cache.clone(), object, obsolete) => match never {},
        }
    }

    async fn finish(&self, api: &Api<K>, object: K, operation: Operation, done: Done<K>) -> Result<(), Fault> {
        let generation = object.meta().generation.unwrap_or_default();
        let clock = &self.shared.clock;
        let object = edit_status(api, &object, |object| {
            match &done {
                Done::Stays(outcome) => put_outcome(object, outcome),
                Done::Leaves(state) => put_state(object, state.as_ref()),
                Done::Goes => {}
            }
            succeed(object, operation, generation, clock.now());
        })
        .await?;
        match done {
            Done::Stays(_) => without_operation(api, object, &[operation::RESTORE]).await.map(drop),
            Done::Goes => remove_finalizer(api, object, &self.finalizer).await.map(drop),
            Done::Leaves(_) => {
                let object = without_operation(api, object, &[operation::MIGRATE]).await?;
                remove_finalizer(api, object, &self.finalizer).await.map(drop)
            }
        }
    }

    /// Reports in the status what went wrong. A status that cannot be written is logged: the fault itself is what
    /// counts.
    async fn report(&self, api: &Api<K>, object: &K, operation: Operation, fault: &Fault) {
        let generation = object.meta().generation.unwrap_or_default();
        let clock = &self.shared.clock;
        let edit = |object: &mut K| fail(object, operation, generation, fault, clock.now());
        if let Err(failed) = edit_status(api, object, edit).await {
            tracing::warn!(kind = K::KIND, class = %failed.class, hint = %failed.hint, "status not written: {failed}");
        }
        self.shared
            .recorder
            .record(object, EventType::Warning, "ReconcileError", &fault.to_string())
            .await;
    }
}

/// What an actuator has done.
enum Done<K: ExtensionObject> {
    Stays(Box<Outcome<K>>),
    Leaves(Option<api_meta::RawJson>),
    Goes,
}

/// Removes the operation annotation if it is one of `operations`.
async fn without_operation<K: ExtensionObject>(api: &Api<K>, object: K, operations: &[&str]) -> Result<K, Fault> {
    if !annotation_of(&object).is_some_and(|present| operations.contains(&present)) {
        return Ok(object);
    }
    let mut after = object.clone();
    if let Some(annotations) = &mut after.meta_mut().annotations {
        annotations.remove(annotations::OPERATION);
    }
    Ok(patch_changed(api, &object, &after).await?.unwrap_or(after))
}

/// Cancels `obsolete` once the object requests something else than what is being worked on.
async fn watch_for_change<K: ExtensionObject>(
    cache: Cache<K>,
    object: &K,
    obsolete: CancellationToken,
) -> std::convert::Infallible {
    let key = ObjectKey::of(object);
    let mut changes = cache.subscribe_to(&key);
    let stays = |now: &K| now.meta().uid == object.meta().uid && now.meta().generation <= object.meta().generation;
    loop {
        // Looked at first: it may have changed between its last write and the subscription.
        if !cache.get(&key).is_some_and(|now| stays(&now)) {
            obsolete.cancel();
        }
        changes.next().await;
    }
}

/// A secondary registration at work: it only ever adds conditions.
pub(crate) struct Secondary<K: ExtensionObject> {
    pub(crate) shared: Shared,
    pub(crate) observer: Arc<dyn Observer<K>>,
}

impl<K: ExtensionObject> Secondary<K> {
    /// One look at one object.
    pub(crate) async fn observe(self: Arc<Self>, object: Arc<K>) -> Result<Next, Fault> {
        if object.meta().deletion_timestamp.is_some() {
            return Ok(Next::Change);
        }
        let cluster = self.shared.cluster(&*object, true)?;
        let context = self.shared.context(cluster, self.shared.stop.child_token());
        let conditions = self.observer.observe(&context, &object).await?;
        let api = api_of(&self.shared.client, &*object);
        edit_status(&api, &*object, |object| {
            for condition in conditions.clone() {
                condition.put_into(object.common_status().conditions);
            }
        })
        .await
        .map(|_| Next::Change)
    }
}

/// Whether a change of a Cluster lets its objects go on: it has come, or its shoot is Failed no more.
pub(crate) fn lets_go_on(old: Option<&Cluster>, new: &Cluster) -> bool {
    let failed = |cluster: &Cluster| ClusterView::new(Arc::new(cluster.clone())).is_ok_and(|view| view.is_failed());
    old.is_none_or(failed) && !failed(new)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use api_extensions::Infrastructure;
    use base_client::Judgement;
    use k8s_openapi::api::core::v1::Namespace;
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
    use kube::runtime::watcher;
    use serde_json::json;
    use tests_kit::embedded;

    use super::*;

    const NAMESPACE: &str = "shoot--a--b";

    /// Whether the mirror, as it is now, makes work on `object` pointless though nothing changes any more.
    async fn is_pointless(cache: &Cache<Infrastructure>, object: &Infrastructure) -> bool {
        let obsolete = CancellationToken::new();
        tokio::select! {
            biased;
            never = watch_for_change(cache.clone(), object, obsolete.clone()) => match never {},
            () = tokio::time::sleep(Duration::from_secs(1)) => obsolete.is_cancelled(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_before_the_subscription_makes_the_work_obsolete() {
        let embedded = embedded().await;
        let client = embedded.admin();
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for definition in api_extensions::crds() {
            definitions.create(&PostParams::default(), &definition).await.unwrap();
        }
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(NAMESPACE.to_owned());
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        let api: Api<Infrastructure> = Api::namespaced(client.clone(), NAMESPACE);
        let stop = CancellationToken::new();
        let _stops = stop.clone().drop_guard();
        let cache = Cache::start(Api::all(client), watcher::Config::default(), stop);
        let key = ObjectKey::namespaced(NAMESPACE, "b");
        let wanted = |size: i32| {
            serde_json::from_value::<Infrastructure>(json!({
                "metadata": {"name": "b"},
                "spec": {"type": "told", "region": "r", "providerConfig": {"size": size},
                    "secretRef": {"name": "cloudprovider", "namespace": NAMESPACE}},
            }))
            .unwrap()
        };
        let mirrored = async |object: &Infrastructure| {
            let uid = object.metadata.uid.clone();
            let version = object.metadata.resource_version.clone();
            let same = |now: Option<&Infrastructure>| match now {
                Some(now) if now.metadata.uid == uid && now.metadata.resource_version == version => Judgement::Done(()),
                _ => Judgement::NotYet("another version is mirrored".to_owned()),
            };
            cache.wait_until(&key, Duration::from_secs(60), same).await.unwrap();
        };

        let first = api.create(&PostParams::default(), &wanted(1)).await.unwrap();
        mirrored(&first).await;
        assert!(!is_pointless(&cache, &first).await, "nothing has changed");

        let patch = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
        let touched = api.patch("b", &PatchParams::default(), &patch).await.unwrap();
        mirrored(&touched).await;
        assert!(!is_pointless(&cache, &first).await, "nothing else is wanted");

        let patch = Patch::Merge(json!({"spec": {"providerConfig": {"size": 2}}}));
        let second = api.patch("b", &PatchParams::default(), &patch).await.unwrap();
        mirrored(&second).await;
        assert!(is_pointless(&cache, &first).await, "something else is wanted");
        assert!(!is_pointless(&cache, &second).await, "that is being worked on");

        api.delete("b", &DeleteParams::default()).await.unwrap();
        let reborn = api.create(&PostParams::default(), &wanted(1)).await.unwrap();
        mirrored(&reborn).await;
        assert!(is_pointless(&cache, &second).await, "it is another object");
    }
}
