//! The shoot's machines (kind Worker).

use api_core::v1beta1::Worker as ShootWorker;
use api_extensions::{DataVolume, MachineImage, Volume, Worker, WorkerPool, WorkerSpec};
use api_meta::{Fault, labels, names};
use k8s_openapi::api::core::v1::SecretKeySelector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::time::Instant;

use super::super::operation::{Operation, left};
use super::infrastructure::cloud_credentials;
use super::os_config::Pool;
use crate::extension::{ask, wait_ready_until};

/// Asks for the machines of all pools, with the infrastructure's answer byte for byte.
pub(crate) async fn deploy(op: &Operation) -> Result<(), Fault> {
    let (pools, answer) = {
        let results = op.results();
        (results.pools.clone(), results.infrastructure_status.clone())
    };
    let mut wanted = Vec::new();
    for worker in &op.shoot.spec.provider.workers {
        let pool = pools.iter().find(|pool| pool.name == worker.name);
        let pool = pool.ok_or_else(|| {
            Fault::bug(format!("worker pool {} has no operating system config", worker.name)).hint("report it")
        })?;
        wanted.push(pool_of(worker, pool)?);
    }
    let desired = Worker {
        metadata: ObjectMeta {
            name: Some(op.shoot.name.clone()),
            namespace: Some(op.namespace().to_owned()),
            ..ObjectMeta::default()
        },
        spec: WorkerSpec {
            type_: op.shoot.provider.clone(),
            infrastructure_provider_status: answer,
            region: op.shoot.region.clone(),
            secret_ref: cloud_credentials(op),
            pools: wanted,
            ..WorkerSpec::default()
        },
        status: None,
    };
    op.remember(&ask(&op.context, &op.here::<Worker>(), desired).await?);
    Ok(())
}

fn pool_of(worker: &ShootWorker, pool: &Pool) -> Result<WorkerPool, Fault> {
    let user_data = pool
        .user_data
        .clone()
        .ok_or_else(|| Fault::bug(format!("worker pool {} has no user data", worker.name)).hint("report it"))?;
    let mut node_labels = worker.labels.clone();
    node_labels.insert(labels::WORKER_POOL.to_owned(), worker.name.clone());
    let system = worker.system_components.as_ref().is_none_or(|system| system.allow);
    node_labels.insert(labels::WORKER_SYSTEM_COMPONENTS.to_owned(), system.to_string());
    node_labels.insert(labels::WORKER_KUBERNETES_VERSION.to_owned(), pool.version.clone());
    if let Some(cri) = &worker.cri {
        node_labels.insert(labels::WORKER_CRI_NAME.to_owned(), cri.name.to_string());
    }
    let image = worker.machine.image.clone().unwrap_or_default();
    Ok(WorkerPool {
        machine_type: worker.machine.type_.clone(),
        maximum: worker.maximum,
        minimum: worker.minimum,
        max_surge: worker.max_surge.clone().unwrap_or(IntOrString::Int(1)),
        max_unavailable: worker.max_unavailable.clone().unwrap_or(IntOrString::Int(0)),
        annotations: worker.annotations.clone(),
        labels: node_labels,
        taints: worker.taints.clone(),
        machine_image: Some(MachineImage {
            name: image.name,
            version: image.version.unwrap_or_default(),
        }),
        name: worker.name.clone(),
        node_agent_secret_name: Some(pool.key.clone()),
        provider_config: worker.provider_config.clone(),
        user_data_secret_ref: SecretKeySelector {
            name: user_data.name.unwrap_or_default(),
            key: names::CLOUD_CONFIG_DATA_KEY.to_owned(),
            optional: None,
        },
        volume: worker.volume.clone().map(|volume| Volume {
            name: volume.name,
            type_: volume.type_,
            size: volume.size,
            encrypted: volume.encrypted,
        }),
        data_volumes: worker.data_volumes.iter().cloned().map(data_volume).collect(),
        kubelet_data_volume_name: worker.kubelet_data_volume_name.clone(),
        zones: worker.zones.clone(),
        machine_controller_manager: worker.machine_controller_manager.clone(),
        kubernetes_version: Some(pool.version.clone()),
        kubelet_config: worker
            .kubernetes
            .as_ref()
            .and_then(|kubernetes| kubernetes.kubelet.clone()),
        architecture: worker.machine.architecture.clone(),
        priority: worker.priority,
        update_strategy: worker.update_strategy.clone(),
        node_template: None,
        cluster_autoscaler: None,
    })
}

fn data_volume(volume: api_core::v1beta1::DataVolume) -> DataVolume {
    DataVolume {
        name: volume.name,
        type_: volume.type_,
        size: volume.size,
        encrypted: volume.encrypted,
    }
}

/// Waits until the extension has said which machine deployments there are; the machines themselves may take longer.
pub(crate) async fn wait_machine_deployments(op: &Operation, until: Option<Instant>) -> Result<(), Fault> {
    let asked = op.asked::<Worker>(&op.shoot.name);
    let since = asked
        .as_ref()
        .and_then(|asked| asked.stamp.parse::<jiff::Timestamp>().ok());
    let enough = |worker: &Worker| {
        let status = worker.status.as_ref();
        let at = status.and_then(|status| status.machine_deployments_last_update_time.as_ref());
        // Whole seconds in the status, as everywhere in extension objects.
        at.zip(since)
            .is_some_and(|(at, since)| at.0.as_second() >= since.as_second())
    };
    let cache = &op.context.seed_caches.workers;
    wait_ready_until(
        cache,
        &op.key(&op.shoot.name),
        asked.as_ref(),
        left(until),
        &op.waiting,
        enough,
    )
    .await
    .map(drop)
}
