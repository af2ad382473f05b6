//! What the cloud answers when it does not do what was requested.

use api_meta::{Fault, FaultClass};
use http::StatusCode;
use serde::{Deserialize, Serialize};

/// Why a call failed, by the cloud's own word for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// The credentials are not known, or no longer valid.
    AuthFailure,
    /// The credentials may not do this.
    UnauthorizedOperation,
    /// There is no such thing in the account.
    NotFound,
    /// The request makes no sense.
    InvalidParameter,
    /// Something else hangs on it.
    DependencyViolation,
    /// The account may have no more of this kind.
    QuotaExceeded,
    /// There are too many calls.
    RequestLimitExceeded,
    /// The zone has no such machine left.
    InsufficientCapacity,
    /// The cloud is broken.
    InternalError,
    /// No answer came: whether the call had its effect is not known. Clients see it; no server sends it.
    Unanswered,
}

impl Reason {
    /// The status in the HTTP form.
    pub(super) const fn status(self) -> StatusCode {
        match self {
            Self::AuthFailure => StatusCode::UNAUTHORIZED,
            Self::UnauthorizedOperation => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::InvalidParameter => StatusCode::BAD_REQUEST,
            Self::DependencyViolation | Self::QuotaExceeded => StatusCode::CONFLICT,
            Self::RequestLimitExceeded => StatusCode::TOO_MANY_REQUESTS,
            Self::InsufficientCapacity => StatusCode::SERVICE_UNAVAILABLE,
            Self::InternalError | Self::Unanswered => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Who can act, as far as it is known before a table of codes is applied.
    const fn class(self) -> FaultClass {
        match self {
            Self::RequestLimitExceeded | Self::InternalError | Self::Unanswered => FaultClass::Transient,
            _ => FaultClass::Dependency,
        }
    }
}

/// A call failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{reason:?}: {message}")]
pub struct CloudError {
    /// Why, for programs.
    pub reason: Reason,
    /// Why, for people.
    pub message: String,
}

impl CloudError {
    /// An error with a message for people.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }

    /// Whether there is no such thing.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.reason == Reason::NotFound
    }
}

impl From<CloudError> for Fault {
    fn from(error: CloudError) -> Self {
        Self::new(error.reason.class(), error)
    }
}
