//! Certificates of servers and clients as rustls takes them. Never trusts a client's authority: any chain is let in
//! if its client holds the key.

use std::sync::Arc;

use base_client::Target;
use base_tls::Unverified;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig, SignatureScheme,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

/// Why a certificate with its key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// No certificate in the text.
    #[error("there is no PEM certificate in the text")]
    Certificate,
    /// No private key in the text.
    #[error("there is no PEM private key in the text")]
    Key,
    /// rustls refuses the pair.
    #[error("certificate and key cannot be used")]
    Pair(#[source] Error),
}

impl CertificateError {
    /// The error with its source, on one line.
    #[must_use]
    pub fn chain(&self) -> String {
        match self {
            Self::Pair(source) => format!("{self}: {source}"),
            Self::Certificate | Self::Key => self.to_string(),
        }
    }
}

/// The name of HTTP/2 in a handshake.
pub(crate) const HTTP2: &[u8] = b"h2";
/// Protocols offered, preferred ones first.
const PROTOCOLS: [&[u8]; 2] = [HTTP2, b"http/1.1"];

/// The configuration of one server and its chain.
pub(crate) fn server_config(
    certificates: &str,
    key: &str,
) -> Result<(ServerConfig, Vec<CertificateDer<'static>>), CertificateError> {
    let chain = chain_of(certificates)?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| CertificateError::Key)?;
    let provider = Arc::new(ring::default_provider());
    let verifier = Arc::new(AnyClient(provider.signature_verification_algorithms));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder
                .with_client_cert_verifier(verifier)
                .with_single_cert(chain.clone(), key)
        })
        .map_err(CertificateError::Pair)?;
    config.alpn_protocols = PROTOCOLS.iter().map(|protocol| protocol.to_vec()).collect();
    Ok((config, chain))
}

pub(crate) fn chain_of(text: &str) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    chain
        .ok()
        .filter(|chain| !chain.is_empty())
        .ok_or(CertificateError::Certificate)
}

/// How a client in process speaks TLS with a program: HTTP/2 alone, which carries all its requests on one connection.
pub(crate) fn client_config(
    target: &Target,
    chain: &[CertificateDer<'static>],
    key: Option<&str>,
) -> Result<ClientConfig, CertificateError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(CertificateError::Pair)?;
    let builder = match target.insecure {
        true => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Unverified(provider))),
        false => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(target.authorities.iter().cloned());
            builder.with_root_certificates(roots)
        }
    };
    let mut config = match key {
        Some(key) => {
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| CertificateError::Key)?;
            builder
                .with_client_auth_cert(chain.to_vec(), key)
                .map_err(CertificateError::Pair)?
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![HTTP2.to_vec()];
    Ok(config)
}

/// Verifies that `key` is the private key of the first certificate.
pub(crate) fn holds_key(chain: &[CertificateDer<'static>], key: &str) -> Result<(), CertificateError> {
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| CertificateError::Key)?;
    let key = ring::sign::any_supported_type(&key).map_err(CertificateError::Pair)?;
    CertifiedKey::new(chain.to_vec(), key)
        .keys_match()
        .map_err(CertificateError::Pair)
}

/// What a TLS client does with a server's certificate: its chain must lead to one of `authorities`, be in time, and
/// speak for `name`.
pub(crate) fn verify_server(
    chain: &[CertificateDer<'_>],
    authorities: &[CertificateDer<'_>],
    name: &str,
    now: UnixTime,
) -> Result<(), String> {
    let Some((leaf, intermediates)) = chain.split_first() else {
        return Err("the server shows no certificate".to_owned());
    };
    let anchors: Vec<_> = authorities
        .iter()
        .filter_map(|authority| anchor_from_trusted_cert(authority).ok())
        .collect();
    let wrong = |error: webpki::Error| error.to_string();
    let end = EndEntityCert::try_from(leaf).map_err(wrong)?;
    let algorithms = ring::default_provider().signature_verification_algorithms.all;
    end.verify_for_usage(
        algorithms,
        &anchors,
        intermediates,
        now,
        KeyUsage::server_auth(),
        None,
        None,
    )
    .map_err(wrong)?;
    let server = ServerName::try_from(name).map_err(|_| format!("\"{name}\" is no server name"))?;
    end.verify_is_valid_for_subject_name(&server).map_err(wrong)
}

/// Requests a certificate; accepts none as well, and any whose key the client proves to hold.
#[derive(Debug)]
struct AnyClient(WebPkiSupportedAlgorithms);

impl ClientCertVerifier for AnyClient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // Without hints clients send the certificate they have; with hints only one of a named authority.
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        // The chain is verified by the API server's authentication, which knows its authorities and its time.
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
