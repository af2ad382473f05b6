//! Ranges of pod addresses for nodes: each new Node gets a part of the cluster's pod network in `spec.podCIDRs`, and
//! with its end that part is free again. It never changes a range that a Node has.
//! After kubernetes v1.35 `pkg/controller/nodeipam/ipam/range_allocator.go`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use api_meta::Fault;
use base_client::{fault_of, is_missing};
use base_controller::{Controller, EventType, Next, ObjectKey};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::Context;

/// Prefix length of a node's range of IPv4 addresses: upstream's `--node-cidr-mask-size-ipv4`.
const LENGTH_IPV4: u8 = 24;
/// Prefix length of a node's range of IPv6 addresses: upstream's `--node-cidr-mask-size-ipv6`.
const LENGTH_IPV6: u8 = 64;

/// The pod network of a cluster and how it is divided among its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRanges {
    parts: Vec<Part>,
    services: Vec<IpNet>,
}

/// The pod network of one IP family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    all: IpNet,
    length: u8,
}

/// Why a pod network cannot be divided.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeRangesError {
    /// A node's range would be larger than the network, or smaller than one address.
    #[error("{all} has no parts of prefix length {length}: choose one from {} to {}", all.prefix_len(), all.max_prefix_len())]
    Length {
        /// The pod network.
        all: IpNet,
        /// The requested prefix length.
        length: u8,
    },
    /// A cluster has at most one pod network of each IP family.
    #[error("{0} is the second network of its IP family: give one IPv4 and one IPv6 network at most")]
    Family(IpNet),
}

impl NodeRanges {
    /// Divides networks, at most one of each IP family, into ranges of a prefix length: 24 (IPv4) or 64 (IPv6) where
    /// none is given. What lies in `services` is given to no node.
    pub fn new(networks: &[(IpNet, Option<u8>)], services: Vec<IpNet>) -> Result<Self, NodeRangesError> {
        let mut parts: Vec<Part> = Vec::new();
        for (all, length) in networks {
            let (all, v4) = (all.trunc(), matches!(all, IpNet::V4(_)));
            let length = length.unwrap_or(if v4 { LENGTH_IPV4 } else { LENGTH_IPV6 });
            if length < all.prefix_len() || length > all.max_prefix_len() {
                return Err(NodeRangesError::Length { all, length });
            }
            if parts.iter().any(|part| matches!(part.all, IpNet::V4(_)) == v4) {
                return Err(NodeRangesError::Family(all));
            }
            parts.push(Part { all, length });
        }
        Ok(NodeRanges { parts, services })
    }

    /// One free range of each family; the family in which there is none otherwise.
    fn free(&self, taken: &[IpNet]) -> Result<Vec<IpNet>, Part> {
        let taken: Vec<IpNet> = taken.iter().chain(&self.services).copied().collect();
        self.parts.iter().map(|part| part.free(&taken).ok_or(*part)).collect()
    }
}

impl Part {
    /// The first range that shares no address with `taken`.
    fn free(&self, taken: &[IpNet]) -> Option<IpNet> {
        // Two networks are one inside the other or apart, so the ranges touched by small ones can be looked up.
        let (small, large): (Vec<IpNet>, Vec<IpNet>) = taken.iter().partition(|net| net.prefix_len() >= self.length);
        let touched: BTreeSet<IpNet> = small
            .iter()
            .filter_map(|net| IpNet::new(net.addr(), self.length).ok())
            .map(|net| net.trunc())
            .collect();
        let mut ranges = self.all.subnets(self.length).ok()?;
        ranges.find(|range| !touched.contains(range) && !large.iter().any(|net| net.contains(range)))
    }
}

/// Ranges by the uid of the node that they were chosen for, until the cache of nodes shows them: a write may have
/// happened although its answer was lost.
#[derive(Default)]
struct Reserved(Mutex<BTreeMap<String, Vec<IpNet>>>);

impl Reserved {
    /// The ranges of a node that has none yet.
    fn choose(&self, node: &Node, nodes: &[Arc<Node>], ranges: &NodeRanges) -> Result<Vec<IpNet>, Part> {
        let mut reserved = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting: BTreeSet<String> = nodes
            .iter()
            .filter(|node| is_without(node))
            .filter_map(|node| node.uid())
            .collect();
        reserved.retain(|uid, _| waiting.contains(uid));
        let uid = node.uid().unwrap_or_default();
        if let Some(chosen) = reserved.get(&uid) {
            return Ok(chosen.clone());
        }
        let given = nodes.iter().flat_map(|node| ranges_of(node));
        let taken: Vec<IpNet> = given.chain(reserved.values().flatten().copied()).collect();
        let chosen = ranges.free(&taken)?;
        reserved.insert(uid, chosen.clone());
        Ok(chosen)
    }
}

pub(crate) async fn run(context: Context, ranges: NodeRanges, stop: CancellationToken) {
    let nodes = context.caches.nodes();
    let (ranges, reserved) = (Arc::new(ranges), Arc::new(Reserved::default()));
    let cached = nodes.clone();
    let controller = Controller::new("nodeipam", nodes.clone())
        .only(is_without)
        .when(|old, new| is_without(new) && old.is_none_or(|old| old.uid() != new.uid()))
        .watches(&nodes, move |change| {
            // What a node leaves may be what others wait for.
            let waiting = cached.list().into_iter().filter(|node| is_without(node));
            let keys = waiting.filter(|_| change.deleted).map(|node| ObjectKey::of(&*node));
            keys.collect()
        });
    controller
        .run(stop, move |node| {
            reconcile(node, context.clone(), Arc::clone(&ranges), Arc::clone(&reserved))
        })
        .await;
}

fn ranges_of(node: &Node) -> Vec<IpNet> {
    let spec = node.spec.as_ref();
    let all = spec.and_then(|spec| spec.pod_cidrs.as_deref()).unwrap_or_default();
    let first = spec.and_then(|spec| spec.pod_cidr.as_ref());
    all.iter().chain(first).filter_map(|range| range.parse().ok()).collect()
}

fn is_without(node: &Node) -> bool {
    ranges_of(node).is_empty()
}

async fn reconcile(
    node: Arc<Node>,
    context: Context,
    ranges: Arc<NodeRanges>,
    reserved: Arc<Reserved>,
) -> Result<Next, Fault> {
    let name = node.name_any();
    let chosen = match reserved.choose(&node, &context.caches.nodes().list(), &ranges) {
        Ok(chosen) => chosen,
        Err(Part { all, length }) => {
            let message = format!(
                "Node {name} status is now: CIDRNotAvailable: all ranges of prefix length {length} in the pod network {all} are taken; remove a node"
            );
            let recorded = context
                .events
                .record(&*node, EventType::Normal, "CIDRNotAvailable", &message);
            recorded.await;
            return Ok(Next::Change);
        }
    };
    let chosen: Vec<String> = chosen.iter().map(ToString::to_string).collect();
    // The node writes its own status meanwhile, so the version read is no condition; that it is the same node is.
    let patch = json!({"metadata": {"uid": node.uid()}, "spec": {"podCIDR": chosen.first(), "podCIDRs": chosen}});
    let api: Api<Node> = Api::all(context.client.clone());
    match api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(_) => Ok(Next::Change),
        Err(error) if is_missing(&error) => Ok(Next::Change),
        Err(error) => Err(fault_of(error, &format!("give node {name} a range of pod addresses"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    fn node(name: &str, ranges: &[&str]) -> Arc<Node> {
        let spec = json!({"podCIDR": ranges.first(), "podCIDRs": ranges});
        let node = json!({"metadata": {"name": name, "uid": name}, "spec": spec});
        Arc::new(serde_json::from_value(node).unwrap())
    }

    fn shown(chosen: Result<Vec<IpNet>, Part>) -> Vec<String> {
        chosen.unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_range_meets_no_other_whatever_their_sizes_are_and_no_services() {
        let ranges = NodeRanges::new(&[(net("10.1.0.0/16"), Some(24))], vec![net("10.1.0.0/23")]).unwrap();
        assert_eq!(shown(ranges.free(&[])), ["10.1.2.0/24"]);
        let taken = [
            net("10.1.2.128/25"),
            net("10.1.3.0/24"),
            net("10.1.4.0/22"),
            net("10.2.0.0/16"),
        ];
        assert_eq!(shown(ranges.free(&taken)), ["10.1.8.0/24"]);
        assert_eq!(ranges.free(&[net("10.0.0.0/8")]).unwrap_err().all, net("10.1.0.0/16"));
    }

    #[test]
    fn each_family_gets_a_range_of_its_usual_length() {
        let ranges = NodeRanges::new(&[(net("10.1.2.3/16"), None), (net("fd00::/56"), None)], vec![]).unwrap();
        assert_eq!(
            shown(ranges.free(&[net("fd00::/64")])),
            ["10.1.0.0/24", "fd00:0:0:1::/64"]
        );
    }

    #[test]
    fn lengths_that_do_not_fit_and_second_networks_of_a_family_are_refused() {
        let error = |networks: &[(IpNet, Option<u8>)]| NodeRanges::new(networks, vec![]).unwrap_err().to_string();
        let wrong = "10.1.0.0/24 has no parts of prefix length 16: choose one from 24 to 32";
        assert_eq!(error(&[(net("10.1.0.0/24"), Some(16))]), wrong);
        assert!(error(&[(net("10.1.0.0/24"), Some(33))]).contains("prefix length 33"));
        assert!(
            error(&[(net("10.1.0.0/16"), None), (net("10.2.0.0/16"), None)]).starts_with("10.2.0.0/16 is the second")
        );
    }

    #[test]
    fn chosen_range_is_reserved_until_the_node_has_it_or_is_gone() {
        let ranges = NodeRanges::new(&[(net("10.1.0.0/23"), None)], vec![]).unwrap();
        let (reserved, a, b, c) = (Reserved::default(), node("a", &[]), node("b", &[]), node("c", &[]));
        let all = [a.clone(), b.clone(), c.clone()];
        assert_eq!(shown(reserved.choose(&a, &all, &ranges)), ["10.1.0.0/24"]);
        assert_eq!(shown(reserved.choose(&b, &all, &ranges)), ["10.1.1.0/24"]);
        assert_eq!(shown(reserved.choose(&a, &all, &ranges)), ["10.1.0.0/24"]);
        assert!(reserved.choose(&c, &all, &ranges).is_err());
        let without_a = [node("b", &["10.1.1.0/24"]), c.clone()];
        assert_eq!(shown(reserved.choose(&c, &without_a, &ranges)), ["10.1.0.0/24"]);
    }
}
