//! What a server ensures when it starts: access rules, default namespaces, the Service `kubernetes`,
//! and the custom resources that its store holds already. Safe to run again.

use std::sync::Arc;

use cluster_builtin::SYSTEM_PRIORITIES;
use cluster_store::{Key, Page, Range};
use serde_json::{Value, json};

use crate::controllers::own_objects::{ensure, note_manager, update};
use crate::controllers::{
    api_service_availability, api_services, definition_conditions, definitions, kubernetes_service,
};
use crate::kinds::namespaces;
use crate::state::server_state::ServerState;
use crate::storage::errors::store_status;
use crate::storage::resource_names;
use crate::wire::status::Status;

pub(crate) async fn run(server: &Arc<ServerState>) -> Result<(), Status> {
    for name in namespaces::SYSTEM {
        let mut namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        namespaces::prepare(None, &mut namespace, None);
        let labels = json!({".": {}, "f:kubernetes.io/metadata.name": {}});
        note_manager(server, &mut namespace, json!({"f:metadata": {"f:labels": labels}}));
        ensure(server, Key::new("namespaces", None, name), namespace, false).await?;
    }
    crate::controllers::default_policy::run(server).await?;
    system_priorities(server).await?;
    kubernetes_service::run(server).await?;
    trust(server).await?;
    api_services::create(server).await?;
    api_service_availability::load(server).await?;
    let listing = server
        .store
        .list(&Range::all(resource_names::DEFINITIONS), Page::default())
        .await
        .map_err(store_status)?;
    for entry in &listing.entries {
        definitions::update_served_kinds(server, entry, false);
    }
    // Definitions that are not served get conditions: they have none yet, or can no longer be served. This comes after those
    // that are served, whose names are taken.
    for entry in &listing.entries {
        if !definitions::is_served(server, entry) {
            definition_conditions::establish(server, &entry.key)
                .await
                .map_err(store_status)?;
        }
    }
    crate::controllers::admission_loader::load(server).await
}

/// The ConfigMap from which servers behind this one read whom to trust. What has changed since the last start is updated.
async fn trust(server: &Arc<ServerState>) -> Result<(), Status> {
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

/// The priority classes of the system: pods may name them from the start.
async fn system_priorities(server: &Arc<ServerState>) -> Result<(), Status> {
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
