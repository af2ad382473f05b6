//! The Infrastructure object, and what it answers: the provider's status, the nodes' networks.

use api_core::v1beta1 as core;
use api_extensions::{Infrastructure, InfrastructureSpec, InfrastructureStatus};
use api_meta::{Fault, RawJson, annotations, names};
use base_client::get;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::time::Instant;

use super::super::cluster;
use super::super::given::Requests;
use super::super::operation::Operation;
use super::secrets::{ShootSecrets, ssh_public_key};
use super::single;
use crate::extension::write_request_unless_done;

/// Requests the infrastructure, if anything about it has changed or failed, or if the owner requested it (contract
/// E.3).
pub(crate) async fn deploy(op: &Operation, secrets: &ShootSecrets) -> Result<Requests, Fault> {
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
            ssh_public_key: ssh_public_key(op, secrets)?,
            ..InfrastructureSpec::default()
        },
        status: None,
    };
    let shoot = op.status.known().metadata;
    let is_requested = is_requested(&shoot, annotations::task::DEPLOY_INFRASTRUCTURE);
    let same = |present: &Infrastructure, desired: &Infrastructure| !is_requested && present.spec == desired.spec;
    let object = write_request_unless_done(&op.context, &op.here(), op.verb, desired, same).await?;
    Ok(single::requested(&object).into_iter().collect())
}

/// Where extensions find the cloud's credentials.
pub(crate) fn cloud_credentials(op: &Operation) -> api_meta::SecretReference {
    api_meta::SecretReference {
        name: Some(names::CLOUD_PROVIDER_SECRET.to_owned()),
        namespace: Some(op.namespace().to_owned()),
    }
}

/// Whether the shoot's owner requested this task.
pub(crate) fn is_requested(shoot: &ObjectMeta, task: &str) -> bool {
    let tasks = shoot
        .annotations
        .as_ref()
        .and_then(|all| all.get(annotations::SHOOT_TASKS));
    tasks.is_some_and(|tasks| tasks.split(',').any(|one| one.trim() == task))
}

/// What an infrastructure's extension has reported.
pub(crate) struct Answer {
    /// `status.providerStatus`, as read.
    pub provider_status: Option<RawJson>,
    /// Networks of nodes.
    pub nodes: Vec<String>,
    status: InfrastructureStatus,
}

/// Waits for it; what it reports.
pub(crate) async fn wait(op: &Operation, requests: &Requests, until: Option<Instant>) -> Result<Answer, Fault> {
    let ready: Infrastructure = single::wait(op, requests, until).await?;
    let status = ready.status.unwrap_or_default();
    let named = status.networking.as_ref().map(|networking| networking.nodes.clone());
    let named = named.filter(|nodes| !nodes.is_empty());
    Ok(Answer {
        provider_status: status.provider_status.clone(),
        nodes: named.unwrap_or_else(|| status.nodes_cidr.iter().cloned().collect()),
        status,
    })
}

/// The status that the infrastructure's extension has reported last, if the object is there.
pub(crate) async fn reported(op: &Operation) -> Result<Option<RawJson>, Fault> {
    let found = get(&op.here::<Infrastructure>(), &op.shoot.name).await?;
    Ok(found.and_then(|infrastructure| infrastructure.status?.provider_status))
}

/// Writes down the networks that hold. Networks of nodes that the infrastructure reports override the spec.
pub(crate) async fn record_networks(op: &Operation, answer: Answer, nodes: Vec<String>) -> Result<(), Fault> {
    let status = answer.status;
    let networking = status.networking.unwrap_or_default();
    let or = |reported: Vec<String>, own: &[String]| if reported.is_empty() { own.to_vec() } else { reported };
    let report = core::NetworkingStatus {
        pods: or(networking.pods, &op.shoot.pods),
        nodes: nodes.clone(),
        services: or(networking.services, &op.shoot.services),
        egress_cidrs: status.egress_cidrs,
    };
    op.status
        .update(|state| state.networking = Some(report.clone()))
        .await?;
    if let Some(first) = nodes.first() {
        let before = op.status.known();
        // Once only: the field is immutable afterwards, and the status has the networks that hold.
        let after = op.status.settle_nodes(first).await?;
        // Our own addition is part of what is being done. If another client has written in between, its change is not.
        let next = before.metadata.generation.map(|generation| generation + 1);
        if before.status.observed_generation == before.metadata.generation && after.metadata.generation == next {
            op.status.update(|status| status.observed_generation = next).await?;
        }
    }
    cluster::sync(
        &op.context,
        op.namespace(),
        &op.shoot_at_work(),
        &op.observed.seed,
        &op.observed.cloud_profile,
    )
    .await
}
