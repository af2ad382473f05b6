//! The life of namespaces: nothing is created in one that is missing or going away; one that goes away stays until
//! its finalizers are taken off. Emptying it is a controller's work.
//! (kubernetes/kubernetes v1.35 plugin/pkg/admission, pkg/registry/core/namespace)

use cluster_store::Key;
use serde_json::{Value, json};

use crate::context::{Context, store_status};
use crate::registry::Role;
use crate::status::{Cause, Status};

/// Made at start, and not to be deleted.
pub(crate) const SYSTEM: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
/// The finalizer in `spec` that waits for the namespace's content.
pub(crate) const CONTENT_FINALIZER: &str = "kubernetes";

/// Refuses a create in a namespace that is missing or going away.
pub(crate) async fn check_open(context: &Context, name: &str) -> Result<(), Status> {
    let Some(namespace) = context.namespace() else {
        return Ok(());
    };
    let key = Key::new("namespaces", None, namespace);
    // Of a server in front this is asked anew: what a watch has reported may be older than the request.
    let entry = match &context.server.in_front {
        Some(front) => front.get_now(&key).await,
        None => context.server.store.get(&key).await,
    };
    let entry = entry.map_err(store_status)?;
    let entry = entry.ok_or_else(|| Status::not_found("", "namespaces", namespace))?;
    if entry.object.meta().deletion_timestamp.is_none() {
        return Ok(());
    }
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    Err(
        Status::forbidden(context.served.group(), context.served.plural(), name, &why).because(Cause {
            reason: "NamespaceTerminating".to_owned(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".to_owned(),
        }),
    )
}

/// Refuses the deletion of what every cluster has.
pub(crate) fn check_deletable(context: &Context, name: &str) -> Result<(), Status> {
    let protected = context.served.role == Role::Namespace && matches!(name, "default" | "kube-system" | "kube-public");
    if !protected {
        return Ok(());
    }
    Err(Status::forbidden(
        "",
        "namespaces",
        name,
        "this namespace may not be deleted",
    ))
}

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
    let name = crate::metadata::text(namespace, "name").to_owned();
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
