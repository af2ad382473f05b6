//! The bytes of X.509: names, validity, extensions, signing of the to-be-signed part. Never decides what a
//! certificate may contain; that is its callers' part.

use std::net::IpAddr;

use jiff::Timestamp;
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::der::asn1::{Any, BitString, GeneralizedTime, Ia5String, OctetString, SetOfVec, UtcTime};
use x509_cert::der::oid::ObjectIdentifier;
use x509_cert::der::{self, Decode, Encode, Tag};
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::name::{Name, RelativeDistinguishedName};
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};
use x509_cert::time::{Time, Validity};
use x509_cert::{Certificate as Raw, TbsCertificate, Version};

use base_clock::Entropy;

use crate::{PrivateKey, SecretError};

pub(crate) const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
pub(crate) const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");
pub(crate) const SUBJECT_ALT_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");
pub(crate) const BASIC_CONSTRAINTS: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.19");
pub(crate) const KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.15");
pub(crate) const EXTENDED_KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.37");
pub(crate) const SUBJECT_KEY_ID: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.14");
pub(crate) const AUTHORITY_KEY_ID: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.35");
pub(crate) const SERVER_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1");
pub(crate) const CLIENT_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.2");
const ECDSA_WITH_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");

/// Length of a serial number, in bytes: positive and never above the 20 bytes RFC 5280 allows.
const SERIAL_BYTES: usize = 16;

/// The content of a certificate, apart from its issuer and signature.
pub(crate) struct Body {
    pub(crate) subject: Name,
    pub(crate) key: SubjectPublicKeyInfoOwned,
    pub(crate) not_before: Timestamp,
    pub(crate) not_after: Timestamp,
    pub(crate) extensions: Vec<Extension>,
}

/// Signs a certificate body with the issuer's key.
pub(crate) fn sign(body: Body, issuer: &Name, signer: &PrivateKey, entropy: &Entropy) -> der::Result<Raw> {
    let mut serial = [0_u8; SERIAL_BYTES];
    entropy.fill(&mut serial);
    serial[0] = (serial[0] & 0x7f) | 0x40;
    let Body {
        subject,
        key,
        not_before,
        not_after,
        extensions,
    } = body;
    let tbs_certificate = TbsCertificate {
        version: Version::V3,
        serial_number: SerialNumber::new(&serial)?,
        signature: ecdsa_sha256(),
        issuer: issuer.clone(),
        validity: Validity {
            not_before: time(not_before)?,
            not_after: time(not_after)?,
        },
        subject,
        subject_public_key_info: key,
        issuer_unique_id: None,
        subject_unique_id: None,
        extensions: Some(extensions),
    };
    let signature = signer.sign(&tbs_certificate.to_der()?);
    Ok(Raw {
        tbs_certificate,
        signature_algorithm: ecdsa_sha256(),
        signature: BitString::from_bytes(&signature)?,
    })
}

pub(crate) fn ecdsa_sha256() -> AlgorithmIdentifierOwned {
    AlgorithmIdentifierOwned {
        oid: ECDSA_WITH_SHA256,
        parameters: None,
    }
}

/// A subject: organisations first, then the common name, as Go writes it.
pub(crate) fn name(common_name: &str, organizations: &[String]) -> der::Result<Name> {
    let mut parts = Vec::new();
    for organization in organizations {
        parts.push(part(ORGANIZATION, organization)?);
    }
    parts.push(part(COMMON_NAME, common_name)?);
    Ok(x509_cert::name::RdnSequence(parts))
}

fn part(oid: ObjectIdentifier, text: &str) -> der::Result<RelativeDistinguishedName> {
    let value = Any::new(Tag::Utf8String, text.as_bytes())?;
    Ok(RelativeDistinguishedName(SetOfVec::try_from(vec![
        AttributeTypeAndValue { oid, value },
    ])?))
}

/// All values of one attribute in a name, in their order.
pub(crate) fn values(name: &Name, oid: ObjectIdentifier) -> Vec<String> {
    let parts = name.0.iter().flat_map(|set| set.0.iter());
    parts
        .filter(|part| part.oid == oid)
        .map(|part| String::from_utf8_lossy(part.value.value()).into_owned())
        .collect()
}

fn time(at: Timestamp) -> der::Result<Time> {
    let seconds = u64::try_from(at.as_second()).unwrap_or(0);
    let duration = std::time::Duration::from_secs(seconds);
    // Dates through 2049 are UTCTime, later ones GeneralizedTime (RFC 5280, 4.1.2.5).
    match UtcTime::from_unix_duration(duration) {
        Ok(utc) => Ok(Time::UtcTime(utc)),
        Err(_) => Ok(Time::GeneralTime(GeneralizedTime::from_unix_duration(duration)?)),
    }
}

/// The instant of an X.509 time; the far end of the calendar for one beyond it.
pub(crate) fn timestamp(time: Time) -> Timestamp {
    let seconds = i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
}

/// One extension with its content encoded.
pub(crate) fn extension(oid: ObjectIdentifier, critical: bool, content: &impl Encode) -> der::Result<Extension> {
    Ok(Extension {
        extn_id: oid,
        critical,
        extn_value: OctetString::new(content.to_der()?)?,
    })
}

/// Subject alternative names.
///
/// # Errors
/// [`SecretError::Name`] when a DNS name is not ASCII.
pub(crate) fn alternative_names(dns: &[String], ips: &[IpAddr]) -> Result<SubjectAltName, SecretError> {
    let mut names = Vec::new();
    for dns in dns {
        let name = Ia5String::new(dns).map_err(|_| SecretError::Name { name: dns.clone() })?;
        names.push(GeneralName::DnsName(name));
    }
    for ip in ips {
        let bytes = match ip {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        names.push(GeneralName::IpAddress(
            OctetString::new(bytes).map_err(der("write an IP address"))?,
        ));
    }
    Ok(SubjectAltName(names))
}

/// Reads one extension's content; `None` when the certificate does not carry it or it does not parse.
pub(crate) fn read<T: for<'a> Decode<'a>>(extensions: &[Extension], oid: ObjectIdentifier) -> Option<T> {
    let found = extensions.iter().find(|extension| extension.extn_id == oid)?;
    T::from_der(found.extn_value.as_bytes()).ok()
}

/// DNS names and IP addresses of a subject alternative name extension; other kinds of names are left out.
pub(crate) fn split_names(names: &SubjectAltName) -> (Vec<String>, Vec<IpAddr>) {
    let (mut dns, mut ips) = (Vec::new(), Vec::new());
    for name in &names.0 {
        match name {
            GeneralName::DnsName(name) => dns.push(name.to_string()),
            GeneralName::IpAddress(bytes) => match bytes.as_bytes() {
                [a, b, c, d] => ips.push(IpAddr::from([*a, *b, *c, *d])),
                bytes => {
                    if let Ok(bytes) = <[u8; 16]>::try_from(bytes) {
                        ips.push(IpAddr::from(bytes));
                    }
                }
            },
            _ => {}
        }
    }
    (dns, ips)
}

/// Maps an encoding error into ours.
pub(crate) fn der(doing: &'static str) -> impl Fn(der::Error) -> SecretError {
    move |source| SecretError::Der { doing, source }
}
