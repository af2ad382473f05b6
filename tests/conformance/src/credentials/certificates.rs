//! Client certificates: good ones, and every way not to be one. It only makes them.

use std::time::Duration;

use base_secrets::{Authority, CertificateSpec, Issued, Usage};
use http::HeaderName;
use jiff::Timestamp;

use super::{Case, Party, Shown};
use crate::Outcome;
use crate::pki::FRONT_PROXY;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Whom a front proxy names.
const NAMED: HeaderName = HeaderName::from_static("x-remote-user");

pub(super) fn cases(party: &Party<'_>) -> Outcome<Vec<Case>> {
    let foreign =
        Authority::generate("conformance", &party.clock, &party.entropy).map_err(|error| error.to_string())?;
    let (own, front) = (&party.pki.authority, &party.pki.front_authority);
    let now = party.clock.now();
    let at = |authority: &Authority, spec: &CertificateSpec, now: Timestamp| -> Outcome<Issued> {
        let issued = authority.issue_at(spec, now, &party.entropy);
        issued.map_err(|error| error.to_string())
    };
    let (past, future) = (now.checked_sub(2 * DAY), now.checked_add(DAY));
    let (past, future) = (past.unwrap_or(now), future.unwrap_or(now));
    let jane = CertificateSpec::client("jane", &["devs"], DAY);
    let for_servers = CertificateSpec {
        usage: Usage::Server,
        ..jane.clone()
    };
    let both = CertificateSpec {
        usage: Usage::ServerAndClient,
        ..jane.clone()
    };
    let nameless = CertificateSpec::client("", &["devs"], DAY);
    let master = CertificateSpec::client("root", &["system:masters"], DAY);
    let proxy = CertificateSpec::client(FRONT_PROXY, &[], DAY);
    let plain = |authority, spec, now| at(authority, spec, now).map(Shown::certificate);
    let naming = |authority, spec, now| plain(authority, spec, now).map(|shown| shown.with(NAMED, "alice"));
    let mut stolen = at(own, &jane, now)?;
    stolen.certificate = own.certificate().clone();
    stolen.key = own_key(own)?;
    Ok(vec![
        ("nothing at all", Shown::default()),
        ("a certificate", plain(own, &jane, now)?),
        ("a certificate for servers and clients", plain(own, &both, now)?),
        ("a certificate that has expired", plain(own, &jane, past)?),
        ("a certificate that is not valid yet", plain(own, &jane, future)?),
        ("a certificate for servers alone", plain(own, &for_servers, now)?),
        ("a certificate without a name", plain(own, &nameless, now)?),
        (
            "a certificate of an authority of the same name",
            plain(&foreign, &jane, now)?,
        ),
        (
            "a master's certificate of a foreign authority",
            plain(&foreign, &master, now)?,
        ),
        ("an authority's own certificate", Shown::certificate(stolen)),
        ("a front proxy that names a user", naming(front, &proxy, now)?),
        ("a front proxy that names no user", plain(front, &proxy, now)?),
        (
            "a front proxy whose certificate has expired",
            naming(front, &proxy, past)?,
        ),
        ("a front proxy whose name is not allowed", naming(front, &jane, now)?),
        ("a front proxy of a foreign authority", naming(&foreign, &proxy, now)?),
        ("a client that names another user", naming(own, &jane, now)?),
        (
            "an anonymous client that names a user",
            Shown::default().with(NAMED, "alice"),
        ),
    ])
}

/// An authority's key, as who holds it would use it.
fn own_key(authority: &Authority) -> Outcome<base_secrets::PrivateKey> {
    base_secrets::PrivateKey::from_pem(authority.key_pem().expose()).map_err(|error| error.to_string())
}
