//! Whether a pod may run on a node: tolerations, node selectors, node affinity. Pure, shared by the scheduler, the
//! DaemonSet controller and the eviction of pods. After kubernetes v1.35 `component-helpers/scheduling/corev1`.

use std::time::Duration;

use k8s_openapi::api::core::v1::{
    Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration,
};
use kube::ResourceExt;

/// Keeps new pods away.
pub(crate) const NO_SCHEDULE: &str = "NoSchedule";
/// Keeps new pods away and evicts running ones.
pub(crate) const NO_EXECUTE: &str = "NoExecute";

/// Whether the toleration is meant for the taint.
pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let is_empty = |text: &Option<String>| text.as_deref().is_none_or(str::is_empty);
    let effect = is_empty(&toleration.effect) || toleration.effect.as_deref() == Some(&taint.effect);
    let key = is_empty(&toleration.key) || toleration.key.as_deref() == Some(&taint.key);
    let value = match toleration.operator.as_deref() {
        Some("Exists") => true,
        None | Some("" | "Equal") => {
            !is_empty(&toleration.key)
                && toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default()
        }
        Some(_) => false,
    };
    effect && key && value
}

/// The first taint that keeps the pod away and that it does not tolerate.
pub(crate) fn untolerated<'n>(spec: &PodSpec, node: &'n Node) -> Option<&'n Taint> {
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    taints(node).find(|taint| {
        matches!(taint.effect.as_str(), NO_SCHEDULE | NO_EXECUTE)
            && !tolerations.iter().any(|toleration| tolerates(toleration, taint))
    })
}

/// The node's taints.
pub(crate) fn taints(node: &Node) -> impl Iterator<Item = &Taint> {
    node.spec.iter().flat_map(|spec| spec.taints.iter().flatten())
}

/// How long the pod may stay on a node with this `NoExecute` taint: none is for ever.
pub(crate) fn stay(spec: &PodSpec, taint: &Taint, by_default: Duration) -> Option<Duration> {
    let mut fitting = spec
        .tolerations
        .iter()
        .flatten()
        .filter(|toleration| tolerates(toleration, taint))
        .peekable();
    if fitting.peek().is_none() {
        return Some(by_default);
    }
    // The shortest of those that are limited; one without limit does not lengthen it.
    let seconds = fitting.filter_map(|toleration| toleration.toleration_seconds).min()?;
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

/// Whether the node has the labels and the name that the pod requires.
pub(crate) fn is_selected(spec: &PodSpec, node: &Node) -> bool {
    let labels = node.labels();
    let by_labels = spec
        .node_selector
        .iter()
        .flatten()
        .all(|(key, value)| labels.get(key) == Some(value));
    let affinity = spec
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    by_labels && required.is_none_or(|required| matches_any_term(required, node))
}

fn matches_any_term(selector: &NodeSelector, node: &Node) -> bool {
    let matches = |term: &NodeSelectorTerm| {
        let expressions = term.match_expressions.as_deref().unwrap_or_default();
        let fields = term.match_fields.as_deref().unwrap_or_default();
        let by_label = |rule: &NodeSelectorRequirement| holds(rule, node.labels().get(&rule.key).map(String::as_str));
        // `metadata.name` is the only field there is.
        let by_field =
            |rule: &NodeSelectorRequirement| rule.key == "metadata.name" && holds(rule, Some(&node.name_any()));
        // An empty term selects nothing.
        !(expressions.is_empty() && fields.is_empty())
            && expressions.iter().all(by_label)
            && fields.iter().all(by_field)
    };
    selector.node_selector_terms.iter().any(matches)
}

fn holds(rule: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = rule.values.as_deref().unwrap_or_default();
    let is_listed = || value.is_some_and(|value| values.iter().any(|listed| listed == value));
    let compared = || {
        let value: i64 = value?.parse().ok()?;
        let bound: i64 = values.first()?.parse().ok()?;
        Some(value.cmp(&bound))
    };
    match rule.operator.as_str() {
        "In" => is_listed(),
        "NotIn" => !is_listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared().is_some_and(std::cmp::Ordering::is_gt),
        "Lt" => compared().is_some_and(std::cmp::Ordering::is_lt),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn node() -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": "a", "labels": {"zone": "z1", "size": "10"}},
            "spec": {"taints": [{"key": "soft", "effect": "PreferNoSchedule"}, {"key": "gpu", "value": "yes", "effect": "NoExecute"}]},
        }))
        .unwrap()
    }

    fn spec(fields: Value) -> PodSpec {
        let mut spec = json!({"containers": []});
        spec.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn taints_are_tolerated_by_key_value_and_effect_and_soft_ones_never_count() {
        for (toleration, tolerated) in [
            (json!({"operator": "Exists"}), true),
            (json!({"key": "gpu", "operator": "Exists"}), true),
            (json!({"key": "gpu", "value": "yes"}), true),
            (json!({"key": "gpu", "value": "no"}), false),
            (json!({"key": "gpu"}), false),
            (json!({"operator": "Equal"}), false),
            (
                json!({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}),
                false,
            ),
            (json!({"key": "other", "operator": "Exists"}), false),
            (json!({"key": "gpu", "operator": "Nonsense"}), false),
        ] {
            let spec = spec(json!({"tolerations": [toleration]}));
            assert_eq!(untolerated(&spec, &node()).is_none(), tolerated, "{spec:?}");
        }
    }

    #[test]
    fn pods_stay_as_long_as_their_shortest_toleration() {
        let (node, default) = (node(), Duration::from_secs(300));
        let gpu = taints(&node).nth(1).unwrap();
        let stays = |tolerations: Value| stay(&spec(json!({"tolerations": tolerations})), gpu, default);
        assert_eq!(stays(json!([])), Some(default));
        assert_eq!(stays(json!([{"operator": "Exists"}])), None);
        let limited = json!([{"operator": "Exists"}, {"operator": "Exists", "tolerationSeconds": 7}]);
        assert_eq!(stays(limited), Some(Duration::from_secs(7)));
        assert_eq!(
            stays(json!([{"operator": "Exists", "tolerationSeconds": -1}])),
            Some(Duration::ZERO)
        );
    }

    #[test]
    fn nodes_are_selected_by_labels_expressions_and_name() {
        let affinity = |terms: Value| json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}});
        let rule =
            |key: &str, operator: &str, values: Value| json!({"key": key, "operator": operator, "values": values});
        for (fields, selected) in [
            (json!({}), true),
            (json!({"nodeSelector": {"zone": "z1"}}), true),
            (json!({"nodeSelector": {"zone": "z2"}}), false),
            (affinity(json!([{}])), false),
            (
                affinity(json!([{"matchFields": [rule("metadata.name", "In", json!(["a"]))]}])),
                true,
            ),
            (
                affinity(json!([{"matchFields": [rule("metadata.name", "In", json!(["b"]))]}])),
                false,
            ),
            (
                affinity(
                    json!([{"matchExpressions": [rule("zone", "NotIn", json!(["z1"]))]}, {"matchExpressions": [rule("size", "Gt", json!(["9"]))]}]),
                ),
                true,
            ),
            (
                affinity(
                    json!([{"matchExpressions": [rule("size", "Lt", json!(["10"])), rule("zone", "Exists", json!(null))]}]),
                ),
                false,
            ),
            (
                affinity(
                    json!([{"matchExpressions": [rule("absent", "NotIn", json!(["x"])), rule("absent", "DoesNotExist", json!(null))]}]),
                ),
                true,
            ),
        ] {
            assert_eq!(is_selected(&spec(fields.clone()), &node()), selected, "{fields}");
        }
    }
}
