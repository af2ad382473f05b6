//! Impersonation: as which user a request is to be handled, and whether its caller may do that.

use std::sync::Arc;

use cluster_access::{Impersonation, User};
use http::request::Parts;

use crate::access::authorization::forbidden;
use crate::access::server_access::Access;
use crate::wire::query::Query;
use crate::wire::status::Status;

impl Access {
    /// The user of the request from here on: the caller, or whom it impersonates. Errors: 403 where it may not.
    pub(crate) async fn impersonate(&self, real: Arc<User>, parts: &Parts) -> Result<Arc<User>, Status> {
        let requested =
            Impersonation::from_headers(&parts.headers).map_err(|error| Status::bad_request(error.to_string()))?;
        let Some(requested) = requested else { return Ok(real) };
        for attributes in requested.requests(&real) {
            let decision = match &self.delegation {
                Some(other) => Box::pin(other.decide(&attributes, &Query::default())).await?,
                None => self.authorize(&attributes),
            };
            if let Some(status) = forbidden(&attributes, &decision) {
                return Err(status);
            }
        }
        Ok(Arc::new(requested.user()))
    }
}
