//! How controllers record what they have decided on a CertificateSigningRequest.

use api_meta::Fault;
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::PostParams;
use kube::{Api, ResourceExt};

use crate::fault::{fault_of, is_conflict, is_missing};

/// What is decided on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A signer may sign it.
    Approved,
    /// No signer signs it.
    Denied,
}

impl Decision {
    /// The type of the condition that records it.
    fn condition_type(self) -> &'static str {
        match self {
            Decision::Approved => "Approved",
            Decision::Denied => "Denied",
        }
    }
}

/// Whether a request is approved, denied, failed or signed already.
pub fn is_decided(request: &CertificateSigningRequest) -> bool {
    request.status.as_ref().is_some_and(|status| {
        let is_end = |type_: &str| ["Approved", "Denied", "Failed"].contains(&type_);
        status.certificate.is_some() || status.conditions.iter().flatten().any(|one| is_end(&one.type_))
    })
}

/// Records a decision on a request, with a reason in CamelCase and a message for people. A request that has changed or is gone
/// is left as it is: its watch reports that.
///
/// # Errors
/// The API server refuses the write, or does not answer.
pub async fn record_decision(
    requests: &Api<CertificateSigningRequest>,
    request: &CertificateSigningRequest,
    decision: Decision,
    (reason, message): (&str, &str),
    now: Timestamp,
) -> Result<(), Fault> {
    let name = request.name_any();
    let mut decided = request.clone();
    let status = decided.status.get_or_insert_default();
    let conditions = status.conditions.get_or_insert_default();
    conditions.push(signing_condition(decision.condition_type(), (reason, message), now));
    let params = PostParams::default();
    match requests.replace_subresource("approval", &name, &params, &decided).await {
        Ok(_) => Ok(()),
        Err(error) if is_conflict(&error) || is_missing(&error) => Ok(()),
        Err(error) => Err(fault_of(error, &format!("decide CertificateSigningRequest {name}"))),
    }
}

/// A condition of a request, true from now on, with a reason and a message.
pub fn signing_condition(
    type_: &str,
    (reason, message): (&str, &str),
    now: Timestamp,
) -> CertificateSigningRequestCondition {
    // Kubernetes stores whole seconds.
    let now = Some(Time(Timestamp::from_second(now.as_second()).unwrap_or(now)));
    CertificateSigningRequestCondition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_update_time: now.clone(),
        last_transition_time: now,
    }
}
