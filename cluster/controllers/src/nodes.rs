//! Nodes that stop reporting: their Ready becomes Unknown, taints keep pods away, and after their tolerance pods are
//! evicted. Never deletes a node: its creator does.
//! After kubernetes v1.35 `pkg/controller/nodelifecycle` and `tainteviction`.

use std::sync::Arc;
use std::time::Duration;

use api_meta::Fault;
use base_client::{patch_changed, patch_status_if_changed};
use base_controller::{Controller, EventType, Next, ObjectKey};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::Context;
use crate::matching::{NO_EXECUTE, NO_SCHEDULE, stay, taints};
use crate::pods::is_ready;
use crate::seen::delete_seen;

/// How long a node may be silent: upstream's `--node-monitor-grace-period` at its lower, former default, four missed
/// heartbeats.
const SILENCE_MAX: Duration = Duration::from_secs(40);
/// How long pods stay on a node that is not ready or silent when they do not say: the tolerations that upstream's
/// admission gives to every pod.
const STAY_BY_DEFAULT: Duration = Duration::from_secs(300);
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

pub(crate) async fn run(context: Context, stop: CancellationToken) {
    let (nodes, leases, pods) = (context.caches.nodes(), context.caches.leases(), context.caches.pods());
    if stop
        .run_until_cancelled(async { tokio::join!(leases.ready(), pods.ready()) })
        .await
        .is_none()
    {
        return;
    }
    let controller = Controller::new("nodelifecycle", nodes)
        .when(|old, new| old.is_none_or(|old| relevant_state(old) != relevant_state(new)))
        .watches(&leases, |change| vec![ObjectKey::cluster(change.object.name_any())])
        .watches(&pods, |change| {
            // A pod that comes to a tainted node must leave it in time.
            let node = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
            let is_new = change.old.as_deref().and_then(node) != node(&change.object);
            node(&change.object)
                .filter(|_| is_new && !change.deleted)
                .map(ObjectKey::cluster)
                .into_iter()
                .collect()
        });
    controller.run(stop, move |node| reconcile(node, context.clone())).await;
}

fn ready_condition(node: &Node) -> Option<&NodeCondition> {
    node.status
        .as_ref()?
        .conditions
        .as_ref()?
        .iter()
        .find(|condition| condition.type_ == "Ready")
}

/// The state of a node that matters here.
fn relevant_state(node: &Node) -> (Option<String>, Vec<Taint>, bool) {
    let ready = ready_condition(node).map(|condition| condition.status.clone());
    (
        ready,
        taints(node).cloned().collect(),
        node.metadata.deletion_timestamp.is_some(),
    )
}

async fn reconcile(node: Arc<Node>, context: Context) -> Result<Next, Fault> {
    let api: Api<Node> = Api::all(context.client.clone());
    let now = context.clock.now();
    let lease = context
        .caches
        .leases()
        .get(&ObjectKey::namespaced(crate::caches::NODE_LEASES, node.name_any()));
    let deadline = silent_at(&node, lease.as_deref());
    let silent = deadline <= now;
    let updated = if silent {
        with_unknown_conditions(&node, now)
    } else {
        (*node).clone()
    };
    let node = match patch_status_if_changed(&api, &*node, &updated).await? {
        Some(written) => {
            let message = format!("Node {} status is now: NodeNotReady", node.name_any());
            context
                .events
                .record(&*node, EventType::Normal, "NodeNotReady", &message)
                .await;
            Arc::new(written)
        }
        None => node,
    };
    let node = match patch_changed(&api, &*node, &with_taints(&node, now)).await? {
        Some(written) => Arc::new(written),
        None => node,
    };
    if !is_node_ready(&node) {
        mark_pods(&node, &context, now).await?;
    }
    let evict = evict(&node, &context, now).await?;
    let call = (!silent).then(|| Duration::try_from(deadline.duration_since(now)).unwrap_or(Duration::ZERO));
    Ok([call, evict]
        .into_iter()
        .flatten()
        .min()
        .map_or(Next::Change, Next::After))
}

fn is_node_ready(node: &Node) -> bool {
    ready_condition(node).is_some_and(|condition| condition.status == "True")
}

/// When the node counts as silent: so long after its last heartbeat, by lease or status, or its creation.
fn silent_at(node: &Node, lease: Option<&Lease>) -> Timestamp {
    let renewed = lease
        .and_then(|lease| lease.spec.as_ref()?.renew_time.as_ref())
        .map(|time| time.0);
    let reported = ready_condition(node)
        .filter(|condition| condition.status != "Unknown")
        .and_then(|condition| condition.last_heartbeat_time.as_ref())
        .map(|time| time.0);
    let created = node.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let last = [renewed, reported, created]
        .into_iter()
        .flatten()
        .max()
        .unwrap_or(Timestamp::UNIX_EPOCH);
    last.checked_add(SILENCE_MAX).unwrap_or(Timestamp::MAX)
}

fn whole_seconds(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// The node with nothing known about it any more.
fn with_unknown_conditions(node: &Node, now: Timestamp) -> Node {
    let mut after = node.clone();
    let conditions = after.status.get_or_insert_default().conditions.get_or_insert_default();
    if !conditions.iter().any(|condition| condition.type_ == "Ready") {
        conditions.push(NodeCondition {
            type_: "Ready".to_owned(),
            ..NodeCondition::default()
        });
    }
    for condition in conditions {
        let is_ours = matches!(
            condition.type_.as_str(),
            "Ready" | "MemoryPressure" | "DiskPressure" | "PIDPressure"
        );
        if is_ours && condition.status != "Unknown" {
            let never = condition.status.is_empty();
            condition.status = "Unknown".to_owned();
            condition.reason = Some(
                if never {
                    "NodeStatusNeverUpdated"
                } else {
                    "NodeStatusUnknown"
                }
                .to_owned(),
            );
            let message = if never {
                "Kubelet never posted node status."
            } else {
                "Kubelet stopped posting node status."
            };
            condition.message = Some(message.to_owned());
            condition.last_transition_time = Some(whole_seconds(now));
        }
    }
    after
}

/// The node with the taints that its Ready condition calls for; taints of others stay.
fn with_taints(node: &Node, now: Timestamp) -> Node {
    let ready = ready_condition(node).map(|condition| condition.status.as_str());
    let wanted = match ready {
        Some("True") => None,
        Some("False") => Some(NOT_READY),
        Some(_) => Some(UNREACHABLE),
        // A node that has reported nothing yet is new.
        None => Some(NOT_READY),
    };
    let mut after = node.clone();
    let present: Vec<Taint> = taints(node).cloned().collect();
    let mut list: Vec<Taint> = present
        .iter()
        .filter(|taint| !matches!(taint.key.as_str(), NOT_READY | UNREACHABLE) || Some(taint.key.as_str()) == wanted)
        .cloned()
        .collect();
    for (key, effect) in wanted
        .into_iter()
        .flat_map(|key| [(key, NO_SCHEDULE), (key, NO_EXECUTE)])
    {
        if !list.iter().any(|taint| taint.key == key && taint.effect == effect) {
            // Only the taint that evicts has a time: the tolerance is counted from it.
            let time_added = (effect == NO_EXECUTE).then(|| whole_seconds(now));
            list.push(Taint {
                key: key.to_owned(),
                effect: effect.to_owned(),
                time_added,
                value: None,
            });
        }
    }
    if list != present {
        after.spec.get_or_insert_default().taints = Some(list).filter(|list| !list.is_empty());
    }
    after
}

fn pods_on(node: &Node, context: &Context) -> Vec<Arc<Pod>> {
    let name = node.name_any();
    let is_here = |pod: &Arc<Pod>| {
        pod.spec
            .as_ref()
            .is_some_and(|spec| spec.node_name.as_deref() == Some(&name))
    };
    context.caches.pods().list().into_iter().filter(is_here).collect()
}

/// Marks the pods of a node that is not ready as not ready.
async fn mark_pods(node: &Node, context: &Context, now: Timestamp) -> Result<(), Fault> {
    for pod in pods_on(node, context).into_iter().filter(|pod| is_ready(pod)) {
        let mut after = (*pod).clone();
        let conditions = after
            .status
            .iter_mut()
            .flat_map(|status| status.conditions.iter_mut().flatten());
        for condition in conditions.into_iter().filter(|condition| condition.type_ == "Ready") {
            condition.status = "False".to_owned();
            condition.reason = Some("NodeNotReady".to_owned());
            condition.last_transition_time = Some(whole_seconds(now));
        }
        let api: Api<Pod> = Api::namespaced(context.client.clone(), &pod.namespace().unwrap_or_default());
        patch_status_if_changed(&api, &*pod, &after).await?;
    }
    Ok(())
}

/// When a pod must leave the node; none when it may stay.
fn must_leave_at(pod: &Pod, node: &Node, now: Timestamp) -> Option<Timestamp> {
    let spec = pod.spec.as_ref()?;
    let evicting = taints(node).filter(|taint| taint.effect == NO_EXECUTE);
    let leave = |taint: &Taint| {
        let by_default = if matches!(taint.key.as_str(), NOT_READY | UNREACHABLE) {
            STAY_BY_DEFAULT
        } else {
            Duration::ZERO
        };
        let stay = stay(spec, taint, by_default)?;
        let since = taint.time_added.as_ref().map_or(now, |time| time.0);
        Some(since.checked_add(stay).unwrap_or(Timestamp::MAX))
    };
    evicting.filter_map(leave).min()
}

/// Evicts the pods whose time has come, and returns when the next one's comes. A pod that cannot be evicted does not hold
/// up the others; the first such fault is returned at the end.
async fn evict(node: &Node, context: &Context, now: Timestamp) -> Result<Option<Duration>, Fault> {
    let mut next = None;
    let mut first = None;
    for pod in pods_on(node, context)
        .into_iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none())
    {
        match must_leave_at(&pod, node, now) {
            Some(at) if at <= now => {
                let message = format!("Marking for deletion Pod {}", ObjectKey::of(&*pod));
                context
                    .events
                    .record(&*pod, EventType::Normal, "TaintManagerEviction", &message)
                    .await;
                if let Err(fault) = delete_seen(&context.client, &context.caches.pods(), &pod).await {
                    first = first.or(Some(fault));
                }
            }
            Some(at) => {
                let wait = Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO);
                next = Some(next.map_or(wait, |next: Duration| next.min(wait)));
            }
            None => {}
        }
    }
    first.map_or(Ok(next), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn node(ready: Value, taints: Value) -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"taints": taints},
            "status": {"conditions": [ready]},
        }))
        .unwrap()
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn node_is_silent_forty_seconds_after_its_last_heartbeat_of_either_kind() {
        let beat = json!({"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:30Z"});
        assert_eq!(
            silent_at(&node(beat.clone(), json!([])), None),
            at("2026-01-01T00:01:10Z")
        );
        let lease: Lease =
            serde_json::from_value(json!({"spec": {"renewTime": "2026-01-01T00:05:00.000000Z"}})).unwrap();
        assert_eq!(
            silent_at(&node(beat, json!([])), Some(&lease)),
            at("2026-01-01T00:05:40Z")
        );
    }

    #[test]
    fn silent_node_becomes_unknown_and_unreachable_and_recovers_without_touching_other_taints() {
        let now = at("2026-01-01T00:10:00Z");
        let other = json!({"key": "gpu", "effect": "NoSchedule"});
        let healthy = node(json!({"type": "Ready", "status": "True"}), json!([other]));
        let silent = with_taints(&with_unknown_conditions(&healthy, now), now);
        assert_eq!(
            ready_condition(&silent).unwrap().reason.as_deref(),
            Some("NodeStatusUnknown")
        );
        let shown: Vec<_> = taints(&silent)
            .map(|taint| format!("{}:{}", taint.key, taint.effect))
            .collect();
        assert_eq!(
            shown,
            [
                "gpu:NoSchedule",
                "node.kubernetes.io/unreachable:NoSchedule",
                "node.kubernetes.io/unreachable:NoExecute"
            ]
        );
        assert_eq!(with_taints(&silent, at("2026-01-01T00:20:00Z")), silent, "settled");
        let mut back = silent.clone();
        back.status = healthy.status.clone();
        assert_eq!(taints(&with_taints(&back, now)).count(), 1);
    }

    #[test]
    fn pods_leave_when_their_tolerance_ends() {
        let now = at("2026-01-01T00:00:10Z");
        let taint = json!({"key": UNREACHABLE, "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"});
        let node = node(json!({"type": "Ready", "status": "Unknown"}), json!([taint]));
        let leaves = |tolerations: Value| {
            let pod: Pod =
                serde_json::from_value(json!({"spec": {"containers": [], "tolerations": tolerations}})).unwrap();
            must_leave_at(&pod, &node, now)
        };
        assert_eq!(leaves(json!([])), Some(at("2026-01-01T00:05:00Z")));
        assert_eq!(
            leaves(json!([{"key": UNREACHABLE, "operator": "Exists", "tolerationSeconds": 5}])),
            Some(at("2026-01-01T00:00:05Z"))
        );
        assert_eq!(leaves(json!([{"operator": "Exists"}])), None);
    }
}
