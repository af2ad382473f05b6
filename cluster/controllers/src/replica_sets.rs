//! ReplicaSets: as many pods as requested, ownerless ones among them. Never adopts pods of others and never looks
//! at templates of live pods.
//! After kubernetes v1.35 `pkg/controller/replicaset`.

use std::sync::Arc;

use api_meta::Fault;
use base_client::patch_status_if_changed;
use base_controller::{Controller, Next};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::Context;
use crate::adoption::claim;
use crate::pods::{
    BURST_MAX, Readiness, create_pod, delete_pod, from_template, is_active, is_ready, managed_by, phase,
};
use crate::seen::pods_of;

pub(crate) async fn run(context: Context, stop: CancellationToken) {
    let (sets, pods) = (context.caches.replica_sets(), context.caches.pods());
    if stop.run_until_cancelled(pods.ready()).await.is_none() {
        return;
    }
    let controller = Controller::new("replicaset", sets).owns(&pods);
    controller.run(stop, move |set| reconcile(set, context.clone())).await;
}

async fn reconcile(set: Arc<ReplicaSet>, context: Context) -> Result<Next, Fault> {
    let cache = context.caches.pods();
    if let Some(spec) = set.spec.as_ref().filter(|_| set.metadata.deletion_timestamp.is_none()) {
        claim(&context.client, &cache, &*set, &spec.selector).await?;
    }
    let plan = plan(&set, &pods_of(&context, &*set).await?);
    for pod in &plan.create {
        if !create_pod(&context, &*set, pod).await? {
            break;
        }
    }
    for pod in &plan.delete {
        delete_pod(&context, &*set, pod).await?;
    }
    let (after, next) = report(&set, &managed_by(&cache, &*set), context.clock.now());
    let api: Api<ReplicaSet> = Api::namespaced(context.client.clone(), &set.namespace().unwrap_or_default());
    patch_status_if_changed(&api, &*set, &after).await?;
    Ok(next)
}

#[derive(Debug, Default)]
struct Plan {
    create: Vec<Pod>,
    delete: Vec<Arc<Pod>>,
}

fn plan(set: &ReplicaSet, pods: &[Arc<Pod>]) -> Plan {
    let Some(spec) = set.spec.as_ref().filter(|_| set.metadata.deletion_timestamp.is_none()) else {
        return Plan::default();
    };
    let mut active: Vec<Arc<Pod>> = pods.iter().filter(|pod| is_active(pod)).cloned().collect();
    let wanted = usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or(0);
    if active.len() < wanted {
        let Some(template) = &spec.template else {
            return Plan::default();
        };
        let missing = (wanted - active.len()).min(BURST_MAX);
        return Plan {
            create: vec![from_template(template, set); missing],
            delete: Vec::new(),
        };
    }
    // The least useful go first: without node, pending, not ready; then the youngest.
    active.sort_by_key(|pod| {
        let assigned = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (
            assigned,
            phase(pod) != "Pending",
            is_ready(pod),
            std::cmp::Reverse(created),
            pod.name_any(),
        )
    });
    active.truncate((active.len() - wanted).min(BURST_MAX));
    Plan {
        create: Vec::new(),
        delete: active,
    }
}

fn report(set: &ReplicaSet, pods: &[Arc<Pod>], now: Timestamp) -> (ReplicaSet, Next) {
    let active: Vec<&Arc<Pod>> = pods.iter().filter(|pod| is_active(pod)).collect();
    let spec = set.spec.clone().unwrap_or_default();
    let readiness = Readiness::of(active.iter().copied(), spec.min_ready_seconds.unwrap_or(0), now);
    let template_labels = spec
        .template
        .and_then(|template| template.metadata)
        .and_then(|meta| meta.labels);
    let is_labeled = |pod: &&&Arc<Pod>| {
        template_labels
            .iter()
            .flatten()
            .all(|(key, value)| pod.labels().get(key) == Some(value))
    };
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    let status = ReplicaSetStatus {
        replicas: count(active.len()),
        fully_labeled_replicas: Some(count(active.iter().filter(is_labeled).count())),
        ready_replicas: Some(readiness.ready),
        available_replicas: Some(readiness.available),
        observed_generation: set.metadata.generation,
        ..set.status.clone().unwrap_or_default()
    };
    let next = readiness.next_available.map_or(Next::Change, Next::After);
    (
        ReplicaSet {
            status: Some(status),
            ..set.clone()
        },
        next,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(replicas: i32) -> ReplicaSet {
        serde_json::from_value(json!({
            "metadata": {"name": "rs", "namespace": "n", "uid": "u", "generation": 3},
            "spec": {"replicas": replicas, "minReadySeconds": 10, "selector": {},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}}},
        }))
        .unwrap()
    }

    fn pod(name: &str, node: Option<&str>, ready_at: Option<&str>, labels: serde_json::Value) -> Arc<Pod> {
        let conditions: Vec<_> = ready_at
            .map(|at| json!({"type": "Ready", "status": "True", "lastTransitionTime": at}))
            .into_iter()
            .collect();
        let phase = if node.is_some() { "Running" } else { "Pending" };
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": name, "labels": labels}, "spec": {"nodeName": node, "containers": []},
                "status": {"phase": phase, "conditions": conditions},
            }))
            .unwrap(),
        )
    }

    #[test]
    fn missing_pods_are_created_and_the_least_useful_surplus_goes() {
        let ready = pod("ready", Some("node"), Some("2026-01-01T00:00:00Z"), json!({"a": "b"}));
        let starting = pod("starting", Some("node"), None, json!({}));
        let pending = pod("pending", None, None, json!({}));
        let mut leaving = (*ready).clone();
        leaving.metadata.deletion_timestamp = ready.status.as_ref().and_then(|_| {
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
                "2026-01-01T00:00:00Z".parse().ok()?,
            ))
        });
        let pods = [ready, pending, starting, Arc::new(leaving)];
        let made = plan(&set(5), &pods).create;
        assert_eq!(made.len(), 2, "a leaving pod does not count");
        assert_eq!(made[0].metadata.owner_references.as_ref().unwrap()[0].uid, "u");
        assert_eq!(made[0].metadata.generate_name.as_deref(), Some("rs-"));
        let names = |plan: Plan| plan.delete.iter().map(|pod| pod.name_any()).collect::<Vec<_>>();
        assert_eq!(names(plan(&set(1), &pods)), ["pending", "starting"]);
        assert_eq!(names(plan(&set(3), &pods)), [""; 0], "settled");
        assert_eq!(plan(&set(0), &pods).delete.len(), 3);
    }

    #[test]
    fn status_counts_ready_and_available_pods_and_calls_again_when_one_becomes_available() {
        let pods = [
            pod("long", Some("n"), Some("2026-01-01T00:00:00Z"), json!({"a": "b"})),
            pod("short", Some("n"), Some("2026-01-01T00:00:56Z"), json!({})),
            pod("not", Some("n"), None, json!({})),
        ];
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        let (after, next) = report(&set(3), &pods, now);
        let status = after.status.unwrap();
        assert_eq!(
            (status.replicas, status.ready_replicas, status.available_replicas),
            (3, Some(2), Some(1))
        );
        assert_eq!(
            (status.fully_labeled_replicas, status.observed_generation),
            (Some(1), Some(3))
        );
        assert_eq!(next, Next::After(std::time::Duration::from_secs(6)));
    }
}
