//! Objects as this extension writes them: marked as its own, so that its ledger finds them again.

use std::collections::BTreeMap;
use std::time::Duration;

use api_meta::{Fault, LocalObjectReference};
use api_resources::{ManagedResource, ManagedResourceSpec};
use base_client::{apply, delete, delete_and_wait};
use extensions_sdk::{Context, managed};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client, ResourceExt};
use serde::Serialize;

use crate::run::EXTENSION_NAME;

/// On everything this extension makes; the value is the kind it was made for.
pub(crate) const MADE_FOR_LABEL: &str = "provider-local.orangery.dev/made-for";
/// How long resource-manager may take to remove what a ManagedResource put into a shoot (upstream's value).
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(120);

/// Metadata of an object made for `made_for`.
pub(crate) fn meta(namespace: &str, name: &str, made_for: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(namespace.to_owned()),
        labels: Some(BTreeMap::from([(MADE_FOR_LABEL.to_owned(), made_for.to_owned())])),
        ..Default::default()
    }
}

/// Applies a ConfigMap.
pub(crate) async fn apply_config_map(
    client: &Client,
    metadata: ObjectMeta,
    data: BTreeMap<String, String>,
) -> Result<(), Fault> {
    let namespace = metadata.namespace.clone().unwrap_or_default();
    let map = ConfigMap {
        metadata,
        data: Some(data),
        ..Default::default()
    };
    apply(&Api::namespaced(client.clone(), &namespace), &map, EXTENSION_NAME)
        .await
        .map(drop)
}

/// Applies a Secret.
pub(crate) async fn apply_secret(
    client: &Client,
    metadata: ObjectMeta,
    data: BTreeMap<String, Vec<u8>>,
) -> Result<(), Fault> {
    let namespace = metadata.namespace.clone().unwrap_or_default();
    let data = data.into_iter().map(|(key, bytes)| (key, ByteString(bytes))).collect();
    let secret = Secret {
        metadata,
        data: Some(data),
        type_: Some("Opaque".to_owned()),
        ..Default::default()
    };
    apply(&Api::namespaced(client.clone(), &namespace), &secret, EXTENSION_NAME)
        .await
        .map(drop)
}

/// Applies a ManagedResource that puts `object` into the shoot.
pub(crate) async fn apply_in_shoot<T: Serialize>(
    client: &Client,
    metadata: ObjectMeta,
    object: &T,
) -> Result<(), Fault> {
    // JSON is YAML, which is what resource-manager reads.
    let manifest = serde_json::to_vec(object).map_err(Fault::bug)?;
    let namespace = metadata.namespace.clone().unwrap_or_default();
    let name = metadata.name.clone().unwrap_or_default();
    apply_secret(
        client,
        metadata.clone(),
        BTreeMap::from([("manifest.yaml".to_owned(), manifest)]),
    )
    .await?;
    let managed = ManagedResource {
        metadata,
        spec: ManagedResourceSpec {
            secret_refs: vec![LocalObjectReference { name }],
            ..Default::default()
        },
        status: None,
    };
    apply(&Api::namespaced(client.clone(), &namespace), &managed, EXTENSION_NAME)
        .await
        .map(drop)
}

/// Removes what [`apply_in_shoot`] made, from the shoot too, and waits until it is gone.
pub(crate) async fn remove_from_shoot(client: &Client, namespace: &str, name: &str) -> Result<(), Fault> {
    let resources: Api<ManagedResource> = Api::namespaced(client.clone(), namespace);
    delete_and_wait(&resources, name, REMOVAL_TIMEOUT).await?;
    delete::<Secret>(&Api::namespaced(client.clone(), namespace), name).await
}

/// Forgets what [`apply_in_shoot`] made, and leaves it in the shoot: for a migration, and where the shoot may be out of reach.
pub(crate) async fn leave_in_shoot(context: &Context, object: &impl ResourceExt, name: &str) -> Result<(), Fault> {
    let (client, namespace) = (&context.client, object.namespace().unwrap_or_default());
    let leaving = async {
        managed::set_keep_objects(client, &namespace, name, true).await?;
        remove_from_shoot(client, &namespace, name).await
    };
    context.unless_obsolete(leaving).await
}
