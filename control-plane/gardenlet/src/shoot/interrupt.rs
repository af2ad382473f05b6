//! Notices that what is being done for a shoot has become pointless.

use api_core::v1beta1 as core;
use base_controller::{Cache, ObjectKey};
use tokio_util::sync::CancellationToken;

use super::plan::makes_pointless;

/// Cancels `interrupt` once the shoot, as cached, wants something else than `begun` did. Never returns.
pub(crate) async fn watch(
    shoots: &Cache<core::Shoot>,
    begun: &core::Shoot,
    interrupt: &CancellationToken,
) -> std::convert::Infallible {
    let key = ObjectKey::of(begun);
    let mut changes = shoots.subscribe_to(&key);
    loop {
        if shoots
            .get(&key)
            .is_none_or(|now| newer(begun, &now) && makes_pointless(begun, &now))
        {
            interrupt.cancel();
        }
        changes.next().await;
    }
}

/// The cache may be behind what we have written ourselves.
fn newer(begun: &core::Shoot, now: &core::Shoot) -> bool {
    now.metadata.generation >= begun.metadata.generation
}
