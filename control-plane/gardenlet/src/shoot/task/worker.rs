//! The shoot's machines (kind Worker).

mod pool;

use api_extensions::{Worker, WorkerSpec};
use api_meta::{Fault, RawJson};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::time::Instant;

use super::super::given::Requests;
use super::super::operation::{Operation, left};
use super::infrastructure::cloud_credentials;
use super::os_config::Pool;
use super::secrets::{ShootSecrets, ssh_public_key};
use super::single;
use crate::extension::wait_ready_until;
use pool::{Surroundings, pool_of};

/// Requests the machines of all pools, with the infrastructure's status byte for byte.
pub(crate) async fn deploy(
    op: &Operation,
    secrets: &ShootSecrets,
    infrastructure: Option<RawJson>,
    pools: &[Pool],
) -> Result<Requests, Fault> {
    let present = op.context.seed_caches.of::<Worker>().get(&op.key(&op.shoot.name));
    let surroundings = Surroundings {
        spec: &op.shoot.spec,
        machine_types: &op.observed.cloud_profile.spec.machine_types,
        present: present.as_ref().map_or(&[], |present| &present.spec.pools),
    };
    let mut wanted = Vec::new();
    for worker in &op.shoot.spec.provider.workers {
        let pool = pools.iter().find(|pool| pool.key.name == worker.name);
        let pool = pool.ok_or_else(|| {
            Fault::bug(format!("worker pool {} has no operating system config", worker.name)).hint("report it")
        })?;
        wanted.push(pool_of(worker, pool, &surroundings));
    }
    let desired = Worker {
        metadata: ObjectMeta {
            name: Some(op.shoot.name.clone()),
            namespace: Some(op.namespace().to_owned()),
            ..ObjectMeta::default()
        },
        spec: WorkerSpec {
            type_: op.shoot.provider.clone(),
            infrastructure_provider_status: infrastructure,
            region: op.shoot.region.clone(),
            secret_ref: cloud_credentials(op),
            ssh_public_key: ssh_public_key(op, secrets)?,
            pools: wanted,
            ..WorkerSpec::default()
        },
        status: None,
    };
    single::request(op, desired).await
}

/// Waits until the extension has reported the machine deployments; the machines themselves may take longer.
pub(crate) async fn wait_machine_deployments(
    op: &Operation,
    requests: &Requests,
    until: Option<Instant>,
) -> Result<(), Fault> {
    let requested = requests.get(&op.shoot.name);
    let since = requested.and_then(|requested| requested.stamp.parse::<jiff::Timestamp>().ok());
    let enough = |worker: &Worker| {
        let status = worker.status.as_ref();
        let at = status.and_then(|status| status.machine_deployments_last_update_time.as_ref());
        // Whole seconds in the status, as everywhere in extension objects.
        at.zip(since)
            .is_some_and(|(at, since)| at.0.as_second() >= since.as_second())
    };
    let cache = op.context.seed_caches.of::<Worker>();
    wait_ready_until(
        cache,
        &op.key(&op.shoot.name),
        requested,
        left(until),
        &op.waiting,
        enough,
    )
    .await
    .map(drop)
}
