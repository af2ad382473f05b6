//! What decides which tasks a flow has and how long they may take. Filled by gardenlet from what it has observed; plain
//! values only, no objects.

use std::time::Duration;

use crate::step::Way;
use crate::times::EXTENSION_TIMEOUT;

/// What holds for a shoot whatever is to be done with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShootFacts {
    /// The shoot has no worker pools, and so no infrastructure, network and machines.
    pub workerless: bool,
    /// The shoot names credentials for its cloud.
    pub has_credentials: bool,
    /// The seed has a backup bucket.
    pub has_backup: bool,
    /// The API server has a name below the landscape's internal domain.
    pub has_internal_domain: bool,
    /// The API server has a name below a domain of the shoot's own.
    pub has_external_domain: bool,
    /// The nodes' network is known before the infrastructure has answered.
    pub nodes_cidr_known: bool,
    /// The annotation `shoot.gardener.cloud/skip-readiness`: do not wait where a wait is only for readiness.
    pub skip_readiness: bool,
    /// The owner requested that the pods of the control plane are restarted.
    pub restart_requested: bool,
    /// Whether its nodes are reached through a tunnel.
    pub tunnel: Tunnel,
    /// How long its Extensions may take.
    pub extension_timeouts: ExtensionTimeouts,
}

/// The tunnel from the API server to nodes, pods and Services. Its steps are in a flow only where there is something to do:
/// most shoots of a laptop have no tunnel, and no task of theirs is about one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tunnel {
    /// There is none, and none is wanted.
    #[default]
    None,
    /// It is wanted.
    Wanted,
    /// Nodes are reached directly now, and one is left from before.
    Leftover,
}

/// How long the Extensions of a shoot may take at each point at which they are handled: the longest time that one of
/// their registrations gives. Each is bounded by its own besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtensionTimeouts {
    /// Brought up before the API server.
    pub before_api_server: Duration,
    /// Brought up after the API server.
    pub after_api_server: Duration,
    /// Brought up after the workers.
    pub after_workers: Duration,
    /// Taken away before the API server.
    pub deleted_before_api_server: Duration,
    /// Taken away after the API server.
    pub deleted_after_api_server: Duration,
}

impl ExtensionTimeouts {
    /// Extensions that only deploy something, and registrations that give no time (upstream: 3 min).
    pub const STANDARD: Self = Self {
        before_api_server: EXTENSION_TIMEOUT,
        after_api_server: EXTENSION_TIMEOUT,
        after_workers: EXTENSION_TIMEOUT,
        deleted_before_api_server: EXTENSION_TIMEOUT,
        deleted_after_api_server: EXTENSION_TIMEOUT,
    };
}

impl Default for ExtensionTimeouts {
    fn default() -> Self {
        Self::STANDARD
    }
}

/// What is there when a deletion begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeletionFacts {
    /// The shoot's namespace in the seed is there and not terminating.
    pub namespace_active: bool,
    /// There is an API to clean up: namespace active, API server deployed, infrastructure there or workerless.
    pub shoot_cleanup: bool,
    /// The ControlPlane is there, not being deleted, and the infrastructure has answered: extensions may need the
    /// control plane's newest form to delete what belongs to it.
    pub control_plane_needed: bool,
}

/// What exists when a shoot hibernates, or is hibernated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HibernationFacts {
    /// Its API server runs, or is meant to: its Deployment has replicas. A shoot that is hibernated already, or was
    /// created so, has no API to talk to.
    pub api_server_runs: bool,
}

/// Where the shoot is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// A running cluster as specified.
    Reconcile,
    /// A cluster without machines and without a running control plane, whose data is retained.
    Hibernate(HibernationFacts),
    /// A running cluster again.
    Wake,
    /// Ready to be taken over by another seed.
    Migrate,
    /// A running cluster, from what another seed has left.
    Restore,
    /// Nothing left.
    Delete(DeletionFacts),
    /// Nothing left in the seed, without a look into the shoot and the cloud.
    ForceDelete,
}

/// The operation that is requested of an extension object (contract E.2 of Gardener's extension API).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtensionVerb {
    /// Bring it to its spec.
    Reconcile,
    /// Bring it to its spec and its saved state.
    Restore,
    /// Release it without changing the resources behind it.
    Migrate,
    /// Delete it, with the resources behind it.
    Delete,
}

impl Goal {
    /// The goal without its facts.
    #[must_use]
    pub fn way(&self) -> Way {
        match self {
            Self::Reconcile => Way::Reconcile,
            Self::Hibernate(_) => Way::Hibernate,
            Self::Wake => Way::Wake,
            Self::Migrate => Way::Migrate,
            Self::Restore => Way::Restore,
            Self::Delete(_) => Way::Delete,
            Self::ForceDelete => Way::ForceDelete,
        }
    }
}

impl Way {
    /// The operation that is requested of extension objects on this way. Hibernation and waking are reconciliations:
    /// extensions read from the Cluster which of them.
    #[must_use]
    pub fn verb(self) -> ExtensionVerb {
        match self {
            Self::Reconcile | Self::Hibernate | Self::Wake => ExtensionVerb::Reconcile,
            Self::Restore => ExtensionVerb::Restore,
            Self::Migrate => ExtensionVerb::Migrate,
            Self::Delete | Self::ForceDelete => ExtensionVerb::Delete,
        }
    }
}
