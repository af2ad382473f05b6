//! How long steps may take, and how soon they are tried again.

use std::time::Duration;

use base_flow::Backoff;

/// Writing objects: API servers answer within milliseconds, and what they refuse for a moment (a namespace not yet
/// visible, a conflict) passes within seconds. 30 s is upstream's default for such tasks.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Waits between tries: the first short because most faults pass at once, none beyond upstream's 5 s.
pub(crate) const WRITE_BACKOFF: Backoff = Backoff {
    first: Duration::from_millis(200),
    max: Duration::from_secs(5),
};
/// Clouds need minutes for networks and machines (upstream: Infrastructure and Worker, 10 min).
pub(crate) const CLOUD_TIMEOUT: Duration = Duration::from_secs(600);
/// Extensions that only deploy something (upstream: ControlPlane, Network, OperatingSystemConfig, Extension, 3 min).
pub(crate) const EXTENSION_TIMEOUT: Duration = Duration::from_secs(180);
/// A record is written by one call to a DNS service (upstream: 2 min).
pub(crate) const DNS_TIMEOUT: Duration = Duration::from_secs(120);
/// Our own Deployments and StatefulSets in the seed, image pulls and volumes included (upstream: 5 min).
pub(crate) const ROLLOUT_TIMEOUT: Duration = Duration::from_secs(300);
/// First talk to a new API server (upstream: 2 min).
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(120);
/// Users' finalizers and load balancers take their time (upstream: 10 min).
pub(crate) const CLEAN_TIMEOUT: Duration = Duration::from_secs(600);
/// Until the nodes of machines that are gone have left the cluster, and its pods have ended (upstream: 10 min).
pub(crate) const HIBERNATE_TIMEOUT: Duration = Duration::from_secs(600);
