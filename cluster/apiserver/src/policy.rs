//! Access rules: what aggregated roles collect, and the check that nobody grants more than they hold.
//! (kubernetes/kubernetes v1.35 pkg/controller/clusterroleaggregation, pkg/registry/rbac/*/policybased)

use std::sync::Arc;

use cluster_access::ResourceTarget;
use cluster_store::{Entry, Key, Object, StoreError};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef};
use serde_json::{Value, json};

use crate::context::Context;
use crate::server::Inner;
use crate::status::Status;

pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";
const AGGREGATION: &[u8] = b"\"aggregationRule\"";
/// How often a role is written anew when others write in between.
const AGGREGATE_TRIES_MAX: usize = 5;

/// Writes the rules that aggregated roles have by now into them, so that people see what the authorizer goes by.
pub(crate) fn aggregate_later(server: &Arc<Inner>, written: &Entry) {
    // Only a cluster role with labels can be part of another, and only one with a rule for that has parts.
    let rule = || {
        written
            .object
            .bytes()
            .windows(AGGREGATION.len())
            .any(|window| window == AGGREGATION)
    };
    let concerns =
        written.key.resource.ends_with("/clusterroles") && (!written.object.meta().labels.is_empty() || rule());
    if !concerns {
        return;
    }
    let roles: Vec<String> = server
        .access
        .rbac
        .read(|index| index.aggregated_roles().map(str::to_owned).collect());
    if roles.is_empty() {
        return;
    }
    let server = server.clone();
    server.clone().tasks.spawn(async move {
        for role in roles {
            if let Err(error) = aggregate(&server, &role).await {
                tracing::warn!(server = %server.name, role, %error, "an aggregated role was not written");
            }
        }
    });
}

pub(crate) async fn aggregate(server: &Arc<Inner>, role: &str) -> Result<(), StoreError> {
    let key = Key::new(format!("{GROUP}/clusterroles"), None, role);
    for _ in 0..AGGREGATE_TRIES_MAX {
        let Some(entry) = server.store.get(&key).await? else {
            return Ok(());
        };
        let rules = server
            .access
            .rbac
            .read(|index| index.aggregated_rules(role).map(|rules| json!(rules)));
        let mut object = entry.object.value(entry.revision);
        let rules = rules.filter(|rules| object.get("rules") != Some(rules));
        let (Some(rules), Some(fields)) = (rules, object.as_object_mut()) else {
            return Ok(());
        };
        fields.insert("rules".to_owned(), rules);
        match server
            .store
            .update(&key, entry.revision, Object::from_value(object)?)
            .await
        {
            Err(StoreError::Conflict { .. }) => {}
            outcome => return outcome.map(|_| ()),
        }
    }
    Ok(())
}

/// Refuses a role with rules its writer does not hold (unless they may `escalate`), and a binding to a role whose
/// rules its writer does not hold (unless they may `bind`).
pub(crate) fn check(context: &Context, object: &Value, old: Option<&Value>) -> Result<(), Status> {
    if context.served.group() != GROUP {
        return Ok(());
    }
    let resource = context.served.plural();
    let name = crate::metadata::text(object, "name");
    let namespace = context.namespace().unwrap_or_default();
    let unchanged = |field: &str| old.is_some_and(|old| old.get(field) == object.get(field));
    let outcome = match resource {
        // By its labels a role's rules become those of others.
        "roles" | "clusterroles" if unchanged("rules") && unchanged("aggregationRule") && same_labels(object, old) => {
            Ok(())
        }
        "roles" | "clusterroles" => {
            let rules = rules(resource, object)?;
            let target = ResourceTarget {
                group: GROUP.to_owned(),
                version: "v1".to_owned(),
                resource: resource.to_owned(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                ..ResourceTarget::default()
            };
            // What will be collected some day is unknown, and so is what a rule that goes has kept in bounds.
            let collects = has_selectors(object) || old.is_some_and(has_selectors);
            context.server.access.rbac.read(|index| {
                index.may_grant_rules(&context.user, &target, &rules)?;
                if collects && !index.may_grant_everything(&context.user, &target) {
                    return Err("must have cluster-admin privileges to use an aggregationRule".to_owned());
                }
                Ok(())
            })
        }
        _ if unchanged("roleRef") && unchanged("subjects") => Ok(()),
        _ => {
            let role = role_ref(resource, object)?;
            context
                .server
                .access
                .rbac
                .read(|index| index.may_bind(&context.user, namespace, &role))
        }
    };
    outcome.map_err(|why| Status::forbidden(GROUP, resource, name, &why))
}

fn has_selectors(role: &Value) -> bool {
    let selectors = role.pointer("/aggregationRule/clusterRoleSelectors");
    selectors
        .and_then(Value::as_array)
        .is_some_and(|selectors| !selectors.is_empty())
}

fn same_labels(object: &Value, old: Option<&Value>) -> bool {
    fn labels(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
        let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
        labels.into_iter().flatten()
    }
    old.is_some_and(|old| labels(old).eq(labels(object)))
}

fn parse<T: serde::de::DeserializeOwned>(object: &Value) -> Result<T, Status> {
    serde_json::from_value(object.clone()).map_err(|error| Status::bad_request(error.to_string()))
}

fn rules(resource: &str, object: &Value) -> Result<Vec<PolicyRule>, Status> {
    let rules = match resource {
        "roles" => parse::<Role>(object)?.rules,
        _ => parse::<ClusterRole>(object)?.rules,
    };
    Ok(rules.unwrap_or_default())
}

fn role_ref(resource: &str, object: &Value) -> Result<RoleRef, Status> {
    match resource {
        "rolebindings" => Ok(parse::<RoleBinding>(object)?.role_ref),
        _ => Ok(parse::<ClusterRoleBinding>(object)?.role_ref),
    }
}
