//! As whom each part of a landscape acts, and which manifests let it.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tests_conformance::real::Real;
use tests_parts::Outcome;

use crate::write_private;

pub(super) const CONTROLLER_MANAGER: &str = landscape_local::CONTROLLER_MANAGER;
pub(super) const ADMISSION_CONTROLLER: &str = landscape_local::ADMISSION_CONTROLLER;
pub(super) const SCHEDULER: &str = landscape_local::SCHEDULER;
/// A gardenlet in its seed.
pub(super) const GARDENLET: &str = "gardener.cloud:system:gardenlet";
/// Who makes volumes for claims of a seed.
pub(super) const PROVISIONER: &str = "orangery:provisioner";
/// The groups of our node.
pub(super) const NODES: [&str; 2] = ["system:nodes", "orangery:nodes"];
/// The group of all gardenlets in the garden.
pub(super) const SEEDS: &str = "gardener.cloud:system:seeds";

/// A gardenlet in the garden.
pub(super) fn of_gardenlet(seed: &str) -> String {
    format!("gardener.cloud:system:seed:{seed}")
}

/// What lets the parts of a garden do their work. What belongs to which seed no role can express: gardenlets have what
/// `orangery admission-controller` allows.
///
/// # Errors
/// A manifest is not YAML.
pub(super) fn of_garden() -> Outcome<Vec<Value>> {
    landscape_local::manifests_of_garden().map_err(|fault| fault.chain())
}

/// What lets the parts of a seed do their work.
///
/// # Errors
/// A manifest is not YAML.
pub(super) fn of_seed() -> Outcome<Vec<Value>> {
    landscape_local::manifests_of_seed().map_err(|fault| fault.chain())
}

/// Writes a kubeconfig with a certificate of this user.
///
/// # Errors
/// It cannot be made or written.
pub(super) fn kubeconfig(folder: &Path, name: &str, real: &Real, user: &str, groups: &[&str]) -> Outcome<PathBuf> {
    let text = real.kubeconfig(user, groups)?;
    let path = folder.join(format!("{name}.kubeconfig"));
    write_private(&path, text.expose())?;
    Ok(path)
}
