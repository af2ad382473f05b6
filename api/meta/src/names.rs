//! Names of namespaces, users, groups and objects of the wire contract. It never invents random parts.

/// The garden's own namespace, in garden and seeds.
pub const GARDEN_NAMESPACE: &str = "garden";
/// Leases of gardenlets.
pub const SEED_LEASE_NAMESPACE: &str = "gardener-system-seed-lease";
/// Public information for all users.
pub const SYSTEM_PUBLIC_NAMESPACE: &str = "gardener-system-public";
/// Service account issuers of shoots.
pub const SHOOT_ISSUER_NAMESPACE: &str = "gardener-system-shoot-issuer";
/// Prefix of project namespaces.
pub const PROJECT_NAMESPACE_PREFIX: &str = "garden-";
/// Prefix of a seed's namespace in the garden.
pub const SEED_NAMESPACE_PREFIX: &str = "seed-";
/// Prefix of an extension's namespace in a seed.
pub const EXTENSION_NAMESPACE_PREFIX: &str = "extension-";
/// User of a seed's gardenlet in the garden, before the seed's name.
pub const SEED_USER_PREFIX: &str = "gardener.cloud:system:seed:";
/// Group of all gardenlets in the garden.
pub const SEEDS_GROUP: &str = "gardener.cloud:system:seeds";
/// User of controller-manager.
pub const CONTROLLER_MANAGER_USER: &str = "gardener.cloud:system:controller-manager";
/// User of the scheduler.
pub const SCHEDULER_USER: &str = "gardener.cloud:system:scheduler";
/// User of gardenlet in shoots.
pub const GARDENLET_SHOOT_USER: &str = "gardener.cloud:system:gardenlet";
/// User of resource-manager in shoots.
pub const RESOURCE_MANAGER_SHOOT_USER: &str = "gardener.cloud:system:gardener-resource-manager";
/// Group of admin kubeconfigs of shoots.
pub const SHOOT_ADMINS_GROUP: &str = "gardener.cloud:system:admins";
/// Group of viewer kubeconfigs of shoots.
pub const SHOOT_VIEWERS_GROUP: &str = "gardener.cloud:system:viewers";
/// Secret with cloud credentials in a shoot's namespace.
pub const CLOUD_PROVIDER_SECRET: &str = "cloudprovider";
/// Data key of an OperatingSystemConfig's result Secret.
pub const CLOUD_CONFIG_DATA_KEY: &str = "cloud_config";
/// ManagedResources of the seed itself carry this class.
pub const MANAGED_RESOURCE_CLASS_SEED: &str = "seed";
/// Folder of the token, the CA and the namespace of a pod's service account in its containers (kubernetes/kubernetes v1.35
/// plugin/pkg/admission/serviceaccount/admission.go).
pub const SERVICE_ACCOUNT_FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Prefix of the user names of service accounts, before `NAMESPACE:NAME`.
pub const SERVICE_ACCOUNT_USER_PREFIX: &str = "system:serviceaccount:";
/// Prefix of an extension's service account in the garden, before its installation's name.
pub const EXTENSION_SERVICE_ACCOUNT_PREFIX: &str = "extension-";
/// Taint key of seeds that only shoots of the garden namespace may use.
pub const SEED_TAINT_PROTECTED: &str = "seed.gardener.cloud/protected";
/// DNS provider type of a domain that is not managed.
pub const DNS_UNMANAGED: &str = "unmanaged";
/// The CPU architecture of machines that name none.
pub const ARCHITECTURE_AMD64: &str = "amd64";
/// Deployment type of Helm charts.
pub const DEPLOYMENT_TYPE_HELM: &str = "helm";
/// Namespace of Kubernetes' own parts.
pub const SYSTEM_NAMESPACE: &str = "kube-system";
/// Where a cluster's identity is stored: the ConfigMap in [`SYSTEM_NAMESPACE`], and its key.
pub const CLUSTER_IDENTITY: &str = "cluster-identity";
/// ManagedResource of the objects a shoot refers to.
pub const REFERENCED_RESOURCES: &str = "referenced-resources";
/// Prefix of copies of referenced objects in a shoot's namespace.
pub const REFERENCED_RESOURCES_PREFIX: &str = "ref-";

/// The Lease that an extension renews in its namespace to report that it is alive (gardener/gardener v1.150
/// extensions/pkg/controller/heartbeat).
pub const HEARTBEAT_LEASE: &str = "gardener-extension-heartbeat";

/// The namespace of a shoot in its seed and the name of its Cluster, unless `status.technicalID` names another.
pub fn technical_id(project: &str, shoot: &str) -> String {
    format!("shoot--{project}--{shoot}")
}

/// The namespace of a seed in the garden.
pub fn seed_namespace(seed: &str) -> String {
    format!("{SEED_NAMESPACE_PREFIX}{seed}")
}

/// Longest DNS label (RFC 1123).
const DNS_LABEL_BYTES_MAX: usize = 63;
/// Lower-case letters, digits and `-`, with a letter or digit at both ends; at most 63 bytes.
#[must_use]
pub fn is_dns_label(text: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let bytes = text.as_bytes();
    bytes.len() <= DNS_LABEL_BYTES_MAX
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
}

/// The namespace of an extension in a seed.
pub fn extension_namespace(installation: &str) -> String {
    format!("{EXTENSION_NAMESPACE_PREFIX}{installation}")
}

/// The garden BackupEntry of a shoot.
pub fn backup_entry(technical_id: &str, shoot_uid: &str) -> String {
    format!("{technical_id}--{shoot_uid}")
}
