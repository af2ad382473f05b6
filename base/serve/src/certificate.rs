//! The certificate that a port shows, which can be replaced at any time: each handshake takes the one of its beginning, and open
//! connections stay as they are. It verifies no chain and watches no clock.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::sync::watch;

/// What clients may choose in a handshake. HTTP/2 is left out: API servers call webhooks by HTTP/1.1 (kubernetes/kubernetes
/// v1.35 staging/src/k8s.io/apiserver/pkg/util/webhook/client.go), and one connection then has one request at a time.
const PROTOCOLS: [&[u8]; 1] = [b"http/1.1"];

/// Why a certificate cannot be shown.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CertificateError {
    /// The text holds no certificate.
    #[error("the certificate is not PEM with at least one CERTIFICATE")]
    Certificate,
    /// The text holds no key.
    #[error("the key is not PEM with a private key")]
    Key,
    /// The two do not belong together, or are of a kind that TLS does not know.
    #[error("certificate and key cannot be used together")]
    Pair(#[source] rustls::Error),
}

impl CertificateError {
    /// The message and that of its source.
    #[must_use]
    pub fn chain(&self) -> String {
        match self {
            Self::Pair(source) => format!("{self}: {source}"),
            Self::Certificate | Self::Key => self.to_string(),
        }
    }
}

/// The certificate that a port shows to its clients. Clones are the same.
#[derive(Clone, Debug)]
pub struct ServerCertificate(Arc<watch::Sender<Option<Arc<ServerConfig>>>>);

impl ServerCertificate {
    /// None yet: a client that connects waits for it, at most as long as a handshake may take.
    #[must_use]
    pub fn awaited() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }

    /// A certificate, and behind it what signed it, as PEM, with the private key of the first.
    ///
    /// # Errors
    /// As [`Self::replace`].
    pub fn new(certificates: &str, key: &str) -> Result<Self, CertificateError> {
        let new = Self::awaited();
        new.replace(certificates, key)?;
        Ok(new)
    }

    /// Shows this one to all handshakes that begin from now on. TLS 1.2 and later; sessions of the one before are not resumed.
    ///
    /// # Errors
    /// One of the texts does not parse, or they do not belong together. The certificate before stays.
    pub fn replace(&self, certificates: &str, key: &str) -> Result<(), CertificateError> {
        let config = server_config(certificates, key)?;
        self.0.send_replace(Some(Arc::new(config)));
        Ok(())
    }

    /// Whether there is one.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Waits until there is one, and returns how to speak TLS with it. Cancel safe.
    pub(crate) async fn config(&self) -> Option<Arc<ServerConfig>> {
        let mut shown = self.0.subscribe();
        // The sender lives as long as `self`, so that the wait ends with a certificate.
        let known = shown.wait_for(Option::is_some).await.ok()?;
        known.clone()
    }
}

fn server_config(certificates: &str, key: &str) -> Result<ServerConfig, CertificateError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificates.as_bytes()).collect();
    let chain = chain.ok().filter(|chain| !chain.is_empty());
    let chain = chain.ok_or(CertificateError::Certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| CertificateError::Key)?;
    // The versions of rustls begin at TLS 1.2.
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(CertificateError::Pair)?;
    config.alpn_protocols = PROTOCOLS.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(config)
}
