//! Whether the Seed of our name is our cluster: looked at before anything of it is written. A gardenlet whose configuration
//! names the Seed of another cluster would otherwise take over its Shoots and find none of them.

use api_core::v1beta1::Seed;
use api_meta::{Fault, names};
use base_client::get;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{Api, Client, ResourceExt};

use crate::config::Config;

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
    let own = match cluster_identity(seed).await? {
        Some(own) => own,
        None => first_identity(name, &cluster_uid(seed).await?),
    };
    decide(name, &registered, &own)
}

/// The identity that a cluster has been given; none if it has none.
///
/// # Errors
/// What its API server returns.
pub async fn cluster_identity(cluster: &Client) -> Result<Option<String>, Fault> {
    let maps: Api<ConfigMap> = Api::namespaced(cluster.clone(), names::SYSTEM_NAMESPACE);
    let map = get(&maps, names::CLUSTER_IDENTITY).await?;
    Ok(map.and_then(|map| map.data?.remove(names::CLUSTER_IDENTITY)))
}

/// What an identity is made from: the uid of a namespace that lives as long as its cluster.
pub(super) async fn cluster_uid(cluster: &Client) -> Result<String, Fault> {
    let system = get(&Api::<Namespace>::all(cluster.clone()), names::SYSTEM_NAMESPACE).await?;
    Ok(system.and_then(|namespace| namespace.uid()).unwrap_or_default())
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
