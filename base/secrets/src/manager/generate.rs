//! Makes the Secrets of a plan. Never writes them anywhere; deletions of the plan are its caller's part.

use std::collections::BTreeMap;

use base_clock::Entropy;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::plan::{Found, members, signer};
use super::{Action, Content, Plan, Wanted, authority_of, checksum, checksum_of_data, data, label};
use crate::{Authority, PrivateKey, SecretError, SshKeyPair, VALIDITY_AUTHORITY, password};

/// Makes the Secrets of the plan, in its order. `wanted` and `existing` are those the plan was made from;
/// `identity` names the manager, the component that calls this.
///
/// # Errors
/// [`SecretError`] when an authority cannot be read or a certificate cannot carry a name.
pub fn generate(
    plan: &Plan,
    wanted: &[Wanted],
    existing: &[Secret],
    namespace: &str,
    identity: &str,
    now: Timestamp,
    entropy: &Entropy,
) -> Result<Vec<Secret>, SecretError> {
    let mut all = existing.to_vec();
    for action in &plan.actions {
        let made = match action {
            Action::Generate { wanted: one, .. } => Some(make(one, wanted, &all, now, entropy)?),
            Action::Bundle { wanted: one, .. } => bundle(one, wanted, &all, now)?,
            Action::Keep { .. } | Action::Delete { .. } => None,
        };
        if let Some(made) = made {
            let secret = made.into_secret(&all, namespace, identity, now);
            all.push(secret);
        }
    }
    Ok(all.split_off(existing.len()))
}

/// A Secret in the making.
struct Made {
    name: String,
    data: BTreeMap<String, ByteString>,
    labels: BTreeMap<String, String>,
    recipe: String,
    rotated: Option<Timestamp>,
}

impl Made {
    fn into_secret(self, all: &[Secret], namespace: &str, identity: &str, now: Timestamp) -> Secret {
        let Self {
            name,
            data,
            mut labels,
            recipe,
            mut rotated,
        } = self;
        let taken = |object: &str| all.iter().any(|secret| secret.metadata.name.as_deref() == Some(object));
        let mut object = object_for(&name, &recipe, rotated);
        if taken(&object) {
            // A renewal by the same recipe: a new generation needs a name of its own.
            rotated = Some(now);
            object = object_for(&name, &recipe, rotated);
        }
        labels.extend([
            (label::NAME.to_owned(), name),
            (label::MANAGED_BY.to_owned(), label::MANAGER.to_owned()),
            (label::IDENTITY.to_owned(), identity.to_owned()),
            (label::ISSUED_AT.to_owned(), now.as_second().to_string()),
            (
                label::ROTATED.to_owned(),
                rotated.map(|at| at.as_second().to_string()).unwrap_or_default(),
            ),
        ]);
        Secret {
            metadata: ObjectMeta {
                name: Some(object),
                namespace: Some(namespace.to_owned()),
                labels: Some(labels),
                ..ObjectMeta::default()
            },
            type_: Some("Opaque".to_owned()),
            immutable: Some(true),
            data: Some(data),
            ..Secret::default()
        }
    }
}

/// `<name>-<8 digits of the recipe>[-<5 digits of the rotation>]`.
fn object_for(name: &str, recipe: &str, rotated: Option<Timestamp>) -> String {
    let hash = &checksum(recipe.as_bytes())[..8];
    match rotated {
        Some(at) => format!(
            "{name}-{hash}-{}",
            &checksum(at.as_second().to_string().as_bytes())[..5]
        ),
        None => format!("{name}-{hash}"),
    }
}

fn make(
    wanted: &Wanted,
    all_wanted: &[Wanted],
    all: &[Secret],
    now: Timestamp,
    entropy: &Entropy,
) -> Result<Made, SecretError> {
    let config = wanted.checksum();
    let mut labels = BTreeMap::from([(label::CHECKSUM_CONFIG.to_owned(), config.clone())]);
    let mut recipe = config;
    let mut expires = |at: Timestamp| labels.insert(label::VALID_UNTIL.to_owned(), at.as_second().to_string());
    let data = match &wanted.content {
        Content::Authority { common_name } => {
            let authority = Authority::generate_at(common_name, VALIDITY_AUTHORITY, now, entropy)?;
            expires(authority.certificate().not_after());
            entries([
                (data::CA_CERTIFICATE, authority.certificate_pem().into_bytes()),
                (data::CA_KEY, authority.key_pem().expose_bytes()),
            ])
        }
        Content::Certificate { spec, signed_by } => {
            let unknown = || SecretError::UnknownAuthority {
                secret: wanted.name.clone(),
                authority: signed_by.clone(),
            };
            let secret = signer(signed_by, spec.usage, all_wanted, all, now, &wanted.name)?.ok_or_else(unknown)?;
            let issued = authority_of(secret)?.issue_at(spec, now, entropy)?;
            expires(issued.certificate.not_after());
            let authority = checksum_of_data(secret);
            recipe.push_str(&authority);
            labels.insert(label::CHECKSUM_AUTHORITY.to_owned(), authority);
            entries([
                (data::CERTIFICATE, issued.certificate_pem().into_bytes()),
                (data::KEY, issued.key_pem().expose_bytes()),
            ])
        }
        Content::SigningKey => {
            let key = PrivateKey::generate(entropy);
            entries([
                (data::SIGNING_KEY, key.to_pem().expose_bytes()),
                (data::SIGNING_KEY_PUBLIC, key.public().to_pem().into_bytes()),
            ])
        }
        Content::SshKeyPair => {
            let pair = SshKeyPair::generate(entropy);
            entries([
                (data::SSH_KEY, pair.private().expose_bytes()),
                (data::SSH_KEY_PUBLIC, pair.public().into_bytes()),
            ])
        }
        Content::Password { username, length } => entries([
            (data::USERNAME, username.clone().into_bytes()),
            (data::PASSWORD, password(*length, entropy).expose_bytes()),
        ]),
    };
    Ok(Made {
        name: wanted.name.clone(),
        data,
        labels,
        recipe,
        rotated: wanted.rotation.initiated,
    })
}

fn bundle(wanted: &Wanted, all_wanted: &[Wanted], all: &[Secret], now: Timestamp) -> Result<Option<Made>, SecretError> {
    let found = Found::of(wanted, all_wanted, all, now)?;
    let Some((key, text)) = members(wanted, &found) else {
        return Ok(None);
    };
    let labels = BTreeMap::from([(label::BUNDLE_FOR.to_owned(), wanted.name.clone())]);
    let recipe = text.clone();
    Ok(Some(Made {
        name: wanted.bundle_name(),
        data: entries([(key, text.into_bytes())]),
        labels,
        recipe,
        rotated: None,
    }))
}

fn entries<const N: usize>(pairs: [(&str, Vec<u8>); N]) -> BTreeMap<String, ByteString> {
    pairs
        .into_iter()
        .map(|(key, bytes)| (key.to_owned(), ByteString(bytes)))
        .collect()
}
