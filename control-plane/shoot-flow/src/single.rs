//! The steps that are about nothing that is deployed and destroyed as a whole, each in one row: its text, the data that it
//! needs and gives, and when it is skipped. The order of the rows is the order in which running tasks and errors are shown.

use crate::slots::Need::{self, May, Must};
use crate::slots::Slot;
use crate::step::{Kind, Verb, closed};

/// What a flow has to know of a step.
pub(crate) struct Row {
    /// Its text.
    pub(crate) title: Title,
    /// What it reads.
    pub(crate) needs: &'static [Need],
    /// What it leaves.
    pub(crate) gives: &'static [Slot],
    /// All of this must hold, or it is skipped.
    pub(crate) only: &'static [Only],
}

impl Row {
    const DEFAULT: Self = Self {
        title: Title::Same(""),
        needs: &[],
        gives: &[],
        only: &[],
    };
}

/// The text of a step.
pub(crate) enum Title {
    /// The same on the way to every goal.
    Same(&'static str),
    /// A text of its own in a deletion.
    Deletion {
        deletion: &'static str,
        otherwise: &'static str,
    },
    /// That of the Service which the API server has early.
    EarlyService(Verb),
}

/// When a step is not skipped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Only {
    /// The shoot has workers.
    Workers,
    /// There are credentials for a cloud.
    Credentials,
    /// The seed has a backup.
    Backup,
    /// A restart of the control plane was requested.
    Restart,
    /// The cluster is awake, or wakes.
    Awake,
    /// The cluster is hibernated, or is being hibernated.
    Asleep,
    /// In a hibernation, the API server runs still.
    ApiServer,
    /// In a deletion, the namespace is there and not terminating.
    Namespace,
    /// In a deletion, there is an API to clean up.
    Cleanup,
    /// Readiness is waited for: nothing after the step needs more than what was written.
    Readiness,
}

macro_rules! singles {
    ($($(#[$doc:meta])* $variant:ident { $($row:tt)* })+) => {
        closed! {
            /// The steps that are about nothing that is deployed and destroyed as a whole.
            Single {
                $($(#[$doc])* $variant,)+
            }
        }

        impl Single {
            /// What a flow has to know of it.
            #[expect(clippy::needless_update, reason = "most rows leave something out, and some do not")]
            pub(crate) const fn row(self) -> Row {
                match self {
                    $(Self::$variant => Row { $($row)* ..Row::DEFAULT },)+
                }
            }
        }
    };
}

singles! {
    /// Write the shoot's namespace in the seed.
    DeployNamespace {
        title: Title::Deletion {
            deletion: "Deploying Shoot namespace in Seed",
            otherwise: "Deploying control plane namespace",
        },
        only: &[Only::Namespace],
    }
    /// Give the cluster its identity, once.
    EnsureClusterIdentity {
        title: Title::Same("Ensuring Shoot cluster identity"),
    }
    /// Copy the credentials for the cloud.
    DeployCloudProviderSecret {
        title: Title::Same("Deploying cloud provider account secret"),
        only: &[Only::Workers, Only::Credentials, Only::Namespace],
    }
    /// Make authorities, certificates and keys.
    InitializeSecrets {
        title: Title::Same("Initializing secrets management"),
        gives: &[Slot::Secrets],
        only: &[Only::Namespace],
    }
    /// Copy what `spec.resources` refers to.
    DeployReferencedResources {
        title: Title::Same("Deploying referenced resources"),
        only: &[Only::Namespace],
    }
    /// Write the Service of the API server.
    DeployApiServerService {
        title: Title::EarlyService(Verb::Deploy),
        only: &[Only::Cleanup],
    }
    /// Wait until it has an address.
    WaitApiServerService {
        title: Title::EarlyService(Verb::Wait),
        only: &[Only::Awake, Only::Cleanup],
    }
    /// Report where the API server is.
    EnsureAdvertisedAddresses {
        title: Title::Same("Ensuring advertised addresses for the Shoot"),
        only: &[Only::Namespace],
    }
    /// Write the BackupEntry in the garden.
    DeployBackupEntry {
        title: Title::Same("Deploying BackupEntry for ETCD data"),
        only: &[Only::Backup],
    }
    /// Wait until it is ready.
    WaitBackupEntry {
        title: Title::Same("Waiting until the BackupEntry for ETCD data has been reconciled"),
        only: &[Only::Backup, Only::Readiness],
    }
    /// Write what grants rights in the shoot to its components and to extensions.
    DeployShootAccess {
        title: Title::Same("Deploying Gardener shoot access resources"),
        needs: &[Must(Slot::Secrets)],
        only: &[Only::ApiServer, Only::Cleanup],
    }
    /// Connect to the shoot's API server.
    InitializeShootConnection {
        title: Title::Same("Initializing connection to Shoot"),
        needs: &[Must(Slot::Secrets)],
        gives: &[Slot::Connection],
        only: &[Only::ApiServer, Only::Cleanup],
    }
    /// Delete the OperatingSystemConfigs of pools as they no longer are.
    DeleteStaleOsConfigs {
        title: Title::Same("Delete stale OperatingSystemConfig resources"),
        needs: &[Must(Slot::PoolKeys)],
        only: &[Only::Workers, Only::ApiServer],
    }
    /// Wait until they are gone.
    WaitStaleOsConfigs {
        title: Title::Same("Waiting until stale OperatingSystemConfig resources are deleted"),
        needs: &[Must(Slot::PoolKeys)],
        only: &[Only::Workers, Only::Awake, Only::Readiness],
    }
    /// Wait until the extension has reported the machine deployments.
    WaitMachineDeployments {
        title: Title::Same("Waiting until worker resource status is updated with latest machine deployments"),
        needs: &[Must(Slot::Request(Kind::Worker))],
        only: &[Only::Workers, Only::Awake, Only::ApiServer],
    }
    /// Delete the Extensions that the shoot no longer has.
    DeleteStaleExtensions {
        title: Title::Same("Deleting stale extension resources"),
    }
    /// Wait until they are gone.
    WaitStaleExtensions {
        title: Title::Deletion {
            deletion: "Waiting until all stale extension resources have been deleted",
            otherwise: "Waiting until stale extension resources are deleted",
        },
        only: &[Only::Awake, Only::Readiness],
    }
    /// Delete the ContainerRuntimes that no pool has any more.
    DeleteStaleContainerRuntimes {
        title: Title::Same("Deleting stale container runtime resources"),
        only: &[Only::Workers],
    }
    /// Wait until they are gone.
    WaitStaleContainerRuntimes {
        title: Title::Same("Waiting until stale container runtime resources are deleted"),
        only: &[Only::Workers, Only::Awake, Only::Readiness],
    }
    /// Delete the pods of the control plane, as the owner requested.
    RestartControlPlanePods {
        title: Title::Same("Restarting control plane pods"),
        only: &[Only::Restart, Only::Awake],
    }
    /// Scale the machine controllers to zero.
    ScaleDownMachineControllers {
        title: Title::Same("Scaling down machine-controller-manager"),
        only: &[Only::Workers, Only::Asleep],
    }
    /// Scale the control plane to zero, etcd last.
    HibernateControlPlane {
        title: Title::Same("Hibernating control plane"),
        needs: &[May(Slot::Connection)],
        only: &[Only::Asleep],
    }
    /// Delete users' webhooks from the shoot.
    CleanWebhooks {
        title: Title::Same("Cleaning up webhooks"),
        needs: &[Must(Slot::Connection)],
        only: &[Only::Cleanup],
    }
    /// Delete custom resources and their definitions from the shoot.
    CleanExtendedApis {
        title: Title::Same("Cleaning extended API groups"),
        needs: &[Must(Slot::Connection)],
        only: &[Only::Cleanup],
    }
    /// Delete everything else of users from the shoot.
    CleanKubernetesResources {
        title: Title::Same("Cleaning Kubernetes resources"),
        needs: &[Must(Slot::Connection)],
        only: &[Only::Cleanup],
    }
    /// Delete our own ManagedResources.
    DeleteManagedResources {
        title: Title::Same("Deleting managed resources"),
    }
    /// Wait until they are gone.
    WaitManagedResourcesDeleted {
        title: Title::Same("Waiting until managed resources have been deleted"),
    }
    /// Wait until every ManagedResource for the shoot is gone.
    WaitShootManagedResourcesDeleted {
        title: Title::Same("Waiting until shoot managed resources have been deleted"),
    }
    /// Wait until no Extension is left at all.
    WaitAllExtensionsDeleted {
        title: Title::Same("Waiting until all extension resources have been deleted"),
    }
    /// Delete the Service of the API server.
    DestroyApiServerService {
        title: Title::EarlyService(Verb::Destroy),
    }
    /// Delete the copies of what `spec.resources` refers to.
    DeleteReferencedResources {
        title: Title::Same("Deleting referenced resources"),
    }
    /// Delete the shoot's namespace in the seed.
    DeleteNamespace {
        title: Title::Same("Deleting shoot namespace in Seed"),
    }
    /// Wait until it is gone.
    WaitNamespaceDeleted {
        title: Title::Same("Waiting until shoot namespace in Seed has been deleted"),
    }
}

impl Single {
    /// Whether it is skipped unless this holds.
    pub(crate) fn is_only(self, only: Only) -> bool {
        self.row().only.contains(&only)
    }
}
