//! Certificate authorities and what they issue. Never stores anything and never renews by itself.

use std::net::IpAddr;
use std::time::Duration;

use base_clock::{Clock, Entropy};
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use x509_cert::der::asn1::OctetString;
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::{
    AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, KeyUsage, KeyUsages, SubjectKeyIdentifier,
};
use x509_cert::spki::SubjectPublicKeyInfoOwned;

use crate::x509::{self, Body, der};
use crate::{Certificate, PrivateKey, SecretError, SecretText, SigningRequest};

/// How long an authority is valid: ten years, as Gardener's (gardener/gardener v1.150 pkg/utils/secrets).
pub const VALIDITY_AUTHORITY: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// How far the start of validity lies in the past, so that a peer whose clock is a little behind accepts it.
pub const VALIDITY_BACKDATED: Duration = Duration::from_secs(60);

/// What a certificate may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Usage {
    /// TLS server.
    Server,
    /// TLS client.
    Client,
    /// Both, as etcd's peers need it.
    ServerAndClient,
}

/// The content of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateSpec {
    /// Common name: the user of a client certificate.
    pub common_name: String,
    /// Organisations: the groups of a client certificate.
    pub organizations: Vec<String>,
    /// DNS names of a server.
    pub dns_names: Vec<String>,
    /// IP addresses of a server.
    pub ip_addresses: Vec<IpAddr>,
    /// What it may be used for.
    pub usage: Usage,
    /// How long it is valid, from now.
    pub validity: Duration,
}

impl CertificateSpec {
    /// A client certificate: `user` as common name, `groups` as organisations.
    pub fn client(user: impl Into<String>, groups: &[&str], validity: Duration) -> Self {
        Self {
            common_name: user.into(),
            organizations: groups.iter().map(|group| (*group).to_owned()).collect(),
            dns_names: Vec::new(),
            ip_addresses: Vec::new(),
            usage: Usage::Client,
            validity,
        }
    }

    /// A server certificate for DNS names and addresses.
    pub fn server(
        common_name: impl Into<String>,
        dns_names: Vec<String>,
        ip_addresses: Vec<IpAddr>,
        validity: Duration,
    ) -> Self {
        Self {
            common_name: common_name.into(),
            organizations: Vec::new(),
            dns_names,
            ip_addresses,
            usage: Usage::Server,
            validity,
        }
    }
}

/// A certificate with its private key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The certificate.
    pub certificate: Certificate,
    /// Its private key.
    pub key: PrivateKey,
}

impl Issued {
    /// Reads both from PEM.
    ///
    /// # Errors
    /// When one does not parse or they do not belong together.
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, SecretError> {
        let issued = Self {
            certificate: Certificate::from_pem(certificate)?,
            key: PrivateKey::from_pem(key)?,
        };
        if issued.certificate.raw().tbs_certificate.subject_public_key_info != issued.key.public().info() {
            return Err(SecretError::KeyMismatch);
        }
        Ok(issued)
    }

    /// The certificate as PEM.
    pub fn certificate_pem(&self) -> String {
        self.certificate.to_pem()
    }

    /// The private key as PEM.
    pub fn key_pem(&self) -> SecretText {
        self.key.to_pem()
    }
}

/// A certificate authority: its certificate and key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority(Issued);

impl Authority {
    /// Makes a self-signed authority valid for [`VALIDITY_AUTHORITY`].
    ///
    /// # Errors
    /// [`SecretError::Der`] when the name cannot be encoded.
    pub fn generate(common_name: &str, clock: &Clock, entropy: &Entropy) -> Result<Self, SecretError> {
        Self::generate_at(common_name, VALIDITY_AUTHORITY, clock.now(), entropy)
    }

    /// As [`Self::generate`], for a given moment and validity.
    ///
    /// # Errors
    /// [`SecretError::Der`] when the name cannot be encoded.
    pub fn generate_at(
        common_name: &str,
        validity: Duration,
        now: Timestamp,
        entropy: &Entropy,
    ) -> Result<Self, SecretError> {
        let key = PrivateKey::generate(entropy);
        let write = der("write the authority's certificate");
        let subject = x509::name(common_name, &[]).map_err(&write)?;
        let info = key.public().info();
        let constraints = BasicConstraints {
            ca: true,
            path_len_constraint: None,
        };
        let usages = KeyUsage(
            KeyUsages::DigitalSignature | KeyUsages::KeyEncipherment | KeyUsages::KeyCertSign | KeyUsages::CRLSign,
        );
        let extensions = vec![
            x509::extension(x509::KEY_USAGE, true, &usages).map_err(&write)?,
            x509::extension(x509::BASIC_CONSTRAINTS, true, &constraints).map_err(&write)?,
            x509::extension(x509::SUBJECT_KEY_ID, false, &SubjectKeyIdentifier(key_id(&info)?)).map_err(&write)?,
        ];
        let (not_before, not_after) = window(now, validity);
        let body = Body {
            subject: subject.clone(),
            key: info,
            not_before,
            not_after,
            extensions,
        };
        let raw = x509::sign(body, &subject, &key, entropy).map_err(&write)?;
        Ok(Self(Issued {
            certificate: Certificate::from_raw(raw)?,
            key,
        }))
    }

    /// Reads an authority from PEM.
    ///
    /// # Errors
    /// When certificate or key do not parse, do not belong together, or the certificate may not sign.
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, SecretError> {
        let issued = Issued::from_pem(certificate, key)?;
        if !issued.certificate.is_authority() {
            return Err(SecretError::NotAnAuthority {
                subject: issued.certificate.common_name(),
            });
        }
        Ok(Self(issued))
    }

    /// The authority's certificate.
    pub fn certificate(&self) -> &Certificate {
        &self.0.certificate
    }

    /// The authority's certificate as PEM.
    pub fn certificate_pem(&self) -> String {
        self.0.certificate_pem()
    }

    /// The authority's private key as PEM.
    pub fn key_pem(&self) -> SecretText {
        self.0.key_pem()
    }

    /// Makes a key and a certificate for it.
    ///
    /// # Errors
    /// [`SecretError::Name`] for names a certificate cannot carry.
    pub fn issue(&self, spec: &CertificateSpec, clock: &Clock, entropy: &Entropy) -> Result<Issued, SecretError> {
        self.issue_at(spec, clock.now(), entropy)
    }

    /// As [`Self::issue`], for a given moment.
    ///
    /// # Errors
    /// [`SecretError::Name`] for names a certificate cannot carry.
    pub fn issue_at(&self, spec: &CertificateSpec, now: Timestamp, entropy: &Entropy) -> Result<Issued, SecretError> {
        let key = PrivateKey::generate(entropy);
        let subject = Subject {
            common_name: &spec.common_name,
            organizations: &spec.organizations,
            dns_names: &spec.dns_names,
            ip_addresses: &spec.ip_addresses,
        };
        let certificate = self.sign(&subject, key.public().info(), spec.usage, spec.validity, now, entropy)?;
        Ok(Issued { certificate, key })
    }

    /// Signs a request as it stands: subject and names from the request, usage and validity from the caller,
    /// who has decided that the requester may have them. Never outlives the authority itself.
    ///
    /// # Errors
    /// [`SecretError::Name`] for names a certificate cannot carry.
    pub fn sign_request(
        &self,
        request: &SigningRequest,
        usage: Usage,
        validity: Duration,
        clock: &Clock,
        entropy: &Entropy,
    ) -> Result<Certificate, SecretError> {
        let (common_name, organizations) = (request.common_name(), request.organizations());
        let (dns_names, ip_addresses) = (request.dns_names(), request.ip_addresses());
        let subject = Subject {
            common_name: &common_name,
            organizations: &organizations,
            dns_names: &dns_names,
            ip_addresses: &ip_addresses,
        };
        self.sign(&subject, request.public_key(), usage, validity, clock.now(), entropy)
    }

    fn sign(
        &self,
        subject: &Subject<'_>,
        key: SubjectPublicKeyInfoOwned,
        usage: Usage,
        validity: Duration,
        now: Timestamp,
        entropy: &Entropy,
    ) -> Result<Certificate, SecretError> {
        let write = der("write a certificate");
        let (not_before, wanted_end) = window(now, validity);
        let body = Body {
            subject: x509::name(subject.common_name, subject.organizations).map_err(&write)?,
            extensions: self.leaf_extensions(subject, &key, usage)?,
            key,
            not_before,
            not_after: wanted_end.min(self.certificate().not_after()),
        };
        let issuer = &self.certificate().raw().tbs_certificate.subject;
        Certificate::from_raw(x509::sign(body, issuer, &self.0.key, entropy).map_err(&write)?)
    }

    fn leaf_extensions(
        &self,
        subject: &Subject<'_>,
        key: &SubjectPublicKeyInfoOwned,
        usage: Usage,
    ) -> Result<Vec<Extension>, SecretError> {
        let write = der("write a certificate");
        let purposes = match usage {
            Usage::Server => vec![x509::SERVER_AUTH],
            Usage::Client => vec![x509::CLIENT_AUTH],
            Usage::ServerAndClient => vec![x509::SERVER_AUTH, x509::CLIENT_AUTH],
        };
        let usages = KeyUsage(KeyUsages::DigitalSignature | KeyUsages::KeyEncipherment);
        let constraints = BasicConstraints {
            ca: false,
            path_len_constraint: None,
        };
        let own = &self.certificate().raw().tbs_certificate.subject_public_key_info;
        let authority = AuthorityKeyIdentifier {
            key_identifier: Some(key_id(own)?),
            ..Default::default()
        };
        let mut extensions = vec![
            x509::extension(x509::KEY_USAGE, true, &usages).map_err(&write)?,
            x509::extension(x509::EXTENDED_KEY_USAGE, false, &ExtendedKeyUsage(purposes)).map_err(&write)?,
            x509::extension(x509::BASIC_CONSTRAINTS, true, &constraints).map_err(&write)?,
            x509::extension(x509::SUBJECT_KEY_ID, false, &SubjectKeyIdentifier(key_id(key)?)).map_err(&write)?,
            x509::extension(x509::AUTHORITY_KEY_ID, false, &authority).map_err(&write)?,
        ];
        if !subject.dns_names.is_empty() || !subject.ip_addresses.is_empty() {
            let names = x509::alternative_names(subject.dns_names, subject.ip_addresses)?;
            extensions.push(x509::extension(x509::SUBJECT_ALT_NAME, false, &names).map_err(&write)?);
        }
        Ok(extensions)
    }
}

struct Subject<'a> {
    common_name: &'a str,
    organizations: &'a [String],
    dns_names: &'a [String],
    ip_addresses: &'a [IpAddr],
}

fn window(now: Timestamp, validity: Duration) -> (Timestamp, Timestamp) {
    let start = now.checked_sub(VALIDITY_BACKDATED).unwrap_or(now);
    (start, now.checked_add(validity).unwrap_or(Timestamp::MAX))
}

/// Key identifier: the first 20 bytes of SHA-256 over the key's bits (RFC 7093, method 1).
fn key_id(info: &SubjectPublicKeyInfoOwned) -> Result<OctetString, SecretError> {
    let digest = Sha256::digest(info.subject_public_key.raw_bytes());
    OctetString::new(&digest[..20]).map_err(der("write a key identifier"))
}
