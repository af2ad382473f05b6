//! What the binary `orangery` is made of: wiring of the layers below, no decisions of its own.
//! Public so that scenarios and measurements start the very same landscape as a user does.

pub mod apiserver;
mod audit_file;
pub mod chart_command;
pub mod cli;
pub mod container_logs;
mod envtest_assets;
pub mod garden;
pub mod kubeconfig_command;
pub mod provider_local;
mod serve;
pub mod shell;
pub mod up;
pub mod why;

pub use landscape_data_folder::kubeconfig;
