//! The APIServices of what this server serves itself: with them, clients find all groups in one place, with their priorities.
//! Those of its own kinds are created when it starts, those of definitions are created and deleted with these.
//! (kubernetes/kubernetes v1.35 pkg/controlplane/apiserver/aggregator.go, cmd/kube-apiserver/app/aggregator.go,
//! pkg/controlplane/controller/crdregistration)

use std::collections::BTreeSet;
use std::sync::Arc;

use cluster_patch::{UpdateOptions, track_update};
use cluster_schema::Schema;
use cluster_store::{Key, Page, Range, StoreError};
use serde_json::{Value, json};

use crate::controllers::api_service_availability::{MANAGER, local_condition};
use crate::controllers::own_objects::ensure;
use crate::discovery::documents::{group_names, version_names};
use crate::discovery::priority::{DEFINED, priority};
use crate::kinds::registry::Role;
use crate::state::server_state::ServerState;
use crate::storage::errors::store_status;
use crate::storage::resource_names::{API_REGISTRATION, API_SERVICES};
use crate::wire::status::Status;

/// The label of APIServices that a server manages; its value says when.
const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
const ON_START: &str = "onstart";
const ALWAYS: &str = "true";

/// Creates those of the kinds that the server was built with. One that is deleted later is missing until the next start.
pub(crate) async fn create(server: &Arc<ServerState>) -> Result<(), Status> {
    let kinds = server.registry.snapshot();
    if kinds.find(API_REGISTRATION, "apiservices").is_none() {
        return Ok(());
    }
    let groups = group_names(&kinds);
    let places = groups
        .iter()
        .filter(|group| *group != API_REGISTRATION)
        .flat_map(|group| {
            let versions = version_names(&kinds, group);
            versions.into_iter().map(move |version| (group, version))
        });
    // All at once: a store on a disk makes them durable together.
    let puts = places.map(|(group, version)| async move {
        put(server, group, &version, ON_START, priority(group, &version, false)).await
    });
    futures::future::try_join_all(puts).await.map(drop)
}

async fn put(
    server: &Arc<ServerState>,
    group: &str,
    version: &str,
    managed: &str,
    (of_group, of_version): (i64, i64),
) -> Result<(), Status> {
    let name = format!("{version}.{group}");
    let mut spec = json!({"groupPriorityMinimum": of_group, "version": version, "versionPriority": of_version});
    if !group.is_empty() {
        spec["group"] = Value::from(group);
    }
    let now = server.clock.now();
    let mut object = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": name, "labels": {MANAGED: managed}}, "spec": spec,
    });
    let options = UpdateOptions {
        manager: MANAGER,
        subresource: "",
        time: now,
        api_version: "apiregistration.k8s.io/v1",
    };
    let kinds = server.registry.snapshot();
    let schema = kinds
        .find(API_REGISTRATION, "apiservices")
        .and_then(|served| served.kind.schema("v1"));
    track_update(None, &mut object, options, &schema.unwrap_or_else(Schema::any));
    object["status"] = json!({"conditions": [local_condition(now)]});
    ensure(server, Key::new(API_SERVICES, None, name.as_str()), object, false).await?;
    Ok(())
}

/// Creates and deletes APIServices after a definition of the group was created, changed or deleted, on a task of the server.
pub(crate) fn sync_later(server: &Arc<ServerState>, group: &str) {
    if server
        .registry
        .snapshot()
        .find(API_REGISTRATION, "apiservices")
        .is_none()
    {
        return;
    }
    let (server, group) = (server.clone(), group.to_owned());
    server.clone().tasks.spawn(async move {
        if let Err(error) = sync(&server, &group).await {
            tracing::warn!(server = %server.name, group, %error, "the APIServices of a group were not updated");
        }
    });
}

async fn sync(server: &Arc<ServerState>, group: &str) -> Result<(), Status> {
    let kinds = server.registry.snapshot();
    let defined = kinds.of_group(group).filter(|served| served.role == Role::Custom);
    let versions: BTreeSet<String> = defined
        .flat_map(|served| &served.info().versions)
        .filter(|version| version.served)
        .map(|version| version.name.to_string())
        .collect();
    for version in &versions {
        put(server, group, version, ALWAYS, DEFINED).await?;
    }
    let listing = server.store.list(&Range::all(API_SERVICES), Page::default()).await;
    for entry in listing.map_err(store_status)?.entries {
        let object = entry.object.value(entry.revision);
        let text = |field: &str| object["spec"][field].as_str().unwrap_or_default();
        let managed = object["metadata"]["labels"][MANAGED] == ALWAYS;
        if !managed || text("group") != group || versions.contains(text("version")) {
            continue;
        }
        match server.store.delete(&entry.key, entry.revision).await {
            Ok(gone) => server.aggregation.update_routes(&gone, true),
            Err(StoreError::Conflict { .. } | StoreError::Missing { .. }) => {}
            Err(error) => return Err(store_status(error)),
        }
    }
    Ok(())
}
