//! The pods' network inside the shoot (kind Network).

use api_extensions::{Network, NetworkSpec};
use api_meta::Fault;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::time::Instant;

use super::super::operation::{Operation, left};
use crate::extension::{ask, delete_confirmed, wait_deleted, wait_ready};

/// Asks for it.
pub(crate) async fn deploy(op: &Operation) -> Result<(), Fault> {
    let networking = op.shoot.spec.networking.clone().unwrap_or_default();
    let desired = Network {
        metadata: ObjectMeta {
            name: Some(op.shoot.name.clone()),
            namespace: Some(op.namespace().to_owned()),
            ..ObjectMeta::default()
        },
        spec: NetworkSpec {
            type_: op.shoot.network.clone().unwrap_or_default(),
            provider_config: networking.provider_config,
            pod_cidr: op.shoot.pods.first().cloned().unwrap_or_default(),
            service_cidr: op.shoot.services.first().cloned().unwrap_or_default(),
            ip_families: networking.ip_families,
            ..NetworkSpec::default()
        },
        status: None,
    };
    op.remember(&ask(&op.context, &op.here::<Network>(), desired).await?);
    Ok(())
}

/// Waits for it.
pub(crate) async fn wait(op: &Operation, until: Option<Instant>) -> Result<(), Fault> {
    let asked = op.asked::<Network>(&op.shoot.name);
    let cache = &op.context.seed_caches.networks;
    wait_ready(cache, &op.key(&op.shoot.name), asked.as_ref(), left(until), &op.waiting)
        .await
        .map(drop)
}

/// Asks for its deletion.
pub(crate) async fn destroy(op: &Operation) -> Result<(), Fault> {
    delete_confirmed(&op.context, &op.here::<Network>(), &op.shoot.name).await
}

/// Waits until it is gone.
pub(crate) async fn wait_destroyed(op: &Operation, until: Option<Instant>) -> Result<(), Fault> {
    wait_deleted(&op.here::<Network>(), &op.key(&op.shoot.name), left(until), &op.waiting).await
}
