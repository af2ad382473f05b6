//! Requests and limits of containers as the downward API gives them. Pure
//! (kubernetes/kubernetes v1.35 pkg/api/v1/resource/helpers.go).

use std::collections::BTreeMap;

use cluster_fields::quantity::Quantity;
use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector};

/// What a `resourceFieldRef` gives; None for a container or resource that is not known. A limit that is not set is what the
/// node can hold, a request that is not set is 0.
pub(crate) fn resource_value(
    pod: &Pod,
    own: Option<&Container>,
    selector: &ResourceFieldSelector,
    capacity: &BTreeMap<String, String>,
) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let container = match &selector.container_name {
        Some(name) => {
            let mut all = spec.init_containers.iter().flatten().chain(&spec.containers);
            all.find(|container| container.name == *name)?
        }
        None => own?,
    };
    let (kind, resource) = selector.resource.split_once('.')?;
    if !matches!(resource, "cpu" | "memory" | "ephemeral-storage") && !resource.starts_with("hugepages-") {
        return None;
    }
    let set = container.resources.as_ref();
    let set = match kind {
        "limits" => set.and_then(|set| set.limits.as_ref()),
        "requests" => set.and_then(|set| set.requests.as_ref()),
        _ => return None,
    };
    let quantity = set
        .and_then(|set| set.get(resource))
        .map(|quantity| quantity.0.as_str());
    let held = || capacity.get(resource).map(String::as_str).filter(|_| kind == "limits");
    let value = thousandths(quantity.or_else(held).unwrap_or("0"))?;
    let divisor = selector.divisor.as_ref().map(|divisor| divisor.0.as_str());
    let divisor = divisor.filter(|divisor| !divisor.is_empty()).and_then(thousandths);
    let divisor = divisor.filter(|divisor| *divisor > 0).unwrap_or(1000);
    Some(
        value
            .div_euclid(divisor)
            .saturating_add(i128::from(value.rem_euclid(divisor) > 0))
            .to_string(),
    )
}

/// A quantity of bytes, rounded up; None where it is none.
pub(crate) fn bytes(quantity: &str) -> Option<u64> {
    u64::try_from(thousandths(quantity)?.checked_add(999)? / 1000).ok()
}

/// A quantity in thousandths, rounded up; None where it is none.
fn thousandths(quantity: &str) -> Option<i128> {
    Some(Quantity::parse(quantity)?.thousandths())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn resources_are_given_in_units_of_the_divisor_rounded_up() {
        let pod: Pod = serde_json::from_value(json!({"metadata": {}, "spec": {"containers": [
            {"name": "a", "resources": {"limits": {"cpu": "1500m", "memory": "64Mi"}, "requests": {"cpu": "0.25"}}},
            {"name": "b"},
            {"name": "large", "resources": {"limits": {"cpu": "1e-3", "memory": "2Ei"}}},
        ]}}))
        .unwrap();
        let own = &pod.spec.as_ref().unwrap().containers[0];
        let capacity = [
            ("memory".to_owned(), "16Gi".to_owned()),
            ("cpu".to_owned(), "8".to_owned()),
        ]
        .into();
        let value =
            |selector: Value| resource_value(&pod, Some(own), &serde_json::from_value(selector).unwrap(), &capacity);
        for (selector, expected) in [
            (json!({"resource": "limits.cpu"}), Some("2")),
            (json!({"resource": "limits.cpu", "divisor": "1m"}), Some("1500")),
            (json!({"resource": "limits.memory", "divisor": "1Mi"}), Some("64")),
            (json!({"resource": "limits.memory", "divisor": "0"}), Some("67108864")),
            (json!({"resource": "requests.cpu", "divisor": "1m"}), Some("250")),
            (json!({"resource": "requests.memory"}), Some("0")),
            (
                json!({"resource": "limits.memory", "containerName": "b", "divisor": "1Gi"}),
                Some("16"),
            ),
            (json!({"resource": "limits.cpu", "containerName": "b"}), Some("8")),
            (
                json!({"resource": "limits.memory", "containerName": "large", "divisor": "1Ei"}),
                Some("2"),
            ),
            (
                json!({"resource": "limits.cpu", "containerName": "large", "divisor": "1m"}),
                Some("1"),
            ),
            (json!({"resource": "limits.cpu", "containerName": "c"}), None),
            (json!({"resource": "limits.none"}), None),
        ] {
            assert_eq!(value(selector.clone()).as_deref(), expected, "{selector}");
        }
    }

    #[test]
    fn quantities_are_read_with_every_suffix() {
        for (quantity, expected) in [
            ("1", Some(1000)),
            ("1e3", Some(1_000_000)),
            ("1e-3", Some(1)),
            ("1E", Some(1_000_000_000_000_000_000_000)),
            ("1Ei", Some(1_152_921_504_606_846_976_000)),
            ("1.5k", Some(1_500_000)),
            ("1500001n", Some(2)),
            ("x", None),
        ] {
            assert_eq!(thousandths(quantity), expected, "{quantity}");
        }
    }
}
