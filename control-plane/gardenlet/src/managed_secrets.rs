//! Authorities, certificates and keys that gardenlet keeps as Secrets of a namespace of the seed: made once, renewed in time.

use std::collections::BTreeMap;

use api_meta::{Fault, labels};
use base_client::{create_or_get, list};
use base_secrets::{Managed, SecretError, Wanted, generate, label, lookup, plan};
use k8s_openapi::api::core::v1::Secret;

use crate::context::{Context, MANAGER};

/// How many times the plan is made again when the first try finds new things to do: bundles follow authorities.
const PLANS_MAX: usize = 3;

/// What a namespace has.
pub(crate) struct ManagedSecrets {
    /// By the names under which they were wanted.
    pub(crate) all: BTreeMap<String, Managed>,
    /// Names of Secrets that nothing mounts any more once all has been rolled out.
    pub(crate) obsolete: Vec<String>,
}

/// Makes what is missing of `wanted` in a namespace of the seed.
///
/// # Errors
/// What the seed returns, and a Secret of ours that cannot be read.
pub(crate) async fn ensure(context: &Context, namespace: &str, wanted: &[Wanted]) -> Result<ManagedSecrets, Fault> {
    let unreadable = |error: SecretError| {
        Fault::bug(error).hint(format!(
            "look at the Secrets of namespace {namespace}: one of them cannot be read"
        ))
    };
    let api = context.in_seed::<Secret>(namespace);
    // Extensions manage Secrets of their own in the same namespace, under other identities.
    let selector = format!(
        "{}={},{}={MANAGER}",
        labels::MANAGED_BY,
        labels::MANAGED_BY_SECRETS_MANAGER,
        label::IDENTITY
    );
    let mut existing = list(&api, &selector).await?;
    let mut obsolete = Vec::new();
    for _ in 0..PLANS_MAX {
        let now = context.clock.now();
        let plan = plan(wanted, &existing, now).map_err(unreadable)?;
        obsolete = plan.deletions().map(str::to_owned).collect();
        if !plan.generates() {
            break;
        }
        let made = generate(&plan, wanted, &existing, namespace, MANAGER, now, &context.entropy);
        for secret in made.map_err(unreadable)? {
            existing.push(create_or_get(&api, &secret).await?);
        }
    }
    let all = lookup(wanted, &existing, context.clock.now()).map_err(unreadable)?;
    Ok(ManagedSecrets { all, obsolete })
}
