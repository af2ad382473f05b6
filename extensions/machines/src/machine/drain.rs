//! Emptying a node before its machine goes: cordon, evict, and look again when its pods change. No turn waits for that. It never
//! deletes a pod that an eviction is refused for, except where the cluster knows no evictions, and never touches pods that
//! DaemonSets or the node itself would put right back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api_machine::Machine;
use api_meta::Fault;
use base_client::{fault_of, is_missing, patch_changed, some_of};
use base_controller::{Cache, ObjectKey};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, EvictParams, Preconditions};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

/// How long draining may take unless the machine sets a time. (machine-controller-manager waits two hours;
/// its users set minutes.)
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// The pause after a refused eviction, since a disruption budget does not announce when it would allow more: upstream's interval.
pub(crate) const EVICTION_PAUSE: Duration = Duration::from_secs(5);
/// The pause while all pods are going: their changes call sooner, unless one is lost.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// How far a node is.
#[derive(Debug)]
pub(crate) enum Drained {
    /// Nothing is left on it that must go.
    Empty,
    /// Something is, or it is not known.
    NotYet {
        /// What, or why.
        reason: String,
        /// When to look again though its pods do not change.
        pause: Duration,
    },
}

/// A watch of the pods of one node.
struct Drain {
    node: String,
    pods: Cache<Pod>,
    /// No eviction before.
    evict_from: Instant,
    _stops: DropGuard,
}

/// The nodes that are being emptied, by the machines that go.
pub(crate) struct Drains {
    machines: Cache<Machine>,
    open: Arc<Mutex<BTreeMap<ObjectKey, Drain>>>,
    calls: mpsc::UnboundedSender<ObjectKey>,
    stop: CancellationToken,
}

impl Drains {
    /// None yet. The receiver names machines for whose nodes something has changed; whoever reads it marks them for a turn, so
    /// what waits there is bounded by the changes between two of its looks. Must be called within a tokio runtime.
    pub(crate) fn new(
        machines: &Cache<Machine>,
        stop: CancellationToken,
    ) -> (Self, mpsc::UnboundedReceiver<ObjectKey>) {
        let (calls, called) = mpsc::unbounded_channel();
        let drains = Self {
            machines: machines.clone(),
            open: Arc::default(),
            calls,
            stop: stop.clone(),
        };
        let (open, mut changes) = (drains.open.clone(), machines.subscribe());
        tokio::spawn(stop.run_until_cancelled_owned(async move {
            loop {
                let change = changes.next().await;
                if change.new().is_none() {
                    lock(&open).remove(&ObjectKey::of(&*change.object));
                }
            }
        }));
        (drains, called)
    }

    /// Whether the node of a machine is being emptied.
    pub(crate) fn is_open(&self, machine: &ObjectKey) -> bool {
        lock(&self.open).contains_key(machine)
    }

    /// Ends the watch of a machine's node, once the machine is deleted: a try that fails finds it again.
    pub(crate) fn close(&self, machine: &ObjectKey) {
        lock(&self.open).remove(machine);
    }

    /// Cordons `node`, evicts its pods once, and returns whether it is empty. From then on changes of its pods call for the
    /// machine.
    pub(crate) async fn step(&self, machine: &ObjectKey, client: &Client, node: &Node) -> Drained {
        let mut cordoned = node.clone();
        cordoned.spec.get_or_insert_default().unschedulable = Some(true);
        if let Err(fault) = patch_changed(&Api::<Node>::all(client.clone()), node, &cordoned).await {
            let reason = format!("it cannot be cordoned: {fault}");
            return Drained::NotYet {
                reason,
                pause: EVICTION_PAUSE,
            };
        }
        let pods = self.pods(machine, client, &node.name_any());
        if !pods.is_ready() {
            let reason = pods
                .error()
                .unwrap_or_else(|| "its pods have not been listed yet".to_owned());
            return Drained::NotYet {
                reason,
                pause: EVICTION_PAUSE,
            };
        }
        let left: Vec<Arc<Pod>> = pods.list().into_iter().filter(|pod| must_go(pod)).collect();
        if left.is_empty() {
            return Drained::Empty;
        }
        let (pause, refused) = self.evict(machine, client, &left).await;
        let names = some_of(left.iter().map(|pod| pod.name_any()));
        let refused = refused.map(|fault| format!(" ({fault})")).unwrap_or_default();
        let reason = format!("still there: {names}{refused}");
        Drained::NotYet { reason, pause }
    }

    /// Evicts those of `left` that do not go yet, unless that was tried a moment ago. When to try again, and what was refused.
    async fn evict(&self, machine: &ObjectKey, client: &Client, left: &[Arc<Pod>]) -> (Duration, Option<Fault>) {
        let stays = |pod: &&Arc<Pod>| pod.metadata.deletion_timestamp.is_none();
        if !left.iter().any(|pod| stays(&pod)) {
            return (LOOK_AGAIN, None);
        }
        let now = Instant::now();
        let wait = match lock(&self.open).get_mut(machine) {
            Some(drain) if drain.evict_from > now => Some(drain.evict_from - now),
            Some(drain) => {
                drain.evict_from = now + EVICTION_PAUSE;
                None
            }
            None => Some(EVICTION_PAUSE),
        };
        if let Some(wait) = wait {
            return (wait, None);
        }
        let mut refused = None;
        for pod in left.iter().filter(stays) {
            refused = evict(client, pod).await.err().or(refused);
        }
        (EVICTION_PAUSE, refused)
    }

    /// The cache of the node's pods. One that is out of order is opened again: its client may be a former one.
    fn pods(&self, machine: &ObjectKey, client: &Client, node: &str) -> Cache<Pod> {
        let mut open = lock(&self.open);
        if let Some(drain) = open.get(machine)
            && drain.node == node
            && drain.pods.error().is_none()
        {
            return drain.pods.clone();
        }
        let evict_from = open.get(machine).map_or_else(Instant::now, |former| former.evict_from);
        let stop = self.stop.child_token();
        let config = watcher::Config::default().fields(&format!("spec.nodeName={node}"));
        let pods: Cache<Pod> = Cache::start(Api::all(client.clone()), config, stop.clone());
        let calling = call_on_changes(pods.clone(), machine.clone(), self.calls.clone());
        tokio::spawn(stop.clone().run_until_cancelled_owned(calling));
        let drain = Drain {
            node: node.to_owned(),
            pods: pods.clone(),
            evict_from,
            _stops: stop.drop_guard(),
        };
        open.insert(machine.clone(), drain);
        drop(open);
        // One that has gone meanwhile has no change to come that would end the watch.
        if self.machines.get(machine).is_none() {
            self.close(machine);
        }
        pods
    }
}

fn lock(open: &Mutex<BTreeMap<ObjectKey, Drain>>) -> MutexGuard<'_, BTreeMap<ObjectKey, Drain>> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls for the machine when the pods are known, and at each change of those that must go.
async fn call_on_changes(pods: Cache<Pod>, machine: ObjectKey, calls: mpsc::UnboundedSender<ObjectKey>) {
    let mut changes = pods.subscribe();
    pods.ready().await;
    // The receiver ends with the process.
    let _ = calls.send(machine.clone());
    loop {
        let change = changes.next().await;
        let concerns = |pod: Option<&Pod>| pod.is_some_and(must_go);
        if concerns(change.old.as_deref()) || concerns(change.new()) {
            let _ = calls.send(machine.clone());
        }
    }
}

/// Whether a pod would be lost with the node and can run elsewhere, or end.
fn must_go(pod: &Pod) -> bool {
    let owned_by_node = |kind: &str| matches!(kind, "DaemonSet" | "Node");
    let stays = pod
        .owner_references()
        .iter()
        .any(|owner| owner.controller == Some(true) && owned_by_node(&owner.kind));
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    !stays && !matches!(phase, Some("Succeeded" | "Failed"))
}

async fn evict(client: &Client, pod: &Pod) -> Result<(), Fault> {
    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
    let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    // This very pod: another may have its name by now, as that of a StatefulSet has.
    let this = DeleteParams {
        preconditions: Some(Preconditions {
            uid: pod.uid(),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    let params = EvictParams {
        delete_options: Some(this.clone()),
        ..EvictParams::default()
    };
    let failed = |error| fault_of(error, &format!("evict pod {namespace}/{name}"));
    let Err(error) = api.evict(&name, &params).await else {
        return Ok(());
    };
    let unknown = match &error {
        kube::Error::Api(status) if matches!(status.code, 405 | 501) => true,
        error if is_missing(error) => !knows_evictions(client).await?,
        _ => return Err(failed(error)),
    };
    if !unknown {
        return Ok(());
    }
    match api.delete(&name, &this).await {
        Err(error) if !is_missing(&error) => Err(failed(error)),
        _ => Ok(()),
    }
}

/// Whether the cluster serves evictions: where it does not, it answers as if the pod were gone.
async fn knows_evictions(client: &Client) -> Result<bool, Fault> {
    let served = client.list_core_api_resources("v1").await;
    let served = served.map_err(|error| fault_of(error, "read which resources there are"))?;
    Ok(served.resources.iter().any(|resource| resource.name == "pods/eviction"))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodStatus;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

    use super::*;

    #[test]
    fn pods_of_daemon_sets_of_the_node_itself_and_ended_ones_stay() {
        let pod = |owner: Option<&str>, phase: &str| Pod {
            metadata: ObjectMeta {
                owner_references: owner.map(|kind| {
                    vec![OwnerReference {
                        kind: kind.into(),
                        controller: Some(true),
                        ..Default::default()
                    }]
                }),
                ..Default::default()
            },
            status: Some(PodStatus {
                phase: Some(phase.into()),
                ..Default::default()
            }),
            ..Default::default()
        };
        assert!(must_go(&pod(None, "Running")));
        assert!(must_go(&pod(Some("ReplicaSet"), "Pending")));
        assert!(!must_go(&pod(Some("DaemonSet"), "Running")));
        assert!(!must_go(&pod(Some("Node"), "Running")));
        assert!(!must_go(&pod(Some("ReplicaSet"), "Succeeded")));
    }
}
