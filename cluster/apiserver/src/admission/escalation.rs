//! No one grants more than they hold: the check of roles and bindings that are written. It changes nothing.
//! (kubernetes/kubernetes v1.35 pkg/registry/rbac/*/policybased)

use cluster_access::ResourceTarget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef};
use serde_json::Value;

use crate::state::context::Context;
use crate::storage::resource_names::RBAC;
use crate::wire::status::Status;

/// Refuses a role with rules its writer does not hold (unless they may `escalate`), and a binding to a role whose
/// rules its writer does not hold (unless they may `bind`).
pub(crate) fn check(context: &Context, object: &Value, old: Option<&Value>) -> Result<(), Status> {
    if context.served.group() != RBAC {
        return Ok(());
    }
    let resource = context.served.plural();
    let name = crate::kinds::metadata::text(object, "name");
    let namespace = context.namespace().unwrap_or_default();
    let unchanged = |field: &str| old.is_some_and(|old| old.get(field) == object.get(field));
    let outcome = match resource {
        // Labels decide into which aggregated roles the rules of a role go.
        "roles" | "clusterroles" if unchanged("rules") && unchanged("aggregationRule") && same_labels(object, old) => {
            Ok(())
        }
        "roles" | "clusterroles" => {
            let rules = rules(resource, object)?;
            let target = ResourceTarget {
                group: RBAC.to_owned(),
                version: "v1".to_owned(),
                resource: resource.to_owned(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                ..ResourceTarget::default()
            };
            // An aggregation rule can gather any rules, and one that is removed no longer replaces what users write.
            let aggregates = has_selectors(object) || old.is_some_and(has_selectors);
            context.server.access.rbac.read(|index| {
                index.may_grant_rules(&context.user, &target, &rules)?;
                if aggregates && !index.may_grant_everything(&context.user, &target) {
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
    outcome.map_err(|why| Status::forbidden(RBAC, resource, name, &why))
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
