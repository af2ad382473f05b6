//! Certificates as Sprig has Go 1.26's crypto/x509 make them.

use std::net::IpAddr;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use x509_cert::Certificate as Parsed;
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::SubjectKeyIdentifier;

use super::der::{GENERAL_TIME, OCTETS, PRINTABLE, SET, UTC_TIME, UTF8, bits, integer, oid, sequence, tagged};
use super::keys::Key;
use super::pem;
use crate::environment::error::Fault;
use crate::print::sprint;
use crate::sprig::dates::{self, Time, Zone};
use crate::sprig::random::entropy;
use crate::text::Str;
use crate::text::quote::quoted;
use crate::value::function::Scope;
use crate::value::{List, Object, Value};

/// The type of a certificate as a value.
pub(super) const CERTIFICATE: &str = "sprig.certificate";
/// Object identifiers, as they are encoded.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
const SUBJECT_KEY_ID: &[u8] = &[0x55, 0x1d, 0x0e];
const AUTHORITY_KEY_ID: &[u8] = &[0x55, 0x1d, 0x23];
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];
const SERVER_AUTH: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01];
const CLIENT_AUTH: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02];
const TRUE: &[u8] = &[0x01, 0x01, 0xff];
/// Key usage: digital signatures and encryption of keys; for an authority also signing of certificates.
const USAGE: &[u8] = &[0x03, 0x02, 0x05, 0xa0];
const USAGE_OF_AUTHORITY: &[u8] = &[0x03, 0x02, 0x02, 0xa4];
/// Length of a serial number and of a key's name.
const SERIAL_BYTES: usize = 16;
const KEY_ID_BYTES: usize = 20;
/// Nanoseconds in a day.
const DAY: i64 = 86_400_000_000_000;
/// Steps that an alternative name takes.
const NAME_STEPS: usize = 16;
/// The longest certificate that is read.
const CERTIFICATE_BYTES_MAX: usize = 1 << 20;

/// A certificate with its key, in PEM.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Certificate {
    pub(super) cert: Str,
    pub(super) key: Str,
}

impl Object for Certificate {
    fn type_name(&self) -> &'static str {
        CERTIFICATE
    }

    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "Cert" => Some(Value::Str(self.cert.clone())),
            "Key" => Some(Value::Str(self.key.clone())),
            _ => None,
        }
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("Cert", Value::Str(self.cert.clone())),
            ("Key", Value::Str(self.key.clone())),
        ]
    }

    fn equals(&self, other: &dyn Object) -> bool {
        other.as_type() == Some(self)
    }
}

impl From<Certificate> for Value {
    fn from(certificate: Certificate) -> Self {
        Self::Object(Arc::new(certificate))
    }
}

/// The content of a certificate.
pub(super) struct Wanted {
    name: Str,
    ips: Vec<IpAddr>,
    dns: Vec<Str>,
    days: i64,
    is_authority: bool,
}

impl Wanted {
    /// One for an authority.
    pub(super) fn authority(name: &[u8], days: i64) -> Self {
        Self {
            name: name.into(),
            ips: Vec::new(),
            dns: Vec::new(),
            days,
            is_authority: true,
        }
    }

    /// One for a server or client.
    ///
    /// # Errors
    /// An address or a name is invalid.
    pub(super) fn leaf(name: &[u8], ips: &Value, dns: &Value, days: i64, scope: &Scope<'_>) -> Result<Self, Fault> {
        Ok(Self {
            name: name.into(),
            ips: addresses(ips, scope)?,
            dns: names(dns, scope)?,
            days,
            is_authority: false,
        })
    }
}

fn items<'v>(value: &'v Value, scope: &Scope<'_>) -> Result<&'v [Value], Fault> {
    let items = match value {
        Value::List(list) => List::items(list),
        _ => &[],
    };
    scope.spend(items.len().saturating_mul(NAME_STEPS))?;
    Ok(items)
}

fn no_string(what: &str, value: &Value, scope: &Scope<'_>) -> Fault {
    let shown = sprint(std::slice::from_ref(value), scope.limits.string_bytes_max);
    let shown = shown.unwrap_or_default();
    Fault::Message(format!("{what}: {} is not a string", String::from_utf8_lossy(&shown)))
}

fn addresses(value: &Value, scope: &Scope<'_>) -> Result<Vec<IpAddr>, Fault> {
    let all = items(value, scope)?.iter().map(|item| match item {
        Value::Str(text) => {
            let text = text.lossy();
            // Go takes an IPv6 address that maps one of IPv4 as that.
            let address = text.parse::<IpAddr>().map(|address| address.to_canonical());
            address.map_err(|_| Fault::Message(format!("error parsing ip: {text}")))
        }
        other => Err(no_string("error parsing ip", other, scope)),
    });
    all.collect()
}

fn names(value: &Value, scope: &Scope<'_>) -> Result<Vec<Str>, Fault> {
    let length = |item: &Value| match item {
        Value::Str(text) => text.len(),
        _ => 0,
    };
    let items = items(value, scope)?;
    // The certificate has all of them, twice as long in PEM, and one text may be many names.
    let bytes = items.iter().map(length).fold(0, usize::saturating_add);
    scope.spend(bytes)?;
    scope.check_length(bytes.saturating_mul(2))?;
    let all = items.iter().map(|item| match item {
        Value::Str(text) => Ok(text.clone()),
        other => Err(no_string("error processing alternate dns name", other, scope)),
    });
    all.collect()
}

/// The issuer: a certificate that was read, with its key.
pub(super) struct Signer {
    key: Key,
    /// As it is encoded
    subject: Vec<u8>,
    key_id: Option<Vec<u8>>,
    /// Its public half, as the certificate has it
    public: (Vec<u8>, Vec<u8>),
}

/// The certificate in a block of PEM.
fn parsed(block: Option<pem::Block>, name: &str) -> Result<Parsed, Fault> {
    let block = block.ok_or("unable to decode certificate")?;
    let is_short = block.bytes.len() <= CERTIFICATE_BYTES_MAX;
    let parsed = is_short.then(|| Parsed::from_der(&block.bytes).ok()).flatten();
    parsed.ok_or_else(|| {
        Fault::Message(format!(
            "error parsing certificate: {name}: x509: malformed certificate"
        ))
    })
}

/// Refuses what is no certificate or no key.
pub(super) fn check(cert: &[u8], key: &[u8], scope: &Scope<'_>) -> Result<(), Fault> {
    scope.spend(cert.len().saturating_add(key.len()))?;
    parsed(pem::read(cert), "decodedCert.Bytes")?;
    match Key::read(key) {
        Ok(_) => Ok(()),
        Err(why) => Err(Fault::Message(format!("error parsing private key: {why}"))),
    }
}

impl Signer {
    pub(super) fn read(certificate: &Certificate, scope: &Scope<'_>) -> Result<Self, Fault> {
        scope.spend(certificate.cert.len().saturating_add(certificate.key.len()))?;
        let parsed = parsed(pem::read(&certificate.cert), "decodedSignerCert.Bytes")?;
        let key = Key::read(&certificate.key);
        let key = key.map_err(|why| Fault::Message(format!("error parsing private key: {why}")))?;
        let wrong = |_| Fault::from("error parsing certificate: decodedSignerCert.Bytes: x509: malformed certificate");
        let body = parsed.tbs_certificate;
        let info = &body.subject_public_key_info;
        let public = (
            info.algorithm.to_der().map_err(wrong)?,
            info.subject_public_key.raw_bytes().to_vec(),
        );
        let extensions = body.extensions.unwrap_or_default();
        let key_id = extensions.iter().find(|extension| {
            let oid = extension.extn_id;
            oid.as_bytes() == SUBJECT_KEY_ID
        });
        let key_id = key_id.and_then(|id| SubjectKeyIdentifier::from_der(id.extn_value.as_bytes()).ok());
        Ok(Self {
            key,
            subject: body.subject.to_der().map_err(wrong)?,
            key_id: key_id.map(|id| id.0.as_bytes().to_vec()),
            public,
        })
    }
}

/// A name as Go writes it: printable letters, if it has no others.
fn subject(name: &Str) -> Result<Vec<u8>, Fault> {
    if name.is_empty() {
        return Ok(sequence(&[]));
    }
    let is_printable = name.iter().all(|byte| {
        byte.is_ascii_alphanumeric()
            || matches!(
                byte,
                b' ' | b'\'' | b'(' | b')' | b'+' | b',' | b'-' | b'.' | b'/' | b':' | b'=' | b'?'
            )
    });
    if !is_printable && std::str::from_utf8(name).is_err() {
        return Err(Fault::from("error creating certificate: asn1: string not valid UTF-8"));
    }
    let tag = if is_printable { PRINTABLE } else { UTF8 };
    let part = sequence(&[&oid(COMMON_NAME), &tagged(tag, name)]);
    Ok(sequence(&[&tagged(SET, &part)]))
}

/// A moment, until 2049 with two digits for the year.
fn time(time: &Time) -> Result<Vec<u8>, Fault> {
    let year = time.civil().year();
    let (tag, layout): (u8, &[u8]) = match year {
        1950..2050 => (UTC_TIME, b"060102150405Z"),
        0..=9999 => (GENERAL_TIME, b"20060102150405Z"),
        _ => {
            let what = "error creating certificate: asn1: structure error: cannot represent time as GeneralizedTime";
            return Err(Fault::from(what));
        }
    };
    Ok(tagged(tag, &dates::format(time, layout, usize::MAX)))
}

fn extension(name: &[u8], is_critical: bool, content: &[u8]) -> Vec<u8> {
    let critical = if is_critical { TRUE } else { &[] };
    sequence(&[&oid(name), critical, &tagged(OCTETS, content)])
}

fn alternative_names(wanted: &Wanted) -> Result<Vec<u8>, Fault> {
    let mut all = Vec::new();
    for name in &wanted.dns {
        if !name.is_ascii() {
            let what = format!(
                "error creating certificate: x509: {} cannot be encoded as an IA5String",
                quoted(name)
            );
            return Err(Fault::Message(what));
        }
        all.extend(tagged(0x82, name));
    }
    for address in &wanted.ips {
        all.extend(match address {
            IpAddr::V4(address) => tagged(0x87, &address.octets()),
            IpAddr::V6(address) => tagged(0x87, &address.octets()),
        });
    }
    Ok(sequence(&[&all]))
}

fn extensions(wanted: &Wanted, subject_is_empty: bool, key_id: Option<&[u8]>, public: &[u8]) -> Result<Vec<u8>, Fault> {
    let (usage, constraints): (&[u8], &[u8]) = match wanted.is_authority {
        true => (USAGE_OF_AUTHORITY, TRUE),
        false => (USAGE, &[]),
    };
    let mut all = extension(KEY_USAGE, true, usage);
    let purposes = sequence(&[&oid(SERVER_AUTH), &oid(CLIENT_AUTH)]);
    all.extend(extension(EXTENDED_KEY_USAGE, false, &purposes));
    all.extend(extension(BASIC_CONSTRAINTS, true, &sequence(&[constraints])));
    if wanted.is_authority {
        let id = Sha256::digest(public);
        let id = id.get(..KEY_ID_BYTES).unwrap_or_default();
        all.extend(extension(SUBJECT_KEY_ID, false, &tagged(OCTETS, id)));
    }
    if let Some(id) = key_id.filter(|id| !id.is_empty()) {
        all.extend(extension(AUTHORITY_KEY_ID, false, &sequence(&[&tagged(0x80, id)])));
    }
    if !wanted.dns.is_empty() || !wanted.ips.is_empty() {
        all.extend(extension(
            SUBJECT_ALT_NAME,
            subject_is_empty,
            &alternative_names(wanted)?,
        ));
    }
    Ok(sequence(&[&all]))
}

fn while_creating(fault: Fault) -> Fault {
    match fault {
        Fault::Message(why) => Fault::Message(format!("error creating certificate: {why}")),
        limit => limit,
    }
}

/// A certificate for a key, signed by another or by itself.
///
/// # Errors
/// Go's error, or a limit.
pub(super) fn make(
    wanted: &Wanted,
    key: &Key,
    signer: Option<&Signer>,
    scope: &mut Scope<'_>,
) -> Result<Certificate, Fault> {
    let signing_key = signer.map_or(key, |signer| &signer.key);
    let signing = signing_key.signing().map_err(while_creating)?;
    let (algorithm, public) = key.public().map_err(while_creating)?;
    let subject = subject(&wanted.name)?;
    let issuer = signer.map_or(&subject, |signer| &signer.subject);
    if let Some(signer) = signer
        && signer.key.public().map_err(while_creating)? != signer.public
    {
        let what = "error creating certificate: x509: provided PrivateKey doesn't match parent's PublicKey";
        return Err(Fault::from(what));
    }
    let key_id = signer.and_then(|signer| signer.key_id.as_deref());
    let key_id = key_id.filter(|_| *issuer != subject);
    let mut serial = [0; SERIAL_BYTES];
    entropy(scope)?.fill(&mut serial);
    let from = dates::now(scope)?.within(Zone::Utc);
    let until = from.add(DAY.wrapping_mul(wanted.days));
    let is_empty = wanted.name.is_empty();
    let body = sequence(&[
        &tagged(0xa0, &integer(&[2])),
        &integer(&serial),
        &signing,
        issuer,
        &sequence(&[&time(&from)?, &time(&until)?]),
        &subject,
        &sequence(&[&algorithm, &bits(&public)]),
        &tagged(0xa3, &extensions(wanted, is_empty, key_id, &public)?),
    ]);
    let signature = signing_key.sign(&body, scope).map_err(while_creating)?;
    let whole = sequence(&[&body, &signing, &bits(&signature)]);
    Ok(Certificate {
        cert: pem::write("CERTIFICATE", &whole).into(),
        key: key.pem()?.into(),
    })
}
