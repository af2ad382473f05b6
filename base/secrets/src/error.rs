//! The errors of keys and certificates. Never contains the material that failed to parse.

use api_meta::{Fault, FaultClass};

/// Why a key, certificate or request could not be read or made.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The text is not the PEM block that was expected.
    #[error("the text is not a PEM block of type {expected}")]
    Pem {
        /// The label that was expected, such as `CERTIFICATE`.
        expected: &'static str,
    },
    /// The DER content does not parse or cannot be written.
    #[error("could not {doing}")]
    Der {
        /// What was attempted, verb first.
        doing: &'static str,
        /// The reason.
        #[source]
        source: x509_cert::der::Error,
    },
    /// A private key of a kind other than ECDSA P-256.
    #[error("the private key is not an ECDSA P-256 key in PKCS#8 or SEC1 form")]
    KeyKind,
    /// Key and certificate do not belong together.
    #[error("the private key does not belong to the certificate")]
    KeyMismatch,
    /// The certificate may not sign others.
    #[error("the certificate of \"{subject}\" is not a certificate authority")]
    NotAnAuthority {
        /// Common name of the certificate.
        subject: String,
    },
    /// The signature of a signing request is wrong.
    #[error("the signature of the signing request does not match its key")]
    RequestSignature,
    /// The key of a signing request is of a kind that cannot be verified here.
    #[error("the signing request uses an unsupported signature algorithm ({oid})")]
    RequestAlgorithm {
        /// Object identifier of the algorithm.
        oid: String,
    },
    /// A DNS name or other name with characters a certificate cannot carry.
    #[error("the name \"{name}\" cannot stand in a certificate")]
    Name {
        /// The name.
        name: String,
    },
    /// A Secret lacks an entry it must have.
    #[error("secret \"{secret}\" has no entry \"{key}\"")]
    MissingEntry {
        /// Name of the Secret.
        secret: String,
        /// Missing key of its data.
        key: String,
    },
    /// A certificate's authority is neither wanted nor there.
    #[error("secret \"{secret}\" is to be signed by \"{authority}\", which is not among the wanted secrets")]
    UnknownAuthority {
        /// Name of the wanted certificate.
        secret: String,
        /// Name of the authority that is to sign it.
        authority: String,
    },
    /// A kubeconfig could not be written as YAML.
    #[error("could not write the kubeconfig as YAML: {reason}")]
    Yaml {
        /// The error of the serialiser.
        reason: String,
    },
}

impl From<SecretError> for Fault {
    fn from(error: SecretError) -> Self {
        let (class, hint) = match &error {
            SecretError::RequestSignature | SecretError::RequestAlgorithm { .. } => (
                FaultClass::User,
                "create the signing request again with an ECDSA, RSA or Ed25519 key",
            ),
            SecretError::Name { .. } => (
                FaultClass::User,
                "use a name of ASCII characters; write an international domain name in Punycode (xn--...)",
            ),
            SecretError::UnknownAuthority { .. } | SecretError::Yaml { .. } => (
                FaultClass::Bug,
                "report this: the list of wanted secrets contradicts itself",
            ),
            _ => (
                FaultClass::Dependency,
                "delete the Secret that holds this material; it is generated again",
            ),
        };
        Self::new(class, error).hint(hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_no_certificate_carries_is_what_the_hint_is_about() {
        let name = "b\u{fc}cher.example".to_owned();
        let fault = Fault::from(SecretError::Name { name });
        assert!(
            fault.hint.starts_with("use a name of ASCII characters"),
            "{}",
            fault.hint
        );
    }
}
