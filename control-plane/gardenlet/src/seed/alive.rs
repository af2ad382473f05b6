//! Whether gardenlet can work: it reports so by its lease, as long as its seed's API server answers (gardener/gardener
//! v1.150 pkg/controller/lease/reconciler.go). A seed that does not answer is a reason in the Seed's status as well.

use std::sync::Arc;
use std::time::Duration;

use api_core::v1beta1::Seed;
use api_meta::conditions::seed::GARDENLET_READY;
use api_meta::{Condition, ConditionStatus, Fault, names};
use base_client::{fault_of, patch_status_if_changed};
use base_controller::{ObjectKey, heartbeat_while};
use futures::stream::{BoxStream, unfold};
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::context::Context;

/// How often the lease is renewed: a garden that waits 40 s (upstream) sees three beats before it doubts.
const HEARTBEAT_PERIOD: Duration = Duration::from_secs(10);
/// How long the seed's API server may take to answer: a beat must not wait for the next.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Why the seed's API server does not answer, if it does not.
pub(super) type Silence = watch::Receiver<Option<String>>;

/// Renews the seed's lease until `stop`, while the seed answers, and reports whether it does.
pub(super) async fn beat(context: Arc<Context>, silence: watch::Sender<Option<String>>, stop: CancellationToken) {
    let leases: Api<Lease> = context.in_garden(names::SEED_LEASE_NAMESPACE);
    let (seed, silence) = (context.seed.clone(), Arc::new(silence));
    let answers = move || {
        let (seed, silence) = (seed.clone(), silence.clone());
        async move {
            let why = ask(&seed).await.err().map(|fault| fault.to_string());
            silence.send_if_modified(|known| {
                let changed = known.is_some() != why.is_some();
                known.clone_from(&why);
                changed
            });
            why.is_none()
        }
        .boxed()
    };
    let (name, identity) = (context.config.seed_name(), &context.config.identity);
    let clock = context.clock.clone();
    heartbeat_while(leases, name, identity, HEARTBEAT_PERIOD, clock, stop, answers).await;
}

async fn ask(seed: &Client) -> Result<(), Fault> {
    match tokio::time::timeout(ANSWER_TIMEOUT, version(seed)).await {
        Ok(answer) => answer.map(drop),
        Err(_) => {
            let seconds = ANSWER_TIMEOUT.as_secs();
            Err(Fault::transient(format!(
                "the seed's API server did not answer within {seconds}s"
            )))
        }
    }
}

/// The version of the seed's API server, `v1.35.0`.
///
/// # Errors
/// It does not answer.
pub(super) async fn version(seed: &Client) -> Result<String, Fault> {
    let version = seed.apiserver_version().await;
    let version = version.map_err(|error| fault_of(error, "ask the seed for its Kubernetes version"))?;
    Ok(version.git_version)
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
/// What the garden's API server says.
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
