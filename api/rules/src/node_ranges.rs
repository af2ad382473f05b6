//! Every node has a range of the pod network to itself: the network must hold as many ranges as the pools may have
//! nodes (gardener/gardener v1.150 pkg/api/core/validation/shoot.go, ValidateTotalNodeCountWithPodCIDR).
//! IPv6 networks are not judged: they hold more ranges than anybody asks for.

use api_core::v1beta1::Shoot;
use ipnet::IpNet;

use crate::{FieldError, Path};

/// Prefix length of a node's range when the shoot names none.
const NODE_MASK: i32 = 24;
/// Shortest prefix worth advising: no private IPv4 network is larger.
const PREFIX_MIN: u32 = 8;

/// The error if the pod network has no room for all nodes.
pub(crate) fn validate_node_ranges(shoot: &Shoot) -> Option<FieldError> {
    let pods = pod_network(shoot)?;
    // What is no network is refused elsewhere.
    let Ok(IpNet::V4(network)) = pods.parse() else {
        return None;
    };
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

/// Whether `new` may need more of its pod network than `old` did.
pub(crate) fn needs_more(new: &Shoot, old: &Shoot) -> bool {
    pod_network(new) != pod_network(old) || node_mask(new) != node_mask(old) || nodes_max(new) > nodes_max(old)
}

fn pod_network(shoot: &Shoot) -> Option<&str> {
    shoot.spec.networking.as_ref()?.pods.as_deref()
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
            let found = validate_shoot(&with(pods, mask, maximum));
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
}
