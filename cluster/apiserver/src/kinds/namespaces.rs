//! What the server itself sets in a namespace: its phase, its label, the finalizer of its content. Pure.
//! (kubernetes/kubernetes v1.35 pkg/registry/core/namespace)

use serde_json::{Value, json};

/// Made at start, and not to be deleted.
pub(crate) const SYSTEM: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// The finalizer in `spec` that waits for the namespace's content.
pub(crate) const CONTENT_FINALIZER: &str = "kubernetes";

/// Marks a namespace as going away. True: it waits for its content.
pub(crate) fn begin_deletion(namespace: &mut Value) -> bool {
    if let Some(fields) = namespace.as_object_mut() {
        let status = fields.entry("status").or_insert_with(|| json!({}));
        if let Some(status) = status.as_object_mut() {
            status.insert("phase".to_owned(), json!("Terminating"));
        }
    }
    !is_finalized(namespace)
}

/// Whether nothing waits for the namespace's content any more.
pub(crate) fn is_finalized(namespace: &Value) -> bool {
    let finalizers = namespace.pointer("/spec/finalizers").and_then(Value::as_array);
    finalizers.is_none_or(Vec::is_empty)
}

/// What a namespace gets on creation: active, named by a label, waiting for its content when it goes.
pub(crate) fn prepare(subresource: Option<&str>, namespace: &mut Value, old: Option<&Value>) {
    let name = crate::kinds::metadata::text(namespace, "name").to_owned();
    let Some(fields) = namespace.as_object_mut() else {
        return;
    };
    match (old, subresource) {
        (None, _) => {
            fields.insert("status".to_owned(), json!({"phase": "Active"}));
            let spec = fields.entry("spec").or_insert_with(|| json!({}));
            let finalizers = spec
                .as_object_mut()
                .map(|spec| spec.entry("finalizers").or_insert_with(|| json!([])));
            let finalizers = finalizers.and_then(Value::as_array_mut);
            if let Some(finalizers) = finalizers.filter(|list| !list.iter().any(|f| f == CONTENT_FINALIZER)) {
                finalizers.push(json!(CONTENT_FINALIZER));
            }
        }
        (Some(old), Some("finalize")) => {
            if let Some(status) = old.get("status") {
                fields.insert("status".to_owned(), status.clone());
            }
        }
        // Finalizers of the content are changed by `finalize` alone.
        (Some(old), _) => {
            match old.get("spec") {
                Some(spec) => fields.insert("spec".to_owned(), spec.clone()),
                None => fields.remove("spec"),
            };
        }
    }
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        let labels = metadata.entry("labels").or_insert_with(|| json!({}));
        if let Some(labels) = labels.as_object_mut().filter(|_| !name.is_empty()) {
            labels.insert("kubernetes.io/metadata.name".to_owned(), Value::String(name));
        }
    }
}
