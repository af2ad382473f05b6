//! The extension `moon` as a program. What it does stands in the files of its kinds.

mod backup_bucket;
mod backup_entry;
mod bastion;
mod container_runtime;
mod control_plane;
mod dns_record;
mod extension;
mod infrastructure;
mod network;
mod operating_system_config;
mod self_hosted_shoot_exposure;
mod webhook;
mod worker;

use std::{process::ExitCode, sync::Arc};

use api_extensions::{
    BackupBucket, BackupEntry, Bastion, ContainerRuntime, ControlPlane, DNSRecord, Extension, Infrastructure, Network,
    OperatingSystemConfig, SelfHostedShootExposure, Worker,
};
use extensions_sdk::{About, Registration, run_with};

/// Type of the objects that are its own.
const TYPE: &str = "moon";

#[tokio::main]
async fn main() -> ExitCode {
    let about = About::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    run_with(about, |setup, flags| {
        webhook::serve(setup, &flags)?;
        Ok(setup
            .extension()
            .actuator::<BackupBucket>(Registration::of_type(TYPE), Arc::new(backup_bucket::BackupBuckets))
            .actuator::<BackupEntry>(Registration::of_type(TYPE), Arc::new(backup_entry::BackupEntries))
            .actuator::<Bastion>(Registration::of_type(TYPE), Arc::new(bastion::Bastions))
            .actuator::<ContainerRuntime>(
                Registration::of_type(TYPE),
                Arc::new(container_runtime::ContainerRuntimes),
            )
            .actuator::<ControlPlane>(Registration::of_type(TYPE), Arc::new(control_plane::ControlPlanes))
            .actuator::<DNSRecord>(Registration::of_type(TYPE), Arc::new(dns_record::DnsRecords))
            .actuator::<Extension>(
                Registration::of_type(TYPE).finalizer_suffix(TYPE),
                Arc::new(extension::Extensions),
            )
            .actuator::<Infrastructure>(Registration::of_type(TYPE), Arc::new(infrastructure::Infrastructures))
            .actuator::<Network>(Registration::of_type(TYPE), Arc::new(network::Networks))
            .actuator::<OperatingSystemConfig>(
                Registration::of_type(TYPE),
                Arc::new(operating_system_config::OperatingSystemConfigs),
            )
            .actuator::<SelfHostedShootExposure>(
                Registration::of_type(TYPE),
                Arc::new(self_hosted_shoot_exposure::SelfHostedShootExposures),
            )
            .actuator::<Worker>(Registration::of_type(TYPE), Arc::new(worker::Workers)))
    })
    .await
}
