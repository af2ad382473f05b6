//! The plan: compares what is wanted with what exists. Never generates.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;

use super::{Content, Managed, Wanted, checksum_of_data, data, label, label_of, seconds_of, text_of};
use crate::{SecretError, Usage, renewal_time};

/// Why something is generated or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There is none.
    Missing,
    /// What is there was made by another recipe, or what it holds cannot be read.
    Changed,
    /// The owner requested a new generation.
    Rotated,
    /// The authority that is to sign it changed.
    AuthorityChanged(String),
    /// It is due for renewal.
    Expiring(Timestamp),
    /// The members of the bundle changed.
    BundleChanged,
    /// A secret of this name is no longer in the wanted list.
    NotWanted,
    /// A newer generation took its place.
    Superseded,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("does not exist yet"),
            Self::Changed => f.write_str("what it is to hold changed"),
            Self::Rotated => f.write_str("a rotation was requested"),
            Self::AuthorityChanged(name) => write!(f, "its authority {name} changed"),
            Self::Expiring(at) => write!(f, "was due for renewal at {at}"),
            Self::BundleChanged => f.write_str("the certificates or keys it collects changed"),
            Self::NotWanted => f.write_str("no longer wanted"),
            Self::Superseded => f.write_str("superseded by a newer one"),
        }
    }
}

/// One thing to do, or not to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Leave the object as it is.
    Keep {
        /// Name of the object.
        object: String,
    },
    /// Generate a new object for a wanted secret.
    Generate {
        /// What is wanted.
        wanted: Wanted,
        /// Why.
        reason: Reason,
    },
    /// Generate the bundle of a wanted authority or signing key.
    Bundle {
        /// What is collected.
        wanted: Wanted,
        /// Why.
        reason: Reason,
    },
    /// Delete the object, once nothing mounts it.
    Delete {
        /// Name of the object.
        object: String,
        /// Why.
        reason: Reason,
    },
}

/// What to do, in an order in which it can be done: authorities and keys, bundles, certificates, deletions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The actions.
    pub actions: Vec<Action>,
}

impl Plan {
    /// Whether nothing is left to do.
    pub fn is_settled(&self) -> bool {
        self.actions.iter().all(|action| matches!(action, Action::Keep { .. }))
    }

    /// Names of the objects to delete.
    pub fn deletions(&self) -> impl Iterator<Item = &str> {
        self.actions.iter().filter_map(|action| match action {
            Action::Delete { object, .. } => Some(object.as_str()),
            _ => None,
        })
    }

    /// Whether anything is to be generated.
    pub fn generates(&self) -> bool {
        self.actions
            .iter()
            .any(|action| matches!(action, Action::Generate { .. } | Action::Bundle { .. }))
    }
}

/// Compares what is wanted with what exists. Secrets without the manager's label are left alone.
///
/// # Errors
/// [`SecretError::UnknownAuthority`] when a certificate names an authority that is not wanted.
pub fn plan(wanted: &[Wanted], existing: &[Secret], now: Timestamp) -> Result<Plan, SecretError> {
    let mut sorted: Vec<&Wanted> = wanted.iter().collect();
    sorted.sort_by_key(|wanted| matches!(wanted.content, Content::Certificate { .. }));
    let (mut actions, mut certificates, mut retained) = (Vec::new(), Vec::new(), BTreeSet::new());
    for wanted_one in sorted {
        let found = Found::of(wanted_one, wanted, existing, now)?;
        retained.extend(found.current.into_iter().chain(found.old).map(object_name));
        let into = if wanted_one.has_bundle() {
            &mut actions
        } else {
            &mut certificates
        };
        if let Some(reason) = found.reason.clone() {
            into.push(Action::Generate {
                wanted: wanted_one.clone(),
                reason,
            });
        }
        if wanted_one.has_bundle() {
            match bundle(wanted_one, &found, existing) {
                Some(secret) => {
                    retained.insert(object_name(secret));
                }
                None => {
                    let reason = if bundles(wanted_one, existing).next().is_none() {
                        Reason::Missing
                    } else {
                        Reason::BundleChanged
                    };
                    actions.push(Action::Bundle {
                        wanted: wanted_one.clone(),
                        reason,
                    });
                }
            }
        }
    }
    actions.sort_by_key(|action| matches!(action, Action::Bundle { .. }));
    actions.append(&mut certificates);
    actions.extend(retained.iter().map(|object| Action::Keep { object: object.clone() }));
    let names: BTreeSet<String> = wanted
        .iter()
        .flat_map(|wanted| [wanted.name.clone(), wanted.bundle_name()])
        .collect();
    for secret in existing
        .iter()
        .filter(|secret| label_of(secret, label::MANAGED_BY) == Some(label::MANAGER))
    {
        let object = object_name(secret);
        if !retained.contains(&object) {
            let wanted = label_of(secret, label::NAME).is_some_and(|name| names.contains(name));
            actions.push(Action::Delete {
                object,
                reason: if wanted { Reason::Superseded } else { Reason::NotWanted },
            });
        }
    }
    Ok(Plan { actions })
}

/// What exists of every wanted secret that is up to date; by its name.
///
/// # Errors
/// [`SecretError::UnknownAuthority`] when a certificate names an authority that is not wanted.
pub fn lookup(
    wanted: &[Wanted],
    existing: &[Secret],
    now: Timestamp,
) -> Result<BTreeMap<String, Managed>, SecretError> {
    let mut all = BTreeMap::new();
    for wanted_one in wanted {
        let found = Found::of(wanted_one, wanted, existing, now)?;
        let bundle = bundle(wanted_one, &found, existing).cloned();
        // A certificate that is due for renewal still serves until the new one is there.
        if let Some(current) = found.current.or(found.due) {
            let managed = Managed {
                current: current.clone(),
                old: found.old.cloned(),
                bundle,
            };
            all.insert(wanted_one.name.clone(), managed);
        }
    }
    Ok(all)
}

/// What exists of one wanted secret.
pub(super) struct Found<'a> {
    pub(super) current: Option<&'a Secret>,
    pub(super) old: Option<&'a Secret>,
    due: Option<&'a Secret>,
    reason: Option<Reason>,
}

impl<'a> Found<'a> {
    pub(super) fn of(
        wanted: &Wanted,
        all: &[Wanted],
        existing: &'a [Secret],
        now: Timestamp,
    ) -> Result<Self, SecretError> {
        let mut generations: Vec<&'a Secret> = existing
            .iter()
            .filter(|secret| label_of(secret, label::MANAGED_BY) == Some(label::MANAGER))
            .filter(|secret| label_of(secret, label::NAME) == Some(wanted.name.as_str()))
            .filter(|secret| label_of(secret, label::BUNDLE_FOR).is_none())
            .collect();
        generations.sort_by_key(|secret| {
            (
                seconds_of(secret, label::ISSUED_AT),
                seconds_of(secret, label::ROTATED),
                object_name(secret),
            )
        });
        generations.reverse();
        let signer = match &wanted.content {
            Content::Certificate { spec, signed_by } => Some((
                signed_by,
                signer(signed_by, spec.usage, all, existing, now, &wanted.name)?,
            )),
            _ => None,
        };
        let mut reason = Reason::Missing;
        let (mut current, mut due) = (None, None);
        for (index, secret) in generations.iter().enumerate() {
            match why_not(wanted, secret, signer, now) {
                None => {
                    current = Some((index, *secret));
                    break;
                }
                Some(why) => {
                    if index == 0 {
                        due = matches!(why, Reason::Expiring(_)).then_some(*secret);
                        reason = why;
                    }
                }
            }
        }
        let rest = current.map_or(0, |(index, _)| index + 1);
        let old = generations
            .get(rest)
            .copied()
            .filter(|_| wanted.rotation.keep_old)
            .filter(|secret| readable(wanted, secret));
        let reason = current.is_none().then_some(reason);
        Ok(Self {
            current: current.map(|(_, secret)| secret),
            old,
            due,
            reason,
        })
    }
}

/// The Secret of the authority that is to sign for this usage: servers stay with the old one while it is trusted.
pub(super) fn signer<'a>(
    authority: &str,
    usage: Usage,
    all: &[Wanted],
    existing: &'a [Secret],
    now: Timestamp,
    requester: &str,
) -> Result<Option<&'a Secret>, SecretError> {
    let unknown = || SecretError::UnknownAuthority {
        secret: requester.to_owned(),
        authority: authority.to_owned(),
    };
    let wanted = all
        .iter()
        .find(|wanted| wanted.name == authority && matches!(wanted.content, Content::Authority { .. }));
    let found = Found::of(wanted.ok_or_else(unknown)?, all, existing, now)?;
    Ok(match usage {
        Usage::Client => found.current,
        Usage::Server | Usage::ServerAndClient => found.old.or(found.current),
    })
}

fn why_not(
    wanted: &Wanted,
    secret: &Secret,
    signer: Option<(&String, Option<&Secret>)>,
    now: Timestamp,
) -> Option<Reason> {
    if label_of(secret, label::CHECKSUM_CONFIG) != Some(wanted.checksum().as_str()) || !readable(wanted, secret) {
        return Some(Reason::Changed);
    }
    let rotated = seconds_of(secret, label::ROTATED);
    if wanted
        .rotation
        .initiated
        .is_some_and(|initiated| rotated.is_none_or(|rotated| rotated < initiated.as_second()))
    {
        return Some(Reason::Rotated);
    }
    if let Some((name, signer)) = signer {
        let signed_by = label_of(secret, label::CHECKSUM_AUTHORITY);
        if signer.is_none_or(|signer| signed_by != Some(checksum_of_data(signer).as_str())) {
            return Some(Reason::AuthorityChanged(name.clone()));
        }
    }
    // Authorities are never renewed by themselves: their owner has to roll them out, in phases.
    if wanted.has_bundle() {
        return None;
    }
    let (issued, until) = (
        seconds_of(secret, label::ISSUED_AT)?,
        seconds_of(secret, label::VALID_UNTIL)?,
    );
    let due = renewal_time(
        Timestamp::from_second(issued).ok()?,
        Timestamp::from_second(until).ok()?,
    );
    // What an authority signs ends with it: near its end, another certificate would be due at once.
    let signer_until = signer.and_then(|(_, signer)| seconds_of(signer?, label::VALID_UNTIL));
    let is_last = signer_until.is_some_and(|end| end <= until);
    (now >= due && !is_last).then_some(Reason::Expiring(due))
}

fn readable(wanted: &Wanted, secret: &Secret) -> bool {
    let keys: &[&str] = match wanted.content {
        Content::Authority { .. } => &[data::CA_CERTIFICATE, data::CA_KEY],
        Content::Certificate { .. } => &[data::CERTIFICATE, data::KEY],
        Content::SigningKey => &[data::SIGNING_KEY, data::SIGNING_KEY_PUBLIC],
        Content::SshKeyPair => &[data::SSH_KEY, data::SSH_KEY_PUBLIC],
        Content::Password { .. } => &[data::USERNAME, data::PASSWORD],
    };
    keys.iter().all(|key| text_of(secret, key).is_ok())
}

fn bundles<'a>(wanted: &Wanted, existing: &'a [Secret]) -> impl Iterator<Item = &'a Secret> {
    let name = wanted.name.clone();
    existing
        .iter()
        .filter(|secret| label_of(secret, label::MANAGED_BY) == Some(label::MANAGER))
        .filter(move |secret| label_of(secret, label::BUNDLE_FOR) == Some(name.as_str()))
}

/// The existing bundle that collects exactly the trusted generations.
fn bundle<'a>(wanted: &Wanted, found: &Found<'_>, existing: &'a [Secret]) -> Option<&'a Secret> {
    let (key, text) = members(wanted, found)?;
    bundles(wanted, existing).find(|secret| text_of(secret, key).is_ok_and(|held| held.expose() == text))
}

/// Data key and text of a bundle; `None` while there is no current generation or for contents without bundles.
pub(super) fn members(wanted: &Wanted, found: &Found<'_>) -> Option<(&'static str, String)> {
    let (member, key) = match wanted.content {
        Content::Authority { .. } => (data::CA_CERTIFICATE, data::BUNDLE),
        Content::SigningKey => (data::SIGNING_KEY_PUBLIC, data::SIGNING_KEY_BUNDLE),
        _ => return None,
    };
    let mut text = text_of(found.current?, member).ok()?.expose().to_owned();
    if let Some(old) = found.old {
        text.push_str(text_of(old, member).ok()?.expose());
    }
    Some((key, text))
}

pub(super) fn object_name(secret: &Secret) -> String {
    secret.metadata.name.clone().unwrap_or_default()
}
