//! The garden's side of the landscape: its API server and the controllers that work on nothing else.

use std::collections::BTreeSet;

use api_meta::Fault;
use base_client::Connector;
use cluster_controllers::{Name, Options};
use cluster_front::Front;
use control_plane_confinement::Keeper;
use control_plane_garden_api::{GardenSettings, Gateway};
use futures::FutureExt;
use kube::Client;

use super::api::{Api, ApiSettings};
use super::confined::{ADMISSION_CONTROLLER, confinement};
use super::state::{self, State};
use super::{Parts, Settings};

/// User of the garden's controllers; `manifests/garden.yaml` has its rights.
pub const CONTROLLER_MANAGER: &str = "gardener.cloud:system:controller-manager";
/// User of the scheduler, likewise.
pub const SCHEDULER: &str = "gardener.cloud:system:scheduler";

/// Starts the API server. What belongs to which seed is what `keeper` knows.
pub(super) async fn start_api(
    settings: &Settings,
    state: &State,
    front: &Front,
    url: &str,
    keeper: Keeper,
) -> Result<Api, Fault> {
    Api::start(ApiSettings {
        name: state::GARDEN,
        data: &state.garden,
        url,
        kinds: control_plane_garden_api::kinds(&GardenSettings {
            entropy: settings.entropy.clone(),
            gateway: Some(Gateway {
                url: url.to_owned(),
                // API servers that are programs get requests as they come.
                removes_paths: settings.images.is_none(),
            }),
            plugins: control_plane_garden_api::AdmissionPlugins::default(),
        }),
        services: None,
        protection: None,
        gatekeeper: Some(confinement(keeper)),
        front,
        clock: &settings.clock,
        entropy: &settings.entropy,
        audit_records: settings.audit_records,
    })
    .await
}

/// Starts the controllers, each with a kubeconfig of its own.
pub(super) fn start_parts(
    settings: &Settings,
    front: &Front,
    garden: &Api,
    keeper: Keeper,
    parts: &Parts,
) -> Result<(), Fault> {
    let client = |user: &str| -> Result<Client, Fault> { front.client(&garden.kubeconfig(user, &[])?) };
    // First: until it has listed everything, nothing belongs to a seed.
    let of_part = client(ADMISSION_CONTROLLER)?;
    parts.spawn("admission-controller", move |stop| {
        keeper.clone().run(of_part.clone(), stop).map(Ok)
    });
    let options = Options {
        controllers: BTreeSet::from(Name::WITHOUT_WORKLOADS),
        root_ca: Some(garden.authority_pem()),
        ..Options::all(settings.clock.clone(), settings.entropy.clone())
    };
    let of_part = client("system:kube-controller-manager")?;
    parts.spawn("garden kube-controller-manager", move |stop| {
        cluster_controllers::run(of_part.clone(), options.clone(), stop).map(Ok)
    });
    let (of_part, clock) = (client(CONTROLLER_MANAGER)?, settings.clock.clone());
    parts.spawn("controller-manager", move |stop| {
        let all = control_plane_controller_manager::Name::ALL.into();
        control_plane_controller_manager::run(of_part.clone(), all, clock.clone(), stop).map(Ok)
    });
    let (of_part, clock) = (client(SCHEDULER)?, settings.clock.clone());
    parts.spawn("scheduler", move |stop| {
        control_plane_scheduler::run(of_part.clone(), clock.clone(), stop).map(Ok)
    });
    Ok(())
}
