//! The integration tests of `programs-orangery`: its committed generated files, and the binary as
//! several processes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod apiserver;
mod capacity;
mod chart;
mod chart_registration;
mod cli_reference;
mod clock;
mod errors;
mod garden;
mod hostile_folders;
mod image_file;
mod older_documents;
mod power;
mod process;
mod provider_chart;
mod restart;
mod said_before;
mod separate_process;
mod shoot_access;
mod stopping;
mod surroundings;
mod why;
