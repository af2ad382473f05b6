//! Authorities, certificates and keys as Secrets of a namespace: made once, renewed in time. `base-secrets` decides what to make
//! and what is obsolete; here Secrets are listed and created, never changed and never deleted.

use std::collections::{BTreeMap, BTreeSet};

use api_meta::Fault;
use base_client::{create_or_get, list};
use base_clock::{Clock, Entropy};
use base_secrets::{Managed, SecretError, Wanted, generate, label, lookup, plan};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client, ResourceExt};

/// How often a plan is made: bundles follow authorities, certificates follow both, and the last plan finds all of it.
const PLANS_MAX: usize = 4;

/// What a namespace has.
#[derive(Debug)]
pub struct ManagedSecrets {
    /// By the names of [`Wanted`].
    pub all: BTreeMap<String, Managed>,
    /// Names of Secrets that no pod mounts once the rest has been rolled out.
    pub obsolete: Vec<String>,
}

/// The label selector of the Secrets that are managed under an identity. Others manage Secrets in the same namespace under theirs.
#[must_use]
pub fn selector(identity: &str) -> String {
    format!(
        "{}={},{}={identity}",
        label::MANAGED_BY,
        label::MANAGER,
        label::IDENTITY
    )
}

/// Makes what is missing of `wanted` in a namespace.
///
/// # Errors
/// What the API server returns; a bug: a Secret of this identity cannot be read, or the Secrets are not complete after four plans; a
/// dependency fault, with their names, if Secrets of other managers have too many of the wanted names.
pub async fn ensure(
    client: &Client,
    namespace: &str,
    identity: &str,
    wanted: &[Wanted],
    clock: &Clock,
    entropy: &Entropy,
) -> Result<ManagedSecrets, Fault> {
    let unreadable = |error: SecretError| {
        Fault::bug(error).hint(format!(
            "look at the Secrets of namespace {namespace}: one of them cannot be read"
        ))
    };
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let mut existing = list(&api, &selector(identity)).await?;
    // Another manager's Secret under a wanted name is never taken over: the next plan gives ours another name.
    let mut foreign = BTreeSet::new();
    for _ in 0..PLANS_MAX {
        let now = clock.now();
        let plan = plan(wanted, &existing, now).map_err(unreadable)?;
        if !plan.generates() {
            return Ok(ManagedSecrets {
                all: lookup(wanted, &existing, now).map_err(unreadable)?,
                obsolete: plan.deletions().map(str::to_owned).collect(),
            });
        }
        let made = generate(&plan, wanted, &existing, namespace, identity, now, entropy);
        for secret in made.map_err(unreadable)? {
            let present = create_or_get(&api, &secret).await?;
            existing.push(match is_of(&present, identity) {
                true => present,
                false => {
                    foreign.insert(present.name_any());
                    name_alone(&present)
                }
            });
        }
    }
    Err(incomplete(namespace, identity, &foreign))
}

/// The fault of Secrets that are not complete after the last plan. `foreign` have wanted names.
fn incomplete(namespace: &str, identity: &str, foreign: &BTreeSet<String>) -> Fault {
    let text = format!("the Secrets of {identity} in namespace {namespace} are not complete after {PLANS_MAX} plans");
    if foreign.is_empty() {
        return Fault::bug(text);
    }
    let names: Vec<&str> = foreign.iter().map(String::as_str).collect();
    let names = names.join(", ");
    Fault::dependency(format!(
        "{text}: {names} exist and are not managed by {identity}, since they lack the labels {}",
        selector(identity)
    ))
    .hint(format!(
        "delete these Secrets of namespace {namespace} if no other program needs them: {names}"
    ))
}

/// A Secret of another manager as plans may see it: its name is taken. Its labels and data are not ours, and plans look at no
/// identity.
fn name_alone(secret: &Secret) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: secret.metadata.name.clone(),
            ..ObjectMeta::default()
        },
        ..Secret::default()
    }
}

/// Whether a Secret is managed under an identity.
fn is_of(secret: &Secret, identity: &str) -> bool {
    let has = |key: &str, value: &str| secret.labels().get(key).map(String::as_str) == Some(value);
    has(label::MANAGED_BY, label::MANAGER) && has(label::IDENTITY, identity)
}
