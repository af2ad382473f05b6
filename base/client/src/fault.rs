//! What an error of the Kubernetes API means for the reader: who can act, and how. Never retries anything.

use api_meta::{Fault, FaultClass, WebhookFailure};
use kube::Error;
use kube::core::Status;
use tower::timeout::error::Elapsed;

use crate::connect::ANSWER_TIMEOUT;

/// Whether the object, or its kind, is not there.
pub fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 404)
}

/// Whether another writer changed the object since it was read.
pub fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 409 && status.reason != "AlreadyExists")
}

/// Whether an object of that name is there already.
pub fn is_exists(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 409 && status.reason == "AlreadyExists")
}

/// Whether the object was not created because its namespace is being deleted.
pub fn is_namespace_terminating(error: &Error) -> bool {
    matches!(error, Error::Api(status) if reports_terminating_namespace(status))
}

fn reports_terminating_namespace(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 403 && causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}

/// What we were doing when the API call failed, and the API's answer. The answer's text is in the message, so
/// it is not also a source.
#[derive(Debug, thiserror::Error)]
#[error("{doing}: {message}")]
struct CallFailed {
    doing: String,
    message: String,
    answered: bool,
}

/// Whether a call has failed without an answer.
pub fn is_unanswered(fault: &Fault) -> bool {
    let failed = fault.source.downcast_ref::<CallFailed>();
    failed.is_some_and(|failed| !failed.answered)
}

/// The reason that kube-client 5.0 (src/client/mod.rs) gives an answer that is no Status; the message is the whole answer.
const NO_STATUS: &str = "Failed to parse error data";

/// The fault of a failed call while `doing` something, such as `"create secret ca"`, with the webhook that the message names.
pub fn fault_of(error: Error, doing: &str) -> Fault {
    let (class, hint) = class_and_hint(&error);
    let answered = matches!(&error, Error::Api(_));
    let webhook = match &error {
        Error::Api(status) => WebhookFailure::in_message(&status.message),
        _ => None,
    };
    let message = match &error {
        Error::Api(status) if status.reason == NO_STATUS => {
            format!(
                "the answer has status {} and is none of a Kubernetes API server",
                status.code
            )
        }
        Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        Error::Api(status) => format!("{} ({})", status.reason, status.code),
        Error::Service(cause) if cause.is::<Elapsed>() => format!("no answer within {ANSWER_TIMEOUT:?}"),
        Error::Service(cause) => format!("no answer: {}", innermost(cause.as_ref())),
        Error::HyperError(cause) => format!("no answer: {}", innermost(cause)),
        other => other.to_string(),
    };
    Fault::new(
        class,
        CallFailed {
            doing: doing.to_owned(),
            message,
            answered,
        },
    )
    .hint(hint)
    .webhook(webhook)
}

fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

fn class_and_hint(error: &Error) -> (FaultClass, &'static str) {
    match error {
        Error::Api(status) if status.reason == NO_STATUS => (
            FaultClass::Dependency,
            "look at what listens there: something else than the API server, or a proxy before it",
        ),
        Error::Api(status) => match status.code {
            401 => (
                FaultClass::Access,
                "renew the credentials of this process: the API server does not know them",
            ),
            403 if status.message.contains("exceeded quota") => (
                FaultClass::Quota,
                "raise the namespace's ResourceQuota or delete what is no longer needed",
            ),
            403 if reports_terminating_namespace(status) => (
                FaultClass::Dependency,
                "the namespace is being deleted: see its conditions for what holds it",
            ),
            403 => (
                FaultClass::Access,
                "grant the named verb on the named resource to the named user (RBAC), or remove the admission rule that forbids it",
            ),
            404 => (FaultClass::Dependency, "create the missing object, or install its kind"),
            409 => (
                FaultClass::Transient,
                "another client wrote the object at the same time; it is tried again",
            ),
            410 => (
                FaultClass::Transient,
                "the requested version is too old; the object is read again",
            ),
            429 => (
                FaultClass::Transient,
                "the API server limits requests; it is tried again later",
            ),
            400 | 413 | 415 | 422 => (FaultClass::User, "correct the field named in the message"),
            501 => (
                FaultClass::Bug,
                "this API server does not support the request; report it",
            ),
            // What is applied and does not fit its type: Kubernetes has no better code for it.
            500 if status.message.starts_with("failed to create typed patch object") => {
                (FaultClass::User, "correct the field named in the message")
            }
            500..=599 => (FaultClass::Dependency, "look at the API server's own health and logs"),
            _ => (FaultClass::Dependency, "look at the API server's answer"),
        },
        Error::Service(_) | Error::HyperError(_) | Error::ReadEvents(_) | Error::HttpError(_) => (
            FaultClass::Dependency,
            "check that the API server runs and can be reached from here",
        ),
        Error::SerdeError(_) | Error::FromUtf8(_) | Error::LinesCodecMaxLineLengthExceeded => (
            FaultClass::Bug,
            "the API server's answer does not fit the type; compare the versions of both",
        ),
        Error::BuildRequest(_) => (FaultClass::Bug, "report it: a request was built wrongly"),
        Error::Auth(_) => (FaultClass::Access, "renew the credentials in the kubeconfig"),
        _ => (FaultClass::User, "correct the kubeconfig"),
    }
}
