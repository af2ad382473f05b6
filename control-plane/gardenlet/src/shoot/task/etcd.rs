//! etcd of a shoot.

use api_meta::Fault;
use base_client::{apply, delete, delete_and_wait, list};
use components_hosted::{ETCD, ETCD_CLIENT_SERVICE, EtcdSettings};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Service};
use kube::ResourceExt;
use tokio::time::Instant;

use super::super::operation::{Operation, left};
use super::secrets::{CA_ETCD, ETCD_SERVER};
use crate::context::MANAGER;

/// Applies StatefulSet and Services.
pub(crate) async fn deploy(op: &Operation) -> Result<(), Fault> {
    let etcd = components_hosted::etcd(&EtcdSettings {
        namespace: op.namespace().to_owned(),
        image: op.context.config.images.own("etcd"),
        storage: op.context.config.etcd_storage.clone(),
        authority: op.mounted_bundle(CA_ETCD)?,
        server: op.mounted(ETCD_SERVER)?,
    });
    let services = op.here::<Service>();
    apply(&services, &etcd.client_service, MANAGER).await?;
    apply(&services, &etcd.peer_service, MANAGER).await?;
    let written = apply(&op.here::<StatefulSet>(), &etcd.stateful_set, MANAGER).await?;
    op.remember_generation(&written);
    Ok(())
}

/// Waits until it serves.
pub(crate) async fn wait(op: &Operation, until: Option<Instant>) -> Result<(), Fault> {
    let generation = op.generation_of::<StatefulSet>(ETCD);
    op.wait_for(&op.context.seed_caches.stateful_sets, ETCD, until, |found| {
        not_rolled_out(found, generation)
    })
    .await
}

/// Why a StatefulSet does not run in its present form.
pub(crate) fn not_rolled_out(set: &StatefulSet, generation: i64) -> Option<String> {
    let wanted = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let status = set.status.clone().unwrap_or_default();
    if set.metadata.generation.unwrap_or_default() < generation
        || status.observed_generation.unwrap_or_default() < set.metadata.generation.unwrap_or_default()
    {
        return Some("its newest form has not been seen yet".to_owned());
    }
    let (updated, ready) = (
        status.updated_replicas.unwrap_or_default(),
        status.ready_replicas.unwrap_or_default(),
    );
    (updated < wanted || ready < wanted)
        .then(|| format!("{ready} of {wanted} pods are ready, {updated} in the newest form"))
}

/// Takes it away; its data goes with the claims ([`wait_destroyed`]), the backup with the shoot's BackupEntry.
pub(crate) async fn destroy(op: &Operation) -> Result<(), Fault> {
    delete(&op.here::<StatefulSet>(), ETCD).await?;
    let services = op.here::<Service>();
    delete(&services, ETCD_CLIENT_SERVICE).await?;
    delete(&services, "etcd-main-peer").await
}

/// Waits until it is gone, then deletes its volumes' claims.
pub(crate) async fn wait_destroyed(op: &Operation, until: Option<Instant>) -> Result<(), Fault> {
    delete_and_wait(&op.here::<StatefulSet>(), ETCD, left(until)).await?;
    let claims = op.here::<PersistentVolumeClaim>();
    let prefix = format!("{ETCD}-{ETCD}-");
    for claim in list(&claims, "").await? {
        if claim.name_any().starts_with(&prefix) {
            delete(&claims, &claim.name_any()).await?;
        }
    }
    Ok(())
}
