//! What the binary `orangery` is made of: wiring of the layers below, no decisions of its own.
//! Public so that scenarios and measurements start the very same landscape as a user does.

pub mod apiserver;
pub mod chart;
pub mod cli;
pub mod container_logs;
mod envtest_assets;
pub mod garden;
pub mod kubeconfig;
pub mod provider_local;
mod serve;
pub mod shell;
pub mod up;
pub mod why;
