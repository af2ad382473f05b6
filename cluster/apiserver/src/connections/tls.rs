//! TLS towards other servers, and what goes wrong with a connection in the words of Go's client, because people search for
//! those words. It opens no connection.

use std::io;
use std::sync::Arc;

use base_tls::{Authorities, LegacyCommonName, Unverified, machine_roots};
use base64::Engine as _;
use rustls::ClientConfig;
use rustls::crypto::CryptoProvider;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde_json::Value;

use crate::connections::addresses::bracketed;
use crate::connections::identity::ClientIdentity;

/// Which servers a client trusts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Trust<'a> {
    /// Those that these authorities vouch for, as base64 of PEM; if empty, the machine's authorities.
    Bundle(&'a str),
    /// Any server that answers, unverified.
    AnyServer,
}

/// How a client speaks TLS, with its identity if it has one.
pub(crate) fn tls(trust: Trust<'_>, identity: Option<&ClientIdentity>) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let config = match trust {
        Trust::Bundle("") => config.with_root_certificates(machine_roots().clone()),
        Trust::Bundle(bundle) => config
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(authorities(bundle, &provider)?)),
        Trust::AnyServer => config
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Unverified(provider))),
    };
    let mut config = match identity {
        None => config.with_no_client_auth(),
        Some(identity) => config
            .with_client_auth_cert(identity.chain.clone(), identity.key.clone_key())
            .map_err(|error| error.to_string())?,
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

pub(crate) fn refused(host: &str, port: u16, error: &io::Error) -> String {
    let why = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        io::ErrorKind::NetworkUnreachable => "connect: network is unreachable".to_owned(),
        io::ErrorKind::HostUnreachable => "connect: no route to host".to_owned(),
        _ => error.to_string(),
    };
    format!("dial tcp {}:{port}: {why}", bracketed(host))
}

pub(crate) fn distrusted(error: &io::Error, name: &str) -> String {
    use rustls::CertificateError as Wrong;
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let why = match tls {
        Some(rustls::Error::InvalidCertificate(wrong)) => match wrong {
            Wrong::UnknownIssuer => "x509: certificate signed by unknown authority".to_owned(),
            Wrong::Expired | Wrong::ExpiredContext { .. } | Wrong::NotValidYet | Wrong::NotValidYetContext { .. } => {
                "x509: certificate has expired or is not yet valid".to_owned()
            }
            Wrong::NotValidForNameContext { presented, .. } => misnamed(presented, name),
            Wrong::InvalidPurpose | Wrong::InvalidPurposeContext { .. } => {
                "x509: certificate specifies an incompatible key usage".to_owned()
            }
            Wrong::NotValidForName => format!("x509: certificate is not valid for {name}"),
            Wrong::Other(rustls::OtherError(cause)) if cause.is::<LegacyCommonName>() => {
                format!("x509: {LegacyCommonName}")
            }
            other => format!("x509: {other}"),
        },
        _ if error.kind() == io::ErrorKind::UnexpectedEof => return "EOF".to_owned(),
        _ => return format!("tls: {error}"),
    };
    format!("tls: failed to verify certificate: {why}")
}

pub(crate) fn broken(error: &hyper::Error) -> String {
    if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
        return "EOF".to_owned();
    }
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if let Some(io) = inner.downcast_ref::<io::Error>() {
            return match io.kind() {
                io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
                io::ErrorKind::ConnectionReset => "read: connection reset by peer".to_owned(),
                _ => io.to_string(),
            };
        }
        source = inner.source();
    }
    error.to_string()
}

pub(crate) fn text(value: &Value, field: &str) -> String {
    value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn authorities(bundle: &str, provider: &Arc<CryptoProvider>) -> Result<Authorities, String> {
    let unreadable = || "unable to load root certificates: unable to parse bytes as PEM block".to_owned();
    let pem = base64::engine::general_purpose::STANDARD
        .decode(bundle)
        .map_err(|error| error.to_string())?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let certificates = certificates.map_err(|_| unreadable())?;
    if certificates.is_empty() {
        return Err(unreadable());
    }
    Authorities::new(certificates, provider).map_err(|error| error.to_string())
}

/// Go's error for a certificate with these names. (golang/go 1.25 src/crypto/x509/verify.go, HostnameError)
pub(crate) fn misnamed(presented: &[String], name: &str) -> String {
    let is_address = name.parse::<std::net::IpAddr>().is_ok();
    let presented = presented
        .iter()
        .filter(|name| name.starts_with("IpAddress") == is_address);
    let names: Vec<&str> = presented.map(|name| shown_name(name)).collect();
    match (names.is_empty(), is_address) {
        (false, _) => format!("x509: certificate is valid for {}, not {name}", names.join(", ")),
        (true, true) => format!("x509: cannot validate certificate for {name} because it doesn't contain any IP SANs"),
        (true, false) => format!("x509: certificate is not valid for any names, but wanted to match {name}"),
    }
}

/// `DnsName("a")` and `IpAddress(1.2.3.4)` without what stands around.
fn shown_name(name: &str) -> &str {
    let inner = name.split_once('(').map_or(name, |(_, inner)| inner);
    inner.trim_end_matches(')').trim_matches('"')
}
