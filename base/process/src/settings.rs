//! Settings of a process: leader election and ports. Where they come from, flags or a file, is the caller's.

use std::net::IpAddr;

use base_controller::Terms;

/// Election and ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// How replicas agree on the one that works; none where every replica does.
    pub election: Option<Election>,
    /// `/healthz` and `/readyz`; none where they are not served.
    pub health: Option<Port>,
    /// `/metrics`; none where they are not served.
    pub metrics: Option<Port>,
}

/// A leader election.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Election {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub lease: String,
    /// Its times.
    pub terms: Terms,
}

/// Where a port is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Address on which it listens; none: all of the machine.
    pub address: Option<IpAddr>,
    /// The port; 0 takes a free one.
    pub port: u16,
    /// Where it is set, as in `server.metrics.port of the configuration`: what an error about it names.
    pub setting: String,
}

impl Port {
    /// Whether both are one port.
    pub(crate) fn is(&self, other: &Self) -> bool {
        (self.address, self.port) == (other.address, other.port)
    }
}
