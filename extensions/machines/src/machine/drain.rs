//! Emptying a node before its machine goes: cordon, evict, wait. It never deletes a pod that an eviction is
//! refused for, except where the cluster knows no evictions, and never touches pods that DaemonSets or the node itself would
//! put right back.

use std::time::Duration;

use api_meta::Fault;
use base_client::{Judgement, delete, fault_of, is_missing, patch_changed};
use base_controller::Cache;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::EvictParams;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use tokio_util::sync::CancellationToken;

/// How long draining may take unless the machine sets a time. (machine-controller-manager waits two hours;
/// its users set minutes.)
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// The pause after a refused eviction (a disruption budget): upstream's interval.
const EVICTION_PAUSE: Duration = Duration::from_secs(5);

/// Cordons `node`, evicts its pods and waits until they are gone, at most `timeout`.
pub(crate) async fn drain(client: &Client, node: &Node, timeout: Duration) -> Result<(), Fault> {
    let mut cordoned = node.clone();
    cordoned.spec.get_or_insert_default().unschedulable = Some(true);
    patch_changed(&Api::<Node>::all(client.clone()), node, &cordoned).await?;
    let stop = CancellationToken::new();
    let _stops_when_done = stop.clone().drop_guard();
    let config = watcher::Config::default().fields(&format!("spec.nodeName={}", node.name_any()));
    let pods: Cache<Pod> = Cache::start(Api::all(client.clone()), config, stop);
    let what = format!("the pods of node {} to end", node.name_any());
    let empty = pods.wait_for(&what, timeout, |pods| {
        let left: Vec<String> = pods
            .list()
            .iter()
            .filter(|pod| must_go(pod))
            .map(|pod| pod.name_any())
            .collect();
        if left.is_empty() {
            Judgement::Done(())
        } else {
            Judgement::NotYet(format!("still there: {}", left.join(", ")))
        }
    });
    let evicting = async {
        pods.ready().await;
        loop {
            let mut refused = None;
            for pod in pods
                .list()
                .iter()
                .filter(|pod| must_go(pod) && pod.metadata.deletion_timestamp.is_none())
            {
                refused = evict(client, pod).await.err().or(refused);
            }
            if let Some(fault) = &refused {
                tracing::debug!(node = node.name_any(), "{fault}");
            }
            // A disruption budget does not announce when it would allow more.
            tokio::time::sleep(EVICTION_PAUSE).await;
        }
    };
    tokio::select! {
        biased;
        emptied = empty => emptied.map_err(Fault::from),
        never = evicting => never,
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
    match api.evict(&name, &EvictParams::default()).await {
        Ok(_) => Ok(()),
        // The pod is gone, or this cluster knows no evictions.
        Err(error)
            if is_missing(&error) || matches!(&error, kube::Error::Api(status) if matches!(status.code, 405 | 501)) =>
        {
            delete(&api, &name).await
        }
        Err(error) => Err(fault_of(error, &format!("evict pod {namespace}/{name}"))),
    }
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
