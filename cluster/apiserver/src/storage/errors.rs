//! What a failure of a store means to a client. It never retries.

use cluster_store::StoreError;

use crate::wire::status::Status;

/// What a failure of the store means where no single object is at stake.
pub(crate) fn store_status(error: StoreError) -> Status {
    match error {
        StoreError::Expired { .. } => Status::expired("The resourceVersion for the provided list is too old."),
        StoreError::Ahead { requested, current } => too_large_version(requested.0, current.0),
        StoreError::Unavailable(why) => too_late(&why),
        other => Status::internal(other),
    }
}

/// 504, as kube-apiserver answers while its etcd is away (kubernetes/kubernetes v1.35
/// staging/src/k8s.io/apiserver/pkg/endpoints/handlers/finisher/finisher.go): the request may have been executed.
fn too_late(why: &str) -> Status {
    Status::new(
        http::StatusCode::GATEWAY_TIMEOUT,
        "Timeout",
        format!("Timeout: request did not complete within requested timeout - {why}"),
    )
}

/// 504 as kube-apiserver gives it for versions it has not seen yet.
pub(crate) fn too_large_version(requested: u64, current: u64) -> Status {
    let message = format!("Too large resource version: {requested}, current: {current}");
    Status::new(
        http::StatusCode::GATEWAY_TIMEOUT,
        "Timeout",
        format!("Timeout: {message}"),
    )
    .because(crate::wire::status::Cause {
        reason: "ResourceVersionTooLarge".to_owned(),
        message: "Too large resource version".to_owned(),
        field: String::new(),
    })
    .retry_after(1)
}
