//! The kinds of things in the cloud: a table.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A kind of things in the cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// A private network with a range of addresses, and an address that its traffic to the outside comes from.
    Network,
    /// The part of a network that lies in one zone.
    Subnet,
    /// Which connections instances accept.
    SecurityGroup,
    /// A public key for logins.
    KeyPair,
    /// An address that distributes connections to instances.
    LoadBalancer,
    /// A disk.
    Volume,
    /// A machine.
    Instance,
}

impl Kind {
    /// All kinds, in an order in which they can be created.
    pub const ALL: [Self; 7] = [
        Self::Network,
        Self::Subnet,
        Self::SecurityGroup,
        Self::KeyPair,
        Self::LoadBalancer,
        Self::Volume,
        Self::Instance,
    ];

    /// What ids of this kind begin with.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Network => "net",
            Self::Subnet => "subnet",
            Self::SecurityGroup => "sg",
            Self::KeyPair => "key",
            Self::LoadBalancer => "lb",
            Self::Volume => "vol",
            Self::Instance => "i",
        }
    }

    /// The collection in paths of the HTTP form.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Network => "networks",
            Self::Subnet => "subnets",
            Self::SecurityGroup => "security-groups",
            Self::KeyPair => "key-pairs",
            Self::LoadBalancer => "load-balancers",
            Self::Volume => "volumes",
            Self::Instance => "instances",
        }
    }

    /// The kind of a collection.
    #[must_use]
    pub fn of_plural(plural: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.plural() == plural)
    }

    /// Whether its things take a while to be ready and to go.
    pub(super) const fn takes_time(self) -> bool {
        matches!(self, Self::Instance | Self::LoadBalancer)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Network => "network",
            Self::Subnet => "subnet",
            Self::SecurityGroup => "security group",
            Self::KeyPair => "key pair",
            Self::LoadBalancer => "load balancer",
            Self::Volume => "volume",
            Self::Instance => "instance",
        })
    }
}
