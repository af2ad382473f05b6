//! Reading an object of Go's types that a patch has left without its version. It validates nothing.

use cluster_schema::Schema;
use serde_json::{Map, Value};

/// Whether an object has no version.
pub(crate) fn is_unversioned(object: &Value) -> bool {
    let version = object.get("apiVersion").and_then(Value::as_str);
    version.unwrap_or_default().is_empty()
}

/// Reads an object as kube-apiserver does where there is no version, by its internal type: what stands in metadata elsewhere
/// stands beside kind there, and no other field has the name that a client gives it. Those are returned as unknown
/// (kubernetes/kubernetes v1.35 `pkg/apis/*/types.go`, read by apimachinery `pkg/runtime/serializer/json`).
pub(crate) fn read(schema: &Schema, object: &mut Value) -> Vec<String> {
    let Some(fields) = object.as_object_mut() else {
        return Vec::new();
    };
    let declared = schema.field("metadata");
    let (mut metadata, mut unknown) = (Map::new(), Vec::new());
    for (name, value) in std::mem::take(fields) {
        if name == "apiVersion" || name == "kind" {
            fields.insert(name, value);
        } else if declared.is_some_and(|declared| declared.field(&name).is_some()) {
            metadata.insert(name, value);
        } else {
            unknown.push(format!("unknown field \"{name}\""));
        }
    }
    fields.insert("metadata".to_owned(), Value::Object(metadata));
    unknown
}
