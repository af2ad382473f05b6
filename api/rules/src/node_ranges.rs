//! Every node has a range of the pod network to itself: the network must hold as many ranges as the pools may have
//! nodes (gardener/gardener v1.150 pkg/api/core/validation/shoot.go, ValidateTotalNodeCountWithPodCIDR).
//! The node network must hold an address for each machine, also while pools roll. A pod network that is left out is
//! checked as the one that will be used. IPv6 networks are not checked: they hold more than any shoot requests.

use api_core::v1beta1::{IPFamily, Shoot, Worker};
use ipnet::IpNet;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::shoot::is_workerless;
use crate::shoot_defaults::default_shoot_networks;
use crate::shoot_values::NODE_MASKS;
use crate::{FieldError, Path};

/// Prefix length of a node's range when the shoot names none.
const NODE_MASK: i32 = 24;
/// Pods per node when no kubelet setting overrides it.
const PODS_DEFAULT: i32 = 110;
/// Shortest prefix worth advising: no private IPv4 network is larger.
const PREFIX_MIN: u32 = 8;
/// Addresses of a network that no machine gets: its first and its last.
const ADDRESSES_RESERVED: u64 = 2;

/// The errors if the pod or the node network has no room for all nodes.
pub fn validate_node_ranges(shoot: &Shoot) -> Vec<FieldError> {
    if is_workerless(shoot) {
        return Vec::new();
    }
    let mask = range_fits(shoot);
    let pods = pods_fit(shoot).filter(|_| mask.is_none());
    mask.into_iter().chain(pods).chain(machines_fit(shoot)).collect()
}

/// A node's range holds an address for each of its pods, but for the first and the last.
fn range_fits(shoot: &Shoot) -> Option<FieldError> {
    let kubernetes = &shoot.spec.kubernetes;
    let mask = kubernetes.kube_controller_manager.as_ref()?.node_cidr_mask_size?;
    let families = &shoot.spec.networking.as_ref()?.ip_families;
    let is_ipv4 = families.iter().all(|family| *family == IPFamily::IPv4);
    if !is_ipv4 || !NODE_MASKS.contains(&mask) {
        return None;
    }
    let general = kubernetes.kubelet.as_ref().and_then(|kubelet| kubelet.max_pods);
    let pools = shoot.spec.provider.workers.iter();
    let own = pools.filter_map(|pool| pool.kubernetes.as_ref()?.kubelet.as_ref()?.max_pods);
    let pods = own.chain(general).max().unwrap_or(PODS_DEFAULT);
    let held = (1_i64 << (32 - mask)) - 2;
    (i64::from(pods) > held).then(|| {
        Path::new("spec.kubernetes.kubeControllerManager.nodeCIDRMaskSize").invalid(
            mask,
            format!(
                "has addresses for {held} pods, but nodes may have {pods} (kubelet.maxPods); take a smaller number"
            ),
        )
    })
}

fn pods_fit(shoot: &Shoot) -> Option<FieldError> {
    let pods = pod_network(shoot)?;
    let pods = pods.as_str();
    // What is no network is refused elsewhere.
    let Ok(IpNet::V4(network)) = pods.parse() else {
        return None;
    };
    if !NODE_MASKS.contains(&node_mask(shoot)) {
        return None;
    }
    let (prefix, mask) = (u32::from(network.prefix_len()), u32::try_from(node_mask(shoot)).ok()?);
    let held = mask.checked_sub(prefix).map_or(0, |bits| 1_u64 << bits.min(32));
    let wanted = nodes_max(shoot).max(1);
    if wanted <= held {
        return None;
    }
    let enough = mask
        .checked_sub(wanted.next_power_of_two().trailing_zeros())
        .filter(|prefix| *prefix >= PREFIX_MIN);
    let todo = match enough {
        Some(prefix) => format!("take a network of /{prefix} or larger"),
        None => "lower the maximum of the worker pools".to_owned(),
    };
    let words = format!(
        "has room for {held} {}, each with a /{mask} (kubernetes.kubeControllerManager.nodeCIDRMaskSize), but the worker pools may have {wanted}; {todo}",
        if held == 1 { "node" } else { "nodes" }
    );
    Some(Path::new("spec.networking.pods").invalid(pods, words))
}

fn machines_fit(shoot: &Shoot) -> Option<FieldError> {
    let nodes = node_network(shoot)?;
    let Ok(IpNet::V4(network)) = nodes.parse() else {
        return None;
    };
    let addresses = 1_u64 << (u32::BITS - u32::from(network.prefix_len()));
    let held = addresses.saturating_sub(ADDRESSES_RESERVED);
    let wanted = machines_max(shoot);
    (wanted > held).then(|| {
        Path::new("spec.networking.nodes").invalid(
            nodes,
            format!(
                "has addresses for {held} machines, but the worker pools may have {wanted} while they are updated (maximum and maxSurge); take a larger network such as \"10.250.0.0/16\""
            ),
        )
    })
}

/// Whether `new` may need more of its pod network than `old` did.
pub(crate) fn needs_more(new: &Shoot, old: &Shoot) -> bool {
    pod_network(new) != pod_network(old)
        || node_network(new) != node_network(old)
        || node_mask(new) != node_mask(old)
        || nodes_max(new) > nodes_max(old)
        || machines_max(new) > machines_max(old)
}

/// The network as it stands, or as it will be completed.
fn pod_network(shoot: &Shoot) -> Option<String> {
    let networking = shoot.spec.networking.clone().unwrap_or_default();
    if networking.pods.is_some() {
        return networking.pods;
    }
    let mut completed = shoot.clone();
    default_shoot_networks(&mut completed, None);
    completed.spec.networking?.pods
}

fn node_network(shoot: &Shoot) -> Option<&str> {
    shoot.spec.networking.as_ref()?.nodes.as_deref()
}

fn node_mask(shoot: &Shoot) -> i32 {
    let manager = shoot.spec.kubernetes.kube_controller_manager.as_ref();
    manager
        .and_then(|manager| manager.node_cidr_mask_size)
        .unwrap_or(NODE_MASK)
}

fn nodes_max(shoot: &Shoot) -> u64 {
    let pools = shoot.spec.provider.workers.iter();
    pools.map(|pool| u64::try_from(pool.maximum).unwrap_or(0)).sum()
}

/// The most machines there may be while every pool is updated.
fn machines_max(shoot: &Shoot) -> u64 {
    let surge = |pool: &Worker| match &pool.max_surge {
        Some(IntOrString::Int(number)) => u64::try_from(*number).unwrap_or(0),
        Some(IntOrString::String(text)) => {
            let percent = text.strip_suffix('%').and_then(|number| number.parse().ok());
            let maximum = u64::try_from(pool.maximum).unwrap_or(0);
            maximum.saturating_mul(percent.unwrap_or(0)).div_ceil(100)
        }
        None => 0,
    };
    let pools = shoot.spec.provider.workers.iter();
    nodes_max(shoot).saturating_add(pools.map(surge).fold(0, u64::saturating_add))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::shoot::tests::shoot;
    use crate::{validate_shoot, validate_shoot_update};

    fn with(pods: &str, mask: Option<i32>, maximum: i32) -> Shoot {
        let mut shoot = shoot();
        shoot.spec.networking.as_mut().unwrap().pods = Some(pods.into());
        shoot.spec.provider.workers[0].maximum = maximum;
        shoot.spec.kubernetes.kube_controller_manager =
            serde_json::from_value(json!({"nodeCIDRMaskSize": mask})).unwrap();
        shoot
    }

    #[test]
    fn a_range_holds_the_pods_of_its_node() {
        let paths = |mask: i32, pods: Option<i32>| -> Vec<String> {
            let mut shoot = with("10.2.0.0/16", Some(mask), 1);
            shoot.spec.kubernetes.kubelet = serde_json::from_value(json!({ "maxPods": pods })).unwrap();
            validate_shoot(&shoot).into_iter().map(|error| error.path).collect()
        };
        let mask = ["spec.kubernetes.kubeControllerManager.nodeCIDRMaskSize"];
        assert_eq!(paths(25, None), [""; 0]);
        assert_eq!(paths(26, None), mask);
        assert_eq!(paths(27, Some(30)), [""; 0]);
        assert_eq!(paths(27, Some(31)), mask);
    }

    #[test]
    fn the_pod_network_holds_a_range_for_every_node() {
        let cases = [
            ("10.2.0.0/16", None, 256, None),
            (
                "10.2.0.0/16",
                None,
                257,
                Some("has room for 256 nodes, each with a /24"),
            ),
            ("10.2.0.0/24", None, 1, None),
            ("10.2.0.0/25", None, 1, Some("take a network of /24 or larger")),
            ("10.2.0.0/25", Some(26), 2, None),
            (
                "10.2.0.0/25",
                Some(26),
                3,
                Some("may have 3; take a network of /24 or larger"),
            ),
            (
                "10.2.0.0/24",
                Some(17),
                1024,
                Some("lower the maximum of the worker pools"),
            ),
            ("fd00::/64", None, 9, None),
        ];
        for (pods, mask, maximum, expected) in cases {
            let mut shoot = with(pods, mask, maximum);
            shoot.spec.kubernetes.kubelet = serde_json::from_value(json!({"maxPods": 20})).unwrap();
            let found = validate_shoot(&shoot);
            let texts: Vec<String> = found.iter().map(ToString::to_string).collect();
            match expected {
                None => assert!(texts.is_empty(), "{pods} {mask:?} {maximum}: {texts:?}"),
                Some(part) => assert!(
                    texts.len() == 1
                        && texts[0].starts_with("spec.networking.pods: Invalid value")
                        && texts[0].contains(part),
                    "{pods} {mask:?} {maximum}: {texts:?}"
                ),
            }
        }
    }

    #[test]
    fn what_was_too_small_before_blocks_no_other_change() {
        let old = with("10.2.0.0/25", None, 2);
        let mut new = old.clone();
        new.spec.purpose = Some("testing".into());
        new.spec.provider.workers[0].maximum = 1;
        assert_eq!(validate_shoot_update(&new, &old), []);
        new.spec.provider.workers[0].maximum = 3;
        assert_eq!(validate_shoot_update(&new, &old).len(), 1);
    }

    #[test]
    fn a_missing_pod_network_is_validated_as_its_default() {
        let texts = |maximum| {
            let mut shoot = with("", None, maximum);
            let networking = shoot.spec.networking.as_mut().unwrap();
            (networking.pods, networking.nodes) = (None, Some("172.16.0.0/12".into()));
            let found = validate_shoot(&shoot);
            found.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(texts(8192), [""; 0]);
        let found = texts(8193);
        assert!(
            found.len() == 1 && found[0].contains("\"100.96.0.0/11\": has room for 8192 nodes"),
            "{found:?}"
        );
    }

    #[test]
    fn the_node_network_has_an_address_for_every_machine_of_an_update() {
        let paths = |nodes: &str, surge| {
            let mut shoot = shoot();
            shoot.spec.networking.as_mut().unwrap().nodes = Some(nodes.into());
            shoot.spec.provider.workers[0].max_surge = serde_json::from_value(surge).unwrap();
            let found = validate_shoot(&shoot);
            found.into_iter().map(|error| error.path).collect::<Vec<_>>()
        };
        assert_eq!(paths("10.9.0.0/30", json!(1)), ["spec.networking.nodes"]);
        assert_eq!(paths("10.9.0.0/30", json!("10%")), ["spec.networking.nodes"]);
        assert_eq!(paths("10.9.0.0/29", json!(1)), [""; 0]);
        assert_eq!(paths("fd00::/126", json!(4)), [""; 0]);
    }
}
