//! What the garden holds of a shoot's secrets: for `shoots/adminkubeconfig`, for people who verify their cluster's
//! certificate, and for those who reach its nodes.

use std::collections::BTreeMap;

use api_core::v1beta1 as core;
use api_meta::{Fault, labels};
use base_client::{apply, delete};
use base_secrets::data;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::super::super::operation::Operation;
use super::{CA, CA_CLIENT, SSH_KEY_PAIR, ShootSecrets, ours};
use crate::context::MANAGER;

/// Suffix of the InternalSecret with the authority of clients.
const CA_CLIENT_SUFFIX: &str = "ca-client";
/// Suffix of the ConfigMap with the authorities of the API server.
const CA_CLUSTER_SUFFIX: &str = "ca-cluster";
/// Suffix of the Secret with the key pair that opens the nodes to SSH.
const SSH_SUFFIX: &str = "ssh-keypair";
/// Suffix of the one before, while nodes still take it.
const SSH_OLD_SUFFIX: &str = "ssh-keypair.old";

/// Writes all of it.
pub(super) async fn publish(op: &Operation, secrets: &ShootSecrets) -> Result<(), Fault> {
    publish_authorities(op, secrets).await?;
    publish_ssh_key_pairs(op, secrets).await
}

/// Takes all of it away.
pub(crate) async fn delete_published(op: &Operation) -> Result<(), Fault> {
    let (namespace, name) = (op.shoot.garden_namespace.as_str(), |suffix| name(op, suffix));
    let internal = op.context.in_garden::<core::InternalSecret>(namespace);
    delete(&internal, &name(CA_CLIENT_SUFFIX)).await?;
    delete(&op.context.in_garden::<ConfigMap>(namespace), &name(CA_CLUSTER_SUFFIX)).await?;
    for suffix in [SSH_SUFFIX, SSH_OLD_SUFFIX] {
        delete(&op.context.in_garden::<Secret>(namespace), &name(suffix)).await?;
    }
    Ok(())
}

fn name(op: &Operation, suffix: &str) -> String {
    format!("{}.{suffix}", op.shoot.name)
}

/// Metadata of `<shoot>.<suffix>`, which goes with its Shoot.
fn metadata(op: &Operation, suffix: &str, role: &str) -> ObjectMeta {
    let shoot = &op.shoot;
    ObjectMeta {
        name: Some(name(op, suffix)),
        namespace: Some(shoot.garden_namespace.clone()),
        labels: Some(BTreeMap::from([
            (labels::ROLE.to_owned(), role.to_owned()),
            ("shoot.gardener.cloud/name".to_owned(), shoot.name.clone()),
        ])),
        owner_references: Some(vec![shoot.owner_reference()]),
        ..ObjectMeta::default()
    }
}

/// The authority of clients with its key, that of the server without.
async fn publish_authorities(op: &Operation, secrets: &ShootSecrets) -> Result<(), Fault> {
    let clients = secrets.get(CA_CLIENT)?.authority().map_err(ours)?;
    let cluster = secrets.get(CA)?.authorities().map_err(ours)?;
    let internal = core::InternalSecret {
        metadata: metadata(op, CA_CLIENT_SUFFIX, labels::role::CA_CLIENT),
        data: BTreeMap::from([
            (
                data::CA_CERTIFICATE.to_owned(),
                ByteString(clients.certificate_pem().into_bytes()),
            ),
            (
                data::CA_KEY.to_owned(),
                ByteString(clients.key_pem().expose().as_bytes().to_vec()),
            ),
        ]),
        type_: Some("Opaque".to_owned()),
        ..core::InternalSecret::default()
    };
    let namespace = op.shoot.garden_namespace.as_str();
    apply(&op.context.in_garden(namespace), &internal, MANAGER).await?;
    let public = ConfigMap {
        metadata: metadata(op, CA_CLUSTER_SUFFIX, labels::role::CA_CLUSTER),
        data: Some(BTreeMap::from([(data::CA_CERTIFICATE.to_owned(), cluster)])),
        ..ConfigMap::default()
    };
    apply(&op.context.in_garden(namespace), &public, MANAGER)
        .await
        .map(drop)
}

/// The key pairs that open the nodes to SSH; gone where they are closed to it.
async fn publish_ssh_key_pairs(op: &Operation, secrets: &ShootSecrets) -> Result<(), Fault> {
    let pair = match op.shoot.ssh_access() {
        true => Some(secrets.get(SSH_KEY_PAIR)?.clone()),
        false => None,
    };
    let (current, old) = pair.map_or((None, None), |pair| (Some(pair.current), pair.old));
    let api = op.context.in_garden::<Secret>(&op.shoot.garden_namespace);
    for (suffix, pair) in [(SSH_SUFFIX, current), (SSH_OLD_SUFFIX, old)] {
        let Some(pair) = pair else {
            delete(&api, &name(op, suffix)).await?;
            continue;
        };
        let published = Secret {
            metadata: metadata(op, suffix, labels::role::SSH_KEY_PAIR),
            type_: Some("Opaque".to_owned()),
            data: pair.data,
            ..Secret::default()
        };
        apply(&api, &published, MANAGER).await?;
    }
    Ok(())
}
