//! The default access rules: a server creates those that are missing when it starts, and adds to the others what they lack.
//! What users have added stays, except the group of all nodes in the binding of `system:node`, which is removed; what they
//! have annotated to be excluded stays as it is.
//! (kubernetes/kubernetes v1.35 pkg/registry/rbac/rest/storage_rbac.go, component-helpers/auth/rbac/reconciliation)

use std::sync::Arc;

use cluster_access::{bootstrap_policy, group, not_held};
use cluster_store::{Entry, Key, Object, Page, Range, StoreError};
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde::Serialize;
use serde_json::{Value, json};

use crate::controllers::aggregated_roles::aggregate;
use crate::controllers::own_objects::ensure;
use crate::state::server_state::ServerState;
use crate::storage::errors::store_status;
use crate::storage::resource_names::RBAC;
use crate::wire::status::Status;

/// The kinds of access rules.
pub(crate) const RESOURCES: [&str; 4] = ["clusterroles", "clusterrolebindings", "roles", "rolebindings"];
/// With the value `false`, a default is left as it is.
const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";
const SELECTORS: &str = "/aggregationRule/clusterRoleSelectors";
/// How often one is written again when another server over the same store writes in between.
const TRIES_MAX: usize = 5;

/// Creates and completes the default rules, and loads all rules into the authorizer.
pub(crate) async fn run(server: &Arc<ServerState>) -> Result<(), Status> {
    let policy = bootstrap_policy();
    put_all(server, "clusterroles", "ClusterRole", &policy.cluster_roles).await?;
    put_all(
        server,
        "clusterrolebindings",
        "ClusterRoleBinding",
        &policy.cluster_role_bindings,
    )
    .await?;
    put_all(server, "roles", "Role", &policy.roles).await?;
    put_all(server, "rolebindings", "RoleBinding", &policy.role_bindings).await?;
    unbind_nodes(server).await.map_err(store_status)?;
    for resource in RESOURCES {
        let range = Range::all(format!("{RBAC}/{resource}"));
        let listing = server.store.list(&range, Page::default()).await.map_err(store_status)?;
        for entry in &listing.entries {
            server.access.update_rbac(&entry.key, Some(&entry.object));
        }
    }
    let roles: Vec<String> = server
        .access
        .rbac
        .read(|index| index.aggregated_roles().map(str::to_owned).collect());
    for role in roles {
        aggregate(server, &role).await.map_err(store_status)?;
    }
    Ok(())
}

/// All at once: a store on a disk makes them durable together.
async fn put_all<T: Serialize>(server: &Arc<ServerState>, resource: &str, kind: &str, all: &[T]) -> Result<(), Status> {
    let puts = all.iter().map(|object| put(server, resource, kind, object));
    futures::future::try_join_all(puts).await.map(drop)
}

async fn put<T: Serialize>(server: &Arc<ServerState>, resource: &str, kind: &str, object: &T) -> Result<(), Status> {
    let mut object = serde_json::to_value(object).map_err(Status::internal)?;
    object["apiVersion"] = json!(format!("{RBAC}/v1"));
    object["kind"] = json!(kind);
    let text = |field: &str| object.pointer(&format!("/metadata/{field}")).and_then(Value::as_str);
    let name = text("name").unwrap_or_default();
    let key = Key::new(format!("{RBAC}/{resource}"), text("namespace"), name);
    for _ in 0..TRIES_MAX {
        let Some(entry) = server.store.get(&key).await.map_err(store_status)? else {
            break;
        };
        match complete(server, &entry, &object).await {
            // The role of a binding is immutable: a binding to another role is recreated.
            Ok(Completed::MustBeRecreated) => match server.store.delete(&key, entry.revision).await {
                Err(StoreError::Conflict { .. } | StoreError::Missing { .. }) => {}
                outcome => drop(outcome.map_err(store_status)?),
            },
            Err(StoreError::Conflict { .. } | StoreError::Missing { .. }) => {}
            outcome => return outcome.map(drop).map_err(store_status),
        }
    }
    ensure(server, key, object, false).await.map(drop)
}

enum Completed {
    Done,
    MustBeRecreated,
}

async fn complete(server: &Arc<ServerState>, entry: &Entry, default: &Value) -> Result<Completed, StoreError> {
    let stored = entry.object.value(entry.revision);
    if is_excluded(&stored) {
        return Ok(Completed::Done);
    }
    if stored.get("roleRef") != default.get("roleRef") {
        return Ok(Completed::MustBeRecreated);
    }
    let completed = completed(&stored, default);
    if completed != stored {
        let object = Object::from_value(completed)?;
        server.store.update(&entry.key, entry.revision, object).await?;
    }
    Ok(Completed::Done)
}

fn is_excluded(stored: &Value) -> bool {
    let annotations = stored.pointer("/metadata/annotations");
    annotations.and_then(|annotations| annotations.get(AUTOUPDATE)) == Some(&json!("false"))
}

/// `stored` with what it lacks of `default`.
fn completed(stored: &Value, default: &Value) -> Value {
    let mut object = stored.clone();
    for field in ["labels", "annotations"] {
        let wanted = default
            .pointer(&format!("/metadata/{field}"))
            .and_then(Value::as_object);
        let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
        let (Some(wanted), Some(metadata)) = (wanted, metadata) else {
            continue;
        };
        let own = metadata.entry(field).or_insert_with(|| json!({}));
        for (key, value) in wanted {
            if let Some(own) = own.as_object_mut().filter(|own| !own.contains_key(key)) {
                own.insert(key.clone(), value.clone());
            }
        }
    }
    let Some(fields) = object.as_object_mut() else {
        return object;
    };
    let missing = not_held(&rules(stored), &rules(default));
    extend(fields, "rules", missing.iter().map(|rule| json!(rule)));
    let subjects = elements(default.get("subjects"));
    let missing = subjects.filter(|subject| !elements(stored.get("subjects")).any(|own| own == *subject));
    extend(fields, "subjects", missing.cloned());
    match default.get("aggregationRule") {
        None => drop(fields.remove("aggregationRule")),
        Some(_) => {
            let missing = elements(default.pointer(SELECTORS))
                .filter(|selector| !elements(stored.pointer(SELECTORS)).any(|own| own == *selector));
            let own = fields.entry("aggregationRule").or_insert_with(|| json!({}));
            if let Some(own) = own.as_object_mut() {
                extend(own, "clusterRoleSelectors", missing.cloned());
            }
        }
    }
    object
}

fn elements(list: Option<&Value>) -> impl Iterator<Item = &Value> {
    list.and_then(Value::as_array).into_iter().flatten()
}

/// Adds to a list, which may not be there yet.
fn extend(fields: &mut serde_json::Map<String, Value>, list: &str, more: impl Iterator<Item = Value>) {
    let more: Vec<Value> = more.collect();
    if more.is_empty() {
        return;
    }
    let list = fields.entry(list).or_insert_with(|| json!([]));
    match list {
        Value::Array(list) => list.extend(more),
        other => *other = Value::Array(more),
    }
}

/// The rules that can be decoded; the schema admits no others.
fn rules(role: &Value) -> Vec<PolicyRule> {
    let rules = elements(role.get("rules"));
    rules
        .filter_map(|rule| serde_json::from_value(rule.clone()).ok())
        .collect()
}

/// Removes the group of all nodes, bound by earlier versions that did not authorize each node, unless the binding is excluded.
async fn unbind_nodes(server: &Arc<ServerState>) -> Result<(), StoreError> {
    let key = Key::new(format!("{RBAC}/clusterrolebindings"), None, "system:node");
    for attempt in 1.. {
        let Some(entry) = server.store.get(&key).await? else {
            break;
        };
        let Some(binding) = without_nodes(entry.object.value(entry.revision)) else {
            break;
        };
        let object = Object::from_value(binding)?;
        match server.store.update(&key, entry.revision, object).await {
            Err(StoreError::Conflict { .. } | StoreError::Missing { .. }) if attempt < TRIES_MAX => {}
            outcome => return outcome.map(drop),
        }
    }
    Ok(())
}

/// The binding without the group of all nodes. None: it has no such subject, or is excluded.
fn without_nodes(mut binding: Value) -> Option<Value> {
    if is_excluded(&binding) {
        return None;
    }
    let subjects = binding.get_mut("subjects").and_then(Value::as_array_mut)?;
    let before = subjects.len();
    subjects.retain(|subject| {
        subject.get("kind") != Some(&json!("Group")) || subject.get("name") != Some(&json!(group::NODES))
    });
    (subjects.len() < before).then_some(binding)
}
