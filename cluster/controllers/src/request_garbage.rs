//! Certificate requests that are no longer needed: an hour after they were issued, denied or failed, after a day without
//! an answer, and when their certificate has expired. After kubernetes v1.35 `pkg/controller/certificates/cleaner`.

use std::sync::Arc;

use api_meta::Fault;
use base_client::{fault_of, is_missing};
use base_controller::{Controller, Next};
use base_secrets::Certificate;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::Context;

/// How long an issued, denied or failed request is retained.
const SETTLED_MAX: SignedDuration = SignedDuration::from_hours(1);
/// How long an unanswered request is retained.
const PENDING_MAX: SignedDuration = SignedDuration::from_hours(24);

pub(crate) async fn run(context: Context, stop: CancellationToken) {
    let controller = Controller::new("csrcleaner", context.caches.requests())
        // Answers are changes of the status.
        .when(|old, new| old.is_none_or(|old| old.status != new.status));
    controller
        .run(stop, move |request| reconcile(request, context.clone()))
        .await;
}

/// When the request is no longer needed; none while it is approved and not issued.
fn ends_at(request: &CertificateSigningRequest) -> Option<Timestamp> {
    let created = request.metadata.creation_timestamp.as_ref()?.0;
    let status = request.status.clone().unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    if conditions.is_empty() {
        return created.checked_add(PENDING_MAX).ok();
    }
    let settles = |type_: &str| match type_ {
        "Approved" => status.certificate.is_some(),
        type_ => matches!(type_, "Denied" | "Failed"),
    };
    let settled = conditions.iter().filter(|condition| settles(&condition.type_));
    let settled = settled.filter_map(|condition| {
        let since = condition.last_update_time.as_ref().map_or(created, |time| time.0);
        since.checked_add(SETTLED_MAX).ok()
    });
    let expires = status.certificate.iter().filter_map(|certificate| {
        let pem = String::from_utf8_lossy(&certificate.0);
        Some(Certificate::from_pem(&pem).ok()?.not_after())
    });
    settled.chain(expires).min()
}

async fn reconcile(request: Arc<CertificateSigningRequest>, context: Context) -> Result<Next, Fault> {
    let Some(at) = ends_at(&request) else {
        return Ok(Next::Change);
    };
    let left = context.clock.until(at);
    if !left.is_zero() {
        return Ok(Next::After(left));
    }
    let api: Api<CertificateSigningRequest> = Api::all(context.client.clone());
    let name = request.name_any();
    let params = DeleteParams::default().preconditions(Preconditions {
        uid: request.uid(),
        resource_version: None,
    });
    match api.delete(&name, &params).await {
        Ok(_) => Ok(Next::Change),
        Err(error) if is_missing(&error) => Ok(Next::Change),
        Err(error) => Err(fault_of(error, &format!("delete CertificateSigningRequest {name}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn certificate_requests_expire_by_their_conditions() {
        let of = |status: Value| {
            let request = json!({
                "metadata": {"name": "r", "creationTimestamp": "2026-01-01T00:00:00Z"},
                "spec": {"request": "", "signerName": "s"}, "status": status,
            });
            ends_at(&serde_json::from_value(request).unwrap()).map(|at| at.to_string())
        };
        let condition =
            |type_: &str| json!([{"type": type_, "status": "True", "lastUpdateTime": "2026-01-01T05:00:00Z"}]);
        let at = |time: &str| Some(time.to_owned());
        assert_eq!(of(json!({})), at("2026-01-02T00:00:00Z"), "it is unanswered");
        assert_eq!(
            of(json!({"conditions": condition("Approved")})),
            None,
            "it is yet to be issued"
        );
        let issued = json!({"conditions": condition("Approved"), "certificate": "eA=="});
        for settled in [
            issued,
            json!({"conditions": condition("Denied")}),
            json!({"conditions": condition("Failed")}),
        ] {
            assert_eq!(of(settled.clone()), at("2026-01-01T06:00:00Z"), "{settled}");
        }
        let bare = json!({"conditions": [{"type": "Denied", "status": "True"}]});
        assert_eq!(of(bare), at("2026-01-01T01:00:00Z"), "it has no time of its own");
    }
}
