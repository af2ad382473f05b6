//! Why a credential was refused. Never contains the credential.

/// Why authentication failed. Every variant is answered with 401.
#[derive(Debug, thiserror::Error)]
pub enum AuthenticationError {
    /// The client certificate does not verify against the client authorities.
    #[error("the client certificate of \"{user}\" is not accepted: {reason}")]
    Certificate {
        /// Common name in the certificate.
        user: String,
        /// The verifier's reason.
        reason: String,
    },
    /// The client certificate does not parse.
    #[error("the client certificate cannot be read")]
    CertificateForm,
    /// The client certificate carries no common name.
    #[error("the client certificate carries no user name")]
    CertificateWithoutUser,
    /// No authenticator knows the token.
    #[error("invalid bearer token")]
    UnknownToken,
    /// The service account token is not, or no longer, good.
    #[error("the service account token is not accepted: {0}")]
    Token(TokenFault),
    /// A bootstrap token that is not good.
    #[error("the bootstrap token is not accepted: {0}")]
    BootstrapToken(&'static str),
    /// What the credential refers to could not be looked up.
    #[error("could not look up what the credential refers to: {0}")]
    Lookup(String),
}

/// What is wrong with a service account token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFault {
    /// It is not a JSON Web Token of ours.
    #[error("it has the wrong form")]
    Form,
    /// No known key signed it.
    #[error("it was signed by an unknown key")]
    Signature,
    /// It is past its expiry.
    #[error("it has expired")]
    Expired,
    /// It is not valid yet.
    #[error("it is not valid yet")]
    NotYet,
    /// It is meant for another audience.
    #[error("it is for the audiences {0:?}")]
    Audience(Vec<String>),
    /// The service account is gone or another one of the same name.
    #[error("its service account is gone or was replaced")]
    ServiceAccount,
    /// The object it is bound to is gone or another one of the same name.
    #[error("the {0} it is bound to is gone or was replaced")]
    Bound(String),
}

/// Impersonation headers that contradict themselves; answered with 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImpersonationError {
    /// Groups, extra or uid without a user; what was requested, as Go prints it.
    #[error("requested [{0}] without impersonating a user")]
    WithoutUser(String),
    /// A header value that is not text.
    #[error("the impersonation header {0} is not text")]
    NotText(String),
}
