//! What a server makes sure of when it starts: access rules, default namespaces, the Service `kubernetes`,
//! and the custom resources that its store holds already. Safe to run again.

use std::sync::Arc;

use cluster_schema::builtin::SYSTEM_PRIORITIES;
use cluster_store::{Entry, Key, Object, Page, Range, StoreError};
use serde_json::{Value, json};

use crate::context::store_status;
use crate::server::Inner;
use crate::status::Status;
use crate::{aggregation, crds, establish, kubernetes_service, metadata, namespaces};

/// Who has written what a server makes for itself.
const MANAGER: &str = "kube-apiserver";

pub(crate) async fn run(server: &Arc<Inner>) -> Result<(), Status> {
    for name in namespaces::SYSTEM {
        let mut namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        namespaces::prepare(None, &mut namespace, None);
        let labels = json!({".": {}, "f:kubernetes.io/metadata.name": {}});
        note_manager(server, &mut namespace, json!({"f:metadata": {"f:labels": labels}}));
        ensure(server, Key::new("namespaces", None, name), namespace, false).await?;
    }
    crate::default_policy::run(server).await?;
    system_priorities(server).await?;
    kubernetes_service::run(server).await?;
    trust(server).await?;
    aggregation::make(server).await?;
    aggregation::load(server).await?;
    let listing = server
        .store
        .list(&Range::all(crds::STORE_NAME), Page::default())
        .await
        .map_err(store_status)?;
    for entry in &listing.entries {
        crds::written(server, entry, false);
    }
    // Of others nobody has said yet whether they are served, or they cannot be any more: they shall say so. After the
    // first, for names that others have already are theirs.
    for entry in &listing.entries {
        if !crds::is_served(server, entry) {
            establish::establish(server, &entry.key).await.map_err(store_status)?;
        }
    }
    crate::admission::load(server).await
}

/// Notes who writes these fields: the server itself, as kube-apiserver does. Written out, so that no start has to read the
/// schemas of the kinds.
pub(crate) fn note_manager(server: &Inner, object: &mut Value, fields: Value) {
    let entry = json!({
        "manager": MANAGER, "operation": "Update", "apiVersion": object["apiVersion"],
        "time": metadata::timestamp(server.clock.now()), "fieldsType": "FieldsV1", "fieldsV1": fields,
    });
    object["metadata"]["managedFields"] = json!([entry]);
}

/// Creates what is missing; what is there stays as it is.
pub(crate) async fn ensure(
    server: &Arc<Inner>,
    key: Key,
    mut object: Value,
    generation: bool,
) -> Result<Option<Entry>, Status> {
    if server.store.get(&key).await.map_err(store_status)?.is_some() {
        return Ok(None);
    }
    let metadata = metadata::of_mut(&mut object)?;
    metadata.insert("uid".to_owned(), Value::String(server.entropy.uid()));
    metadata.insert(
        "creationTimestamp".to_owned(),
        Value::String(metadata::timestamp(server.clock.now())),
    );
    if let Some(namespace) = &key.namespace {
        metadata.insert("namespace".to_owned(), Value::from(&**namespace));
    }
    if generation {
        metadata.insert("generation".to_owned(), Value::from(1));
    }
    let object = Object::from_value(object).map_err(Status::internal)?;
    match server.store.create(key, object).await {
        Ok(entry) => Ok(Some(entry)),
        // Another server over the same store was faster.
        Err(StoreError::Exists { .. }) => Ok(None),
        Err(error) => Err(store_status(error)),
    }
}

/// What servers behind this one read to trust whom it trusts. What changed since the last start is written anew.
async fn trust(server: &Arc<Inner>) -> Result<(), Status> {
    if server.access.trust.is_empty() {
        return Ok(());
    }
    let key = Key::new("configmaps", Some("kube-system"), "extension-apiserver-authentication");
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": &*key.name}, "data": server.access.trust,
    });
    if ensure(server, key.clone(), map, false).await?.is_some() {
        return Ok(());
    }
    let Some(entry) = server.store.get(&key).await.map_err(store_status)? else {
        return Ok(());
    };
    let mut object = entry.object.value(entry.revision);
    let mut data = object["data"].clone();
    for (name, value) in &server.access.trust {
        data[name] = Value::from(value.as_str());
    }
    if data == object["data"] {
        return Ok(());
    }
    object["data"] = data;
    update(server, &entry, object).await
}

/// Writes an object that the server keeps for itself, unless another server over the same store was faster.
pub(crate) async fn update(server: &Inner, entry: &Entry, object: Value) -> Result<(), Status> {
    let object = Object::from_value(object).map_err(Status::internal)?;
    match server.store.update(&entry.key, entry.revision, object).await {
        Ok(_) | Err(StoreError::Conflict { .. } | StoreError::Missing { .. }) => Ok(()),
        Err(error) => Err(store_status(error)),
    }
}

/// The priority classes of the system: pods may name them from the start.
async fn system_priorities(server: &Arc<Inner>) -> Result<(), Status> {
    for ((name, value), what) in SYSTEM_PRIORITIES.into_iter().zip([
        "Used for system critical pods that must not be moved from their current node.",
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ]) {
        let mut class = json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value,
            "description": what, "preemptionPolicy": "PreemptLowerPriority",
        });
        note_manager(
            server,
            &mut class,
            json!({"f:description": {}, "f:preemptionPolicy": {}, "f:value": {}}),
        );
        let key = Key::new("scheduling.k8s.io/priorityclasses", None, name);
        ensure(server, key, class, true).await?;
    }
    Ok(())
}
