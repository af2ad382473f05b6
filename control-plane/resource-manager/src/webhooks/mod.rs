//! The admission webhooks of the seed's gardener-resource-manager, as one HTTP server. It answers reviews and writes nothing.

mod token_mount;

use api_meta::Fault;
use base_client::{Admission, HttpService, review_server, reviewer};
use components_seed::TOKEN_MOUNT_PATH;
use kube::Client;
use serde_json::Value;

/// The server. It reads the accounts of pods in `target`.
#[must_use]
pub fn webhooks(target: Client) -> HttpService {
    let mounts = reviewer(move |review| {
        let target = target.clone();
        async move {
            let patched = token_mount::patch(&target, &review["request"]).await;
            Ok(decided(patched).answer(&review))
        }
    });
    review_server(vec![(TOKEN_MOUNT_PATH, mounts)])
}

/// A fault refuses the object: what it requests could not be known.
fn decided(patched: Result<Vec<Value>, Fault>) -> Admission {
    match patched {
        Ok(patch) => Admission::patched(patch),
        Err(fault) => Admission::refused(500, "InternalError", fault.chain()),
    }
}
