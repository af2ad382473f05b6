//! Roles and bindings.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::Builtin;
use crate::cell::{age, join, list, name, name_and_creation, text};

pub(crate) fn printer(resource: &str) -> Option<Builtin> {
    match resource {
        "roles" | "clusterroles" => Some(Builtin {
            columns: &[("Name", "string", 0), ("Created At", "date", 0)],
            cells: name_and_creation,
        }),
        "rolebindings" | "clusterrolebindings" => Some(Builtin {
            columns: &[
                ("Name", "string", 0),
                ("Role", "string", 0),
                ("Age", "string", 0),
                ("Users", "string", 1),
                ("Groups", "string", 1),
                ("ServiceAccounts", "string", 1),
            ],
            cells: binding,
        }),
        _ => None,
    }
}

fn binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let of = |kind: &str| -> Vec<String> {
        let subjects = list(object, "/subjects")
            .iter()
            .filter(|subject| text(subject, "/kind") == kind);
        subjects
            .map(|subject| match kind {
                "ServiceAccount" => format!("{}/{}", text(subject, "/namespace"), text(subject, "/name")),
                _ => text(subject, "/name").to_owned(),
            })
            .collect()
    };
    let role = format!("{}/{}", text(object, "/roleRef/kind"), text(object, "/roleRef/name"));
    let [users, groups, accounts] = ["User", "Group", "ServiceAccount"].map(|kind| json!(join(of(kind), ", ", "")));
    vec![name(object), json!(role), age(object, now), users, groups, accounts]
}
