//! The controllers beside an embedded API server, with a node that is a few lines of test. Time is virtual.
#![expect(clippy::unwrap_used, reason = "in these files everything is a test")]

mod adoption;
mod cluster;
mod life;
mod node_ranges;
mod owners;
mod quota;
mod scheduling;
mod storage;
mod workloads;
