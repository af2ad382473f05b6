//! Reading certificates: who, until when, by whom. Never verifies a chain; that is `cluster-access`' and
//! rustls' part.

use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use x509_cert::Certificate as Raw;
use x509_cert::der::pem::LineEnding;
use x509_cert::der::{Decode, DecodePem, Encode, EncodePem};
use x509_cert::ext::pkix::{AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, SubjectAltName};

use crate::SecretError;
use crate::x509::{self, der};

/// When a certificate is renewed: this share of its validity in percent, as Gardener's secrets manager does
/// (gardener/gardener v1.150 pkg/utils/secrets/manager).
pub const RENEW_AT_PERCENT: u32 = 80;

/// A parsed certificate with its original bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    raw: Raw,
    der: Vec<u8>,
}

impl Certificate {
    /// Reads DER.
    ///
    /// # Errors
    /// [`SecretError::Der`] when the bytes are no certificate.
    pub fn from_der(bytes: &[u8]) -> Result<Self, SecretError> {
        let raw = Raw::from_der(bytes).map_err(der("read a certificate"))?;
        Ok(Self {
            raw,
            der: bytes.to_vec(),
        })
    }

    /// Reads the first `CERTIFICATE` block of a text.
    ///
    /// # Errors
    /// [`SecretError::Pem`] when there is none, [`SecretError::Der`] when its content does not parse.
    pub fn from_pem(text: &str) -> Result<Self, SecretError> {
        let block = split_bundle(text).into_iter().next().ok_or(SecretError::Pem {
            expected: "CERTIFICATE",
        })?;
        Self::from_raw(Raw::from_pem(block.as_bytes()).map_err(der("read a certificate"))?)
    }

    pub(crate) fn from_raw(raw: Raw) -> Result<Self, SecretError> {
        let der = raw.to_der().map_err(der("write a certificate"))?;
        Ok(Self { raw, der })
    }

    pub(crate) fn raw(&self) -> &Raw {
        &self.raw
    }

    /// The certificate's bytes.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// The certificate as PEM.
    pub fn to_pem(&self) -> String {
        self.raw
            .to_pem(LineEnding::LF)
            .expect("a certificate that was parsed encodes")
    }

    /// Common name of the subject: the user name of a client certificate. Empty when there is none.
    pub fn common_name(&self) -> String {
        // Go takes the last common name of a subject; so does kube-apiserver.
        x509::values(&self.raw.tbs_certificate.subject, x509::COMMON_NAME)
            .pop()
            .unwrap_or_default()
    }

    /// Organisations of the subject: the groups of a client certificate.
    pub fn organizations(&self) -> Vec<String> {
        x509::values(&self.raw.tbs_certificate.subject, x509::ORGANIZATION)
    }

    /// DNS names the certificate is valid for.
    pub fn dns_names(&self) -> Vec<String> {
        self.alternative_names().0
    }

    /// IP addresses the certificate is valid for.
    pub fn ip_addresses(&self) -> Vec<IpAddr> {
        self.alternative_names().1
    }

    fn alternative_names(&self) -> (Vec<String>, Vec<IpAddr>) {
        let names: Option<SubjectAltName> = x509::read(self.extensions(), x509::SUBJECT_ALT_NAME);
        names.map(|names| x509::split_names(&names)).unwrap_or_default()
    }

    fn extensions(&self) -> &[x509_cert::ext::Extension] {
        self.raw.tbs_certificate.extensions.as_deref().unwrap_or_default()
    }

    /// Whether the certificate may sign others.
    pub fn is_authority(&self) -> bool {
        let constraints: Option<BasicConstraints> = x509::read(self.extensions(), x509::BASIC_CONSTRAINTS);
        constraints.is_some_and(|constraints| constraints.ca)
    }

    /// Whether a client may use it. It may if it has no extended key usages.
    pub fn is_for_clients(&self) -> bool {
        let usages: Option<ExtendedKeyUsage> = x509::read(self.extensions(), x509::EXTENDED_KEY_USAGE);
        usages.is_none_or(|usages| usages.0.contains(&x509::CLIENT_AUTH))
    }

    /// First moment of validity.
    pub fn not_before(&self) -> Timestamp {
        x509::timestamp(self.raw.tbs_certificate.validity.not_before)
    }

    /// Last moment of validity.
    pub fn not_after(&self) -> Timestamp {
        x509::timestamp(self.raw.tbs_certificate.validity.not_after)
    }

    /// Whether it is valid at `now`.
    pub fn is_valid_at(&self, now: Timestamp) -> bool {
        self.not_before() <= now && now <= self.not_after()
    }

    /// When to renew: at [`RENEW_AT_PERCENT`] of the validity.
    pub fn renew_at(&self) -> Timestamp {
        renewal_time(self.not_before(), self.not_after())
    }

    /// SHA-256 over the certificate's bytes, lower-case hexadecimal.
    pub fn fingerprint(&self) -> String {
        Sha256::digest(&self.der)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    /// Serial number, lower-case hexadecimal.
    pub fn serial(&self) -> String {
        self.raw
            .tbs_certificate
            .serial_number
            .as_bytes()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    /// Identifies the key that signed it; none where its issuer has left that out.
    pub fn authority_key_id(&self) -> Option<Vec<u8>> {
        let authority: Option<AuthorityKeyIdentifier> = x509::read(self.extensions(), x509::AUTHORITY_KEY_ID);
        Some(authority?.key_identifier?.into_bytes())
    }

    /// Whether the names of issuer and subject fit. Does not verify the signature.
    pub fn names_as_issuer(&self, issuer: &Self) -> bool {
        self.raw.tbs_certificate.issuer == issuer.raw.tbs_certificate.subject
    }
}

/// The instant at [`RENEW_AT_PERCENT`] between `from` and `until`.
pub fn renewal_time(from: Timestamp, until: Timestamp) -> Timestamp {
    let seconds = u64::try_from(until.as_second() - from.as_second()).unwrap_or(0);
    let share = (seconds * u64::from(RENEW_AT_PERCENT)).div_ceil(100);
    from.checked_add(Duration::from_secs(share)).unwrap_or(until)
}

/// The `CERTIFICATE` blocks of a text, each with its markers; anything else in the text is left out.
pub fn split_bundle(text: &str) -> Vec<String> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    const END: &str = "-----END CERTIFICATE-----";
    let mut blocks = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(BEGIN) {
        let Some(end) = rest[start..].find(END) else { break };
        let stop = start + end + END.len();
        blocks.push(format!("{}\n", &rest[start..stop]));
        rest = &rest[stop..];
    }
    blocks
}

/// All certificates of a text, in order; none is an error.
///
/// # Errors
/// [`SecretError::Pem`] when there is none, [`SecretError::Der`] when one does not parse.
pub fn parse_chain(text: &str) -> Result<Vec<Certificate>, SecretError> {
    let blocks = split_bundle(text);
    if blocks.is_empty() {
        return Err(SecretError::Pem {
            expected: "CERTIFICATE",
        });
    }
    blocks.iter().map(|block| Certificate::from_pem(block)).collect()
}
