//! Whether a user may do something: gatekeepers first, then access rules and, for nodes, their own rules. It looks at no body.

use cluster_access::{Attributes, Decision};
use http::StatusCode;

use crate::access::server_access::Access;
use crate::access::{gatekeepers, node_authorizer};
use crate::wire::query::Query;
use crate::wire::status::Status;

/// The 403 that answers a denied request.
pub(crate) fn forbidden(attributes: &Attributes, decision: &Decision) -> Option<Status> {
    let Decision::Deny(reason) = decision else { return None };
    let message = cluster_access::forbidden_message(attributes, reason);
    let status = Status::new(StatusCode::FORBIDDEN, "Forbidden", message);
    Some(match &attributes.target {
        // With details, but empty ones.
        cluster_access::Target::Path(_) => status.about("", "", ""),
        cluster_access::Target::Resource(target) => status.about(&target.group, &target.resource, &target.name),
    })
}

/// Decides by the gatekeepers, then by RBAC and, for nodes, by their own rules: either may allow it.
pub(crate) async fn decide(access: &Access, attributes: &Attributes, query: &Query) -> Result<Decision, Status> {
    if let Some(other) = &access.delegation {
        return Box::pin(other.decide(attributes, query)).await;
    }
    if let Some(decision) = gatekeepers::decide(&access.gatekeepers, attributes, query).await {
        return Ok(decision);
    }
    let denied = match access.rbac.authorize(attributes) {
        Decision::Deny(why) => why,
        allowed => return Ok(allowed),
    };
    Ok(
        match node_authorizer::authorize(&access.store, attributes, query).await? {
            None => Decision::Deny(denied),
            Some(Decision::Deny(why)) if denied.is_empty() => Decision::Deny(why),
            Some(Decision::Deny(_)) => Decision::Deny(denied),
            Some(allowed) => allowed,
        },
    )
}

/// Refuses what is not allowed, with 403.
pub(crate) async fn check(access: &Access, attributes: &Attributes, query: &Query) -> Result<(), Status> {
    let decision = decide(access, attributes, query).await?;
    forbidden(attributes, &decision).map_or(Ok(()), Err)
}
