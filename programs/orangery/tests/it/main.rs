//! The integration tests of `programs-orangery`: its committed generated files, and the binary as
//! several processes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod apiserver;
mod chart;
mod chart_registration;
mod cli_reference;
mod errors;
mod extension;
mod garden;
mod hostile_folders;
mod image_file;
mod process;
mod provider_chart;
mod restart;
mod separate_process;
mod shoot_access;
mod stopping;
mod surroundings;
mod why;
