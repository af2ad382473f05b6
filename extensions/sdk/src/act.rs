//! One call of an actuator: with a time limit, and with a token that is cancelled once the call has become pointless.

use std::convert::Infallible;
use std::sync::Arc;

use api_extensions::ExtensionObject;
use api_meta::Fault;
use base_controller::{Cache, ObjectKey};
use tokio_util::sync::CancellationToken;

use crate::cluster::ClusterView;
use crate::context::{Carried, Context};
use crate::operation::Operation;
use crate::outcome::{Outcome, Saved};
use crate::persist::Work;
use crate::reconcile::Primary;

/// What an actuator has done.
pub(crate) enum Done<K: ExtensionObject> {
    Stays(Box<Outcome<K>>),
    Leaves(Saved),
    Goes,
}

/// Ends an operation, however it ends: a task that an actuator has left behind writes nothing more.
struct Ends<K: ExtensionObject> {
    work: Arc<Work<K>>,
    obsolete: CancellationToken,
}

impl<K: ExtensionObject> Drop for Ends<K> {
    fn drop(&mut self) {
        self.work.end();
        self.obsolete.cancel();
    }
}

impl<K: ExtensionObject> Primary<K> {
    pub(crate) async fn act(
        &self,
        operation: Operation,
        work: &Arc<Work<K>>,
        object: &K,
        cluster: Option<ClusterView>,
        carried: Option<Carried>,
    ) -> Result<Done<K>, Fault> {
        let obsolete = self.shared.stop.child_token();
        let _ends = Ends {
            work: work.clone(),
            obsolete: obsolete.clone(),
        };
        let forced = cluster.as_ref().is_some_and(ClusterView::is_force_deleted);
        let context = Context {
            work: Some(work.clone()),
            carried,
            ..self.shared.context(object, cluster, obsolete.clone())
        };
        let acting = self.call(operation, forced, &context, object);
        tokio::select! {
            biased;
            ended = tokio::time::timeout(self.timeout, acting) => ended.unwrap_or_else(|_| Err(self.timed_out())),
            never = watch_for_change(self.cache.clone(), object, obsolete) => match never {},
        }
    }

    async fn call(&self, operation: Operation, forced: bool, context: &Context, object: &K) -> Result<Done<K>, Fault> {
        let actuator = &self.actuator;
        let stays = |outcome| Done::Stays(Box::new(outcome));
        match operation {
            Operation::Create | Operation::Reconcile => actuator.reconcile(context, object).await.map(stays),
            Operation::Restore => actuator.restore(context, object).await.map(stays),
            Operation::Delete if forced => actuator.force_delete(context, object).await.map(|()| Done::Goes),
            Operation::Delete => actuator.delete(context, object).await.map(|()| Done::Goes),
            Operation::Migrate => actuator.migrate(context, object).await.map(Done::Leaves),
        }
    }

    fn timed_out(&self) -> Fault {
        let seconds = self.timeout.as_secs();
        let limit = match seconds % 60 {
            0 => format!("{} minutes", seconds / 60),
            _ => format!("{seconds} seconds"),
        };
        Fault::dependency(format!("the operation did not end within {limit}"))
            .hint("find in the log of the extension what it was waiting for; it is tried again")
    }
}

/// Cancels `obsolete` once the object requests something else than what is being worked on.
async fn watch_for_change<K: ExtensionObject>(cache: Cache<K>, object: &K, obsolete: CancellationToken) -> Infallible {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use api_extensions::Infrastructure;
    use base_client::WaitState;
    use k8s_openapi::api::core::v1::Namespace;
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    use kube::Api;
    use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
    use kube::runtime::watcher;
    use serde_json::json;
    use tests_kit::embedded;

    use super::*;

    const NAMESPACE: &str = "shoot--a--b";

    /// Whether the cache, as it is now, makes work on `object` pointless though nothing changes any more.
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
                "spec": {"type": "example", "region": "r", "providerConfig": {"size": size},
                    "secretRef": {"name": "cloudprovider", "namespace": NAMESPACE}},
            }))
            .unwrap()
        };
        let cached = async |object: &Infrastructure| {
            let uid = object.metadata.uid.clone();
            let version = object.metadata.resource_version.clone();
            let same = |now: Option<&Infrastructure>| match now {
                Some(now) if now.metadata.uid == uid && now.metadata.resource_version == version => WaitState::Done(()),
                _ => WaitState::NotYet("another version is cached".to_owned()),
            };
            cache.wait_until(&key, Duration::from_secs(60), same).await.unwrap();
        };

        let first = api.create(&PostParams::default(), &wanted(1)).await.unwrap();
        cached(&first).await;
        assert!(!is_pointless(&cache, &first).await, "nothing has changed");

        let patch = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
        let touched = api.patch("b", &PatchParams::default(), &patch).await.unwrap();
        cached(&touched).await;
        assert!(!is_pointless(&cache, &first).await, "nothing else is wanted");

        let patch = Patch::Merge(json!({"spec": {"providerConfig": {"size": 2}}}));
        let second = api.patch("b", &PatchParams::default(), &patch).await.unwrap();
        cached(&second).await;
        assert!(is_pointless(&cache, &first).await, "something else is wanted");
        assert!(!is_pointless(&cache, &second).await, "that is being worked on");

        api.delete("b", &DeleteParams::default()).await.unwrap();
        let reborn = api.create(&PostParams::default(), &wanted(1)).await.unwrap();
        cached(&reborn).await;
        assert!(is_pointless(&cache, &second).await, "it is another object");
    }
}
