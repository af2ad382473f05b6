//! Makes a machine a node: applies the user data it was born with, joins its cluster with a bootstrap token, fetches the
//! OperatingSystemConfig of its pool and reconciles the machine with it.
//!
//! It never decides what a machine should be, knows no operating system (a [`Machine`] does) and runs no pods (the
//! kubelet's unit does, which the embedding gives). Waiting is watching.

mod agent;
mod allowed;
mod desired;
mod join;
mod machine;
mod memory;
mod plan;
mod user_data;

pub use agent::{AgentOptions, KUBECONFIG_PATH, KUBELET_UNIT, run};
pub use desired::{Content, Desired, DesiredFile, DesiredUnit, OscError, parse_osc};
pub use join::{JoinError, NODE_GROUP, join};
pub use machine::{Machine, MachineError, Seen, SeenFile, SeenUnit};
pub use memory::{Disk, MemoryFiles, MemoryMachine, UnitContext, UnitImplementation};
pub use plan::{Action, Planned, plan};
pub use user_data::{AgentConfig, CONFIG_PATH, TOKEN_PATH, UserData, UserDataError, parse_config, parse_user_data};
