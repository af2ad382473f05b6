//! One per seed: registers it, runs the flows of its shoots, reports how they stand, and looks after installations and
//! backups. It works in three clusters (garden, seed, shoots) through their API servers only, and reaches extensions
//! only through objects: it reads `type` strings and passes opaque configuration on.
//!
//! `seed/`, `shoot/`, `backup/`, `installation/`, `network_policy/`, `extension_status/` hold one controller each, in files named
//! after what they do: observe, plan, apply, report. `extension/` writes requests onto extension objects and waits for them. Decisions
//! are plain functions.

mod backup;
mod config;
mod context;
mod extension;
mod extension_status;
mod installation;
mod network_policy;
mod outcome;
mod seed;
mod shoot;

use std::sync::{Arc, Mutex};

use api_meta::Fault;
use base_clock::{Clock, Entropy};
use base_controller::Recorder;
use futures::FutureExt;
use tokio_util::sync::CancellationToken;

pub use components_hosted::NodeAccess;
pub use components_seed::WebhookServer;
pub use config::{
    Addressing, CareSettings, Config, ETCD_EVENTS_STORAGE, ETCD_MAIN_STORAGE, GardenAccess, ImageOverwrite,
    ImageSource, Images, SHOOTS_MAX, SYNC_PERIOD,
};
pub use context::Clients;
pub use seed::{cluster_identity, kinds_of_seed};

use context::{Context, GardenCaches, SeedCaches};
use extension_status::ExtensionStatus;

/// Runs a gardenlet until `stop`.
///
/// # Errors
/// When the seed cannot be made fit, or the garden refuses the Seed: nothing else can work then. The caller tries again
/// by the fault's class.
pub async fn run(
    clients: Clients,
    config: Config,
    clock: Clock,
    entropy: Entropy,
    stop: CancellationToken,
) -> Result<(), Fault> {
    let Clients { garden, seed, shoots } = clients;
    seed::prepare_cluster(&seed).await?;
    seed::refuse_other_cluster(&garden, &seed, &config).await?;
    seed::register(&garden, &config).await?;
    let stop = stop.child_token();
    let (garden_caches, referenced) = GardenCaches::start(&garden, config.seed_name(), &stop);
    let (inside, inside_changes) = shoot::Inside::new(&garden_caches.shoots, config.seed_name(), &stop);
    let context = Arc::new(Context {
        garden_caches,
        seed_caches: SeedCaches::start(&seed, &stop),
        extension_status: ExtensionStatus::start(&seed, &stop),
        inside,
        charts: installation::Charts::new(clock.clone(), entropy.clone()),
        rendering: installation::Rendering::default(),
        apis: installation::Apis::default(),
        stamped: Mutex::new(clock.now()),
        events: Recorder::new(garden.clone(), "gardenlet", clock.clone()),
        connector: shoots,
        garden,
        seed,
        clock,
        entropy,
        config,
    });
    // What every decision reads must be known before the first one.
    let known = async {
        context.garden_caches.seeds.ready().await;
        context.garden_caches.registrations.ready().await;
        context.garden_caches.installations.ready().await;
        context.garden_caches.deployments.ready().await;
    };
    if stop.run_until_cancelled(known).await.is_none() {
        return Ok(());
    }
    // Boxed: together they would make a future of many kilobytes.
    tokio::join!(
        seed::run(context.clone(), stop.clone()).boxed(),
        installation::run(context.clone(), referenced, stop.clone()).boxed(),
        installation::request_tokens(context.clone(), stop.clone()).boxed(),
        backup::run_buckets(context.clone(), stop.clone()).boxed(),
        backup::run_entries(context.clone(), stop.clone()).boxed(),
        extension_status::run(context.clone(), stop.clone()).boxed(),
        network_policy::run(context.clone(), stop.clone()).boxed(),
        shoot::run_care(context.clone(), inside_changes, stop.clone()).boxed(),
        shoot::run(context.clone(), stop.clone()).boxed(),
    );
    Ok(())
}
