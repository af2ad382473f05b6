//! MachineDeployments, MachineSets and Machines of `machine.sapcloud.io`, over one [`Driver`] that makes and
//! removes machines somewhere. Behaviour follows gardener/machine-controller-manager; the phases and names are its
//! wire contract. It knows no provider, and writes nothing into a shoot but its own nodes: labels, cordons,
//! evictions, and the Node object's end.

mod deployment;
mod driver;
mod machine;
mod machines;
mod names;
mod passed_on;
mod set;
mod target;

pub use driver::{Created, Driver, DriverState, MachineRequest, Standing};
pub use machines::{Machines, Options};
pub use names::{FINALIZER, FORCE_DELETION_LABEL, NODE_LABEL, SHOOT_ACCESS_SECRET};

/// The phase a machine was last seen in.
pub(crate) fn machine_phase(machine: &api_machine::Machine) -> Option<&api_machine::MachinePhase> {
    machine.status.as_ref()?.current_status.as_ref()?.phase.as_ref()
}
