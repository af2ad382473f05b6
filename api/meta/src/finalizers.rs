//! Finalizers of the wire contract. It only names them.

/// gardenlet's and controller-manager's own, on Shoot, BackupBucket, BackupEntry, Project, bindings.
pub const GARDENER: &str = "gardener";
/// controller-manager's on objects of other API groups: the Secrets behind bindings.
pub const EXTERNAL_GARDENER: &str = "gardener.cloud/gardener";
/// On ControllerRegistrations, and on Seeds while ControllerInstallations refer to them.
pub const CONTROLLER_REGISTRATION: &str = "core.gardener.cloud/controllerregistration";
/// On ControllerInstallations, by the operator that installs them.
pub const CONTROLLER_INSTALLATION: &str = "core.gardener.cloud/controllerinstallation";
/// On objects that a shoot refers to.
pub const REFERENCE_PROTECTION: &str = "gardener.cloud/reference-protection";
/// Prefix of extensions' finalizers: `extensions.gardener.cloud/<suffix>`.
pub const EXTENSION_PREFIX: &str = "extensions.gardener.cloud/";
/// resource-manager's on ManagedResources; followed by `-<class>` unless the class is empty.
pub const RESOURCE_MANAGER: &str = "resources.gardener.cloud/gardener-resource-manager";

/// The finalizer of an extension controller: its suffix is usually the lower-case kind.
pub fn extension(suffix: &str) -> String {
    format!("{EXTENSION_PREFIX}{suffix}")
}
