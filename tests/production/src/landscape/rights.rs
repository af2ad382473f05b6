//! As whom each part of a landscape acts, and what lets it: manifests, and flags of kube-apiserver. The one place to change where
//! gardenlets are confined in another way.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tests_conformance::real::Real;
use tests_parts::Outcome;

use super::configuration::write_private;

pub(super) const CONTROLLER_MANAGER: &str = landscape_local::CONTROLLER_MANAGER;
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

/// What a garden is given.
pub(super) struct OfGarden {
    /// Further flags of its kube-apiserver.
    pub(super) flags: Vec<String>,
    /// Who may do what.
    pub(super) manifests: Vec<Value>,
}

/// How a garden lets its parts do their work. What belongs to which seed no role can express, so that `orangery:seeds-unconfined`
/// of these manifests lets every gardenlet touch the objects of every seed.
///
/// # Errors
/// A manifest is not YAML.
pub(super) fn of_garden() -> Outcome<OfGarden> {
    let manifests = landscape_local::manifests_of_garden().map_err(|fault| fault.chain())?;
    Ok(OfGarden {
        flags: Vec::new(),
        manifests,
    })
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
