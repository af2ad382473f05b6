//! TLS of a client that takes every certificate, as a kubelet's probes do. It verifies nothing and sends nothing secret.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use base_client::Connection;
use base_tls::Unverified;
use rustls::crypto::ring;
use rustls::{ClientConfig, DEFAULT_VERSIONS};
use rustls_pki_types::ServerName;
use tokio_rustls::TlsConnector;

static CONFIG: LazyLock<Result<Arc<ClientConfig>, String>> = LazyLock::new(|| {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_protocol_versions(DEFAULT_VERSIONS);
    let builder = builder.map_err(|error| error.to_string())?;
    let verifier = Arc::new(Unverified(provider));
    let config = builder.dangerous().with_custom_certificate_verifier(verifier);
    Ok(Arc::new(config.with_no_client_auth()))
});

/// The connection behind a handshake.
pub(super) async fn unverified(connection: Connection, ip: IpAddr) -> io::Result<Connection> {
    let config = CONFIG.as_ref().map_err(|error| io::Error::other(error.clone()))?;
    let name = ServerName::IpAddress(ip.into());
    let secured = TlsConnector::from(config.clone()).connect(name, connection).await?;
    Ok(Box::new(secured))
}
