//! `machine.sapcloud.io/v1alpha1`: machines of shoots, as objects of the seed. It only describes; the machine
//! controllers of `extensions/machines` act on it.

mod crds;
mod machine;
mod machine_class;
mod machine_deployment;
mod machine_set;
mod saved;

pub use machine::{
    ClassSpec, CurrentStatus, LastOperation, Machine, MachineOperationType, MachinePhase, MachineSpec, MachineState,
    MachineStatus, MachineSummary, MachineTemplateSpec, NodeTemplateSpec,
};
pub use machine_class::{MachineClass, NodeTemplate};
pub use machine_deployment::{
    InPlaceUpdateMachineDeployment, MachineDeployment, MachineDeploymentCondition, MachineDeploymentSpec,
    MachineDeploymentStatus, MachineDeploymentStrategy, MachineDeploymentStrategyType, OrchestrationType,
    RollbackConfig, RollingUpdateMachineDeployment,
};
pub use machine_set::{MachineSet, MachineSetCondition, MachineSetSpec, MachineSetStatus};

pub use crds::crds;
pub use saved::{NAME_LABEL, SavedDeployment, SavedMachines};
