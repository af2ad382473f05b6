//! The certificate of the webhooks of the seed's gardener-resource-manager.

use api_meta::{Fault, names};
use base_managed_secrets::{ManagedSecrets, ensure};
use components_seed::{SEED_AUTHORITY, SERVING_CERTIFICATE, Serving, serving_secrets};

use crate::context::{Context, MANAGER};

/// The certificate as it is now.
#[derive(Debug, Default)]
pub(crate) struct SeedSecrets {
    pub(crate) serving: Serving,
    /// Secrets that nothing mounts any more once `serving` is in use.
    pub(crate) obsolete: Vec<String>,
}

/// Makes what is missing.
pub(crate) async fn serving(context: &Context) -> Result<SeedSecrets, Fault> {
    let Context {
        seed, clock, entropy, ..
    } = context;
    let wanted = serving_secrets();
    let ManagedSecrets { all, obsolete } =
        ensure(seed, names::GARDEN_NAMESPACE, MANAGER, &wanted, clock, entropy).await?;
    let get = |name: &str| {
        all.get(name)
            .ok_or_else(|| Fault::bug(format!("secret {name} of the seed was not made")))
    };
    let authorities = get(SEED_AUTHORITY)?.authorities().map_err(|error| {
        Fault::bug(error).hint(format!(
            "delete the Secret {SEED_AUTHORITY}-...: it is made again, with another key"
        ))
    })?;
    Ok(SeedSecrets {
        serving: Serving {
            secret: get(SERVING_CERTIFICATE)?.object().to_owned(),
            ca_bundle: authorities,
        },
        obsolete,
    })
}
