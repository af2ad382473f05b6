//! `core.gardener.cloud/v1beta1`: the garden's main API, one struct per Go struct, one field per JSON field.
//! It holds no behaviour.

mod backup;
mod cloud_profile;
mod cloud_profile_machines;
mod controller_deployment;
mod controller_installation;
mod controller_registration;
mod exposure_class;
mod internal_secret;
mod namespaced_cloud_profile;
mod project;
mod quota;
mod seed;
mod seed_settings;
mod shared;
mod shoot;
mod shoot_apiserver;
mod shoot_autoscaling;
mod shoot_credentials;
mod shoot_kubelet;
mod shoot_kubernetes;
mod shoot_maintenance;
mod shoot_provider;
mod shoot_state;
mod shoot_status;

pub use backup::{
    BackupBucket, BackupBucketProvider, BackupBucketSpec, BackupBucketStatus, BackupEntry, BackupEntrySpec,
    BackupEntryStatus,
};
pub use cloud_profile::{
    AvailabilityZone, Capabilities, CapabilityDefinition, CloudProfile, CloudProfileControlPlane, CloudProfileSpec,
    CloudProfileStatus, ExpirableVersion, ExpirableVersionStatus, KubernetesSettings, KubernetesStatus, LifecycleStage,
    Limits, MachineImageStatus, Region, SeedSelector, VersionClassification, VolumeType,
};
pub use cloud_profile_machines::{
    Bastion, BastionMachineImage, BastionMachineType, CloudProfileMachineControllerManagerSettings, InPlaceUpdates,
    MachineImage, MachineImageUpdateStrategy, MachineImageVersion, MachineType, MachineTypeStorage,
};
pub use controller_deployment::{ControllerDeployment, HelmControllerDeployment, OCIRepository};
pub use controller_installation::{ControllerInstallation, ControllerInstallationSpec, ControllerInstallationStatus};
pub use controller_registration::{
    ClusterType, ControllerDeploymentPolicy, ControllerRegistration, ControllerRegistrationDeployment,
    ControllerRegistrationSpec, ControllerResource, ControllerResourceLifecycle, ControllerResourceLifecycleStrategy,
    DeploymentRef,
};
pub use exposure_class::{ExposureClass, ExposureClassScheduling};
pub use internal_secret::InternalSecret;
pub use namespaced_cloud_profile::{
    CloudProfileReference, NamespacedCloudProfile, NamespacedCloudProfileSpec, NamespacedCloudProfileStatus,
};
pub use project::{
    DualApprovalForDeletion, Project, ProjectMember, ProjectPhase, ProjectSpec, ProjectStatus, ProjectTolerations,
    Toleration,
};
pub use quota::{Quota, QuotaSpec, SecretBinding, SecretBindingProvider};
pub use seed::{
    Backup, Ingress, IngressController, Seed, SeedDNS, SeedDNSProvider, SeedDNSProviderConfig, SeedNetworks,
    SeedProvider, SeedSpec, SeedStatus, SeedTaint, SeedTemplate, SeedVolume, SeedVolumeProvider, ShootNetworks,
};
pub use seed_settings::{
    LoadBalancerServicesProxyProtocol, SeedSettingDependencyWatchdog, SeedSettingDependencyWatchdogProber,
    SeedSettingDependencyWatchdogWeeder, SeedSettingExcessCapacityReservation,
    SeedSettingExcessCapacityReservationConfig, SeedSettingLoadBalancerServices,
    SeedSettingLoadBalancerServicesZonalIngress, SeedSettingLoadBalancerServicesZones,
    SeedSettingPersistentVolumeClaimAutoscaler, SeedSettingScheduling, SeedSettingTopologyAwareRouting,
    SeedSettingVerticalPodAutoscaler, SeedSettingZoneSelection, SeedSettings, ZoneSelectionMode,
};
pub use shared::{
    AccessRestriction, AccessRestrictionWithOptions, Extension, FailureTolerance, FailureToleranceType, Gardener,
    HighAvailability, IPFamily,
};
pub use shoot::{
    Addon, Addons, Alerting, ControlPlane, CoreDNS, CoreDNSAutoscaling, CoreDNSAutoscalingMode, CoreDNSRewriting, DNS,
    DNSIncludeExclude, DNSProvider, KubernetesDashboard, Monitoring, Networking, NginxIngress, NodeLocalDNS, Shoot,
    ShootPurpose, ShootSpec, ShootTemplate, SystemComponents,
};
pub use shoot_apiserver::{
    APIServerLogging, APIServerRequests, AdmissionPlugin, AuditConfig, AuditPolicy, AuthorizerKubeconfigReference,
    EncryptionConfig, EncryptionProvider, EncryptionProviderType, KubeAPIServerConfig, ResourceWatchCacheSize,
    ServiceAccountConfig, StructuredAuthentication, StructuredAuthorization, WatchCacheSizes,
};
pub use shoot_autoscaling::{ClusterAutoscaler, ClusterAutoscalerOptions, ExpanderMode, VerticalPodAutoscaler};
pub use shoot_credentials::{
    CARotation, CredentialsRotationPhase, ETCDEncryptionKeyRotation, EncryptionAtRest, EncryptionProviderStatus,
    ObservabilityRotation, PendingWorkersRollout, ServiceAccountKeyRotation, ShootCredentials,
    ShootCredentialsRotation, ShootKubeconfigRotation, ShootSSHKeypairRotation,
};
pub use shoot_kubelet::{
    ImagePullCredentialsVerificationPolicy, KubeletConfig, KubeletConfigEviction, KubeletConfigEvictionMinimumReclaim,
    KubeletConfigEvictionSoftGracePeriod, KubeletConfigReserved, MemorySwapConfiguration, SwapBehavior,
};
pub use shoot_kubernetes::{
    ControlPlaneAutoscaling, ETCD, ETCDConfig, HorizontalPodAutoscalerConfig, KubeControllerManagerConfig,
    KubeProxyConfig, KubeSchedulerConfig, Kubernetes, KubernetesConfig, ProxyMode, SchedulingProfile,
};
pub use shoot_maintenance::{
    Hibernation, HibernationSchedule, Maintenance, MaintenanceAutoRotation, MaintenanceAutoUpdate,
    MaintenanceCredentialsAutoRotation, MaintenanceRotationConfig, MaintenanceTimeWindow,
};
pub use shoot_provider::{
    CRI, CRIName, ContainerRuntime, DNSExposure, DataVolume, Exposure, ExtensionExposure, Machine,
    MachineControllerManagerSettings, MachineUpdateStrategy, Provider, SSHAccess, ShootMachineImage, Volume, Worker,
    WorkerControlPlane, WorkerKubernetes, WorkerSystemComponents, WorkersSettings,
};
pub use shoot_state::{ExtensionResourceState, GardenerResourceData, ResourceData, ShootState, ShootStateSpec};
pub use shoot_status::{
    InPlaceUpdatesStatus, LastMaintenance, LiveMigration, ManualWorkerPoolRollout, NetworkingStatus,
    PendingWorkerUpdates, ShootAdvertisedAddress, ShootStatus,
};
