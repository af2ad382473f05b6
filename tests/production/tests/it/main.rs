//! The production form on real Kubernetes. Run by `cargo xtask test production`, which prepares the real parts and builds the
//! program.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where its set-up fails")]
#![expect(clippy::print_stdout, reason = "shown with a test that fails")]

mod admission;
mod charts;
mod confined;
mod documentation;
mod faults;
mod garden;
mod landscape;
mod page;
mod pods;
mod provider_configuration;
mod refused;
mod replicas;
mod rights;
mod scripts;
mod shell;
