//! What differs between extensions of the twelve kinds: names in Rust, and where users write the configuration. A table.

use api_extensions::ExtensionKind;

/// What a kind's files are made with.
pub(crate) struct Row {
    /// The kind.
    pub(crate) kind: ExtensionKind,
    /// Its module in Rust.
    pub(crate) module: &'static str,
    /// Its actuator in Rust.
    pub(crate) actuator: &'static str,
    /// Where its provider configuration stands in the object that a user writes.
    pub(crate) field: &'static str,
}

/// The kinds that a provider has together: a Shoot with nodes needs all of them of one type.
pub(crate) const OF_PROVIDER: [ExtensionKind; 3] = [
    ExtensionKind::Infrastructure,
    ExtensionKind::ControlPlane,
    ExtensionKind::Worker,
];

/// The row of a kind.
pub(crate) fn row(kind: ExtensionKind) -> Row {
    use ExtensionKind as Kind;
    let (module, actuator, field) = match kind {
        Kind::BackupBucket => (
            "backup_bucket",
            "BackupBuckets",
            "spec.backup.providerConfig of the Seed",
        ),
        Kind::BackupEntry => ("backup_entry", "BackupEntries", "spec.providerConfig"),
        Kind::Bastion => ("bastion", "Bastions", "spec.providerConfig"),
        Kind::ContainerRuntime => (
            "container_runtime",
            "ContainerRuntimes",
            "spec.provider.workers[].cri.containerRuntimes[].providerConfig",
        ),
        Kind::ControlPlane => ("control_plane", "ControlPlanes", "spec.provider.controlPlaneConfig"),
        Kind::DNSRecord => ("dns_record", "DnsRecords", "spec.providerConfig"),
        Kind::Extension => ("extension", "Extensions", "spec.extensions[].providerConfig"),
        Kind::Infrastructure => (
            "infrastructure",
            "Infrastructures",
            "spec.provider.infrastructureConfig",
        ),
        Kind::Network => ("network", "Networks", "spec.networking.providerConfig"),
        Kind::OperatingSystemConfig => (
            "operating_system_config",
            "OperatingSystemConfigs",
            "spec.provider.workers[].machine.image.providerConfig",
        ),
        Kind::SelfHostedShootExposure => (
            "self_hosted_shoot_exposure",
            "SelfHostedShootExposures",
            "spec.providerConfig",
        ),
        Kind::Worker => ("worker", "Workers", "spec.providerConfig"),
    };
    Row {
        kind,
        module,
        actuator,
        field,
    }
}

/// Whether a provider's kind is among these.
pub(crate) fn any_of_provider(kinds: &[ExtensionKind]) -> bool {
    kinds.iter().any(|kind| OF_PROVIDER.contains(kind))
}

/// Whether one of these makes Secrets: user data of machines hold tokens.
pub(crate) fn any_secret(kinds: &[ExtensionKind]) -> bool {
    kinds.contains(&ExtensionKind::OperatingSystemConfig)
}
