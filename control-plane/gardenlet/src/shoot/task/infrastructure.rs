//! The Infrastructure object, and what it answers: the provider's status, the nodes' networks.

use api_core::v1beta1 as core;
use api_extensions::{Infrastructure, InfrastructureSpec};
use api_meta::{Fault, annotations, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::time::Instant;

use super::super::cluster;
use super::super::operation::Operation;
use super::secrets::ssh_public_key;
use super::single;
use crate::extension::ask_unless_done;

/// Asks for the infrastructure, if anything about it has changed, failed or was asked for (contract E.3).
pub(crate) async fn deploy(op: &Operation) -> Result<(), Fault> {
    let desired = Infrastructure {
        metadata: ObjectMeta {
            name: Some(op.shoot.name.clone()),
            namespace: Some(op.namespace().to_owned()),
            ..ObjectMeta::default()
        },
        spec: InfrastructureSpec {
            type_: op.shoot.provider.clone(),
            provider_config: op.shoot.spec.provider.infrastructure_config.clone(),
            region: op.shoot.region.clone(),
            secret_ref: cloud_credentials(op),
            ssh_public_key: ssh_public_key(op)?,
            ..InfrastructureSpec::default()
        },
        status: None,
    };
    let shoot = op.status.known().await.metadata;
    let asked_for = asked_for(&shoot, annotations::task::DEPLOY_INFRASTRUCTURE);
    let same = |present: &Infrastructure, desired: &Infrastructure| !asked_for && present.spec == desired.spec;
    let object = ask_unless_done(&op.context, &op.here(), desired, same).await?;
    op.remember(&object);
    Ok(())
}

/// Where extensions find the cloud's credentials.
pub(crate) fn cloud_credentials(op: &Operation) -> api_meta::SecretReference {
    api_meta::SecretReference {
        name: Some(names::CLOUD_PROVIDER_SECRET.to_owned()),
        namespace: Some(op.namespace().to_owned()),
    }
}

/// Whether the shoot's owner asked for this task.
pub(crate) fn asked_for(shoot: &ObjectMeta, task: &str) -> bool {
    let tasks = shoot
        .annotations
        .as_ref()
        .and_then(|all| all.get(annotations::SHOOT_TASKS));
    tasks.is_some_and(|tasks| tasks.split(',').any(|one| one.trim() == task))
}

/// Waits for it and takes over what it answers. The nodes' networks it names count more than what the spec says.
pub(crate) async fn wait(op: &Operation, until: Option<Instant>) -> Result<(), Fault> {
    let ready: Infrastructure = single::wait(op, until).await?;
    let status = ready.status.unwrap_or_default();
    let networking = status.networking.clone().unwrap_or_default();
    let nodes = match networking.nodes.is_empty() {
        false => networking.nodes.clone(),
        true => status.nodes_cidr.iter().cloned().collect(),
    };
    {
        let mut results = op.results();
        results.infrastructure_status = status.provider_status.clone();
        if !nodes.is_empty() {
            results.nodes.clone_from(&nodes);
        }
    }
    Box::pin(record_networks(op, &status, networking)).await
}

async fn record_networks(
    op: &Operation,
    status: &api_extensions::InfrastructureStatus,
    networking: api_extensions::InfrastructureStatusNetworking,
) -> Result<(), Fault> {
    let nodes = op.results().nodes.clone();
    let or = |reported: Vec<String>, own: &[String]| if reported.is_empty() { own.to_vec() } else { reported };
    let report = core::NetworkingStatus {
        pods: or(networking.pods, &op.shoot.pods),
        nodes: nodes.clone(),
        services: or(networking.services, &op.shoot.services),
        egress_cidrs: status.egress_cidrs.clone(),
    };
    op.status
        .update(|state| state.networking = Some(report.clone()))
        .await?;
    if let Some(first) = nodes.first() {
        let before = op.status.known().await;
        // Once only: the field cannot be changed afterwards, and the status says what holds.
        let after = op.status.settle_nodes(first).await?;
        // Our own addition is part of what is being done. If somebody else has written in between, theirs is not.
        let next = before.metadata.generation.map(|generation| generation + 1);
        if before.status.observed_generation == before.metadata.generation && after.metadata.generation == next {
            op.status.update(|status| status.observed_generation = next).await?;
        }
    }
    cluster::sync(
        &op.context,
        op.namespace(),
        &op.shoot_at_work().await,
        &op.observed.seed,
        &op.observed.cloud_profile,
    )
    .await
}
