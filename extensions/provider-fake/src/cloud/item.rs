//! What one thing in the cloud looks like to its clients.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use super::kind::Kind;

/// The client's own marks of a thing.
pub type Tags = BTreeMap<String, String>;

/// One thing in the cloud.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// The cloud's name for it: never used twice.
    pub id: String,
    /// What it is.
    pub spec: Spec,
    /// The client's own marks.
    pub tags: Tags,
    /// How it stands.
    pub state: State,
    /// Where a network's traffic to the outside comes from; where a load balancer that runs listens; the address of an
    /// instance in its subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Ipv4Addr>,
}

impl Item {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.spec.kind()
    }
}

/// How a thing stands. All but instances and load balancers run from the first moment to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// It is being made.
    Pending,
    /// It can be used.
    Running,
    /// It is being deleted, and still hangs on what it needs.
    Stopping,
    /// It was deleted, and is shown for a while.
    Gone,
}

/// What a thing is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
#[expect(missing_docs, reason = "each is the specification of the kind of its name")]
pub enum Spec {
    Network(NetworkSpec),
    Subnet(SubnetSpec),
    SecurityGroup(SecurityGroupSpec),
    KeyPair(KeyPairSpec),
    LoadBalancer(LoadBalancerSpec),
    Volume(VolumeSpec),
    Instance(InstanceSpec),
}

impl Spec {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Network(_) => Kind::Network,
            Self::Subnet(_) => Kind::Subnet,
            Self::SecurityGroup(_) => Kind::SecurityGroup,
            Self::KeyPair(_) => Kind::KeyPair,
            Self::LoadBalancer(_) => Kind::LoadBalancer,
            Self::Volume(_) => Kind::Volume,
            Self::Instance(_) => Kind::Instance,
        }
    }
}

/// A network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkSpec {
    /// Its addresses: a prefix of 8 to 28 bits.
    pub cidr: Ipv4Net,
}

/// A subnet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubnetSpec {
    /// The network that it is a part of.
    pub network: String,
    /// Where it lies.
    pub zone: String,
    /// Its addresses, which are the network's and no other subnet's: a prefix of at most 28 bits.
    pub cidr: Ipv4Net,
}

/// A security group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecurityGroupSpec {
    /// The network that it is for.
    pub network: String,
    /// What is accepted.
    #[serde(default)]
    pub rules: Vec<Rule>,
}

/// Connections that are accepted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// From where.
    pub source: Ipv4Net,
    /// The first port, from 1.
    pub port: u16,
    /// The last port.
    pub port_end: u16,
}

/// A key pair, of which the cloud has the public half.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyPairSpec {
    /// As in a file `authorized_keys`.
    pub public_key: String,
}

/// A load balancer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancerSpec {
    /// Where it stands: subnets of one network.
    pub subnets: Vec<String>,
    /// Where it listens.
    pub ports: Vec<u16>,
}

/// A disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSpec {
    /// Where it lies.
    pub zone: String,
    /// Its size in gigabytes, from 1 to 16384.
    pub gigabytes: u32,
    /// The instance that it is attached to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attached_to: Option<String>,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceSpec {
    /// Where it stands.
    pub subnet: String,
    /// What it accepts: groups of the subnet's network.
    #[serde(default)]
    pub security_groups: Vec<String>,
    /// Who can log in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_pair: Option<String>,
    /// What it boots.
    pub image: String,
    /// How large it is: one of [`super::Settings::machine_types`].
    pub machine_type: String,
    /// What it does when it boots. The cloud does not give it back.
    #[serde(default)]
    pub user_data: UserData,
    /// A text of the client: while an instance exists that was made with it, another creation with it gives that one, whatever
    /// else it requests, and makes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_token: Option<String>,
}

/// What an instance does when it boots. It may hold secrets, so `Debug` does not print it.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UserData(pub String);

impl fmt::Debug for UserData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UserData({} bytes)", self.0.len())
    }
}

/// What is changed about a thing that exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ItemChange {
    /// These tags are set; others stay.
    Tags(Tags),
    /// What a security group accepts from now on.
    Rules(Vec<Rule>),
    /// Where a load balancer listens from now on.
    Ports(Vec<u16>),
    /// The instance that a volume is attached to from now on.
    Attachment(Option<String>),
}
