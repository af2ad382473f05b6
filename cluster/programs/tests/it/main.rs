//! Programs on the node of a whole cluster, in real time: they are processes of the machine.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "in these files everything is a test"
)]

mod cluster;
mod connections;
mod dispositions;
mod ends;
mod exec;
mod exec_client;
mod files;
mod isolated;
mod kubeconfigs;
mod limits;
mod reach;
mod start;
mod termination;
