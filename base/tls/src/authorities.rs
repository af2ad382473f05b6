//! Servers verified by given authorities as Go's `crypto/x509` verifies them: a certificate that is itself among the
//! authorities needs no issuer, even one that is marked as an authority, as `openssl req -x509` makes it. Times, names and usages
//! are verified all the same. Chains of other certificates are verified by webpki.
//! (golang/go 1.25 src/crypto/x509/verify.go, Certificate.Verify)

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use x509_cert::der::Decode;
use x509_cert::der::oid::ObjectIdentifier;
use x509_cert::ext::pkix::ExtendedKeyUsage;
use x509_cert::{Certificate, TbsCertificate};

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const SUBJECT_ALT_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");
const EXTENDED_KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.37");
const ANY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.37.0");
const SERVER_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1");

/// Verifies servers by the authorities of a bundle.
#[derive(Debug)]
pub struct Authorities {
    certificates: Vec<CertificateDer<'static>>,
    chains: Arc<WebPkiServerVerifier>,
}

/// The certificate has no subject alternative names; only its common name would fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegacyCommonName;

impl fmt::Display for LegacyCommonName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("certificate relies on legacy Common Name field, use SANs instead")
    }
}

impl std::error::Error for LegacyCommonName {}

impl Authorities {
    /// A verifier that trusts these certificates.
    ///
    /// # Errors
    /// There is none, or one of them does not parse.
    pub fn new(
        certificates: impl IntoIterator<Item = CertificateDer<'static>>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, Error> {
        let certificates: Vec<_> = certificates.into_iter().collect();
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            roots.add(certificate.clone())?;
        }
        let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        let chains = chains.build().map_err(|error| Error::General(error.to_string()))?;
        Ok(Self { certificates, chains })
    }

    fn verify(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), Error> {
        if self.certificates.iter().any(|trusted| trusted == end_entity) {
            return verify_trusted(end_entity, name, now);
        }
        let chain = self
            .chains
            .verify_server_cert(end_entity, intermediates, name, &[], now);
        chain.map(|_| ())
    }
}

impl ServerCertVerifier for Authorities {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.verify(end_entity, intermediates, server_name, now) {
            Ok(()) => Ok(ServerCertVerified::assertion()),
            Err(error) if is_about_time(&error) => Err(error),
            // Go looks at names before it looks at issuers and usages.
            Err(error) => Err(verify_name(end_entity, server_name)
                .err()
                .unwrap_or_else(|| as_unknown_issuer(error, end_entity))),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}

/// What is verified of a certificate that is trusted itself.
fn verify_trusted(end_entity: &CertificateDer<'_>, name: &ServerName<'_>, now: UnixTime) -> Result<(), Error> {
    let certificate = parsed(end_entity)?;
    verify_time(&certificate.tbs_certificate, now)?;
    verify_name(end_entity, name)?;
    verify_usage(&certificate.tbs_certificate)
}

fn parsed(certificate: &CertificateDer<'_>) -> Result<Certificate, Error> {
    Certificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding.into())
}

fn verify_time(certificate: &TbsCertificate, now: UnixTime) -> Result<(), Error> {
    let validity = &certificate.validity;
    let from = validity.not_before.to_unix_duration().as_secs();
    let until = validity.not_after.to_unix_duration().as_secs();
    match now.as_secs() {
        now if now < from => Err(CertificateError::NotValidYet.into()),
        now if now > until => Err(CertificateError::Expired.into()),
        _ => Ok(()),
    }
}

/// Whether the certificate is for `name`. One without alternative names is refused with Go's message where its common name
/// would fit.
fn verify_name(end_entity: &CertificateDer<'_>, name: &ServerName<'_>) -> Result<(), Error> {
    // Parsing refuses certificates of version 1 and unknown critical extensions as well.
    let named = ParsedCertificate::try_from(end_entity).and_then(|parsed| verify_server_name(&parsed, name));
    match named {
        Err(_) if relies_on_common_name(end_entity, name) => {
            Err(CertificateError::Other(OtherError(Arc::new(LegacyCommonName))).into())
        }
        named => named,
    }
}

fn relies_on_common_name(end_entity: &CertificateDer<'_>, name: &ServerName<'_>) -> bool {
    let Ok(certificate) = parsed(end_entity) else {
        return false;
    };
    let certificate = certificate.tbs_certificate;
    let mut extensions = certificate.extensions.iter().flatten();
    if extensions.any(|extension| extension.extn_id == SUBJECT_ALT_NAME) {
        return false;
    }
    let mut parts = certificate.subject.0.iter().flat_map(|part| part.0.iter());
    let common = parts.find(|part| part.oid == COMMON_NAME);
    common.is_some_and(|common| {
        let common = String::from_utf8_lossy(common.value.value());
        common.eq_ignore_ascii_case(&name.to_str())
    })
}

/// Whether it may be a server's: no usage named is any usage.
fn verify_usage(certificate: &TbsCertificate) -> Result<(), Error> {
    let mut extensions = certificate.extensions.iter().flatten();
    let Some(extension) = extensions.find(|extension| extension.extn_id == EXTENDED_KEY_USAGE) else {
        return Ok(());
    };
    let usages = ExtendedKeyUsage::from_der(extension.extn_value.as_bytes());
    let usages = usages.map_err(|_| Error::from(CertificateError::BadEncoding))?;
    match usages.0.iter().any(|usage| [ANY_USAGE, SERVER_AUTH].contains(usage)) {
        true => Ok(()),
        false => Err(CertificateError::InvalidPurpose.into()),
    }
}

/// Go reports an unknown issuer of a self-signed certificate, also where it is marked as an authority.
fn as_unknown_issuer(error: Error, end_entity: &CertificateDer<'_>) -> Error {
    let Error::InvalidCertificate(CertificateError::Other(OtherError(cause))) = &error else {
        return error;
    };
    let is_authority = cause.downcast_ref() == Some(&webpki::Error::CaUsedAsEndEntity);
    let signs_itself = || parsed(end_entity).is_ok_and(|own| own.tbs_certificate.issuer == own.tbs_certificate.subject);
    match is_authority && signs_itself() {
        true => CertificateError::UnknownIssuer.into(),
        false => error,
    }
}

fn is_about_time(error: &Error) -> bool {
    use CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
    matches!(
        error,
        Error::InvalidCertificate(Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. })
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustls::crypto::ring;
    use rustls_pki_types::pem::PemObject;

    use super::*;

    /// A day in 2030; the certificates are of 2026 to 2126.
    const NOW: UnixTime = UnixTime::since_unix_epoch(Duration::from_secs(1_900_000_000));
    const NAME: &str = "hook.default.svc";

    /// A certificate of `tests/certificates`, as openssl made it.
    fn certificate(name: &str) -> CertificateDer<'static> {
        let path = format!("{}/tests/certificates/{name}.pem", env!("CARGO_MANIFEST_DIR"));
        CertificateDer::from_pem_file(path).unwrap()
    }

    fn verified(shown: &str, bundle: &[&str], name: &str, now: UnixTime) -> Result<(), String> {
        let bundle = bundle.iter().map(|name| certificate(name));
        let authorities = Authorities::new(bundle, &Arc::new(ring::default_provider())).unwrap();
        let name = ServerName::try_from(name).unwrap();
        let verified = authorities.verify_server_cert(&certificate(shown), &[], &name, &[], now);
        verified.map(|_| ()).map_err(|error| error.to_string())
    }

    fn refused(shown: &str, bundle: &[&str], name: &str, now: UnixTime, why: &str) {
        let error = verified(shown, bundle, name, now).unwrap_err();
        assert!(error.contains(why), "{shown} for {name}: {error}");
    }

    #[test]
    fn certificate_in_the_bundle_needs_no_issuer() {
        for shown in ["own-authority", "for-anything", "signed"] {
            verified(shown, &["another", shown], NAME, NOW).unwrap();
        }
        verified("own-authority", &["own-authority"], "10.0.0.1", NOW).unwrap();
        verified("signed", &["authority"], NAME, NOW).unwrap();
    }

    #[test]
    fn certificate_outside_the_bundle_is_refused() {
        refused("own-authority", &["another"], NAME, NOW, "UnknownIssuer");
        refused("signed", &["another"], NAME, NOW, "UnknownIssuer");
    }

    #[test]
    fn trusted_certificate_is_refused_for_another_name_time_or_usage() {
        let own = "own-authority";
        refused(own, &[own], "other.default.svc", NOW, "not valid for name");
        refused(own, &[own], "10.0.0.2", NOW, "not valid for name");
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        refused(own, &[own], NAME, at(1_600_000_000), "NotValidYet");
        refused(own, &[own], NAME, at(5_000_000_000), "Expired");
        refused("for-clients", &["for-clients"], NAME, NOW, "InvalidPurpose");
        refused(
            "unknown-critical",
            &["unknown-critical"],
            NAME,
            NOW,
            "UnsupportedCriticalExtension",
        );
    }

    #[test]
    fn names_are_verified_before_issuers() {
        refused("signed", &["another"], "other.default.svc", NOW, "not valid for name");
    }

    #[test]
    fn common_name_is_no_name_of_a_server() {
        let why = "LegacyCommonName";
        for shown in ["common-name", "version1"] {
            refused(shown, &[shown], NAME, NOW, why);
            refused(shown, &["another"], NAME, NOW, why);
        }
        refused("common-name", &["common-name"], "other", NOW, "not valid for name");
    }

    #[test]
    fn empty_bundle_is_refused() {
        assert!(Authorities::new([], &Arc::new(ring::default_provider())).is_err());
    }
}
