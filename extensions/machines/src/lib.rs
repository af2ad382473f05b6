//! MachineDeployments, MachineSets and Machines of `machine.sapcloud.io`, over one [`Driver`] that makes and
//! removes machines somewhere; and [`Workers`], which make them of the pools of Worker objects. Behaviour follows
//! gardener/machine-controller-manager and gardener/gardener's generic Worker actuator; the phases and names are their
//! wire contract. It knows no provider, and writes nothing into a shoot but its own nodes: labels, cordons,
//! evictions, and the Node object's end.
//!
//! # For authors of providers
//! A provider writes two things: a [`Driver`], which makes, shows and removes one machine of its cloud, and
//! [`MachineClasses`], which state what the driver has to know of a pool in a zone. Everything else is here: names, hashes and
//! shares of zones, rolling updates, hibernation, an autoscaler's decisions, errors of machines in the Worker's status,
//! deletion, migration and restoration.
//!
//! - The driver's `create` may be called again after it had its effect: it finds the machine by its name, or by a token made of
//!   it, and never makes a second one. `delete` needs nothing but the provider ID or the name, and credentials: the class may
//!   be a former one.
//! - A class is named after its hash. What stands in `provider_spec` and not in the hash changes for machines made from then
//!   on; what stands in [`ClassPart::hash_data`] replaces all machines of the pool in that zone. Image, machine type, root disk,
//!   container runtime and Kubernetes minor version are in the hash already, by the pool's `nodeAgentSecretName`. Labels,
//!   annotations, taints, time-outs, minimum, maximum and credentials never replace machines.
//! - Faults of the driver carry the class of who can act: machines that fail for want of a quota, capacity, a permission or a
//!   valid specification end the Worker's wait early, with the codes that the extension's table finds in the text.
//!
//! ```
//! use api_extensions::Worker;
//! use api_meta::Fault;
//! use async_trait::async_trait;
//! use extensions_machines::{ClassPart, MachineClasses, Marks, Place, plan};
//! use extensions_sdk::Context;
//! use serde_json::json;
//!
//! /// Machines of a cloud that knows sizes and subnets.
//! struct Classes;
//!
//! #[async_trait]
//! impl MachineClasses for Classes {
//!     /// Subnets by zone.
//!     type Facts = Vec<(String, String)>;
//!
//!     fn marks(&self) -> Marks {
//!         Marks { label: "provider-some.example.com/made-for", value: "worker", manager: "provider-some" }
//!     }
//!
//!     async fn facts(&self, _: &Context, worker: &Worker) -> Result<Self::Facts, Fault> {
//!         let status = worker.spec.infrastructure_provider_status.as_ref();
//!         let status = status.ok_or_else(|| Fault::dependency("the Worker has no infrastructureProviderStatus"))?;
//!         status.decode().map_err(Fault::dependency)
//!     }
//!
//!     fn class(&self, subnets: &Self::Facts, place: Place<'_>) -> Result<ClassPart, Fault> {
//!         let (number, (_, subnet)) = (1..)
//!             .zip(subnets)
//!             .find(|(_, (zone, _))| zone == place.zone)
//!             .ok_or_else(|| Fault::dependency(format!("there is no subnet in zone {:?}", place.zone)))?;
//!         let spec = json!({"size": place.pool.machine_type, "subnet": subnet});
//!         Ok(ClassPart {
//!             credentials: Some(place.worker.spec.secret_ref.clone()),
//!             ..ClassPart::new(number, spec.into())
//!         })
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // What becomes of a Worker is a plain function, so a test of a provider needs no cluster.
//! let worker: Worker = serde_json::from_value(json!({
//!     "metadata": {"name": "b", "namespace": "shoot--a--b"},
//!     "spec": {"type": "some", "region": "r", "secretRef": {"name": "cloudprovider"}, "pools": [{
//!         "name": "p", "machineType": "large", "minimum": 3, "maximum": 5, "maxSurge": 1, "maxUnavailable": 0,
//!         "zones": ["a", "b"], "nodeAgentSecretName": "gardener-node-agent-p-0123456789abcdef",
//!         "userDataSecretRef": {"name": "user-data", "key": "cloud_config"},
//!     }]},
//! }))?;
//! let subnets = vec![("a".to_owned(), "subnet-1".to_owned()), ("b".to_owned(), "subnet-2".to_owned())];
//! let planned = plan(&worker, "some", Classes.marks(), |place| Classes.class(&subnets, place))?;
//! let names: Vec<_> = planned.iter().map(|plan| plan.deployment.metadata.name.as_deref().unwrap_or_default()).collect();
//! assert_eq!(names, ["shoot--a--b-p-z1", "shoot--a--b-p-z2"]);
//! assert_eq!((planned[0].minimum, planned[1].minimum), (2, 1));
//! # Ok(())
//! # }
//! ```
//!
//! The extension puts both together: `Machines::new` with the driver, `Workers::new(classes, &machines)` as its actuator of
//! Workers by [`Workers::registration`], and `machines.run()` as one of its tasks.

mod deployment;
mod driver;
mod left_alone;
mod machine;
mod machines;
mod names;
mod passed_on;
mod set;
mod target;
mod turns;
mod worker;

pub use driver::{Created, Driver, DriverState, MachineRequest, Standing};
pub use machines::{Machines, Surroundings};
pub use names::{FINALIZER, FORCE_DELETION_LABEL, NODE_LABEL, SHOOT_ACCESS_SECRET};
pub use worker::{ClassPart, MachineClasses, Marks, Place, Planned, USER_DATA_KEY, Workers, plan};

/// The phase a machine was last seen in.
pub(crate) fn machine_phase(machine: &api_machine::Machine) -> Option<&api_machine::MachinePhase> {
    machine.status.as_ref()?.current_status.as_ref()?.phase.as_ref()
}
