//! Whether the Seed of our name is our cluster: looked at before anything of it is written. A gardenlet whose configuration
//! names the Seed of another cluster would otherwise take over its Shoots and find none of them.

use api_core::v1beta1::Seed;
use api_meta::{Fault, names};
use base_client::get;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{Api, Client, ResourceExt};

use crate::config::Config;

/// The namespace whose uid stands for a cluster that has no identity yet.
const SYSTEM: &str = "kube-system";

/// Refuses to go on where the garden knows the Seed as another cluster.
///
/// # Errors
/// That, and what either API server returns.
pub(crate) async fn refuse_other_cluster(garden: &Client, seed: &Client, config: &Config) -> Result<(), Fault> {
    let name = config.seed_name();
    let registered = get(&Api::<Seed>::all(garden.clone()), name).await?;
    let Some(registered) = registered.and_then(|seed| seed.status?.cluster_identity) else {
        return Ok(());
    };
    let maps: Api<ConfigMap> = Api::namespaced(seed.clone(), SYSTEM);
    let map = get(&maps, names::CLUSTER_IDENTITY).await?;
    let own = match map.and_then(|map| map.data?.remove(names::CLUSTER_IDENTITY)) {
        Some(own) => own,
        None => {
            let system = get(&Api::<Namespace>::all(seed.clone()), SYSTEM).await?;
            first_identity(name, &system.and_then(|namespace| namespace.uid()).unwrap_or_default())
        }
    };
    decide(name, &registered, &own)
}

/// The identity that a seed is given once.
pub(super) fn first_identity(seed: &str, uid: &str) -> String {
    format!("{seed}-{uid}")
}

fn decide(name: &str, registered: &str, own: &str) -> Result<(), Fault> {
    if registered.is_empty() || registered == own {
        return Ok(());
    }
    Err(Fault::user(format!(
        "the Seed {name} is another cluster: the garden knows it as {registered}, and this one is {own}"
    ))
    .hint("give this cluster another name in seedConfig, or restore its ConfigMap kube-system/cluster-identity"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_that_is_known_as_another_cluster_is_refused() {
        assert!(decide("s", "", "s-1").is_ok() && decide("s", "s-1", "s-1").is_ok());
        let fault = decide("s", "s-1", "s-2").unwrap_err();
        let expected = "the Seed s is another cluster: the garden knows it as s-1, and this one is s-2";
        assert_eq!(fault.to_string(), expected);
    }
}
