//! Folders of extensions with real files, built by real commands.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bench;
mod building;
mod development;
mod reading;
