//! OperatingSystemConfigs of a shoot's worker pools: what a machine is born with (`-init`), and what its node agent
//! makes of it afterwards (`-original`).

mod content;
mod token;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api_core::v1beta1::Worker as ShootWorker;
use api_extensions::{OperatingSystemConfig, OperatingSystemConfigPurpose, OperatingSystemConfigSpec};
use api_meta::{Fault, SecretReference, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::super::given::Requests;
use super::super::operation::{Operation, left};
use super::secrets::ShootSecrets;
use super::{several, single};
use crate::outcome::all;

/// How what nodes of a worker pool are to be is called.
#[derive(Clone, Debug)]
pub(crate) struct PoolKey {
    /// The pool's name.
    pub name: String,
    /// Name of the Secret for its node agents; a change of it rolls the nodes.
    pub key: String,
    /// Kubernetes version.
    pub version: String,
}

/// What nodes of a worker pool are to be, as its extension has made it.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    /// How that is called.
    pub key: PoolKey,
    /// Where the machines' user data is.
    pub user_data: SecretReference,
    /// The OperatingSystemConfig for the node agents, as text.
    pub config: String,
}

/// The Kubernetes version of a pool.
pub(crate) fn version_of(op: &Operation, worker: &ShootWorker) -> String {
    let own = worker
        .kubernetes
        .as_ref()
        .and_then(|kubernetes| kubernetes.version.clone());
    own.unwrap_or_else(|| op.shoot.version.clone())
}

/// The name that changes when nodes must be replaced (rule of gardener/gardener v1.150
/// `pkg/component/extensions/operatingsystemconfig`, `Key`).
pub(crate) fn key_of(worker: &ShootWorker, version: &str) -> String {
    let minor: Vec<&str> = version.splitn(3, '.').take(2).collect();
    let image = worker.machine.image.clone().unwrap_or_default();
    let mut parts = vec![
        minor.join("."),
        worker.machine.type_.clone(),
        format!("{}{}", image.name, image.version.unwrap_or_default()),
    ];
    if let Some(volume) = &worker.volume {
        parts.push(volume.size.clone());
        parts.extend(volume.type_.clone());
    }
    parts.extend(worker.cri.as_ref().map(|cri| cri.name.to_string()));
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    let joined: String = parts.iter().map(|part| hex(&Sha256::digest(part))).collect();
    format!(
        "gardener-node-agent-{}-{}",
        worker.name,
        &hex(&Sha256::digest(joined))[..16]
    )
}

/// Requests both configurations of every pool. `shoot`: a client of its API server.
pub(crate) async fn deploy(
    op: &Operation,
    secrets: &ShootSecrets,
    shoot: &kube::Client,
) -> Result<(Vec<PoolKey>, Requests), Fault> {
    let api = op.here::<OperatingSystemConfig>();
    let (mut pools, mut requests) = (Vec::new(), Requests::new());
    for worker in &op.shoot.spec.provider.workers {
        let version = version_of(op, worker);
        let key = key_of(worker, &version);
        let token = token::ensure(op, shoot, &worker.name).await?;
        let init = content::init(op, secrets, &key, &token)?;
        let original = content::original(op, secrets, worker, &version)?;
        let both = [
            (format!("{key}-init"), OperatingSystemConfigPurpose::Provision, init),
            (
                format!("{key}-original"),
                OperatingSystemConfigPurpose::Reconcile,
                original,
            ),
        ];
        for (name, purpose, (files, units)) in both {
            let image = worker.machine.image.clone().unwrap_or_default();
            let desired = OperatingSystemConfig {
                metadata: ObjectMeta {
                    name: Some(name),
                    namespace: Some(op.namespace().to_owned()),
                    labels: Some(BTreeMap::from([
                        (labels::WORKER_POOL.to_owned(), worker.name.clone()),
                        (labels::MUTATED_BY_CONTROL_PLANE_WEBHOOK.to_owned(), "true".to_owned()),
                    ])),
                    ..ObjectMeta::default()
                },
                spec: OperatingSystemConfigSpec {
                    type_: image.name,
                    provider_config: image.provider_config,
                    cri_config: content::cri(worker, &purpose),
                    purpose,
                    units,
                    files,
                    ..OperatingSystemConfigSpec::default()
                },
                status: None,
            };
            requests.extend(single::requested(&op.request(&api, desired).await?));
        }
        pools.push(PoolKey {
            name: worker.name.clone(),
            key,
            version,
        });
    }
    Ok((pools, requests))
}

/// Waits for all of them; what the extension made of them.
pub(crate) async fn wait(
    op: &Operation,
    keys: Vec<PoolKey>,
    requests: &Requests,
    until: Option<Instant>,
) -> Result<Vec<Pool>, Fault> {
    let one = |key: PoolKey| async move {
        let ready = async |name: &str| several::wait::<OperatingSystemConfig>(op, name, requests, left(until)).await;
        let init = ready(&format!("{}-init", key.key)).await?;
        let cloud_config = init.status.as_ref().and_then(|status| status.cloud_config.clone());
        let original = ready(&format!("{}-original", key.key)).await?;
        let config = content::for_node_agent(&original)?;
        let user_data = cloud_config.map(|config| config.secret_ref).ok_or_else(|| {
            Fault::dependency(format!(
                "OperatingSystemConfig {}/{}-init: extension {:?} gave no cloud config",
                op.namespace(),
                key.key,
                init.spec.type_
            ))
            .hint("look at the operating system's extension: status.cloudConfig.secretRef is missing")
        })?;
        Ok(Pool { key, user_data, config })
    };
    all(keys.into_iter().map(one)).await
}

/// Requests the deletion of configurations of pools as they no longer are.
pub(crate) async fn delete_stale(op: &Operation, keys: &[PoolKey]) -> Result<(), Fault> {
    several::delete::<OperatingSystemConfig>(op, stale(op, keys).await?).await
}

async fn stale(op: &Operation, keys: &[PoolKey]) -> Result<Vec<String>, Fault> {
    let wanted: BTreeSet<String> = keys
        .iter()
        .flat_map(|pool| [format!("{}-init", pool.key), format!("{}-original", pool.key)])
        .collect();
    let mut names = several::present::<OperatingSystemConfig>(op).await?;
    names.retain(|name| !wanted.contains(name));
    Ok(names)
}

/// Waits until they are gone.
pub(crate) async fn wait_stale(op: &Operation, keys: &[PoolKey], until: Option<Instant>) -> Result<(), Fault> {
    several::wait_gone::<OperatingSystemConfig>(op, stale(op, keys).await?, until, |_| Duration::MAX).await
}

/// Requests the deletion of all configurations.
pub(crate) async fn delete_all(op: &Operation) -> Result<(), Fault> {
    let names = several::present::<OperatingSystemConfig>(op).await?;
    several::delete::<OperatingSystemConfig>(op, names).await
}

/// Waits until none is left.
pub(crate) async fn wait_all_deleted(op: &Operation, until: Option<Instant>) -> Result<(), Fault> {
    let names = several::present::<OperatingSystemConfig>(op).await?;
    several::wait_gone::<OperatingSystemConfig>(op, names, until, |_| Duration::MAX).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker() -> ShootWorker {
        let mut worker = ShootWorker {
            name: "pool-a".into(),
            ..ShootWorker::default()
        };
        worker.machine.type_ = "large".into();
        worker
    }

    #[test]
    fn nodes_are_replaced_only_for_a_new_minor_version_or_machine() {
        let key = key_of(&worker(), "1.35.0");
        assert_eq!(key.len(), "gardener-node-agent-pool-a-".len() + 16);
        assert_eq!(key, key_of(&worker(), "1.35.7"), "a patch version is updated in place");
        assert_ne!(key, key_of(&worker(), "1.36.0"));
        let mut larger = worker();
        larger.maximum = 9;
        assert_eq!(key, key_of(&larger, "1.35.0"));
        larger.machine.type_ = "larger".into();
        assert_ne!(key, key_of(&larger, "1.35.0"));
    }
}
