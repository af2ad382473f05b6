//! Client certificates: good ones, and bad ones of every kind. It only makes them.

use std::time::Duration;

use base_secrets::{Authority, CertificateSpec, Issued, Usage};
use http::HeaderName;
use jiff::Timestamp;

use super::{Case, Credential, Target};
use crate::Outcome;
use crate::pki::FRONT_PROXY;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// The header in which a front proxy names the user.
const REMOTE_USER: HeaderName = HeaderName::from_static("x-remote-user");

pub(super) fn cases(target: &Target<'_>) -> Outcome<Vec<Case>> {
    let foreign =
        Authority::generate("conformance", &target.clock, &target.entropy).map_err(|error| error.to_string())?;
    let (own, front) = (&target.pki.authority, &target.pki.front_authority);
    let now = target.clock.now();
    let at = |authority: &Authority, spec: &CertificateSpec, now: Timestamp| -> Outcome<Issued> {
        let issued = authority.issue_at(spec, now, &target.entropy);
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
    let plain = |authority, spec, now| at(authority, spec, now).map(Credential::certificate);
    let naming =
        |authority, spec, now| plain(authority, spec, now).map(|credential| credential.with(REMOTE_USER, "alice"));
    let mut stolen = at(own, &jane, now)?;
    stolen.certificate = own.certificate().clone();
    stolen.key = own_key(own)?;
    Ok(vec![
        ("nothing at all", Credential::default()),
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
        ("an authority's own certificate", Credential::certificate(stolen)),
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
            Credential::default().with(REMOTE_USER, "alice"),
        ),
    ])
}

/// An authority's key as a client's key.
fn own_key(authority: &Authority) -> Outcome<base_secrets::PrivateKey> {
    base_secrets::PrivateKey::from_pem(authority.key_pem().expose()).map_err(|error| error.to_string())
}
