//! When authority and certificate are made and renewed. Pure but for the randomness of keys: the time is an argument.
//!
//! An authority lives 30 days, as Gardener's does (gardener/gardener v1.150 extensions/pkg/webhook/certificates). At 80 % of that
//! the next one is made and published. Half of what is left later it takes over: the certificate is issued again. The old one stays
//! published until its end, which no certificate of it outlives. So API servers and replicas have days to learn of each step.

use std::net::IpAddr;
use std::time::Duration;

use base_clock::Entropy;
use base_secrets::{
    Authority, Certificate, CertificateSpec, Issued, RENEW_AT_PERCENT, SecretError, VALIDITY_BACKDATED,
};
use jiff::Timestamp;

use super::stored::Stored;

/// How long an authority is valid, and its certificates at most.
const VALIDITY: Duration = Duration::from_secs(30 * 24 * 3600);
/// A certificate is not issued again if that makes it last no longer than this.
const GAIN_MIN: Duration = Duration::from_secs(3600);
/// Steps that one look takes at most: to make the next authority, to let it take over, to drop the old one, to issue.
const STEPS_MAX: usize = 6;

/// The content of the certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The common name of the certificate; authorities have it with a time behind it.
    pub(crate) common_name: String,
    pub(crate) dns_names: Vec<String>,
    pub(crate) addresses: Vec<IpAddr>,
}

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing there can be used: everything is made.
    Begin,
    /// The authority to come is made, so that it can be published.
    Publish,
    /// It takes over.
    TakeOver,
    /// The authority before has expired.
    DropOld,
    /// The certificate is issued again: for other names, or because it ends.
    Issue,
}

/// What is there after all that is due has been done.
#[derive(Debug)]
pub(crate) struct Renewed {
    pub(crate) stored: Stored,
    pub(crate) steps: Vec<Step>,
    /// When there is something to do again.
    pub(crate) due: Timestamp,
}

/// Does what is due. `stored`: `None` where nothing is stored or it cannot be read. `published`: whether API servers have been
/// given the next authority.
///
/// # Errors
/// Names that a certificate cannot carry.
pub(crate) fn renew(
    stored: Option<Stored>,
    wanted: &Wanted,
    published: bool,
    now: Timestamp,
    entropy: &Entropy,
) -> Result<Renewed, SecretError> {
    let mut stored = stored;
    let mut steps = Vec::new();
    while steps.len() < STEPS_MAX {
        let Some(step) = next_step(stored.as_ref(), wanted, published, now) else {
            break;
        };
        stored = Some(taken(step, stored, wanted, now, entropy)?);
        steps.push(step);
    }
    let stored = match stored {
        Some(stored) => stored,
        // Not reached: without anything the first step begins.
        None => begin(wanted, now, entropy)?,
    };
    let due = due(&stored, now);
    Ok(Renewed { stored, steps, due })
}

fn next_step(stored: Option<&Stored>, wanted: &Wanted, published: bool, now: Timestamp) -> Option<Step> {
    let Some(stored) = stored else {
        return Some(Step::Begin);
    };
    let certificate = stored.authority.certificate();
    let is_over = now >= certificate.not_after();
    match &stored.next {
        None if is_over => return Some(Step::Begin),
        None if now >= publish_at(&stored.authority) => return Some(Step::Publish),
        Some(next) if is_over && now >= next.certificate().not_after() => return Some(Step::Begin),
        // Nothing can get worse by it then.
        Some(_) if is_over => return Some(Step::TakeOver),
        Some(next) if published && now >= take_over_at(&stored.authority, next) => return Some(Step::TakeOver),
        _ => {}
    }
    if stored.old.as_ref().is_some_and(|old| now >= old.not_after()) {
        return Some(Step::DropOld);
    }
    let server = &stored.server.certificate;
    let ends = now >= renew_at(server) && server.not_after() < before(certificate.not_after(), GAIN_MIN);
    let is_fit = server.names_as_issuer(certificate) && is_for(&stored.server, wanted) && now < server.not_after();
    (ends || !is_fit).then_some(Step::Issue)
}

fn is_for(issued: &Issued, wanted: &Wanted) -> bool {
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    let addresses = |addresses: &[IpAddr]| sorted(addresses.iter().map(ToString::to_string).collect());
    sorted(issued.certificate.dns_names()) == sorted(wanted.dns_names.clone())
        && addresses(&issued.certificate.ip_addresses()) == addresses(&wanted.addresses)
}

fn taken(
    step: Step,
    stored: Option<Stored>,
    wanted: &Wanted,
    now: Timestamp,
    entropy: &Entropy,
) -> Result<Stored, SecretError> {
    let Some(stored) = stored.filter(|_| step != Step::Begin) else {
        return begin(wanted, now, entropy);
    };
    Ok(match step {
        Step::Begin => stored,
        Step::Publish => Stored {
            next: Some(authority(wanted, now, entropy)?),
            ..stored
        },
        Step::TakeOver => {
            let old = stored.authority.certificate().clone();
            let authority = stored.next.unwrap_or(stored.authority);
            Stored {
                server: issue(&authority, wanted, now, entropy)?,
                authority,
                next: None,
                old: Some(old),
            }
        }
        Step::DropOld => Stored { old: None, ..stored },
        Step::Issue => Stored {
            server: issue(&stored.authority, wanted, now, entropy)?,
            ..stored
        },
    })
}

fn begin(wanted: &Wanted, now: Timestamp, entropy: &Entropy) -> Result<Stored, SecretError> {
    let authority = authority(wanted, now, entropy)?;
    Ok(Stored {
        server: issue(&authority, wanted, now, entropy)?,
        authority,
        next: None,
        old: None,
    })
}

/// Each authority has a name of its own: which of them has signed a certificate is read from its issuer.
fn authority(wanted: &Wanted, now: Timestamp, entropy: &Entropy) -> Result<Authority, SecretError> {
    let name = format!("{}-ca@{}", wanted.common_name, now.as_second());
    Authority::generate_at(&name, VALIDITY, now, entropy)
}

fn issue(authority: &Authority, wanted: &Wanted, now: Timestamp, entropy: &Entropy) -> Result<Issued, SecretError> {
    let Wanted {
        common_name,
        dns_names,
        addresses,
    } = wanted;
    let spec = CertificateSpec::server(common_name, dns_names.clone(), addresses.clone(), VALIDITY);
    authority.issue_at(&spec, now, entropy)
}

fn publish_at(authority: &Authority) -> Timestamp {
    renew_at(authority.certificate())
}

fn renew_at(certificate: &Certificate) -> Timestamp {
    let made = after(certificate.not_before(), VALIDITY_BACKDATED);
    let lifetime = between(made, certificate.not_after());
    after(made, lifetime * RENEW_AT_PERCENT / 100)
}

/// Half of what is left of the present authority after the next one was made.
fn take_over_at(present: &Authority, next: &Authority) -> Timestamp {
    let made = after(next.certificate().not_before(), VALIDITY_BACKDATED);
    after(made, between(made, present.certificate().not_after()) / 2)
}

fn due(stored: &Stored, now: Timestamp) -> Timestamp {
    let end = stored.authority.certificate().not_after();
    let authority = match &stored.next {
        None => publish_at(&stored.authority),
        Some(next) => take_over_at(&stored.authority, next),
    };
    let old = stored.old.as_ref().map(Certificate::not_after);
    let server = &stored.server.certificate;
    let server = (server.not_after() < before(end, GAIN_MIN)).then(|| renew_at(server));
    let all = [Some(authority), old, server]
        .into_iter()
        .flatten()
        .filter(|at| *at > now);
    all.min().unwrap_or(end)
}

fn after(time: Timestamp, duration: Duration) -> Timestamp {
    time.checked_add(duration).unwrap_or(Timestamp::MAX)
}

fn before(time: Timestamp, duration: Duration) -> Timestamp {
    time.checked_sub(duration).unwrap_or(Timestamp::MIN)
}

fn between(from: Timestamp, until: Timestamp) -> Duration {
    Duration::try_from(until.duration_since(from)).unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::Step::{Begin, DropOld, Issue, Publish, TakeOver};
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    /// An extension over time.
    struct Life {
        now: Timestamp,
        stored: Option<Stored>,
        wanted: Wanted,
        published: bool,
        entropy: Entropy,
        due: Timestamp,
    }

    impl Life {
        fn new() -> Self {
            let now = "2026-01-01T00:00:00Z".parse().unwrap();
            Self {
                now,
                stored: None,
                wanted: Wanted {
                    common_name: "x".to_owned(),
                    dns_names: vec!["x.n.svc".to_owned()],
                    addresses: Vec::new(),
                },
                published: true,
                entropy: Entropy::seeded(1),
                due: now,
            }
        }

        /// What is done after this time. Whatever it is: the certificate shown is of a published authority, and valid.
        fn after(&mut self, time: Duration) -> Vec<Step> {
            self.now = after(self.now, time);
            let stored = self.stored.take();
            let renewed = renew(stored, &self.wanted, self.published, self.now, &self.entropy).unwrap();
            let again = renew(
                Some(renewed.stored.clone()),
                &self.wanted,
                self.published,
                self.now,
                &self.entropy,
            );
            assert_eq!(again.unwrap().steps, [], "nothing is left to do");
            let server = &renewed.stored.server.certificate;
            assert!(server.is_valid_at(self.now) && renewed.due > self.now, "{renewed:?}");
            let bundle = base_secrets::parse_chain(&renewed.stored.bundle()).unwrap();
            assert!(bundle.iter().any(|authority| server.names_as_issuer(authority)));
            self.stored = Some(renewed.stored);
            self.due = renewed.due;
            renewed.steps
        }

        fn authorities(&self) -> usize {
            base_secrets::parse_chain(&self.stored.as_ref().unwrap().bundle())
                .unwrap()
                .len()
        }
    }

    #[test]
    fn authorities_are_published_before_use_and_stay_until_their_end() {
        let mut life = Life::new();
        assert_eq!(life.after(Duration::ZERO), [Begin]);
        assert_eq!(life.due, after(life.now, 24 * DAY));
        assert_eq!(life.after(23 * DAY), []);
        let shown = life.stored.clone().unwrap().server;
        assert_eq!(life.after(DAY), [Publish]);
        assert_eq!((life.authorities(), life.due), (2, after(life.now, 3 * DAY)));
        assert_eq!(
            life.stored.clone().unwrap().server,
            shown,
            "the certificate is not changed yet"
        );
        assert_eq!(life.after(3 * DAY), [TakeOver]);
        assert_eq!((life.authorities(), life.due), (2, after(life.now, 3 * DAY)));
        assert_eq!(life.after(3 * DAY), [DropOld]);
        assert_eq!(life.authorities(), 1);
        // The second authority was made on day 24.
        assert_eq!(life.due, after(life.now, 18 * DAY));
    }

    #[test]
    fn an_authority_that_is_not_published_does_not_take_over() {
        let mut life = Life::new();
        life.after(Duration::ZERO);
        life.after(25 * DAY);
        life.published = false;
        assert_eq!(life.after(4 * DAY), []);
        life.published = true;
        assert_eq!(life.after(Duration::from_secs(1)), [TakeOver]);
    }

    #[test]
    fn what_has_expired_while_nothing_ran_is_replaced_at_once() {
        let mut life = Life::new();
        life.after(Duration::ZERO);
        assert_eq!(life.after(31 * DAY), [Begin]);
        assert_eq!(life.after(25 * DAY), [Publish]);
        life.published = false;
        // The next authority is the only one that is still valid.
        assert_eq!(life.after(6 * DAY), [TakeOver, DropOld]);
        assert_eq!(life.after(100 * DAY), [Begin]);
    }

    #[test]
    fn a_start_in_the_last_days_publishes_and_takes_over_in_time() {
        let mut life = Life::new();
        life.after(Duration::ZERO);
        assert_eq!(life.after(29 * DAY), [Publish]);
        assert_eq!(life.due, after(life.now, DAY / 2));
        assert_eq!(life.after(DAY / 2), [TakeOver]);
    }

    #[test]
    fn other_names_need_another_certificate_of_the_same_authority() {
        let mut life = Life::new();
        life.after(Duration::ZERO);
        let before = life.stored.clone().unwrap();
        life.wanted.addresses = vec!["127.0.0.1".parse().unwrap()];
        assert_eq!(life.after(DAY), [Issue]);
        let renewed = life.stored.clone().unwrap();
        assert_eq!(renewed.authority, before.authority);
        assert_ne!(renewed.server, before.server);
        life.wanted.dns_names.push("a.n.svc".to_owned());
        assert_eq!(life.after(DAY), [Issue]);
    }

    #[test]
    fn what_is_stored_is_read_as_it_was() {
        let mut life = Life::new();
        life.after(Duration::ZERO);
        for time in [24 * DAY, 3 * DAY] {
            life.after(time);
            let stored = life.stored.clone().unwrap();
            let secret = k8s_openapi::api::core::v1::Secret {
                data: Some(stored.data()),
                ..Default::default()
            };
            assert_eq!(Stored::read(&secret).unwrap(), stored);
            assert!(!format!("{stored:?}").contains("PRIVATE KEY"));
        }
    }
}
