//! The seed controller: makes a cluster fit to be a seed, registers it in the garden, and says how it stands.

mod apply;
mod observe;
mod plan;
mod report;

use std::sync::Arc;
use std::time::Duration;

use api_core::v1beta1::Seed;
use api_meta::{Fault, names};
use base_controller::{Controller, Next, heartbeat};
use futures::FutureExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;
use tokio_util::sync::CancellationToken;

use crate::context::Context;

pub(crate) use apply::{prepare_cluster, register};

/// How often the lease is renewed: a garden that waits 40 s (upstream) sees three beats before it doubts.
const HEARTBEAT_PERIOD: Duration = Duration::from_secs(10);

/// Keeps our Seed's status true, and its lease alive, until `stop`.
pub(crate) async fn run(context: Arc<Context>, stop: CancellationToken) {
    let name = context.config.seed_name().to_owned();
    let leases: kube::Api<Lease> = context.in_garden(names::SEED_LEASE_NAMESPACE);
    let identity = context.config.identity.clone();
    let beating = heartbeat(
        leases,
        &name,
        &identity,
        HEARTBEAT_PERIOD,
        context.clock.clone(),
        stop.clone(),
    );
    let (ours, called) = (name.clone(), name.clone());
    let controller = Controller::new("seed", context.garden_caches.seeds.clone())
        .only(move |seed: &Seed| seed.name_any() == ours)
        .watches(&context.garden_caches.backup_buckets, move |_| {
            vec![base_controller::ObjectKey::cluster(&called)]
        });
    let reconciling = controller.run(stop.clone(), {
        let context = context.clone();
        move |seed| reconcile(context.clone(), seed).boxed()
    });
    tokio::join!(beating, reconciling);
}

async fn reconcile(context: Arc<Context>, seed: Arc<Seed>) -> Result<Next, Fault> {
    let seen = observe::observe(&context, &seed).await?;
    let plan = plan::plan(&seed, &seen, &context.config, context.clock.now());
    apply::apply(&context, &plan).await?;
    report::report(&context, &seed, plan).await?;
    Ok(Next::Change)
}
