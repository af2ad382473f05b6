//! The garden's side of the landscape: its API server and the controllers that work on nothing else.

use std::collections::BTreeSet;

use api_meta::Fault;
use base_client::Connector;
use cluster_controllers::{Name, Options};
use cluster_front::Front;
use control_plane_garden_api::GardenSettings;
use kube::Client;

use super::api::{Api, ApiSettings};
use super::state::{self, State};
use super::{Parts, Settings};

/// User of the garden's controllers; `manifests/garden.yaml` says what it may.
pub const CONTROLLER_MANAGER: &str = "gardener.cloud:system:controller-manager";
/// User of the scheduler, likewise.
pub const SCHEDULER: &str = "gardener.cloud:system:scheduler";

pub(super) async fn start_api(settings: &Settings, state: &State, front: &Front, url: &str) -> Result<Api, Fault> {
    Api::start(ApiSettings {
        name: state::GARDEN,
        kept: &state.garden,
        url,
        kinds: control_plane_garden_api::kinds(&GardenSettings {
            entropy: settings.entropy.clone(),
            gateway: Some(url.to_owned()),
            plugins: control_plane_garden_api::AdmissionPlugins::default(),
        }),
        services: None,
        protection: None,
        front,
        clock: &settings.clock,
        entropy: &settings.entropy,
        audit_records: settings.audit_records,
    })
    .await
}

/// Starts the controllers, each with a kubeconfig of its own.
pub(super) fn start_parts(settings: &Settings, front: &Front, garden: &Api, parts: &Parts) -> Result<(), Fault> {
    let client = |user: &str| -> Result<Client, Fault> { front.client(&garden.kubeconfig(user, &[])?) };
    let (clock, entropy) = (&settings.clock, &settings.entropy);
    let options = Options {
        controllers: BTreeSet::from(Name::WITHOUT_WORKLOADS),
        root_ca: Some(garden.authority_pem()),
        ..Options::all(clock.clone(), entropy.clone())
    };
    parts.spawn(
        "garden kube-controller-manager",
        cluster_controllers::run(client("system:kube-controller-manager")?, options, parts.stop.clone()),
    );
    parts.spawn(
        "controller-manager",
        control_plane_controller_manager::run(
            client(CONTROLLER_MANAGER)?,
            control_plane_controller_manager::Name::ALL.into(),
            clock.clone(),
            parts.stop.clone(),
        ),
    );
    parts.spawn(
        "scheduler",
        control_plane_scheduler::run(client(SCHEDULER)?, clock.clone(), parts.stop.clone()),
    );
    Ok(())
}
