//! `orangery garden`: the garden's API alone, for a person or a test. No seed, no gardenlet, no extension: Shoots are
//! stored, validated and scheduled, and nothing makes clusters of them.

use std::collections::BTreeSet;

use api_meta::Fault;
use base_clock::{Clock, Entropy};
use cluster_bare::Cluster;
use cluster_controllers::Name as OfKubernetes;
use control_plane_confinement::Keeper;
use control_plane_garden_api::GardenSettings;
use landscape_data_folder::on_etcd::EtcdSettings;
use landscape_data_folder::server_state::{self, Owner, Place, ServerState};
use landscape_local::{ADMISSION_CONTROLLER, CONTROLLER_MANAGER, SCHEDULER, apply_garden, confinement};
use landscape_terminal::Console;

use crate::cli::{self, GardenController};
use crate::serve;

/// The API server's name in its state, as in that of a landscape.
const NAME: &str = "garden";
/// Leases of leadership, as Gardener's components name them.
const CONTROLLER_MANAGER_LEASE: &str = "gardener-controller-manager-leader-election";
const SCHEDULER_LEASE: &str = "gardener-scheduler-leader-election";

/// Runs the command until `stop` is done.
///
/// # Errors
/// A data folder that cannot be used or is another command's, a port that is taken.
pub(crate) async fn run(
    arguments: &cli::Garden,
    stop: impl Future<Output = ()>,
    console: &Console,
) -> Result<(), Fault> {
    let cli::Garden {
        data_dir,
        memory,
        port,
        etcd,
        ..
    } = arguments;
    let plugins = arguments.admission.plugins()?;
    for sentence in arguments.admission.ineffective_plugins() {
        tracing::warn!("{sentence}");
    }
    let claimed = server_state::claim(Owner::Garden, "garden", data_dir, *port).await?;
    let etcd = EtcdSettings::from(etcd);
    let place = Place {
        owner: Owner::Garden,
        name: NAME,
        data_dir,
        memory: *memory,
        etcd: &etcd,
    };
    let state = ServerState::open(&place).await?;
    let controllers = arguments.controllers();
    let of_kubernetes: &[OfKubernetes] = match controllers.contains(&GardenController::Kubernetes) {
        true => &OfKubernetes::WITHOUT_WORKLOADS,
        false => &[],
    };
    let builder = state
        .cluster(claimed.listener, &etcd)
        .only_controllers(BTreeSet::from_iter(of_kubernetes.iter().copied()))
        .kinds(control_plane_garden_api::kinds(&GardenSettings {
            entropy: Entropy::os(),
            gateway: None,
            plugins,
        }));
    let keeper = Keeper::default();
    let builder = builder.gatekeeper(confinement(keeper.clone()));
    let ended = run_on(builder, keeper, &place, (&controllers, &state), stop, console).await;
    state.close().await;
    ended
}

async fn run_on(
    builder: cluster_bare::Builder,
    keeper: Keeper,
    place: &Place<'_>,
    (controllers, state): (&BTreeSet<GardenController>, &ServerState),
    stop: impl Future<Output = ()>,
    console: &Console,
) -> Result<(), Fault> {
    let cluster = builder.start().await?;
    state.watch_etcd(&cluster);
    apply_garden(&cluster.server().loopback_client()).await?;
    cluster.run_beside_each(ADMISSION_CONTROLLER, move |client, stop| keeper.run(client, stop))?;
    start(&cluster, controllers)?;
    serve::serve(cluster, place, NAME, stop, console).await
}

/// Starts Gardener's controllers and its scheduler, those that are selected.
fn start(cluster: &Cluster, controllers: &BTreeSet<GardenController>) -> Result<(), Fault> {
    let of_gardener: BTreeSet<_> = controllers
        .iter()
        .filter_map(|controller| match controller {
            GardenController::OfGardener(name) => Some(*name),
            GardenController::Kubernetes | GardenController::Scheduler => None,
        })
        .collect();
    if !of_gardener.is_empty() {
        cluster.run_beside(CONTROLLER_MANAGER, CONTROLLER_MANAGER_LEASE, move |client, stop| {
            control_plane_controller_manager::run(client, of_gardener.clone(), Clock::real(), stop)
        })?;
    }
    if controllers.contains(&GardenController::Scheduler) {
        cluster.run_beside(SCHEDULER, SCHEDULER_LEASE, |client, stop| {
            control_plane_scheduler::run(client, Clock::real(), stop)
        })?;
    }
    Ok(())
}
