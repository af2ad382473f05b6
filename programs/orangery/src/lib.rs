//! What the binary `orangery` is made of: wiring of the layers below, no decisions of its own.
//! Public so that scenarios and measurements start the very same landscape as a user does.

pub mod apiserver;
mod audit_file;
pub mod chart;
pub mod chart_command;
pub mod cli;
pub mod container_logs;
mod data_folder;
mod envtest_assets;
pub mod garden;
mod kept;
pub mod kubeconfig;
pub mod kubeconfig_command;
pub mod landscape;
mod on_etcd;
pub mod provider_local;
mod serve;
mod server_state;
pub mod shell;
pub mod up;
pub mod why;
