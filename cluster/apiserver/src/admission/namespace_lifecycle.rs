//! Nothing is created in a namespace that is missing or going away, and those that every cluster has are not deleted. Emptying
//! one is a controller's work.
//! (kubernetes/kubernetes v1.35 plugin/pkg/admission)

use cluster_store::Key;

use crate::kinds::registry::Role;
use crate::state::context::Context;
use crate::storage::errors::store_status;
use crate::wire::status::{Cause, Status};

/// Refuses a create in a namespace that is missing or going away.
pub(crate) async fn check_open(context: &Context, name: &str) -> Result<(), Status> {
    let Some(namespace) = context.namespace() else {
        return Ok(());
    };
    let key = Key::new("namespaces", None, namespace);
    // Read from a server in front, not from its mirror: a watch may lag behind the request.
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
