//! `extensions.gardener.cloud/v1alpha1`: the kinds through which the control plane requests work of extensions, and Cluster.
//! It only describes: no client, no behaviour. `providerConfig`, `providerStatus` and `state` stay raw.
//!
//! `table` has a row for each kind: code for all kinds derives from it.

mod backup_bucket;
mod backup_entry;
mod bastion;
mod cluster;
mod container_runtime;
mod container_runtime_config;
mod control_plane;
mod crds;
mod default;
mod dns_record;
mod extension;
mod infrastructure;
mod network;
mod object;
mod operating_system_config;
mod self_hosted_shoot_exposure;
mod table;
mod worker;
mod worker_pool;

pub use backup_bucket::{BackupBucket, BackupBucketSpec, BackupBucketStatus};
pub use backup_entry::{BackupEntry, BackupEntrySpec, BackupEntryStatus};
pub use bastion::{Bastion, BastionIngressPolicy, BastionSpec, BastionStatus};
pub use cluster::{Cluster, ClusterSpec};
pub use container_runtime::{
    ContainerRuntime, ContainerRuntimeSpec, ContainerRuntimeStatus, ContainerRuntimeWorkerPool,
};
pub use container_runtime_config::{
    CRIConfig, CgroupDriverName, ContainerdConfig, PluginConfig, PluginPathOperation, RegistryCapability,
    RegistryConfig, RegistryHost,
};
pub use control_plane::{ControlPlane, ControlPlaneSpec, ControlPlaneStatus};
pub use default::{DefaultSpec, DefaultStatus, ExtensionClass};
pub use dns_record::{DNSRecord, DNSRecordSpec, DNSRecordStatus, DNSRecordType};
pub use extension::{Extension, ExtensionSpec, ExtensionStatus};
pub use infrastructure::{
    Infrastructure, InfrastructureOwn, InfrastructureSpec, InfrastructureStatus, InfrastructureStatusNetworking,
};
pub use network::{Network, NetworkSpec, NetworkStatus};
pub use operating_system_config::{
    CARotation, CloudConfig, CredentialsRotation, DropIn, File, FileContent, FileContentImageRef, FileContentInline,
    FileContentSecretRef, InPlaceUpdates, InPlaceUpdatesStatus, OSUpdate, OperatingSystemConfig,
    OperatingSystemConfigOwn, OperatingSystemConfigPurpose, OperatingSystemConfigSpec, OperatingSystemConfigStatus,
    ServiceAccountKeyRotation, Unit, UnitCommand,
};
pub use self_hosted_shoot_exposure::{
    ControlPlaneEndpoint, SelfHostedShootExposure, SelfHostedShootExposureSpec, SelfHostedShootExposureStatus,
};
pub use worker::{InPlaceUpdatesWorkerStatus, MachineDeployment, Worker, WorkerOwn, WorkerSpec, WorkerStatus};
pub use worker_pool::{ClusterAutoscalerOptions, DataVolume, MachineImage, NodeTemplate, Volume, WorkerPool};

pub use api_core::v1beta1::{
    CRIName, IPFamily, KubeletConfig, MachineControllerManagerSettings, MachineUpdateStrategy,
};
pub use crds::crds;
pub use object::{CommonStatus, ExtensionObject, ObjectView, OwnPart, StatusView};
pub use table::{DeletionProtection, ExtensionKind, Family, ForKind, Forgetting, Owner, PerKind};
