//! What the Secret holds, as values. Keys never leave it but as PEM.

use std::collections::BTreeMap;

use base_secrets::{Authority, Certificate, Issued, SecretError, SecretText, data};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;

/// The authority that takes over next: published, but nothing is signed by it yet.
const NEXT_CERTIFICATE: &str = "ca-next.crt";
const NEXT_KEY: &str = "ca-next.key";
/// The authority before: published as long as there are valid certificates of it.
const OLD_CERTIFICATE: &str = "ca-old.crt";

/// Authorities and certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    /// It has signed the certificate.
    pub(crate) authority: Authority,
    pub(crate) next: Option<Authority>,
    pub(crate) old: Option<Certificate>,
    /// What the webhooks show.
    pub(crate) server: Issued,
}

impl Stored {
    /// Reads a Secret.
    ///
    /// # Errors
    /// An entry that is missing or cannot be read.
    pub(crate) fn read(secret: &Secret) -> Result<Self, SecretError> {
        let text = |key: &str| base_secrets::text_of(secret, key);
        let has = |key: &str| secret.data.as_ref().is_some_and(|data| data.contains_key(key));
        let authority = |certificate: &str, key: &str| -> Result<Authority, SecretError> {
            Authority::from_pem(text(certificate)?.expose(), text(key)?.expose())
        };
        let next = has(NEXT_CERTIFICATE)
            .then(|| authority(NEXT_CERTIFICATE, NEXT_KEY))
            .transpose()?;
        let old = has(OLD_CERTIFICATE)
            .then(|| Certificate::from_pem(text(OLD_CERTIFICATE)?.expose()))
            .transpose()?;
        Ok(Self {
            authority: authority(data::CA_CERTIFICATE, data::CA_KEY)?,
            next,
            old,
            server: Issued::from_pem(text(data::CERTIFICATE)?.expose(), text(data::KEY)?.expose())?,
        })
    }

    /// The entries of the Secret.
    pub(crate) fn data(&self) -> BTreeMap<String, ByteString> {
        let Self {
            authority,
            next,
            old,
            server,
        } = self;
        let certificate = |text: String| ByteString(text.into_bytes());
        let key = |text: SecretText| ByteString(text.expose_bytes());
        let mut entries = vec![
            (data::CA_CERTIFICATE, certificate(authority.certificate_pem())),
            (data::CA_KEY, key(authority.key_pem())),
            (data::CERTIFICATE, certificate(server.certificate_pem())),
            (data::KEY, key(server.key_pem())),
            (data::BUNDLE, certificate(self.bundle())),
        ];
        if let Some(next) = next {
            entries.push((NEXT_CERTIFICATE, certificate(next.certificate_pem())));
            entries.push((NEXT_KEY, key(next.key_pem())));
        }
        if let Some(old) = old {
            entries.push((OLD_CERTIFICATE, certificate(old.to_pem())));
        }
        entries
            .into_iter()
            .map(|(name, bytes)| (name.to_owned(), bytes))
            .collect()
    }

    /// All authorities that API servers are to accept, PEM: that of the certificate first.
    pub(crate) fn bundle(&self) -> String {
        let mut bundle = self.authority.certificate_pem();
        if let Some(next) = &self.next {
            bundle.push_str(&next.certificate_pem());
        }
        if let Some(old) = &self.old {
            bundle.push_str(&old.to_pem());
        }
        bundle
    }
}
