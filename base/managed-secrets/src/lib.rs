//! Authorities, certificates and keys as Secrets of a namespace: made once, renewed in time. `base-secrets` decides what to make
//! and what is obsolete; here Secrets are listed and created, never changed and never deleted.

use std::collections::BTreeMap;

use api_meta::Fault;
use base_client::{create_or_get, list};
use base_clock::{Clock, Entropy};
use base_secrets::{Managed, SecretError, Wanted, generate, label, lookup, plan};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt};

/// How often a plan is made: bundles follow authorities, certificates follow both, and the last plan finds all of it.
const PLANS_MAX: usize = 4;

/// What a namespace has.
#[derive(Debug)]
pub struct ManagedSecrets {
    /// By the names under which they were wanted.
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
/// What the API server returns; a dependency fault: a Secret of a wanted name is another manager's; a bug: a Secret of this identity
/// cannot be read, or the Secrets are not complete after four plans.
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
            check_manager(&present, namespace, identity)?;
            existing.push(present);
        }
    }
    Err(Fault::bug(format!(
        "the Secrets of {identity} in namespace {namespace} are not complete after {PLANS_MAX} plans"
    )))
}

/// A Secret that was there already under a wanted name must be of this identity: another one is never taken over.
fn check_manager(secret: &Secret, namespace: &str, identity: &str) -> Result<(), Fault> {
    let has = |key: &str, value: &str| secret.labels().get(key).map(String::as_str) == Some(value);
    if has(label::MANAGED_BY, label::MANAGER) && has(label::IDENTITY, identity) {
        return Ok(());
    }
    let name = secret.name_any();
    let text = format!(
        "the Secret {namespace}/{name} exists and is not managed by {identity}: it lacks the labels {}",
        selector(identity)
    );
    Err(Fault::dependency(text).hint(format!(
        "delete the Secret {name} of namespace {namespace} if no other program needs it: it is then made anew"
    )))
}
