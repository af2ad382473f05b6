//! Whether gardenlet can work: it reports so by its lease, as long as its seed's API server answers (gardener/gardener
//! v1.150 pkg/controller/lease/reconciler.go). A seed that does not answer is a reason in the Seed's status as well.

use std::sync::Arc;
use std::time::Duration;

use api_core::v1beta1::Seed;
use api_meta::conditions::seed::GARDENLET_READY;
use api_meta::{Condition, ConditionStatus, Fault, names};
use base_client::patch_status_if_changed;
use base_controller::{ObjectKey, heartbeat_while};
use futures::StreamExt;
use futures::stream::{BoxStream, unfold};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::context::Context;

/// How often the lease is renewed: a garden that waits 40 s (upstream) sees three beats before it doubts.
const HEARTBEAT_PERIOD: Duration = Duration::from_secs(10);
/// Why the seed's API server does not answer, if it does not.
pub(super) type Silence = watch::Receiver<Option<String>>;

/// Renews the seed's lease until `stop`, while the seed answers, and reports whether it does. A watch of the seed shows
/// it: it breaks with the connection, so that nothing is polled.
pub(super) async fn beat(context: Arc<Context>, silence: watch::Sender<Option<String>>, stop: CancellationToken) {
    let leases: Api<Lease> = context.in_garden(names::SEED_LEASE_NAMESPACE);
    let seen = context.seed_caches.deployments.clone();
    let answers = move || {
        let why = seen.error();
        silence.send_if_modified(|known| {
            let changed = known.is_some() != why.is_some();
            known.clone_from(&why);
            changed
        });
        why.is_none()
    };
    let (name, identity) = (context.config.seed_name(), &context.config.identity);
    let clock = context.clock.clone();
    heartbeat_while(leases, name, identity, HEARTBEAT_PERIOD, clock, stop, answers).await;
}

/// The Seed's key whenever its API server begins to answer or ceases to.
pub(super) fn changes(silence: &Silence, seed: &str) -> BoxStream<'static, ObjectKey> {
    let key = ObjectKey::cluster(seed);
    unfold((silence.clone(), key), |(mut silence, key)| async {
        silence.changed().await.ok()?;
        Some((key.clone(), (silence, key)))
    })
    .boxed()
}

/// The condition of a gardenlet that works.
pub(super) fn ready(now: Timestamp) -> Condition {
    let message = "Gardenlet is posting ready status.";
    Condition::new(GARDENLET_READY, ConditionStatus::True, "GardenletReady", message, now)
}

/// Writes into the Seed's status that its API server does not answer: nothing else of it can be seen.
///
/// # Errors
/// What the garden's API server returns.
pub(super) async fn report_silence(context: &Context, seed: &Seed, why: &str) -> Result<(), Fault> {
    let mut after = seed.clone();
    let message = format!("Gardenlet cannot reach the seed's API server: {why}");
    let now = context.clock.now();
    let condition = Condition::new(
        GARDENLET_READY,
        ConditionStatus::False,
        "SeedNotReachable",
        &message,
        now,
    );
    condition.put_into(&mut after.status.get_or_insert_default().conditions);
    let api: Api<Seed> = Api::all(context.garden.clone());
    patch_status_if_changed(&api, seed, &after).await.map(drop)
}
