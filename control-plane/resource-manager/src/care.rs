//! ResourcesHealthy and ResourcesProgressing: evaluates what is applied by caches of the target's kinds that have a
//! health, and reports what the pods of unhealthy workloads wait for. Never applies anything.

mod pods;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use api_meta::conditions::managed_resource::RESOURCES_APPLIED;
use api_meta::{Condition, ConditionStatus, Fault};
use api_resources::{ManagedResource, ObjectReference};
use base_controller::{Cache, Controller, Next, ObjectKey};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, ReplicationController, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::Context;
use crate::health::HasHealth;
use crate::naming::{
    MANAGED_BY, MANAGED_BY_GARDENER, ORIGIN, group_of, is_true, listed, resource_of_origin, shown, wish,
};
use crate::reconcile::is_ignored;
use crate::report::{Report, write};

/// Caches of what was applied in the target, and of the pods that came of it.
pub(crate) struct Targets {
    deployments: Cache<Deployment>,
    stateful_sets: Cache<StatefulSet>,
    daemon_sets: Cache<DaemonSet>,
    replica_sets: Cache<ReplicaSet>,
    controllers: Cache<ReplicationController>,
    jobs: Cache<Job>,
    pods: Cache<Pod>,
    services: Cache<Service>,
    definitions: Cache<CustomResourceDefinition>,
}

impl Targets {
    pub(crate) fn start(client: &Client, stop: &CancellationToken) -> Self {
        Self {
            deployments: start_cache(client, stop),
            stateful_sets: start_cache(client, stop),
            daemon_sets: start_cache(client, stop),
            replica_sets: start_cache(client, stop),
            controllers: start_cache(client, stop),
            jobs: start_cache(client, stop),
            pods: start_cache(client, stop),
            services: start_cache(client, stop),
            definitions: start_cache(client, stop),
        }
    }

    pub(crate) async fn ready(&self) {
        self.deployments.ready().await;
        self.stateful_sets.ready().await;
        self.daemon_sets.ready().await;
        self.replica_sets.ready().await;
        self.controllers.ready().await;
        self.jobs.ready().await;
        self.pods.ready().await;
        self.services.ready().await;
        self.definitions.ready().await;
    }

    /// Lets changes for which `concerns` is true call for the ManagedResource that the object came from.
    pub(crate) fn call(
        &self,
        controller: Controller<ManagedResource>,
        cluster_id: &str,
        concerns: impl Concerns,
    ) -> Controller<ManagedResource> {
        let controller = watch(controller, &self.deployments, cluster_id, concerns);
        let controller = watch(controller, &self.stateful_sets, cluster_id, concerns);
        let controller = watch(controller, &self.daemon_sets, cluster_id, concerns);
        let controller = watch(controller, &self.replica_sets, cluster_id, concerns);
        let controller = watch(controller, &self.controllers, cluster_id, concerns);
        let controller = watch(controller, &self.jobs, cluster_id, concerns);
        let controller = watch(controller, &self.pods, cluster_id, concerns);
        let controller = watch(controller, &self.services, cluster_id, concerns);
        watch(controller, &self.definitions, cluster_id, concerns)
    }

    /// Lets changes of pods call for the ManagedResource that their workload came from.
    pub(crate) fn call_by_pods(
        self: &Arc<Self>,
        controller: Controller<ManagedResource>,
        cluster_id: &str,
    ) -> Controller<ManagedResource> {
        let (targets, cluster_id) = (self.clone(), cluster_id.to_owned());
        controller.watches(&self.pods, move |change| {
            let origin = pods::workload_of(&change.object).and_then(|workload| targets.origin_of(&workload));
            origin
                .and_then(|origin| resource_of_origin(&cluster_id, &origin))
                .into_iter()
                .collect()
        })
    }

    fn origin_of(&self, (kind, key): &pods::Workload) -> Option<String> {
        fn origin<K: Resource>(object: &K) -> Option<String> {
            origin_of(object).cloned()
        }
        match *kind {
            "Deployment" => origin(&*self.deployments.get(key)?),
            "StatefulSet" => origin(&*self.stateful_sets.get(key)?),
            "DaemonSet" => origin(&*self.daemon_sets.get(key)?),
            _ => origin(&*self.jobs.get(key)?),
        }
    }

    /// The health of an applied object; `None` for kinds without health.
    fn evaluate(&self, reference: &ObjectReference) -> Option<Verdict> {
        let mut verdict = match (group_of(reference).as_str(), reference.kind.as_deref()?) {
            ("apps", "Deployment") => evaluate(&self.deployments, reference),
            ("apps", "StatefulSet") => evaluate(&self.stateful_sets, reference),
            ("apps", "DaemonSet") => evaluate(&self.daemon_sets, reference),
            ("apps", "ReplicaSet") => evaluate(&self.replica_sets, reference),
            ("batch", "Job") => evaluate(&self.jobs, reference),
            ("", "ReplicationController") => evaluate(&self.controllers, reference),
            ("", "Pod") => evaluate(&self.pods, reference),
            ("", "Service") => evaluate(&self.services, reference),
            ("apiextensions.k8s.io", "CustomResourceDefinition") => evaluate(&self.definitions, reference),
            _ => return None,
        };
        for text in [&mut verdict.unhealthy, &mut verdict.rolling_out].into_iter().flatten() {
            let namespace = reference.namespace.as_deref().unwrap_or_default();
            if let Some(waiting) = pods::waiting(&self.pods.list_in(namespace), reference) {
                text.push_str("; ");
                text.push_str(&waiting);
            }
        }
        Some(verdict)
    }
}

/// Whether objects of this kind are cached here.
pub(crate) fn is_cached(group: &str, kind: &str) -> bool {
    matches!(
        (group, kind),
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet")
            | ("batch", "Job")
            | ("", "ReplicationController" | "Pod" | "Service")
            | ("apiextensions.k8s.io", "CustomResourceDefinition")
    )
}

/// Whether a change of an applied object, from `old` to `new`, concerns a controller.
pub(crate) trait Concerns: Copy + Send + Sync + 'static {
    fn concerns<K: Resource>(self, old: Option<&K>, new: Option<&K>) -> bool;
}

/// Every change.
#[derive(Clone, Copy)]
pub(crate) struct All;

impl Concerns for All {
    fn concerns<K: Resource>(self, _: Option<&K>, _: Option<&K>) -> bool {
        true
    }
}

/// Changes that others made, beyond the status.
#[derive(Clone, Copy)]
pub(crate) struct Drift;

impl Concerns for Drift {
    fn concerns<K: Resource>(self, old: Option<&K>, new: Option<&K>) -> bool {
        crate::drifted(old, new)
    }
}

fn start_cache<K>(client: &Client, stop: &CancellationToken) -> Cache<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let ours = watcher::Config::default().labels(&format!("{MANAGED_BY}={MANAGED_BY_GARDENER}"));
    Cache::start(Api::all(client.clone()), ours, stop.clone())
}

fn watch<K>(
    controller: Controller<ManagedResource>,
    cache: &Cache<K>,
    cluster_id: &str,
    concerns: impl Concerns,
) -> Controller<ManagedResource>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let cluster_id = cluster_id.to_owned();
    controller.watches(cache, move |change| {
        // What a controller has made of an applied object has its labels and annotations too, and is not applied.
        let made = change
            .object
            .meta()
            .owner_references
            .iter()
            .flatten()
            .any(|owner| owner.controller == Some(true));
        let concerned = concerns.concerns(change.old.as_deref(), change.new());
        // A writer that overwrites the origin of an object does not hide it from its previous owner.
        let origins = [change.old.as_deref(), Some(&*change.object)].map(|object| origin_of(object?));
        let origins: BTreeSet<&String> = origins.into_iter().flatten().filter(|_| concerned && !made).collect();
        let keys = origins
            .into_iter()
            .filter_map(|origin| resource_of_origin(&cluster_id, origin));
        keys.collect()
    })
}

fn origin_of<K: Resource>(object: &K) -> Option<&String> {
    object.meta().annotations.as_ref()?.get(ORIGIN)
}

/// What is wrong with one object, if anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Verdict {
    missing: bool,
    unhealthy: Option<String>,
    rolling_out: Option<String>,
}

fn evaluate<K>(cache: &Cache<K>, reference: &ObjectReference) -> Verdict
where
    K: HasHealth + Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let key = ObjectKey {
        namespace: reference.namespace.clone(),
        name: reference.name.clone().unwrap_or_default(),
    };
    let Some(object) = cache.get(&key) else {
        // One that is ignored may have been there before, without the label by which it is cached.
        return Verdict {
            missing: !is_true(Some(&reference.annotations), wish::IGNORE),
            ..Verdict::default()
        };
    };
    let skipped = object
        .meta()
        .annotations
        .as_ref()
        .and_then(|all| all.get(wish::SKIP_HEALTH_CHECK))
        .is_some_and(|value| value == "true");
    if skipped {
        return Verdict::default();
    }
    Verdict {
        missing: false,
        unhealthy: object.unhealthy(),
        rolling_out: object.rolling_out(),
    }
}

pub(crate) async fn care(resource: &ManagedResource, context: &Context) -> Result<Next, Fault> {
    if !is_applied(resource) {
        return Ok(Next::Change);
    }
    let references = resource
        .status
        .as_ref()
        .map(|status| status.resources.clone())
        .unwrap_or_default();
    let verdicts: Vec<(ObjectReference, Verdict)> = references
        .into_iter()
        .filter_map(|reference| context.targets.evaluate(&reference).map(|verdict| (reference, verdict)))
        .collect();
    let mut after = resource.clone();
    report(&mut Report::of(&mut after, context.clock.now()), &verdicts);
    write(resource, after, context).await?;
    Ok(Next::Change)
}

/// Only what is applied as it is wanted now has a health.
fn is_applied(resource: &ManagedResource) -> bool {
    let Some(status) = &resource.status else { return false };
    let applied = Condition::find(&status.conditions, RESOURCES_APPLIED);
    resource.metadata.deletion_timestamp.is_none()
        && !is_ignored(resource)
        && status.observed_generation == resource.metadata.generation
        && applied.is_some_and(|condition| condition.status == ConditionStatus::True)
}

fn report(report: &mut Report<'_>, verdicts: &[(ObjectReference, Verdict)]) {
    let kind = |reference: &ObjectReference| reference.kind.clone().unwrap_or_default();
    let sick = verdicts
        .iter()
        .filter_map(|(reference, verdict)| match (&verdict.unhealthy, verdict.missing) {
            (_, true) => Some((
                format!("{}Missing", kind(reference)),
                format!("{} is missing", shown(reference)),
            )),
            (Some(why), _) => Some((
                format!("{}Unhealthy", kind(reference)),
                format!("{} is unhealthy: {why}", shown(reference)),
            )),
            (None, false) => None,
        });
    match summary(sick) {
        Some((reason, text)) => report.healthy(ConditionStatus::False, &reason, &text),
        None => report.healthy(ConditionStatus::True, "ResourcesHealthy", "All resources are healthy."),
    }
    let moving = verdicts.iter().filter_map(|(reference, verdict)| {
        let why = verdict.rolling_out.as_ref()?;
        Some((
            format!("{}Progressing", kind(reference)),
            format!("{} is progressing: {why}", shown(reference)),
        ))
    });
    match summary(moving) {
        Some((reason, text)) => report.progressing(ConditionStatus::True, &reason, &text),
        None => report.progressing(
            ConditionStatus::False,
            "ResourcesRolledOut",
            "All resources have been fully rolled out.",
        ),
    }
}

/// The reason of the first and the texts of the first few; nothing when there is nothing to report.
fn summary(reported: impl Iterator<Item = (String, String)>) -> Option<(String, String)> {
    let mut reported = reported.peekable();
    let reason = reported.peek()?.0.clone();
    Some((reason, listed(reported.map(|(_, text)| text), "; ")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn all_trouble_is_reported_and_the_first_gives_the_reason() {
        let reference = |kind: &str, name: &str| ObjectReference {
            kind: Some(kind.into()),
            namespace: Some("n".into()),
            name: Some(name.into()),
            ..ObjectReference::default()
        };
        let verdicts = [
            (reference("Deployment", "good"), Verdict::default()),
            (
                reference("StatefulSet", "gone"),
                Verdict {
                    missing: true,
                    ..Verdict::default()
                },
            ),
            (
                reference("Deployment", "bad"),
                Verdict {
                    unhealthy: Some("why".into()),
                    rolling_out: Some("1 of 2".into()),
                    missing: false,
                },
            ),
        ];
        let mut resource = ManagedResource::default();
        report(&mut Report::of(&mut resource, jiff::Timestamp::UNIX_EPOCH), &verdicts);
        let reported: BTreeMap<String, String> = resource
            .status
            .unwrap()
            .conditions
            .into_iter()
            .map(|condition| {
                (
                    condition.type_,
                    format!("{:?} {} {}", condition.status, condition.reason, condition.message),
                )
            })
            .collect();
        assert_eq!(
            reported["ResourcesHealthy"],
            "False StatefulSetMissing StatefulSet \"n/gone\" is missing; Deployment \"n/bad\" is unhealthy: why"
        );
        assert_eq!(
            reported["ResourcesProgressing"],
            "True DeploymentProgressing Deployment \"n/bad\" is progressing: 1 of 2"
        );
    }
}
