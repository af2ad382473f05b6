//! What decides which tasks a flow has. Filled by gardenlet from what it has observed; booleans only, no objects.

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

/// Where the shoot is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// A running cluster as specified.
    Reconcile,
    /// Nothing left.
    Delete(DeletionFacts),
}
