//! What NetworkPolicies (networking.k8s.io/v1) allow: policies, labels of namespaces and the two ends of a connection
//! in; allowed, or refused with the reason and the label that would allow it, out. Pure: it watches nothing and makes
//! no connection.
//!
//! A pod that no policy selects for a direction is open in that direction; one that is selected is reached by, or
//! reaches, what the selecting policies allow together. A connection needs both ends. Networks (`ipBlock`) match the
//! address of a pod too, as with Calico; what Kubernetes leaves open there is documented as undefined.

mod policy;
mod remedy;
mod selector;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use k8s_openapi::api::networking::v1::NetworkPolicy;

use policy::Policy;
pub use remedy::Remedy;

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// A port by its name, as containers declare it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPort {
    /// The name.
    pub name: String,
    /// The number.
    pub number: u16,
    /// The protocol.
    pub protocol: Protocol,
}

/// A pod as policies see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFacts {
    /// Its namespace.
    pub namespace: String,
    /// Its name, for messages.
    pub name: String,
    /// Its labels as they are now.
    pub labels: Labels,
    /// Its address, when it has one.
    pub address: Option<IpAddr>,
    /// The ports that its containers name.
    pub ports: Vec<NamedPort>,
}

/// One end of a connection.
#[derive(Clone, Copy, Debug)]
pub enum End<'a> {
    /// A pod.
    Pod(&'a PodFacts),
    /// An address that is no pod's.
    Address(IpAddr),
    /// Any address outside of the cluster: allowed by a rule without peers, and by a network of all addresses.
    Outside,
}

/// Protocol of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// Which end refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// The end that is connected to.
    Ingress,
    /// The end that connects.
    Egress,
}

/// A connection that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Which end refuses.
    pub direction: Direction,
    /// The pod at that end, `namespace/name`.
    pub pod: String,
    /// The names of the policies that select it, in its namespace.
    pub policies: Vec<String>,
    /// The labels that would allow it, when labels are all that is missing.
    pub remedy: Option<Remedy>,
}

/// The policies of a cluster and the labels of its namespaces.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    policies: BTreeMap<String, BTreeMap<String, Policy>>,
    namespaces: BTreeMap<String, Labels>,
}

impl Policies {
    /// Adds a policy, or replaces it.
    pub fn set(&mut self, policy: &NetworkPolicy) {
        let namespace = policy.metadata.namespace.clone().unwrap_or_default();
        let name = policy.metadata.name.clone().unwrap_or_default();
        self.policies
            .entry(namespace)
            .or_default()
            .insert(name, Policy::new(policy));
    }

    /// Removes a policy.
    pub fn remove(&mut self, namespace: &str, name: &str) {
        if let Some(policies) = self.policies.get_mut(namespace) {
            policies.remove(name);
            if policies.is_empty() {
                self.policies.remove(namespace);
            }
        }
    }

    /// Removes all policies; namespaces stay.
    pub fn clear(&mut self) {
        self.policies.clear();
    }

    /// Forgets all namespaces.
    pub fn clear_namespaces(&mut self) {
        self.namespaces.clear();
    }

    /// Sets the labels of a namespace.
    pub fn set_namespace(&mut self, name: &str, labels: Labels) {
        self.namespaces.insert(name.to_owned(), labels);
    }

    /// Forgets a namespace.
    pub fn remove_namespace(&mut self, name: &str) {
        self.namespaces.remove(name);
    }

    /// Whether a connection to a port of `to` is allowed.
    ///
    /// # Errors
    /// The refusal, of the end that connects first.
    pub fn check(&self, from: End<'_>, to: End<'_>, port: u16, protocol: Protocol) -> Result<(), Box<Refusal>> {
        let attempt = Attempt {
            from,
            to,
            port,
            protocol,
        };
        for direction in [Direction::Egress, Direction::Ingress] {
            if let Err((pod, policies)) = self.check_end(&attempt, direction) {
                return Err(Box::new(Refusal {
                    direction,
                    pod: format!("{}/{}", pod.namespace, pod.name),
                    policies,
                    remedy: remedy::find(self, &attempt, direction),
                }));
            }
        }
        Ok(())
    }

    fn allows(&self, attempt: &Attempt<'_>) -> bool {
        [Direction::Egress, Direction::Ingress]
            .into_iter()
            .all(|direction| self.check_end(attempt, direction).is_ok())
    }

    /// Whether one end allows it; if not, the pod there and the policies that select it.
    fn check_end<'a>(&self, attempt: &Attempt<'a>, direction: Direction) -> Result<(), (&'a PodFacts, Vec<String>)> {
        let End::Pod(pod) = attempt.end(direction) else {
            return Ok(());
        };
        let selecting: Vec<(&String, &Policy)> = self
            .of(&pod.namespace)
            .filter(|(_, policy)| policy.isolates(direction) && policy.selects(&pod.labels))
            .collect();
        let allowed = selecting.iter().any(|(_, policy)| {
            policy
                .rules(direction)
                .iter()
                .any(|rule| rule.allows(self, &pod.namespace, attempt, direction))
        });
        if allowed || selecting.is_empty() {
            return Ok(());
        }
        Err((pod, selecting.into_iter().map(|(name, _)| name.clone()).collect()))
    }

    fn of(&self, namespace: &str) -> impl Iterator<Item = (&String, &Policy)> {
        self.policies.get(namespace).into_iter().flatten()
    }

    fn namespace_labels(&self, name: &str) -> Labels {
        self.namespaces.get(name).cloned().unwrap_or_default()
    }
}

/// A connection that a pod or client wants to make.
#[derive(Clone, Copy)]
struct Attempt<'a> {
    from: End<'a>,
    to: End<'a>,
    port: u16,
    protocol: Protocol,
}

impl<'a> Attempt<'a> {
    /// The end that decides about a direction.
    fn end(&self, direction: Direction) -> End<'a> {
        match direction {
            Direction::Egress => self.from,
            Direction::Ingress => self.to,
        }
    }

    /// The end that the rules of a direction name as peer.
    fn peer(&self, direction: Direction) -> End<'a> {
        match direction {
            Direction::Egress => self.to,
            Direction::Ingress => self.from,
        }
    }
}

impl PodFacts {
    /// The number of a port that a container names.
    fn port(&self, name: &str, protocol: Protocol) -> Option<u16> {
        let mut ports = self.ports.iter();
        let port = ports.find(|port| port.name == name && port.protocol == protocol)?;
        Some(port.number)
    }
}

impl Protocol {
    /// From its name in the API; TCP when it is left out.
    #[must_use]
    pub fn named(name: Option<&str>) -> Self {
        match name {
            Some("UDP") => Protocol::Udp,
            Some("SCTP") => Protocol::Sctp,
            _ => Protocol::Tcp,
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Direction::Ingress => "ingress",
            Direction::Egress => "egress",
        })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let preposition = match self.direction {
            Direction::Egress => "of",
            Direction::Ingress => "to",
        };
        write!(
            f,
            "{} {preposition} pod {} is not allowed by {}",
            self.direction,
            self.pod,
            self.policies.join(", ")
        )?;
        if let Some(remedy) = &self.remedy {
            write!(f, "; {remedy}")?;
        }
        Ok(())
    }
}
