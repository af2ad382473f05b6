//! DaemonSets: one pod on every node that takes it. The pods name their node by affinity; the scheduler binds them.
//! After kubernetes v1.35 `pkg/controller/daemon`.

use std::collections::BTreeMap;
use std::sync::Arc;

use api_meta::Fault;
use base_client::patch_status_if_changed;
use base_controller::{Controller, Next, ObjectKey};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec, DaemonSetStatus};
use k8s_openapi::api::core::v1::{
    Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Toleration,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::Context;
use crate::deployments::share;
use crate::matching::{NO_EXECUTE, NO_SCHEDULE, is_selected, taints, untolerated};
use crate::pods::{
    REVISION, Readiness, add_labels, create_pod, delete_pod, from_template, is_finished, is_ready, managed_by,
    template_hash,
};
use crate::seen::pods_of;

/// What daemons tolerate on any node (upstream's `AddOrUpdateDaemonPodTolerations`).
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", NO_EXECUTE),
    ("node.kubernetes.io/unreachable", NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/unschedulable", NO_SCHEDULE),
];

pub(crate) async fn run(context: Context, stop: CancellationToken) {
    let (sets, pods, nodes) = (
        context.caches.daemon_sets(),
        context.caches.pods(),
        context.caches.nodes(),
    );
    if stop
        .run_until_cancelled(async { tokio::join!(pods.ready(), nodes.ready()) })
        .await
        .is_none()
    {
        return;
    }
    let all = sets.clone();
    let controller = Controller::new("daemonset", sets)
        .owns(&pods)
        .watches(&nodes, move |change| {
            // Heartbeats change nodes all the time; what daemons require of a node seldom changes.
            let required = |node: &Node| (node.labels().clone(), taints(node).cloned().collect::<Vec<_>>());
            let is_same = !change.deleted && change.old.as_deref().map(required) == Some(required(&change.object));
            if is_same {
                Vec::new()
            } else {
                all.list().iter().map(|set| ObjectKey::of(&**set)).collect()
            }
        });
    controller.run(stop, move |set| reconcile(set, context.clone())).await;
}

async fn reconcile(set: Arc<DaemonSet>, context: Context) -> Result<Next, Fault> {
    if set.metadata.deletion_timestamp.is_some() {
        return Ok(Next::Change);
    }
    let pods = context.caches.pods();
    let nodes = context.caches.nodes().list();
    let Plan { create, delete } = plan(&set, &nodes, &pods_of(&context, &*set).await?);
    for pod in &delete {
        delete_pod(&context, &*set, pod).await?;
    }
    for pod in &create {
        if !create_pod(&context, &*set, pod).await? {
            break;
        }
    }
    let (after, next) = report(&set, &nodes, &managed_by(&pods, &*set), context.clock.now());
    let api: Api<DaemonSet> = Api::namespaced(context.client.clone(), &set.namespace().unwrap_or_default());
    patch_status_if_changed(&api, &*set, &after).await?;
    Ok(next)
}

#[derive(Debug, Default)]
struct Plan {
    create: Vec<Pod>,
    delete: Vec<Arc<Pod>>,
}

fn revision(spec: &DaemonSetSpec) -> String {
    template_hash(&spec.template, 0)
}

/// The template's pod for a node, with the tolerations of daemons.
fn daemon(set: &DaemonSet, spec: &DaemonSetSpec, node: &str) -> Pod {
    let mut pod = from_template(&spec.template, set);
    add_labels(&mut pod.metadata.labels, [(REVISION, revision(spec))]);
    let pod_spec = pod.spec.get_or_insert_default();
    let tolerations = pod_spec.tolerations.get_or_insert_default();
    let host = (pod_spec.host_network == Some(true)).then_some(("node.kubernetes.io/network-unavailable", NO_SCHEDULE));
    for (key, effect) in TOLERATED.into_iter().chain(host) {
        tolerations.push(Toleration {
            key: Some(key.to_owned()),
            operator: Some("Exists".to_owned()),
            effect: Some(effect.to_owned()),
            ..Toleration::default()
        });
    }
    let name = NodeSelectorRequirement {
        key: "metadata.name".to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![node.to_owned()]),
    };
    let affinity = pod_spec
        .affinity
        .get_or_insert_default()
        .node_affinity
        .get_or_insert_default();
    let required = affinity
        .required_during_scheduling_ignored_during_execution
        .get_or_insert_with(|| NodeSelector {
            node_selector_terms: vec![NodeSelectorTerm::default()],
        });
    for term in &mut required.node_selector_terms {
        term.match_fields = Some(vec![name.clone()]);
    }
    pod
}

/// The node that a pod runs on or is meant for.
fn node_of(pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    if let Some(node) = &spec.node_name {
        return Some(node.clone());
    }
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    required
        .node_selector_terms
        .first()?
        .match_fields
        .as_ref()?
        .first()?
        .values
        .as_ref()?
        .first()
        .cloned()
}

/// Whether a pod should be there, and whether one that is there may stay.
fn wants(set: &DaemonSet, spec: &DaemonSetSpec, node: &Node) -> (bool, bool) {
    let pod: PodSpec = daemon(set, spec, &node.name_any()).spec.unwrap_or_default();
    if !is_selected(&pod, node) {
        return (false, false);
    }
    match untolerated(&pod, node) {
        None => (true, true),
        Some(_) => {
            let tolerations = pod.tolerations.as_deref().unwrap_or_default();
            let is_evicted = taints(node).any(|taint| {
                taint.effect == NO_EXECUTE
                    && !tolerations
                        .iter()
                        .any(|toleration| crate::matching::tolerates(toleration, taint))
            });
            (false, !is_evicted)
        }
    }
}

fn by_node(pods: &[Arc<Pod>]) -> BTreeMap<String, Vec<&Arc<Pod>>> {
    let mut by_node: BTreeMap<String, Vec<&Arc<Pod>>> = BTreeMap::new();
    for pod in pods {
        by_node.entry(node_of(pod).unwrap_or_default()).or_default().push(pod);
    }
    by_node
}

fn plan(set: &DaemonSet, nodes: &[Arc<Node>], pods: &[Arc<Pod>]) -> Plan {
    let Some(spec) = &set.spec else { return Plan::default() };
    let mut plan = Plan::default();
    let mut placed = by_node(pods);
    let mut current = Vec::new();
    let mut desired = 0;
    for node in nodes {
        let (should_run, may_stay) = wants(set, spec, node);
        let here = placed.remove(&node.name_any()).unwrap_or_default();
        desired += i32::from(should_run);
        let (leaving, mut here): (Vec<_>, Vec<_>) = here
            .into_iter()
            .partition(|pod| pod.metadata.deletion_timestamp.is_some());
        if !may_stay {
            plan.delete.extend(here.into_iter().cloned());
            continue;
        }
        let (finished, alive): (Vec<_>, Vec<_>) = here.drain(..).partition(|pod| is_finished(pod));
        plan.delete.extend(finished.iter().map(|pod| (*pod).clone()));
        // The oldest stays.
        let mut alive = alive;
        alive.sort_by_key(|pod| {
            (
                pod.metadata.creation_timestamp.as_ref().map(|time| time.0),
                pod.name_any(),
            )
        });
        plan.delete.extend(alive.iter().skip(1).map(|pod| (*pod).clone()));
        match alive.first() {
            Some(pod) => current.push((*pod).clone()),
            None if should_run && leaving.is_empty() && finished.is_empty() => {
                plan.create.push(daemon(set, spec, &node.name_any()));
            }
            None => {}
        }
    }
    // Pods without a node's name are left alone, and bound ones to the collector of pods (upstream's
    // `getUnscheduledPodsWithoutNode`).
    placed.remove("");
    let is_unbound = |pod: &&Arc<Pod>| {
        let spec = pod.spec.as_ref();
        let is_bound = spec.is_some_and(|spec| spec.node_name.as_ref().is_some_and(|name| !name.is_empty()));
        !is_bound && pod.metadata.deletion_timestamp.is_none()
    };
    plan.delete
        .extend(placed.into_values().flatten().filter(is_unbound).cloned());
    plan.delete.extend(update(spec, desired, &current));
    plan
}

/// Pods of an old template that may be deleted now: broken ones at once, working ones within what may be unavailable.
fn update(spec: &DaemonSetSpec, desired: i32, current: &[Arc<Pod>]) -> Vec<Arc<Pod>> {
    let strategy = spec.update_strategy.clone().unwrap_or_default();
    if strategy.type_.as_deref() == Some("OnDelete") {
        return Vec::new();
    }
    let one = IntOrString::Int(1);
    let rolling = strategy.rolling_update.unwrap_or_default();
    let unavailable_max = share(rolling.max_unavailable.as_ref().unwrap_or(&one), desired, true).max(1);
    let revision = revision(spec);
    let available = current.iter().filter(|pod| is_ready(pod)).count();
    let mut room = unavailable_max - (desired - i32::try_from(available).unwrap_or(i32::MAX));
    let old = current
        .iter()
        .filter(|pod| pod.labels().get(REVISION) != Some(&revision));
    let mut deletable = Vec::new();
    for pod in old {
        if !is_ready(pod) {
            deletable.push(pod.clone());
        } else if room > 0 {
            room -= 1;
            deletable.push(pod.clone());
        }
    }
    deletable
}

fn report(set: &DaemonSet, nodes: &[Arc<Node>], pods: &[Arc<Pod>], now: Timestamp) -> (DaemonSet, Next) {
    let spec = set.spec.clone().unwrap_or_default();
    let placed = by_node(pods);
    let revision = revision(&spec);
    let mut status = DaemonSetStatus {
        observed_generation: set.metadata.generation,
        collision_count: set.status.as_ref().and_then(|status| status.collision_count),
        conditions: set.status.as_ref().and_then(|status| status.conditions.clone()),
        ..DaemonSetStatus::default()
    };
    let (mut updated, mut next) = (0, None);
    for node in nodes {
        let (should_run, _) = wants(set, &spec, node);
        let here = placed.get(&node.name_any()).map(Vec::as_slice).unwrap_or_default();
        let running = here.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let running: Vec<&Arc<Pod>> = running.copied().collect();
        if !should_run {
            status.number_misscheduled += i32::from(!running.is_empty());
            continue;
        }
        status.desired_number_scheduled += 1;
        status.current_number_scheduled += i32::from(!running.is_empty());
        let readiness = Readiness::of(
            running.iter().copied().take(1),
            spec.min_ready_seconds.unwrap_or(0),
            now,
        );
        status.number_ready += readiness.ready;
        status.number_available = Some(status.number_available.unwrap_or(0) + readiness.available);
        next = [next, readiness.next_available].into_iter().flatten().min();
        updated += i32::from(
            running
                .first()
                .is_some_and(|pod| pod.labels().get(REVISION) == Some(&revision)),
        );
    }
    status.updated_number_scheduled = Some(updated);
    status.number_unavailable = Some(status.desired_number_scheduled - status.number_available.unwrap_or(0));
    // Fields that count nothing are left out, as upstream's are.
    status.number_available = status.number_available.filter(|count| *count > 0);
    status.number_unavailable = status.number_unavailable.filter(|count| *count > 0);
    status.updated_number_scheduled = status.updated_number_scheduled.filter(|count| *count > 0);
    (
        DaemonSet {
            status: Some(status),
            ..set.clone()
        },
        next.map_or(Next::Change, Next::After),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn set(image: &str) -> DaemonSet {
        serde_json::from_value(json!({
            "metadata": {"name": "ds", "namespace": "n", "uid": "u"},
            "spec": {"selector": {}, "template": {"spec": {"nodeSelector": {"os": "linux"}, "containers": [{"name": "c", "image": image}]}}},
        }))
        .unwrap()
    }

    fn node(name: &str, taints: Value) -> Arc<Node> {
        let node = json!({"metadata": {"name": name, "labels": {"os": "linux"}}, "spec": {"taints": taints}});
        Arc::new(serde_json::from_value(node).unwrap())
    }

    fn apply(pods: &mut Vec<Arc<Pod>>, plan: Plan, log: &mut Vec<String>) {
        for gone in plan.delete {
            log.push(format!("-{}", node_of(&gone).unwrap()));
            pods.retain(|pod| pod.metadata.uid != gone.metadata.uid);
        }
        for mut pod in plan.create {
            let node = node_of(&pod).unwrap();
            log.push(format!("+{node}"));
            pod.metadata.uid = Some(format!("{}-{}", log.len(), node));
            pod.status = Some(
                serde_json::from_value(
                    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}),
                )
                .unwrap(),
            );
            pods.push(Arc::new(pod));
        }
    }

    fn settle(set: &DaemonSet, nodes: &[Arc<Node>], pods: &mut Vec<Arc<Pod>>) -> Vec<String> {
        let mut log = Vec::new();
        for _ in 0..20 {
            let plan = plan(set, nodes, pods);
            if plan.create.is_empty() && plan.delete.is_empty() {
                return log;
            }
            apply(pods, plan, &mut log);
        }
        panic!("does not settle: {log:?}");
    }

    /// A ready node, one that is not ready, and one with a taint that the set does not tolerate.
    fn three_nodes() -> [Arc<Node>; 3] {
        let not_ready = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]);
        [
            node("a", json!([])),
            node("b", not_ready),
            node("gpu", json!([{"key": "gpu", "effect": "NoSchedule"}])),
        ]
    }

    #[test]
    fn each_fitting_node_gets_one_pod_even_if_it_is_not_ready() {
        assert_eq!(settle(&set("1"), &three_nodes(), &mut Vec::new()), ["+a", "+b"]);
    }

    #[test]
    fn an_update_replaces_pods_one_by_one() {
        let (nodes, mut pods) = (three_nodes(), Vec::new());
        settle(&set("1"), &nodes, &mut pods);
        assert_eq!(settle(&set("2"), &nodes, &mut pods), ["-a", "+a", "-b", "+b"]);
        let (after, _) = report(&set("2"), &nodes, &pods, Timestamp::UNIX_EPOCH);
        let status = after.status.unwrap();
        assert_eq!(
            (
                status.desired_number_scheduled,
                status.number_ready,
                status.updated_number_scheduled
            ),
            (2, 2, Some(2))
        );
    }

    #[test]
    fn a_taint_removes_pods_only_if_it_evicts() {
        let mut pods = Vec::new();
        settle(&set("1"), &three_nodes(), &mut pods);
        let nodes = [
            node("a", json!([{"key": "x", "effect": "NoExecute"}])),
            node("b", json!([{"key": "x", "effect": "NoSchedule"}])),
        ];
        assert_eq!(settle(&set("1"), &nodes, &mut pods), ["-a"]);
    }

    #[test]
    fn unbound_pods_of_a_node_that_is_gone_are_deleted() {
        let nodes = [node("a", json!([])), node("b", json!([]))];
        let mut pods = Vec::new();
        assert_eq!(settle(&set("1"), &nodes, &mut pods), ["+a", "+b"]);
        let mut bound = (*pods[1]).clone();
        bound.metadata.uid = Some("bound".to_owned());
        bound.spec.as_mut().unwrap().node_name = Some("b".to_owned());
        let mut anywhere = bound.clone();
        anywhere.metadata.uid = Some("anywhere".to_owned());
        anywhere.spec = Some(PodSpec::default());
        pods.extend([Arc::new(bound), Arc::new(anywhere)]);
        assert_eq!(settle(&set("1"), &nodes[..1], &mut pods), ["-b"]);
        assert_eq!(pods.len(), 3);
    }
}
