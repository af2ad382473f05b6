//! Rules of roles and their bindings (Kubernetes v1.35 `pkg/apis/rbac/validation`).

use cluster_fields::{FieldError, FieldPath};
use serde_json::Value;

use crate::json::fields::{elements, text};
use crate::messages::internal_types;
use crate::rules::checks::require;

pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";

/// Validates Roles and ClusterRoles.
pub(crate) fn role(kind: &str, object: &Value, errors: &mut Vec<FieldError>) {
    let root = FieldPath::Root;
    let path = root.field("rules");
    for (index, rule) in elements(object, "rules").enumerate() {
        let at = path.index(index);
        let any = |name: &str| elements(rule, name).next().is_some();
        if !any("verbs") {
            errors.push(FieldError::required(
                at.field("verbs"),
                "verbs must contain at least one value",
            ));
        }
        if any("nonResourceURLs") {
            if kind == "Role" {
                let words = "namespaced rules cannot apply to non-resource URLs";
                errors.push(FieldError::invalid(
                    at.field("nonResourceURLs"),
                    rule["nonResourceURLs"].clone(),
                    words,
                ));
            }
            if any("apiGroups") || any("resources") || any("resourceNames") {
                let words = "rules cannot apply to both regular resources and non-resource URLs";
                errors.push(FieldError::invalid(
                    at.field("nonResourceURLs"),
                    rule["nonResourceURLs"].clone(),
                    words,
                ));
            }
            continue;
        }
        if !any("apiGroups") {
            errors.push(FieldError::required(
                at.field("apiGroups"),
                "resource rules must supply at least one api group",
            ));
        }
        if !any("resources") {
            errors.push(FieldError::required(
                at.field("resources"),
                "resource rules must supply at least one resource",
            ));
        }
    }
}

/// Validates RoleBindings and ClusterRoleBindings.
pub(crate) fn binding(binding: &str, object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let root = FieldPath::Root;
    let path = root.field("roleRef");
    let role = &object["roleRef"];
    if text(role, "apiGroup") != GROUP {
        errors.push(FieldError::not_supported(
            path.field("apiGroup"),
            text(role, "apiGroup"),
            &[GROUP],
        ));
    }
    let kinds: &[&str] = if binding == "RoleBinding" {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    if !kinds.contains(&text(role, "kind")) {
        errors.push(FieldError::not_supported(path.field("kind"), text(role, "kind"), kinds));
    }
    require(role, "name", &path, errors);
    let path = root.field("subjects");
    for (index, subject) in elements(object, "subjects").enumerate() {
        let at = path.index(index);
        require(subject, "name", &at, errors);
        let (kind, group) = (text(subject, "kind"), text(subject, "apiGroup"));
        match kind {
            "ServiceAccount" => {
                if !group.is_empty() {
                    errors.push(FieldError::not_supported(at.field("apiGroup"), group, &[""]));
                }
                if binding == "ClusterRoleBinding" {
                    require(subject, "namespace", &at, errors);
                }
            }
            "User" | "Group" => {
                if group != GROUP {
                    errors.push(FieldError::not_supported(at.field("apiGroup"), group, &[GROUP]));
                }
            }
            _ => errors.push(FieldError::not_supported(
                at.field("kind"),
                kind,
                &["ServiceAccount", "User", "Group"],
            )),
        }
    }
    if old.is_some_and(|old| old["roleRef"] != *role) {
        let error = FieldError::invalid("roleRef", role.clone(), "cannot change roleRef");
        errors.push(error.shown_as(internal_types::line("RoleRef", role)));
    }
}
