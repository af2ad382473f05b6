//! Mirrors of the nodes of shoots, one per shoot with workers, by which care sees them. Opened when a shoot's API server
//! answers, closed when the shoot is to go or lives elsewhere.

use api_core::v1beta1 as core;
use base_controller::{Cache, MirrorChange, Mirrors};
use k8s_openapi::api::core::v1::Node;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// All mirrors of a gardenlet, each by its shoot's namespace in the seed.
pub(crate) type NodeMirrors = Mirrors<Node>;

/// None yet, for the shoots of the seed `seed`. Changed nodes come by the receiver.
#[must_use]
pub(crate) fn node_mirrors(
    shoots: &Cache<core::Shoot>,
    seed: &str,
    stop: CancellationToken,
) -> (NodeMirrors, mpsc::UnboundedReceiver<MirrorChange>) {
    let seed = seed.to_owned();
    Mirrors::new(shoots, move |shoot| home(shoot, &seed), stop)
}

fn home(shoot: &core::Shoot, seed: &str) -> Option<String> {
    let status = shoot.status.as_ref()?;
    let here = status.seed_name.as_deref() == Some(seed) && shoot.metadata.deletion_timestamp.is_none();
    // A cluster that sleeps has no API to mirror.
    (here && !status.hibernated && !status.technical_id.is_empty()).then(|| status.technical_id.clone())
}
