//! One policy, read once: which pods it selects, which directions it isolates, what its rules allow.

use std::net::IpAddr;

use ipnet::IpNet;
use k8s_openapi::api::networking::v1::{IPBlock, NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::selector::Selector;
use crate::{Attempt, Direction, End, Policies, Protocol};

/// A policy.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    pub(crate) selector: Selector,
    ingress: Option<Vec<Rule>>,
    egress: Option<Vec<Rule>>,
}

/// One rule of a direction.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// None: every peer.
    pub(crate) peers: Option<Vec<Peer>>,
    /// None: every port.
    ports: Option<Vec<Port>>,
}

#[derive(Clone, Debug)]
pub(crate) enum Peer {
    /// Pods by their labels and those of their namespaces; no selector of namespaces: of the policy's own.
    Pods {
        pods: Selector,
        namespaces: Option<Selector>,
    },
    Block {
        network: Option<IpNet>,
        except: Vec<IpNet>,
    },
}

#[derive(Clone, Debug)]
struct Port {
    protocol: Protocol,
    numbers: Numbers,
}

#[derive(Clone, Debug)]
enum Numbers {
    All,
    Range(i32, i32),
    Named(String),
}

impl Policy {
    pub(crate) fn new(policy: &NetworkPolicy) -> Self {
        let spec = policy.spec.clone().unwrap_or_default();
        let ingress = spec.ingress.unwrap_or_default();
        let egress = spec.egress.unwrap_or_default();
        // Left out, the types are what kube-apiserver writes: ingress always, egress when there are rules for it.
        let types = spec.policy_types.unwrap_or_default();
        let isolates = |name: &str, by_default: bool| match types.is_empty() {
            true => by_default,
            false => types.iter().any(|known| known == name),
        };
        let isolates_egress = isolates("Egress", !egress.is_empty());
        let ingress = ingress
            .iter()
            .map(|rule| Rule::new(rule.from.as_deref(), rule.ports.as_deref()));
        let egress = egress
            .iter()
            .map(|rule| Rule::new(rule.to.as_deref(), rule.ports.as_deref()));
        Policy {
            selector: spec.pod_selector.as_ref().map(Selector::new).unwrap_or_default(),
            ingress: isolates("Ingress", true).then(|| ingress.collect()),
            egress: isolates_egress.then(|| egress.collect()),
        }
    }

    pub(crate) fn selects(&self, labels: &crate::Labels) -> bool {
        self.selector.matches(labels)
    }

    /// Whether it isolates the pods that it selects in this direction, except for its rules.
    pub(crate) fn isolates(&self, direction: Direction) -> bool {
        self.of(direction).is_some()
    }

    pub(crate) fn rules(&self, direction: Direction) -> &[Rule] {
        self.of(direction).map(Vec::as_slice).unwrap_or_default()
    }

    fn of(&self, direction: Direction) -> Option<&Vec<Rule>> {
        match direction {
            Direction::Ingress => self.ingress.as_ref(),
            Direction::Egress => self.egress.as_ref(),
        }
    }
}

impl Rule {
    /// An empty list means the same as none.
    fn new(peers: Option<&[NetworkPolicyPeer]>, ports: Option<&[NetworkPolicyPort]>) -> Self {
        let peers = peers.filter(|peers| !peers.is_empty());
        let ports = ports.filter(|ports| !ports.is_empty());
        Rule {
            peers: peers.map(|peers| peers.iter().map(Peer::new).collect()),
            ports: ports.map(|ports| ports.iter().map(Port::new).collect()),
        }
    }

    /// Whether the rule of a policy in `namespace` allows the attempt.
    pub(crate) fn allows(
        &self,
        known: &Policies,
        namespace: &str,
        attempt: &Attempt<'_>,
        direction: Direction,
    ) -> bool {
        let peer = attempt.peer(direction);
        self.is_for_port(attempt)
            && self
                .peers
                .as_ref()
                .is_none_or(|peers| peers.iter().any(|known_peer| known_peer.is(known, namespace, peer)))
    }

    pub(crate) fn is_for_port(&self, attempt: &Attempt<'_>) -> bool {
        self.ports
            .as_ref()
            .is_none_or(|ports| ports.iter().any(|port| port.is(attempt)))
    }
}

impl Peer {
    fn new(peer: &NetworkPolicyPeer) -> Self {
        if let Some(block) = &peer.ip_block {
            return Peer::of_block(block);
        }
        Peer::Pods {
            pods: peer.pod_selector.as_ref().map(Selector::new).unwrap_or_default(),
            namespaces: peer.namespace_selector.as_ref().map(Selector::new),
        }
    }

    fn of_block(block: &IPBlock) -> Self {
        let except = block.except.iter().flatten();
        Peer::Block {
            network: block.cidr.parse().ok(),
            except: except.filter_map(|network| network.parse().ok()).collect(),
        }
    }

    fn is(&self, known: &Policies, own_namespace: &str, end: End<'_>) -> bool {
        match (self, end) {
            (Peer::Pods { pods, namespaces }, End::Pod(pod)) => {
                Self::is_namespace(namespaces.as_ref(), known, own_namespace, &pod.namespace)
                    && pods.matches(&pod.labels)
            }
            (Peer::Pods { .. }, End::Address(_) | End::Outside) => false,
            (Peer::Block { network, except }, End::Pod(pod)) => {
                pod.address.is_some_and(|ip| is_in(*network, except, ip))
            }
            (Peer::Block { network, except }, End::Address(ip)) => is_in(*network, except, ip),
            (Peer::Block { network, except }, End::Outside) => {
                except.is_empty() && network.is_some_and(|network| network.prefix_len() == 0)
            }
        }
    }

    pub(crate) fn is_namespace(
        selector: Option<&Selector>,
        known: &Policies,
        own_namespace: &str,
        namespace: &str,
    ) -> bool {
        match selector {
            Some(selector) => selector.matches(&known.namespace_labels(namespace)),
            None => namespace == own_namespace,
        }
    }
}

fn is_in(network: Option<IpNet>, except: &[IpNet], ip: IpAddr) -> bool {
    network.is_some_and(|network| network.contains(&ip)) && !except.iter().any(|network| network.contains(&ip))
}

impl Port {
    fn new(port: &NetworkPolicyPort) -> Self {
        let numbers = match &port.port {
            None => Numbers::All,
            Some(IntOrString::Int(first)) => Numbers::Range(*first, port.end_port.unwrap_or(*first)),
            Some(IntOrString::String(name)) => Numbers::Named(name.clone()),
        };
        Port {
            protocol: Protocol::named(port.protocol.as_deref()),
            numbers,
        }
    }

    /// Names are those of the pod that is connected to, in both directions.
    fn is(&self, attempt: &Attempt<'_>) -> bool {
        let number = i32::from(attempt.port);
        self.protocol == attempt.protocol
            && match (&self.numbers, attempt.to) {
                (Numbers::All, _) => true,
                (Numbers::Range(first, last), _) => (*first..=*last).contains(&number),
                (Numbers::Named(name), End::Pod(pod)) => pod.port(name, self.protocol) == Some(attempt.port),
                (Numbers::Named(_), End::Address(_) | End::Outside) => false,
            }
    }
}
