//! How the seed stands, for the garden. Others write conditions there too: ours are put among theirs.

use api_core::v1beta1::{Seed, SeedStatus};
use api_meta::{Fault, conditions};
use base_client::{patch_status_if_changed, read_again};
use kube::Api;

use crate::context::Context;

/// The conditions that are ours to write.
const OURS: [&str; 3] = [
    conditions::seed::GARDENLET_READY,
    conditions::seed::SYSTEM_COMPONENTS_HEALTHY,
    conditions::seed::BACKUP_BUCKETS_READY,
];

/// Writes the planned status, if it differs from what was read. A conflict is left to the next turn.
pub(crate) async fn report(context: &Context, seed: &Seed, planned: SeedStatus) -> Result<(), Fault> {
    let api: Api<Seed> = Api::all(context.garden.clone());
    let mut before = seed.clone();
    // A Seed seen right after its registration may have been written by others since.
    let after = Seed {
        status: Some(planned.clone()),
        ..seed.clone()
    };
    let written = patch_status_if_changed(&api, &before, &after).await;
    let Err(fault) = written else { return Ok(()) };
    if fault.class != api_meta::FaultClass::Transient {
        return Err(fault);
    }
    let Some(fresh) = read_again(&api, seed).await? else {
        return Ok(());
    };
    before = fresh.clone();
    let mut status = fresh.status.clone().unwrap_or_default();
    for condition in planned
        .conditions
        .into_iter()
        .filter(|one| OURS.contains(&one.type_.as_str()))
    {
        condition.put_into(&mut status.conditions);
    }
    status.gardener = planned.gardener;
    status.kubernetes_version = planned.kubernetes_version;
    status.cluster_identity = status.cluster_identity.or(planned.cluster_identity);
    status.observed_generation = planned.observed_generation;
    status.last_operation = planned.last_operation;
    patch_status_if_changed(
        &api,
        &before,
        &Seed {
            status: Some(status),
            ..fresh
        },
    )
    .await
    .map(drop)
}
