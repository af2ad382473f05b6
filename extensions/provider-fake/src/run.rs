//! The extension put together.

use std::sync::Arc;

use api_extensions::{ControlPlane, Infrastructure, Worker};
use api_meta::Fault;
use base_client::Connector;
use base_clock::{Clock, Entropy};
use base_controller::ObjectKey;
use base_telemetry::Metrics;
use extensions_machines::{Machines, Options as MachineOptions, Workers};
use extensions_sdk::{About, Extension, Registration, Setup};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use kube::runtime::watcher;
use tokio_util::sync::CancellationToken;

use crate::cloud::CloudConnector;
use crate::codes::codes;
use crate::control_plane::{API_SERVER, ControlPlanes, is_scaled};
use crate::driver::InstanceDriver;
use crate::infrastructure::Infrastructures;
use crate::worker::InstanceClasses;

/// The program.
pub const ABOUT: About = About::new("provider-fake", env!("CARGO_PKG_VERSION"));
/// The type of its objects unless another is given.
pub const DEFAULT_TYPE: &str = "fake";

/// What the machine controllers need beside the extension.
pub struct Surroundings {
    /// The seed.
    pub client: Client,
    /// Connects to shoots.
    pub connector: Arc<dyn Connector>,
    /// What time it is.
    pub clock: Clock,
    /// Random numbers.
    pub entropy: Entropy,
    /// Where reconciles are counted.
    pub metrics: Metrics,
    /// Done once the process is to end.
    pub stop: CancellationToken,
}

impl Surroundings {
    /// Those of a program.
    #[must_use]
    pub fn of(setup: &Setup) -> Self {
        Self {
            client: setup.client.clone(),
            connector: setup.connector.clone(),
            clock: setup.clock.clone(),
            entropy: setup.entropy.clone(),
            metrics: setup.metrics.clone(),
            stop: setup.stop.clone(),
        }
    }
}

/// Adds the provider's actuators and machine controllers to `extension`. `type_` is the type of the objects that it is for.
///
/// # Errors
/// A bug: the table of error codes.
pub fn extend(
    mut extension: Extension,
    cloud: &Arc<dyn CloudConnector>,
    surroundings: Surroundings,
    type_: &str,
) -> Result<Extension, Fault> {
    let infrastructures = Registration::of_type(type_).watches_secret_ref();
    let control_planes = control_planes(&mut extension, type_);
    let machines = machines(cloud, surroundings, type_)?;
    let workers = Workers::new(InstanceClasses, &machines);
    let extension = extension
        .codes(codes()?)
        .actuator::<Infrastructure>(infrastructures, Arc::new(Infrastructures::new(cloud.clone())))
        .actuator::<ControlPlane>(control_planes, Arc::new(ControlPlanes::new()?))
        .actuator::<Worker>(Registration::of_type(type_).watches_secret_ref(), Arc::new(workers))
        .task(machines.run());
    Ok(extension)
}

fn machines(cloud: &Arc<dyn CloudConnector>, surroundings: Surroundings, type_: &str) -> Result<Machines, Fault> {
    let Surroundings {
        client,
        connector,
        clock,
        entropy,
        metrics,
        stop,
    } = surroundings;
    let driver = InstanceDriver::new(client.clone(), cloud.clone(), codes()?, clock.clone(), type_);
    let options = MachineOptions {
        client,
        connector,
        driver: Arc::new(driver),
        clock,
        entropy,
        metrics,
    };
    Ok(Machines::new(options, stop))
}

/// A ControlPlane is reconciled as well when its kube-apiserver was scaled to nothing.
fn control_planes(extension: &mut Extension, type_: &str) -> Registration<ControlPlane> {
    let objects = extension.cache::<ControlPlane>();
    let api_servers = watcher::Config::default().fields(&format!("metadata.name={API_SERVER}"));
    Registration::of_type(type_)
        .watches_secret_ref()
        .watches::<Deployment>(api_servers, move |change| match is_scaled(change) {
            true => {
                let namespace = change.object.metadata.namespace.as_deref().unwrap_or_default();
                objects
                    .list_in(namespace)
                    .iter()
                    .map(|object| ObjectKey::of(&**object))
                    .collect()
            }
            false => Vec::new(),
        })
}
