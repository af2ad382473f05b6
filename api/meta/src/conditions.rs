//! Condition types and reasons of the wire contract. It only names them.

/// Conditions of ControllerInstallations (gardener/gardener v1.150 pkg/apis/core/v1beta1/types_controllerinstallation.go).
/// Their operator must report Valid and Installed; if it also reports Healthy and Progressing, these count.
pub mod installation {
    /// The deployment could be understood.
    pub const VALID: &str = "Valid";
    /// It is installed.
    pub const INSTALLED: &str = "Installed";
    /// What was installed runs well.
    pub const HEALTHY: &str = "Healthy";
    /// A newer form of it is being rolled out.
    pub const PROGRESSING: &str = "Progressing";
    /// Extension objects need it.
    pub const REQUIRED: &str = "Required";

    /// The conditions that the report beside them is about.
    pub const REPORTED: [&str; 2] = [VALID, INSTALLED];

    /// Reason of Valid=True.
    pub const REGISTRATION_VALID: &str = "RegistrationValid";
    /// Reason of Installed=True.
    pub const INSTALLATION_SUCCESSFUL: &str = "InstallationSuccessful";
    /// Reason of Installed=False: not yet.
    pub const INSTALLATION_PENDING: &str = "InstallationPending";
    /// Reason of Installed=False: it failed.
    pub const INSTALLATION_FAILED: &str = "InstallationFailed";
    /// Reason of Installed=False: what was installed is being deleted.
    pub const DELETION_PENDING: &str = "DeletionPending";
    /// Reason of Installed=False: what was installed cannot be deleted.
    pub const DELETION_FAILED: &str = "DeletionFailed";

    /// Whether a reason of Installed is about a deletion.
    pub fn is_deletion(reason: &str) -> bool {
        [DELETION_PENDING, DELETION_FAILED].contains(&reason)
    }

    /// Reason of Valid=False: there is no such ControllerRegistration.
    pub const REGISTRATION_NOT_FOUND: &str = "RegistrationNotFound";
    /// Reason of Valid=False: the ControllerDeployment that it was installed from is gone. Ours; Gardener's gardenlet only
    /// logs it.
    pub const DEPLOYMENT_GONE: &str = "ControllerDeploymentGone";
    /// Reason of Valid=False: there is no such Seed.
    pub const SEED_NOT_FOUND: &str = "SeedNotFound";
    /// Reason of Valid=Unknown: the Seed lacks what is needed of it.
    pub const SEED_READ_ERROR: &str = "SeedReadError";
    /// Reason of Valid=False: the ControllerDeployment does not describe a chart and its values.
    pub const CHART_INFORMATION_INVALID: &str = "ChartInformationInvalid";
    /// Reason of Valid=False: the templates in the values cannot be rendered.
    pub const RENDERING_HELM_VALUES_FAILED: &str = "RenderingHelmValuesFailed";
    /// Reason of Valid=False: the registry does not give the chart.
    pub const OCI_CHART_CANNOT_BE_PULLED: &str = "OCIChartCannotBePulled";
    /// Reason of Valid=False: the chart does not render to objects.
    pub const CHART_CANNOT_BE_RENDERED: &str = "ChartCannotBeRendered";
    /// Reason of Healthy=True.
    pub const CONTROLLER_HEALTHY: &str = "ControllerHealthy";
    /// Reason of Healthy=False.
    pub const CONTROLLER_NOT_HEALTHY: &str = "ControllerNotHealthy";
    /// Reason of Progressing=False.
    pub const CONTROLLER_ROLLED_OUT: &str = "ControllerRolledOut";
    /// Reason of Progressing=True.
    pub const CONTROLLER_NOT_ROLLED_OUT: &str = "ControllerNotRolledOut";
    /// Reason of Required=True.
    pub const EXTENSION_OBJECTS_EXIST: &str = "ExtensionObjectsExist";
    /// Reason of Required=False.
    pub const NO_EXTENSION_OBJECTS: &str = "NoExtensionObjects";
}

/// A condition of extension objects and Machines whose extension is written with our SDK: a person has to act before the error
/// that is reported goes away. Its message is the thing to do. Ours: the error itself has no field for it, and its text is
/// for people.
pub const ACTION_REQUIRED: &str = "ActionRequired";
/// Reason of ActionRequired=True.
pub const ERROR_REPORTED: &str = "ErrorReported";
/// Reason of ActionRequired=True of a Machine: its cluster refuses the bootstrap token that it was born with.
pub const BOOTSTRAP_TOKEN_REFUSED: &str = "BootstrapTokenRefused";

/// Conditions of Seeds.
pub mod seed {
    /// Its gardenlet renews its lease.
    pub const GARDENLET_READY: &str = "GardenletReady";
    /// Its backup buckets are ready.
    pub const BACKUP_BUCKETS_READY: &str = "BackupBucketsReady";
    /// All extensions it needs are installed.
    pub const EXTENSIONS_READY: &str = "ExtensionsReady";
    /// What its shoots share runs well.
    pub const SYSTEM_COMPONENTS_HEALTHY: &str = "SeedSystemComponentsHealthy";
    /// An operator stopped all reconciliations.
    pub const EMERGENCY_STOP: &str = "EmergencyStopShootReconciliations";
}

/// Conditions of Shoots.
pub mod shoot {
    /// Its API server answers.
    pub const API_SERVER_AVAILABLE: &str = "APIServerAvailable";
    /// Its control plane runs well.
    pub const CONTROL_PLANE_HEALTHY: &str = "ControlPlaneHealthy";
    /// Its monitoring and logging run well.
    pub const OBSERVABILITY_COMPONENTS_HEALTHY: &str = "ObservabilityComponentsHealthy";
    /// All its nodes are ready.
    pub const EVERY_NODE_READY: &str = "EveryNodeReady";
    /// What runs inside it runs well.
    pub const SYSTEM_COMPONENTS_HEALTHY: &str = "SystemComponentsHealthy";
    /// Constraint: it can be hibernated.
    pub const HIBERNATION_POSSIBLE: &str = "HibernationPossible";
    /// Constraint: maintenance can run.
    pub const MAINTENANCE_PRECONDITIONS_SATISFIED: &str = "MaintenancePreconditionsSatisfied";
    /// Constraint: its authorities are valid long enough.
    pub const CA_CERTIFICATE_VALIDITIES_ACCEPTABLE: &str = "CACertificateValiditiesAcceptable";
    /// Constraint: the destination seed can take it.
    pub const READY_FOR_MIGRATION: &str = "ReadyForMigration";
}

/// Conditions of ManagedResources (gardener/gardener v1.150 pkg/apis/resources/v1alpha1/types.go).
pub mod managed_resource {
    /// Everything was applied.
    pub const RESOURCES_APPLIED: &str = "ResourcesApplied";
    /// Everything applied runs well.
    pub const RESOURCES_HEALTHY: &str = "ResourcesHealthy";
    /// Something applied is being rolled out.
    pub const RESOURCES_PROGRESSING: &str = "ResourcesProgressing";

    /// Reason: what was applied is being deleted.
    pub const DELETION_PENDING: &str = "DeletionPending";
    /// Reason: what was applied cannot be deleted.
    pub const DELETION_FAILED: &str = "DeletionFailed";

    /// Whether a reason of ResourcesApplied is about a deletion.
    pub fn is_deletion(reason: &str) -> bool {
        [DELETION_PENDING, DELETION_FAILED].contains(&reason)
    }
}

/// Reasons shared by many.
pub mod reason {
    /// A check could not be made.
    pub const CHECK_ERROR: &str = "ConditionCheckError";
    /// The status is older than the object.
    pub const OUTDATED_STATUS: &str = "OutdatedStatus";
}
