//! The kinds of which inputs are objects, built once each and independent of the input.

use std::sync::OnceLock;

use cluster_schema::Schema;
use serde_json::json;

/// Built-in kinds with many ways of merging and many defaults.
const BUILTIN: [(&str, &str, &str); 8] = [
    ("apps", "v1", "Deployment"),
    ("", "v1", "Pod"),
    ("", "v1", "Service"),
    ("", "v1", "ConfigMap"),
    ("networking.k8s.io", "v1", "NetworkPolicy"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole"),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
    ("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy"),
];

/// A kind: its group, version and name, if it is built in, and its schema.
#[derive(Clone)]
pub(crate) struct Kind {
    pub(crate) builtin: Option<(&'static str, &'static str, &'static str)>,
    pub(crate) schema: Schema,
}

/// The built-in kind of a name; for any other name a custom resource.
pub(crate) fn find(name: &str) -> Kind {
    static KINDS: OnceLock<Vec<Kind>> = OnceLock::new();
    let kinds = KINDS.get_or_init(|| {
        let builtin = BUILTIN.into_iter().map(|kind| {
            let (group, version, name) = kind;
            Kind {
                builtin: Some(kind),
                schema: cluster_builtin::schema(group, version, name).expect("a built-in kind"),
            }
        });
        let custom = [Schema::from_crd(&document()).expect("a good schema"), Schema::any()];
        let custom = custom.map(|schema| Kind { builtin: None, schema });
        custom.into_iter().chain(builtin).collect()
    });
    let builtin = kinds
        .iter()
        .find(|kind| kind.builtin.is_some_and(|(_, _, kind)| kind == name));
    builtin.unwrap_or(&kinds[usize::from(name == "Any")]).clone()
}

/// A custom resource with every way of merging.
fn document() -> serde_json::Value {
    let text = json!({"type": "string"});
    let port = json!({
        "type": "object", "required": ["port"],
        "properties": {"port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "name": text},
    });
    let container = json!({
        "type": "object", "required": ["name"],
        "properties": {
            "name": text, "image": text,
            "args": {"type": "array", "items": text, "x-kubernetes-list-type": "atomic"},
            "ports": {"type": "array", "items": port, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"]},
        },
    });
    let spec = json!({
        "type": "object",
        "properties": {
            "replicas": {"type": "integer", "default": 1, "minimum": 0},
            "either": {"x-kubernetes-int-or-string": true},
            "nothing": {"type": "string", "nullable": true},
            "containers": {"type": "array", "items": container, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
            "set": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
            "selector": {"type": "object", "additionalProperties": text, "x-kubernetes-map-type": "atomic"},
            "map": {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": text}},
            "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "template": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
        },
    });
    let status = json!({"type": "object", "properties": {"ready": {"type": "integer"}}});
    json!({"type": "object", "properties": {"spec": spec, "status": status}})
}
