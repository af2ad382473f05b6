//! Annotation keys and values of the wire contract (gardener/gardener v1.150 pkg/apis/core/v1beta1/constants).
//! It names them and reads values that mean true; what they do stands where they are read.

/// Whether a value means true, as Go's `strconv.ParseBool` reads it.
pub fn is_true(value: &str) -> bool {
    matches!(value, "1" | "t" | "T" | "TRUE" | "true" | "True")
}

/// Requests an operation: see [`operation`]. Several are separated by `;`.
pub const OPERATION: &str = "gardener.cloud/operation";
/// The same for the next maintenance window.
pub const MAINTENANCE_OPERATION: &str = "maintenance.gardener.cloud/operation";
/// When the operation was requested, RFC 3339 with nanoseconds; guards against stale caches.
pub const TIMESTAMP: &str = "gardener.cloud/timestamp";
/// `true` allows deletion of an object protected against it.
pub const CONFIRMATION_DELETION: &str = "confirmation.gardener.cloud/deletion";
/// `true` on a Shoot in deletion: give up cleaning in the cloud.
pub const CONFIRMATION_FORCE_DELETION: &str = "confirmation.gardener.cloud/force-deletion";
/// Who confirmed a deletion under the four-eyes rule.
pub const DELETION_CONFIRMED_BY: &str = "deletion.gardener.cloud/confirmed-by";
/// `true` on a BackupEntry: give up cleaning in the object store.
pub const BACKUP_ENTRY_FORCE_DELETION: &str = "backupentry.core.gardener.cloud/force-deletion";
/// Comma list of deploy tasks to do in the next reconcile: see [`task`].
pub const SHOOT_TASKS: &str = "shoot.gardener.cloud/tasks";
/// `true`: gardenlet leaves the shoot alone.
pub const SHOOT_IGNORE: &str = "shoot.gardener.cloud/ignore";
/// Skips all waits of the next reconcile.
pub const SHOOT_SKIP_READINESS: &str = "shoot.gardener.cloud/skip-readiness";
/// Skips cleaning inside the shoot on deletion.
pub const SHOOT_SKIP_CLEANUP: &str = "shoot.gardener.cloud/skip-cleanup";
/// The shoot's uid, on its namespace in the seed.
pub const SHOOT_UID: &str = "shoot.gardener.cloud/uid";
/// On a Seed: no shoot of it is reconciled.
pub const SEED_EMERGENCY_STOP: &str = "shoot.gardener.cloud/emergency-stop-reconciliations";
/// Name of the Secret with the generic token kubeconfig, on a Cluster.
pub const GENERIC_TOKEN_KUBECONFIG_SECRET_NAME: &str = "generic-token-kubeconfig.secret.gardener.cloud/name";
/// Pod security level of an extension's namespace, on ControllerRegistration and ControllerInstallation.
pub const POD_SECURITY_ENFORCE: &str = "security.gardener.cloud/pod-security-enforce";
/// Deployment type other than helm, in core/v1.
pub const MIGRATION_DEPLOYMENT_TYPE: &str = "migration.controllerdeployment.gardener.cloud/type";
/// Its configuration as JSON text, in core/v1.
pub const MIGRATION_DEPLOYMENT_PROVIDER_CONFIG: &str = "migration.controllerdeployment.gardener.cloud/providerConfig";
/// `resources` of a core/v1 ControllerDeployment as JSON text, in v1beta1: ours, so that conversion loses nothing.
pub const MIGRATION_DEPLOYMENT_RESOURCES: &str = "migration.controllerdeployment.gardener.cloud/resources";
/// Zones for highly available workload, on a namespace.
pub const HIGH_AVAILABILITY_ZONES: &str = "high-availability-config.resources.gardener.cloud/zones";
/// Which failure a namespace's workload is to survive: `node`, `zone`, or empty.
pub const HIGH_AVAILABILITY_FAILURE_TOLERANCE: &str =
    "high-availability-config.resources.gardener.cloud/failure-tolerance-type";
/// Selector of service accounts that get the permissions of a ClusterRole.
pub const EXTENSIONS_SERVICE_ACCOUNT_SELECTOR: &str = "authorization.gardener.cloud/extensions-serviceaccount-selector";
/// On Secrets of the token requestor: the service account that the token is for.
pub const SERVICE_ACCOUNT_NAME: &str = "serviceaccount.resources.gardener.cloud/name";
/// On the same: its namespace.
pub const SERVICE_ACCOUNT_NAMESPACE: &str = "serviceaccount.resources.gardener.cloud/namespace";
/// On the same: labels for it, as a JSON object.
pub const SERVICE_ACCOUNT_LABELS: &str = "serviceaccount.resources.gardener.cloud/labels";
/// Prefix of references that garbage collection goes by:
/// `reference.resources.gardener.cloud/{secret,configmap}-<hash>=<name>`.
pub const REFERENCE_PREFIX: &str = "reference.resources.gardener.cloud/";
/// Checksum of what an installation's ManagedResource was rendered from: ours, so that a chart is rendered when
/// something changed and not at every look.
pub const INSTALLATION_INPUTS: &str = "installation.orangery.dev/inputs";
/// Address and digest of the chart of an installation's ManagedResource: ours, so that a gardenlet that cannot reach the
/// registry knows what is installed.
pub const INSTALLATION_CHART: &str = "installation.orangery.dev/chart";
/// On a Secret with an installation's objects: the generation of the ManagedResource that it was put in the place of. Ours,
/// so that versions of these Secrets show which was used last, also when an older one is used again.
pub const INSTALLATION_REPLACES: &str = "installation.orangery.dev/replaces-generation";
/// Before the names of annotations that are a part of an object's status: ours. They come and go with writes of the
/// subresource `status`, so that both are of one moment, and a change of them calls for no reconcile.
pub const STATUS_PREFIX: &str = "status.orangery.dev/";
/// On Shoots, BackupEntries and BackupBuckets: what the last operation runs, waits for and has failed at, as JSON: see
/// [`crate::OperationReport`]. On a Shoot without seed the scheduler writes it; on a ControllerInstallation it is about the
/// conditions Valid and Installed ([`crate::conditions::installation::REPORTED`]). gardenlet never reads more from it than what
/// it has written about the same operation; readers explain a Shoot by it. Nothing is decided by it, so that a person who writes it misleads only readers
/// of their own Shoot, until gardenlet's next write.
pub const OPERATION_REPORT: &str = "status.orangery.dev/operation-report";
/// Who created the object.
pub const CREATED_BY: &str = "gardener.cloud/created-by";
/// `description` shown to people.
pub const DESCRIPTION: &str = "gardener.cloud/description";
/// Node: checksum of the applied OperatingSystemConfig.
pub const NODE_CLOUD_CONFIG_CHECKSUM: &str = "checksum/cloud-config-data";
/// Secret: checksum of the data it carries.
pub const DATA_SCRIPT_CHECKSUM: &str = "checksum/data-script";
/// A pod of the embedded node whose image is unknown to it is only simulated.
pub const NODE_SIMULATED: &str = "node.orangery.dev/simulated";

/// Values of [`OPERATION`].
pub mod operation {
    /// Reconcile now.
    pub const RECONCILE: &str = "reconcile";
    /// Retry a failed shoot.
    pub const RETRY: &str = "retry";
    /// Bastion: it is still in use.
    pub const KEEPALIVE: &str = "keepalive";
    /// Run maintenance now.
    pub const MAINTAIN: &str = "maintain";
    /// Extension: prepare to leave this seed.
    pub const MIGRATE: &str = "migrate";
    /// Extension: take over from the recorded state.
    pub const RESTORE: &str = "restore";
    /// Extension: leave the object alone until its state is written.
    pub const WAIT_FOR_STATE: &str = "wait-for-state";
    /// Start rotation of all credentials.
    pub const ROTATE_CREDENTIALS_START: &str = "rotate-credentials-start";
    /// End rotation of all credentials.
    pub const ROTATE_CREDENTIALS_COMPLETE: &str = "rotate-credentials-complete";
    /// Every operation that starts with this bumps a Shoot's generation.
    pub const ROTATE_PREFIX: &str = "rotate-";
    /// Rolls worker pools out.
    pub const ROLLOUT_WORKERS_PREFIX: &str = "rollout-workers=";
    /// Lets an in-place update go on.
    pub const FORCE_IN_PLACE_UPDATE: &str = "force-in-place-update";
}

/// Entries of [`SHOOT_TASKS`].
pub mod task {
    /// Deploy the Infrastructure.
    pub const DEPLOY_INFRASTRUCTURE: &str = "deployInfrastructure";
    /// Deploy the internal DNSRecord.
    pub const DEPLOY_DNS_RECORD_INTERNAL: &str = "deployDNSRecordInternal";
    /// Deploy the external DNSRecord.
    pub const DEPLOY_DNS_RECORD_EXTERNAL: &str = "deployDNSRecordExternal";
    /// Deploy the ingress DNSRecord.
    pub const DEPLOY_DNS_RECORD_INGRESS: &str = "deployDNSRecordIngress";
    /// Restart the pods of the control plane.
    pub const RESTART_CONTROL_PLANE_PODS: &str = "restartControlPlanePods";
    /// Restart core add-ons.
    pub const RESTART_CORE_ADDONS: &str = "restartCoreAddons";
    /// Renew the names of the node agents' Secrets.
    pub const UPDATE_NODE_AGENT_SECRET_NAME: &str = "updateGardenerNodeAgentSecretName";
}

/// Annotations of Services from which resource-manager makes network policies (gardener/gardener v1.150
/// pkg/apis/resources/v1alpha1/types.go).
pub mod network {
    /// A JSON list of label selectors: the namespaces whose pods may connect, beside the Service's own.
    pub const NAMESPACE_SELECTORS: &str = "networking.resources.gardener.cloud/namespace-selectors";
    /// What stands in pods' labels in place of the Service's namespace.
    pub const POD_LABEL_SELECTOR_NAMESPACE_ALIAS: &str =
        "networking.resources.gardener.cloud/pod-label-selector-namespace-alias";
    /// A JSON list of ports that everybody reaches.
    pub const FROM_WORLD_TO_PORTS: &str = "networking.resources.gardener.cloud/from-world-to-ports";
    /// Before the name of a label, and [`ALLOWED_PORTS_SUFFIX`] behind it: a JSON list of ports that pods with that label
    /// reach.
    pub const FROM_PREFIX: &str = "networking.resources.gardener.cloud/from-";
    /// See [`FROM_PREFIX`].
    pub const ALLOWED_PORTS_SUFFIX: &str = "-allowed-ports";
}
