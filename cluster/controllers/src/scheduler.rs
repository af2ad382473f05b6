//! A small kube-scheduler: gives every pending pod a node that takes it, the one with the fewest pods. It looks at node
//! names, selectors, affinity to nodes, taints, readiness and room for one more pod; other resources, ports and pods'
//! affinities to each other are not looked at. It never preempts. After kubernetes v1.35 `pkg/scheduler`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api_meta::Fault;
use base_client::{fault_of, is_conflict, is_missing, patch_status_if_changed};
use base_clock::Clock;
use base_controller::{Changes, Controller, EventType, Next, ObjectKey, Recorder};
use futures::FutureExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Binding, Node, ObjectReference, Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Status, Time};
use kube::{Api, Client, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::caches::Caches;
use crate::matching::{is_selected, taints, untolerated};
use crate::pods::is_finished;

/// The scheduler's name in pods.
const NAME: &str = "default-scheduler";

/// Schedules until `stop`.
pub async fn run(client: Client, clock: Clock, stop: CancellationToken) {
    let caches = Caches::new(client.clone(), stop.clone());
    let events = Recorder::new(client.clone(), NAME, clock.clone());
    let (pods, nodes) = (caches.pods(), caches.nodes());
    // Subscribes first, so that it sees each change before a reconcile that the change starts.
    let placed = Placed::new(pods.subscribe());
    let pods_cache = pods.clone();
    if stop.run_until_cancelled(nodes.ready()).await.is_none() {
        return;
    }
    let listed = pods.clone();
    let waiting = move || {
        let pods = listed.list();
        let keys = pods.iter().filter(|pod| is_ours(pod)).map(|pod| ObjectKey::of(&**pod));
        keys.collect::<Vec<_>>()
    };
    let at_nodes = waiting.clone();
    let controller = Controller::new("scheduler", pods)
        .only(is_ours)
        .when(|old, new| is_ours(new) && old.is_none_or(|old| !is_ours(old) || old.spec != new.spec))
        // One after the other: each choice sees the ones before it.
        .concurrency(1)
        .watches(&nodes, move |change| {
            let is_same = change.old.as_deref().map(relevant_state) == Some(relevant_state(&change.object));
            if change.deleted || is_same {
                return Vec::new();
            }
            at_nodes()
        })
        .watches(&pods_cache, move |change| {
            // What a pod leaves may be the room that others wait for.
            let held_room = change.old.as_deref().unwrap_or(&change.object);
            let ended = change.deleted || is_finished(&change.object);
            if ended && is_assigned(held_room) && !is_finished(held_room) {
                waiting()
            } else {
                Vec::new()
            }
        });
    let context = Arc::new(Scheduler {
        client,
        caches,
        clock,
        events,
        placed: Mutex::new(placed),
    });
    controller.run(stop, move |pod| reconcile(pod, context.clone())).await;
}

struct Scheduler {
    client: Client,
    caches: Caches,
    clock: Clock,
    events: Recorder,
    placed: Mutex<Placed>,
}

/// How many pods each node has, updated by changes: counting all pods for each new one would take time in proportion to
/// their number.
struct Placed {
    changes: Changes<Pod>,
    /// Uid to node, of the pods that take room. Those just bound are in it before the cache shows them.
    nodes: BTreeMap<String, String>,
    counts: BTreeMap<String, usize>,
}

impl Placed {
    /// Counts by the changes of a cache from its beginning.
    fn new(changes: Changes<Pod>) -> Self {
        Placed {
            changes,
            nodes: BTreeMap::new(),
            counts: BTreeMap::new(),
        }
    }

    /// Pods per node now.
    fn load(&mut self) -> &BTreeMap<String, usize> {
        while let Some(change) = self.changes.next().now_or_never() {
            let uid = change.object.uid().unwrap_or_default();
            let node = change.object.spec.as_ref().and_then(|spec| spec.node_name.clone());
            match node {
                _ if change.deleted || is_finished(&change.object) => self.remove(&uid),
                Some(node) => self.put(uid, node),
                // One that was just bound may yet be shown as it was before.
                None => {}
            }
        }
        &self.counts
    }

    fn put(&mut self, uid: String, node: String) {
        self.remove(&uid);
        *self.counts.entry(node.clone()).or_default() += 1;
        self.nodes.insert(uid, node);
    }

    fn remove(&mut self, uid: &str) {
        let Some(node) = self.nodes.remove(uid) else { return };
        if let Some(count) = self.counts.get_mut(&node) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&node);
            }
        }
    }
}

/// The state of a node that matters for scheduling; heartbeats do not.
fn relevant_state(node: &Node) -> impl PartialEq + use<> {
    let unschedulable = node.spec.as_ref().and_then(|spec| spec.unschedulable);
    (
        node.labels().clone(),
        taints(node).cloned().collect::<Vec<_>>(),
        unschedulable,
        is_node_ready(node),
        room(node),
    )
}

/// How many pods a node takes at once; one that declares no limit takes any number.
fn room(node: &Node) -> usize {
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    let pods = allocatable.and_then(|resources| resources.get("pods"));
    pods.and_then(|pods| pods.0.parse().ok()).unwrap_or(usize::MAX)
}

fn is_ours(pod: &Pod) -> bool {
    let spec = pod.spec.as_ref();
    let scheduler = spec.and_then(|spec| spec.scheduler_name.as_deref()).unwrap_or(NAME);
    let is_gated = spec
        .and_then(|spec| spec.scheduling_gates.as_ref())
        .is_some_and(|gates| !gates.is_empty());
    !is_assigned(pod)
        && !is_gated
        && scheduler == NAME
        && !is_finished(pod)
        && pod.metadata.deletion_timestamp.is_none()
}

fn is_assigned(pod: &Pod) -> bool {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    node.is_some_and(|node| !node.is_empty())
}

fn is_node_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Why a node that has `taken` pods does not take the pod, in upstream's words.
fn refusal(pod: &Pod, node: &Node, taken: usize) -> Option<String> {
    let spec = pod.spec.clone().unwrap_or_default();
    if node.metadata.deletion_timestamp.is_some() {
        return Some("node(s) were being deleted".to_owned());
    }
    if !is_selected(&spec, node) {
        return Some("node(s) didn't match Pod's node affinity/selector".to_owned());
    }
    let unschedulable = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    let tolerated = |key: &str| {
        let taint = serde_json::from_value(serde_json::json!({"key": key, "effect": "NoSchedule"}));
        taint.is_ok_and(|taint| {
            spec.tolerations
                .iter()
                .flatten()
                .any(|toleration| crate::matching::tolerates(toleration, &taint))
        })
    };
    if unschedulable && !tolerated("node.kubernetes.io/unschedulable") {
        return Some("node(s) were unschedulable".to_owned());
    }
    if let Some(taint) = untolerated(&spec, node) {
        let value = taint.value.as_deref().unwrap_or_default();
        return Some(format!("node(s) had untolerated taint {{{}: {value}}}", taint.key));
    }
    if !is_node_ready(node) && !tolerated("node.kubernetes.io/not-ready") {
        return Some("node(s) were not ready".to_owned());
    }
    if taken >= room(node) {
        return Some("Too many pods".to_owned());
    }
    None
}

/// The node with the fewest pods among those that take the pod, or why none does.
fn choose(pod: &Pod, nodes: &[Arc<Node>], load: &BTreeMap<String, usize>) -> Result<String, String> {
    let mut refusals: BTreeMap<String, usize> = BTreeMap::new();
    let mut best: Option<(usize, String)> = None;
    for node in nodes {
        let taken = load.get(&node.name_any()).copied().unwrap_or(0);
        match refusal(pod, node, taken) {
            Some(why) => *refusals.entry(why).or_default() += 1,
            None => {
                let candidate = (taken, node.name_any());
                best = Some(best.map_or(candidate.clone(), |best| best.min(candidate)));
            }
        }
    }
    if let Some((_, node)) = best {
        return Ok(node);
    }
    if nodes.is_empty() {
        return Err("no nodes available to schedule pods".to_owned());
    }
    let reasons: Vec<String> = refusals.iter().map(|(why, count)| format!("{count} {why}")).collect();
    Err(format!(
        "0/{} nodes are available: {}.",
        nodes.len(),
        reasons.join(", ")
    ))
}

async fn reconcile(pod: Arc<Pod>, scheduler: Arc<Scheduler>) -> Result<Next, Fault> {
    let chosen = choose(&pod, &scheduler.caches.nodes().list(), scheduler.placed().load());
    match chosen {
        Ok(node) => scheduler.bind(&pod, node).await,
        Err(message) => scheduler.refuse(&pod, &message).await,
    }
}

impl Scheduler {
    fn placed(&self) -> MutexGuard<'_, Placed> {
        self.placed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a pod that was bound this moment. One that is gone already is not counted: no later change would remove it.
    fn assume(&self, pod: &Pod, node: &str) {
        let mut placed = self.placed();
        let shown = self.caches.pods().get(&ObjectKey::of(pod));
        if shown.is_some_and(|shown| shown.metadata.uid == pod.metadata.uid && !is_finished(&shown)) {
            placed.put(pod.uid().unwrap_or_default(), node.to_owned());
        }
    }

    async fn bind(&self, pod: &Pod, node: String) -> Result<Next, Fault> {
        let (name, namespace) = (pod.name_any(), pod.namespace().unwrap_or_default());
        let binding = Binding {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(namespace.clone()),
                uid: pod.metadata.uid.clone(),
                ..ObjectMeta::default()
            },
            target: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Node".to_owned()),
                name: Some(node.clone()),
                ..ObjectReference::default()
            },
        };
        let body = serde_json::to_vec(&binding).map_err(Fault::bug)?;
        let request = kube::core::Request::new(Api::<Pod>::namespaced(self.client.clone(), &namespace).resource_url())
            .create_subresource("binding", &name, &Default::default(), body)
            .map_err(Fault::bug)?;
        match self.client.request::<Status>(request).await {
            Ok(_) => {}
            // Bound or gone meanwhile: the cache will show it.
            Err(error) if is_conflict(&error) || is_missing(&error) => return Ok(Next::Change),
            Err(error) => return Err(fault_of(error, &format!("bind Pod {namespace}/{name}"))),
        }
        self.assume(pod, &node);
        let message = format!("Successfully assigned {namespace}/{name} to {node}");
        self.events.record(pod, EventType::Normal, "Scheduled", &message).await;
        Ok(Next::Change)
    }

    /// Records once why no node takes the pod; a change of nodes calls again.
    async fn refuse(&self, pod: &Pod, message: &str) -> Result<Next, Fault> {
        let Some(after) = unschedulable(pod, message, self.clock.now()) else {
            return Ok(Next::Change);
        };
        self.events
            .record(pod, EventType::Warning, "FailedScheduling", message)
            .await;
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
        patch_status_if_changed(&api, pod, &after).await?;
        Ok(Next::Change)
    }
}

/// The pod with the reason in its status; none when it is there already.
fn unschedulable(pod: &Pod, message: &str, now: Timestamp) -> Option<Pod> {
    let mut after = pod.clone();
    let conditions = after.status.get_or_insert_default().conditions.get_or_insert_default();
    let old = conditions.iter().find(|condition| condition.type_ == "PodScheduled");
    if old.is_some_and(|old| old.status == "False" && old.message.as_deref() == Some(message)) {
        return None;
    }
    // Kubernetes keeps whole seconds.
    let now = Time(Timestamp::from_second(now.as_second()).unwrap_or(now));
    let since = old
        .filter(|old| old.status == "False")
        .and_then(|old| old.last_transition_time.clone())
        .unwrap_or(now);
    conditions.retain(|condition| condition.type_ != "PodScheduled");
    conditions.push(PodCondition {
        type_: "PodScheduled".to_owned(),
        status: "False".to_owned(),
        reason: Some("Unschedulable".to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: Some(since),
        ..PodCondition::default()
    });
    Some(after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn node(name: &str, extra: Value, ready: &str) -> Arc<Node> {
        let node = json!({
            "metadata": {"name": name, "labels": {"zone": name}}, "spec": extra,
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        });
        Arc::new(serde_json::from_value(node).unwrap())
    }

    fn pod(spec: Value) -> Pod {
        let mut all = json!({"containers": []});
        all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": all})).unwrap()
    }

    #[test]
    fn pods_go_to_the_emptiest_node_that_takes_them() {
        let nodes = [
            node("a", json!({}), "True"),
            node("b", json!({}), "True"),
            node("c", json!({}), "False"),
        ];
        let load = BTreeMap::from([("a".to_owned(), 2), ("b".to_owned(), 1)]);
        assert_eq!(choose(&pod(json!({})), &nodes, &load), Ok("b".to_owned()));
        assert_eq!(choose(&pod(json!({})), &nodes, &BTreeMap::new()), Ok("a".to_owned()));
        assert_eq!(
            choose(&pod(json!({"nodeSelector": {"zone": "a"}})), &nodes, &load),
            Ok("a".to_owned())
        );
    }

    #[test]
    fn a_full_node_takes_no_more() {
        let mut full = (*node("a", json!({}), "True")).clone();
        full.status.get_or_insert_default().allocatable =
            serde_json::from_value(json!({"pods": "2", "cpu": "1"})).unwrap();
        let nodes = [Arc::new(full)];
        let load = |taken| BTreeMap::from([("a".to_owned(), taken)]);
        assert_eq!(choose(&pod(json!({})), &nodes, &load(1)), Ok("a".to_owned()));
        assert_eq!(
            choose(&pod(json!({})), &nodes, &load(2)).unwrap_err(),
            "0/1 nodes are available: 1 Too many pods."
        );
    }

    #[test]
    fn refusals_are_counted_in_upstreams_words() {
        let nodes = [
            node(
                "a",
                json!({"taints": [{"key": "gpu", "value": "x", "effect": "NoSchedule"}]}),
                "True",
            ),
            node("b", json!({"unschedulable": true}), "True"),
            node("c", json!({}), "Unknown"),
        ];
        assert_eq!(
            choose(&pod(json!({})), &nodes, &BTreeMap::new()).unwrap_err(),
            "0/3 nodes are available: 1 node(s) had untolerated taint {gpu: x}, 1 node(s) were not ready, 1 node(s) were unschedulable."
        );
        assert_eq!(
            choose(&pod(json!({})), &[], &BTreeMap::new()).unwrap_err(),
            "no nodes available to schedule pods"
        );
    }

    #[test]
    fn reason_is_written_once_per_change() {
        let now = Timestamp::UNIX_EPOCH;
        let reported = unschedulable(&pod(json!({})), "why", now).unwrap();
        assert_eq!(unschedulable(&reported, "why", now), None);
        assert_eq!(
            unschedulable(&reported, "other", now)
                .unwrap()
                .status
                .unwrap()
                .conditions
                .unwrap()
                .len(),
            1
        );
    }

    #[test]
    fn pods_of_other_schedulers_gated_ended_and_assigned_ones_are_left_alone() {
        assert!(is_ours(&pod(json!({"schedulerName": "default-scheduler"}))));
        for spec in [
            json!({"schedulerName": "mine"}),
            json!({"nodeName": "a"}),
            json!({"schedulingGates": [{"name": "g"}]}),
        ] {
            assert!(!is_ours(&pod(spec.clone())), "{spec}");
        }
    }
}
