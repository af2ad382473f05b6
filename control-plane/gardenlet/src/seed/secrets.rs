//! The certificate of the webhooks of the seed's gardener-resource-manager.

use api_meta::{Fault, names};
use base_secrets::{SecretError, data, text_of};
use components_seed::{SEED_AUTHORITY, SERVING_CERTIFICATE, Serving, serving_secrets};

use crate::context::Context;
use crate::managed_secrets::{ManagedSecrets, ensure};

/// The certificate as it is now.
#[derive(Debug, Default)]
pub(crate) struct SeedSecrets {
    pub(crate) serving: Serving,
    /// Secrets that nothing mounts any more once `serving` is in use.
    pub(crate) obsolete: Vec<String>,
}

/// Makes what is missing.
pub(crate) async fn serving(context: &Context) -> Result<SeedSecrets, Fault> {
    let ManagedSecrets { all, obsolete } = ensure(context, names::GARDEN_NAMESPACE, &serving_secrets()).await?;
    let get = |name: &str| {
        all.get(name)
            .ok_or_else(|| Fault::bug(format!("secret {name} of the seed was not made")))
    };
    let authority = get(SEED_AUTHORITY)?;
    let bundle = authority.bundle.as_ref().unwrap_or(&authority.current);
    let unreadable =
        |error: SecretError| Fault::bug(error).hint("delete the Secret ca-seed-bundle-...: it is made again");
    let ca_bundle = text_of(bundle, data::BUNDLE).map_err(unreadable)?;
    Ok(SeedSecrets {
        serving: Serving {
            secret: get(SERVING_CERTIFICATE)?.object().to_owned(),
            ca_bundle: ca_bundle.expose().to_owned(),
        },
        obsolete,
    })
}
