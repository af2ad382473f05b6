//! Calls the gatekeepers for a write. It reads nothing but what is written.

use cluster_access::Attempt;
use serde_json::Value;

use crate::access::gatekeepers::{concerned, settled};
use crate::kinds::metadata;
use crate::state::context::Context;
use crate::wire::status::Status;

/// Refuses a write that one of them objects to. `object` is absent when it is deleted, `old` when it is new.
pub(crate) async fn admit(
    context: &Context,
    name: &str,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<(), Status> {
    for gatekeeper in concerned(&context.server.access.gatekeepers, &context.user) {
        let attempt = Attempt {
            user: &context.user,
            group: context.served.group(),
            resource: context.served.plural(),
            subresource: context.subresource().unwrap_or_default(),
            namespace: context.namespace().unwrap_or_default(),
            name: object.map_or(name, |object| metadata::text(object, "name")),
            object,
            old,
        };
        let outcome = settled(&**gatekeeper, || gatekeeper.admit(&attempt)).await;
        outcome.map_err(|why| Status::forbidden(attempt.group, attempt.resource, attempt.name, &why))?;
    }
    Ok(())
}
