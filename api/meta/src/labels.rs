//! Label keys and values of the wire contract (gardener/gardener v1.150 pkg/apis/core/v1beta1/constants).
//! It only names them.

/// What part an object plays: see [`role`].
pub const ROLE: &str = "gardener.cloud/role";
/// What an object is for.
pub const PURPOSE: &str = "gardener.cloud/purpose";
/// `true` on CRDs whose objects need a confirmation before deletion.
pub const DELETION_PROTECTED: &str = "gardener.cloud/deletion-protected";
/// Restricts who may change an object.
pub const UPDATE_RESTRICTION: &str = "gardener.cloud/update-restriction";
/// Project of a namespace in the garden.
pub const PROJECT_NAME: &str = "project.gardener.cloud/name";
/// `true` on a project's namespace: keep it when the project goes.
pub const SKIP_STALE_CHECK: &str = "project.gardener.cloud/skip-stale-check";
/// Registration of an extension's namespace or objects.
pub const CONTROLLER_REGISTRATION_NAME: &str = "controllerregistration.core.gardener.cloud/name";
/// Health of a shoot: `healthy`, `progressing`, `unhealthy`, `unknown`.
pub const SHOOT_STATUS: &str = "shoot.gardener.cloud/status";
/// Provider type of the seed, on a shoot's namespace.
pub const SEED_PROVIDER: &str = "seed.gardener.cloud/provider";
/// Provider type of the shoot, on its namespace.
pub const SHOOT_PROVIDER: &str = "shoot.gardener.cloud/provider";
/// Network type of the shoot, on its namespace.
pub const NETWORKING_PROVIDER: &str = "networking.shoot.gardener.cloud/provider";
/// Provider type of the seed's backup, on a shoot's namespace.
pub const BACKUP_PROVIDER: &str = "backup.gardener.cloud/provider";
/// Prefix before an extension's type: `extensions.gardener.cloud/<type>=true` on a shoot's namespace.
pub const EXTENSION_PREFIX: &str = "extensions.gardener.cloud/";
/// Prefix of seeds' names in labels: `name.seed.gardener.cloud/<seed>=true`.
pub const SEED_NAME_PREFIX: &str = "name.seed.gardener.cloud/";
/// Worker pool of a node, machine or Secret.
pub const WORKER_POOL: &str = "worker.gardener.cloud/pool";
/// Pool of a Secret or OperatingSystemConfig.
pub const WORKER_POOL_NAME: &str = "worker.gardener.cloud/pool-name";
/// Container runtime interface of a pool's nodes.
pub const WORKER_CRI_NAME: &str = "worker.gardener.cloud/cri-name";
/// Whether system components may run on a pool's nodes.
pub const WORKER_SYSTEM_COMPONENTS: &str = "worker.gardener.cloud/system-components";
/// Kubernetes version of a pool's nodes.
pub const WORKER_KUBERNETES_VERSION: &str = "worker.gardener.cloud/kubernetes-version";
/// Worker pool of a node, as old clients read it.
pub const WORKER_POOL_DEPRECATED: &str = "worker.garden.sapcloud.io/group";
/// Secret in the shoot with the operating system configuration of a node.
pub const WORKER_NODE_AGENT_SECRET: &str = "worker.gardener.cloud/gardener-node-agent-secret-name";
/// Prefix before a container runtime's type, on nodes that have it.
pub const WORKER_CONTAINER_RUNTIME_PREFIX: &str = "containerruntime.worker.gardener.cloud/";
/// Role of a node in its cluster: `node` everywhere.
pub const NODE_ROLE: &str = "node.kubernetes.io/role";
/// CPU architecture of a node.
pub const NODE_ARCHITECTURE: &str = "kubernetes.io/arch";
/// Whether a node has a DNS cache of its own.
pub const NODE_LOCAL_DNS: &str = "networking.gardener.cloud/node-local-dns-enabled";
/// Secrets made by the secrets manager carry [`MANAGED_BY_SECRETS_MANAGER`].
pub const MANAGED_BY: &str = "managed-by";
/// Value of [`MANAGED_BY`].
pub const MANAGED_BY_SECRETS_MANAGER: &str = "secrets-manager";
/// `true` on Secrets that ShootState keeps.
pub const PERSIST: &str = "persist";
/// Purpose of a Secret for resource-manager: see [`resources`].
pub const RESOURCES_PURPOSE: &str = "resources.gardener.cloud/purpose";
/// Class of resource-manager that cares: `seed`, `shoot`, `garden`.
pub const RESOURCES_CLASS: &str = "resources.gardener.cloud/class";
/// On applied objects: `gardener`.
pub const RESOURCES_MANAGED_BY: &str = "resources.gardener.cloud/managed-by";
/// `true` on immutable Secrets that may go once nothing refers to them.
pub const GARBAGE_COLLECTABLE_REFERENCE: &str = "resources.gardener.cloud/garbage-collectable-reference";
/// `true` on namespaces whose workload is made highly available.
pub const HIGH_AVAILABILITY_CONSIDER: &str = "high-availability-config.resources.gardener.cloud/consider";
/// `true` on objects of control planes and OperatingSystemConfigs that webhooks of providers may change.
pub const MUTATED_BY_CONTROL_PLANE_WEBHOOK: &str = "provider.extensions.gardener.cloud/mutated-by-controlplane-webhook";
/// Label on ControllerInstallations: hash of the registration's spec, 16 hex digits.
pub const REGISTRATION_SPEC_HASH: &str = "registration-spec-hash";
/// Label on ControllerInstallations: hash of the seed's spec, 16 hex digits.
pub const SEED_SPEC_HASH: &str = "seed-spec-hash";
/// Label on ControllerInstallations: hash of the deployment, 16 hex digits.
pub const DEPLOYMENT_HASH: &str = "deployment-hash";
/// Label on ControllerInstallations of self-hosted shoots.
pub const SEED_REF_NAME: &str = "seed-ref-name";
/// Label on ManagedResources of an installation.
pub const CONTROLLER_INSTALLATION_NAME: &str = "controllerinstallation-name";
/// Label on the same: its registration.
pub const MANAGED_REGISTRATION_NAME: &str = "controllerregistration-name";
/// `false` on workload of an extension that is to get no kubeconfig of the garden.
pub const INJECT_GARDEN_KUBECONFIG: &str = "extensions.gardener.cloud/inject-garden-kubeconfig";
/// `allowed` on namespaces whose pods reach the garden's API server beside them.
pub const ACCESS_TARGET_API_SERVER: &str = "networking.gardener.cloud/access-target-apiserver";
/// `true` on ClusterRoles that give permissions to extensions in the garden.
pub const CUSTOM_EXTENSIONS_PERMISSIONS: &str = "authorization.gardener.cloud/custom-extensions-permissions";
/// Pod security admission level of a namespace.
pub const POD_SECURITY_ENFORCE: &str = "pod-security.kubernetes.io/enforce";
/// The app of a component's pods.
pub const APP: &str = "app";
/// The part of a component's pods within its app.
pub const COMPONENT_ROLE: &str = "role";

/// Values of [`ROLE`].
pub mod role {
    /// Namespace of a project in the garden.
    pub const PROJECT: &str = "project";
    /// Namespace of a shoot in a seed.
    pub const SHOOT: &str = "shoot";
    /// Namespace of an extension in a seed.
    pub const EXTENSION: &str = "extension";
    /// Part of a shoot's control plane.
    pub const CONTROLPLANE: &str = "controlplane";
    /// Secret with the internal domain.
    pub const INTERNAL_DOMAIN: &str = "internal-domain";
    /// Secret with a default domain.
    pub const DEFAULT_DOMAIN: &str = "default-domain";
    /// Secret with registry credentials for charts.
    pub const HELM_PULL_SECRET: &str = "helm-pull-secret";
    /// Secret with a registry's authorities.
    pub const OCI_CA_BUNDLE: &str = "oci-ca-bundle";
    /// Object named by a ControllerDeployment.
    pub const RESOURCE_REFERENCE: &str = "resource-reference";
    /// Namespace of a seed in the garden.
    pub const SEED: &str = "seed";
    /// Secret `<shoot>.ca-client` and the like in the garden.
    pub const CA_CLIENT: &str = "ca-client";
    /// ConfigMap or Secret with a shoot's cluster authorities in the garden.
    pub const CA_CLUSTER: &str = "ca-cluster";
    /// Secret with the key pair that opens a shoot's nodes to SSH, in the garden.
    pub const SSH_KEY_PAIR: &str = "ssh-keypair";
    /// Secret or OperatingSystemConfig of a worker pool's cloud config.
    pub const CLOUD_CONFIG: &str = "cloud-config";
}

/// Values of [`RESOURCES_PURPOSE`] and [`RESOURCES_CLASS`].
pub mod resources {
    /// Secret to be filled with a service account token.
    pub const PURPOSE_TOKEN_REQUESTOR: &str = "token-requestor";
    /// Objects for a shoot.
    pub const CLASS_SHOOT: &str = "shoot";
    /// Objects for the seed.
    pub const CLASS_SEED: &str = "seed";
    /// Objects for the garden.
    pub const CLASS_GARDEN: &str = "garden";
}

/// Labels by which network policies select pods, in the seed and in `kube-system` of shoots. Their value is [`ALLOWED`].
///
/// [`ALLOWED`]: network::ALLOWED
pub mod network {
    /// The value of all of them.
    pub const ALLOWED: &str = "allowed";
    /// To the cluster's name servers.
    pub const TO_DNS: &str = "networking.gardener.cloud/to-dns";
    /// To the API server of the cluster that the pod runs in, where that is a seed.
    pub const TO_RUNTIME_API_SERVER: &str = "networking.gardener.cloud/to-runtime-apiserver";
    /// To addresses that are no cluster's and not private.
    pub const TO_PUBLIC_NETWORKS: &str = "networking.gardener.cloud/to-public-networks";
    /// To private addresses that are no cluster's.
    pub const TO_PRIVATE_NETWORKS: &str = "networking.gardener.cloud/to-private-networks";
    /// To networks that an operator has blocked.
    pub const TO_BLOCKED_CIDRS: &str = "networking.gardener.cloud/to-blocked-cidrs";
    /// To the shoot's API server, in the shoot.
    pub const TO_API_SERVER: &str = "networking.gardener.cloud/to-apiserver";
    /// To kubelets, in the shoot.
    pub const TO_KUBELET: &str = "networking.gardener.cloud/to-kubelet";
    /// From the shoot's control plane, in the shoot.
    pub const FROM_SEED: &str = "networking.gardener.cloud/from-seed";
    /// Before labels of pods that connect to a Service: `to-<service>-<protocol>-<port>`. Also before the labels of the
    /// policies that are made for a Service.
    pub const PREFIX: &str = "networking.resources.gardener.cloud/";
    /// On a policy: the Service that it was made for.
    pub const SERVICE_NAME: &str = "networking.resources.gardener.cloud/service-name";
    /// On a policy: that Service's namespace.
    pub const SERVICE_NAMESPACE: &str = "networking.resources.gardener.cloud/service-namespace";
    /// In labels, in place of the name of a shoot's namespace.
    pub const ALL_SHOOTS: &str = "all-shoots";
    /// In labels, in place of the name of an extension's namespace.
    pub const EXTENSIONS: &str = "extensions";
    /// In labels, in place of service, protocol and port: whatever is scraped for metrics.
    pub const SCRAPE_TARGETS: &str = "all-scrape-targets";
    /// The same, by the seed's Prometheus.
    pub const SEED_SCRAPE_TARGETS: &str = "all-seed-scrape-targets";
    /// In labels, in place of service, protocol and port: whatever serves webhooks of API servers in the seed.
    pub const WEBHOOK_TARGETS: &str = "all-webhook-targets";
}

/// Values of [`SHOOT_STATUS`].
pub mod shoot_status {
    /// All is well.
    pub const HEALTHY: &str = "healthy";
    /// Under way.
    pub const PROGRESSING: &str = "progressing";
    /// Something is wrong.
    pub const UNHEALTHY: &str = "unhealthy";
    /// Its state is unknown.
    pub const UNKNOWN: &str = "unknown";
}

/// Labels by which extensions' admission webhooks select garden objects: `<prefix>/<type>=true`.
pub mod extension_types {
    /// Provider types.
    pub const PROVIDER: &str = "provider.extensions.gardener.cloud/";
    /// DNSRecord types.
    pub const DNS_RECORD: &str = "dnsrecord.extensions.gardener.cloud/";
    /// Extension types.
    pub const EXTENSION: &str = "extensions.extensions.gardener.cloud/";
    /// Network types.
    pub const NETWORKING: &str = "networking.extensions.gardener.cloud/";
    /// OperatingSystemConfig types.
    pub const OPERATING_SYSTEM_CONFIG: &str = "operatingsystemconfig.extensions.gardener.cloud/";
    /// ContainerRuntime types.
    pub const CONTAINER_RUNTIME: &str = "containerruntime.extensions.gardener.cloud/";
    /// SelfHostedShootExposure types.
    pub const SELF_HOSTED_SHOOT_EXPOSURE: &str = "selfhostedshootexposure.extensions.gardener.cloud/";
}

/// On a ManagedResource: the condition of the Shoot that it counts for.
pub const CARE_CONDITION_TYPE: &str = "care.gardener.cloud/condition-type";
