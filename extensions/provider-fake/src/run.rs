//! The extension put together.

use std::sync::Arc;

use api_extensions::{ControlPlane, Infrastructure, Worker};
use api_meta::Fault;
use base_controller::ObjectKey;
use extensions_machines::{Machines, Surroundings, Workers};
use extensions_sdk::{About, Extension, Registration};
use k8s_openapi::api::apps::v1::Deployment;
use kube::runtime::watcher;

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
    let of_workers = workers.registration(type_).watches_secret_ref();
    let extension = extension
        .codes(codes()?)
        .actuator::<Infrastructure>(infrastructures, Arc::new(Infrastructures::new(cloud.clone())))
        .actuator::<ControlPlane>(control_planes, Arc::new(ControlPlanes::new()?))
        .actuator::<Worker>(of_workers, Arc::new(workers))
        .task(machines.run());
    Ok(extension)
}

fn machines(cloud: &Arc<dyn CloudConnector>, surroundings: Surroundings, type_: &str) -> Result<Machines, Fault> {
    let (client, clock) = (surroundings.client.clone(), surroundings.clock.clone());
    let driver = InstanceDriver::new(client, cloud.clone(), codes()?, clock, type_);
    Ok(Machines::new(Arc::new(driver), surroundings))
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
