//! Hibernation of a control plane (gardener/gardener v1.150 `pkg/gardenlet/operation/botanist/controlplane.go`,
//! `HibernateControlPlane`): first the cluster is seen to be empty of machines, then its components are scaled to zero,
//! those first that work by the API server, then that one, then its stores. Data and volumes stay.

use api_meta::{Fault, Subject};
use base_client::{delete, list, wait_until_none};
use components_hosted::{ComponentId, Place, component};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use tokio::time::Instant;

use super::super::observe::api_server_runs;
use super::super::operation::{Operation, left};
use super::component::scale_to_zero;

/// Label of pods that may be deleted at any time to be started again (gardener/gardener v1.150
/// `v1beta1constants.LabelPodMaintenanceRestart`).
const RESTARTED: &str = "maintenance.gardener.cloud/restart=true";

/// Scales everything to zero. `shoot`: a client of its API server, if that runs.
pub(crate) async fn control_plane(op: &Operation, shoot: Option<&Client>, until: Option<Instant>) -> Result<(), Fault> {
    // On a retry the API server may be gone already: it was scaled down because the cluster was empty.
    if let Some(shoot) = shoot
        && !op.shoot.workerless
        && api_server_runs(&op.context, op.namespace()).await?
    {
        empty_of_machines(op, shoot, until).await?;
    }
    // What does not exist for this shoot has no pods, or is being deleted by a step of its own.
    let cluster = op.hosted_cluster();
    for id in order().filter(|id| component(*id).exists(&cluster)) {
        scale_to_zero(op, id, until).await?;
    }
    Ok(())
}

/// The order in which components are scaled to zero.
fn order() -> impl Iterator<Item = ComponentId> {
    let rank = |id: ComponentId| match component(id).place() {
        Place::Machines => 0,
        Place::ControlPlane { .. } => 1,
        Place::ResourceManager => 2,
        Place::ApiServer => 3,
        Place::Etcd => 4,
    };
    let mut all = ComponentId::ALL.to_vec();
    all.sort_by_key(|id| rank(*id));
    all.into_iter()
}

/// The Node objects of machines that are gone are deleted by the controller manager, and the pods that were bound to them:
/// what is not deleted while it runs would still be there after the cluster wakes, and be taken for running.
async fn empty_of_machines(op: &Operation, shoot: &Client, until: Option<Instant>) -> Result<(), Fault> {
    let nodes_left = Subject::Objects(format!("nodes of the cluster {}", op.namespace()));
    let waits = |why: &str| op.waiting.note(&nodes_left, why);
    let everything = watcher::Config::default;
    let nodes = Api::<Node>::all(shoot.clone());
    let gone = wait_until_none(&nodes, everything(), left(until), |_| true, waits).await;
    op.waiting.over(&nodes_left);
    gone?;
    let pods_left = Subject::Objects(format!("pods of the cluster {}", op.namespace()));
    let waits = |why: &str| op.waiting.note(&pods_left, why);
    let runs = |pod: &Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        phase == Some("Running")
    };
    let pods = Api::<Pod>::all(shoot.clone());
    let gone = wait_until_none(&pods, everything(), left(until), runs, waits).await;
    op.waiting.over(&pods_left);
    gone?;
    // Nothing is attached to a node that is not there; an attachment that is left would keep its volume from being deleted.
    let attachments = Api::<VolumeAttachment>::all(shoot.clone());
    for attachment in list(&attachments, "").await? {
        delete(&attachments, &attachment.name_any()).await?;
    }
    Ok(())
}

/// Deletes the pods that the owner requested to be restarted.
pub(crate) async fn restart_pods(op: &Operation) -> Result<(), Fault> {
    let pods = op.here::<Pod>();
    for pod in list(&pods, RESTARTED).await? {
        delete(&pods, &pod.name_any()).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_etcds_go_to_sleep_last_and_the_api_server_before_them() {
        let all: Vec<ComponentId> = order().collect();
        let last = [ComponentId::ApiServer, ComponentId::EtcdMain, ComponentId::EtcdEvents];
        assert!(all.ends_with(&last), "{all:?}");
        assert_eq!(all.len(), ComponentId::ALL.len(), "nothing stays awake");
    }
}
