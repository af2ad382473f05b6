//! The labels, annotations and taints that a machine's template puts on its node, and removes again when it names
//! them no longer. What others put there stays. Pure.
//! Source: gardener/machine-controller-manager v0.60 pkg/util/provider/machinecontroller (syncMachineNodeTemplates).

use std::collections::BTreeMap;

use api_machine::NodeTemplateSpec;
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::ResourceExt;

use crate::names::LAST_APPLIED_ANNOTATION;

type Texts = BTreeMap<String, String>;

/// Applies `template` to `node`, and records that on it.
pub(super) fn mark(node: &mut Node, template: Option<&NodeTemplateSpec>) {
    let remembered = node.annotations().get(LAST_APPLIED_ANNOTATION);
    if template.is_none() && remembered.is_none() {
        return;
    }
    // What cannot be read any more cannot be removed.
    let last: NodeTemplateSpec = remembered
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let wanted = template.cloned().unwrap_or_default();
    put(
        node.metadata.labels.get_or_insert_default(),
        last.metadata.labels.as_ref(),
        wanted.metadata.labels.as_ref(),
    );
    put(
        node.metadata.annotations.get_or_insert_default(),
        last.metadata.annotations.as_ref(),
        wanted.metadata.annotations.as_ref(),
    );
    taint(node, &taints_of(&last), &taints_of(&wanted));
    if let Ok(text) = serde_json::to_string(&wanted) {
        node.annotations_mut().insert(LAST_APPLIED_ANNOTATION.to_owned(), text);
    }
}

fn put(present: &mut Texts, last: Option<&Texts>, wanted: Option<&Texts>) {
    let is_wanted = |key: &String| wanted.is_some_and(|wanted| wanted.contains_key(key));
    for key in last.into_iter().flat_map(BTreeMap::keys).filter(|key| !is_wanted(key)) {
        present.remove(key);
    }
    for (key, value) in wanted.into_iter().flatten() {
        present.insert(key.clone(), value.clone());
    }
}

fn taints_of(template: &NodeTemplateSpec) -> Vec<Taint> {
    let spec = template.spec.as_ref();
    spec.and_then(|spec| spec.taints.clone()).unwrap_or_default()
}

/// A node has one taint per key and effect.
fn is_same(one: &Taint, other: &Taint) -> bool {
    one.key == other.key && one.effect == other.effect
}

fn taint(node: &mut Node, last: &[Taint], wanted: &[Taint]) {
    let present = node.spec.as_ref().and_then(|spec| spec.taints.as_deref());
    let before = present.unwrap_or_default();
    let is_in = |taint: &Taint, list: &[Taint]| list.iter().any(|other| is_same(taint, other));
    let mut after: Vec<Taint> = before
        .iter()
        .filter(|taint| is_in(taint, wanted) || !is_in(taint, last))
        .cloned()
        .collect();
    for taint in wanted {
        match after.iter_mut().find(|other| is_same(taint, other)) {
            Some(present) => present.value.clone_from(&taint.value),
            None => after.push(taint.clone()),
        }
    }
    if after != before {
        node.spec.get_or_insert_default().taints = (!after.is_empty()).then_some(after);
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::NodeSpec;
    use serde_json::{Value, json};

    use super::*;

    fn template(labels: Value, annotations: Value, taints: Value) -> NodeTemplateSpec {
        let metadata = json!({"labels": labels, "annotations": annotations});
        serde_json::from_value(json!({"metadata": metadata, "spec": {"taints": taints}})).unwrap()
    }

    /// What a node has of all that, but for what it remembers.
    fn seen(node: &Node) -> Value {
        let mut annotations = node.metadata.annotations.clone().unwrap_or_default();
        annotations.remove(LAST_APPLIED_ANNOTATION);
        json!([
            node.metadata.labels,
            annotations,
            node.spec.as_ref().and_then(|spec| spec.taints.clone())
        ])
    }

    #[test]
    fn marks_removed_from_a_template_go_and_foreign_marks_stay() {
        let taint = |key: &str, value: &str| json!({"key": key, "value": value, "effect": "NoSchedule"});
        let mut node: Node = serde_json::from_value(json!({
            "metadata": {"labels": {"theirs": "1"}, "annotations": {"theirs": "1"}},
            "spec": {"taints": [taint("theirs", "1"), {"key": "ours", "effect": "NoExecute"}]},
        }))
        .unwrap();
        let theirs = seen(&node);
        let first = template(
            json!({"ours": "1", "goes": "1"}),
            json!({"goes": "1"}),
            json!([taint("ours", "1"), taint("goes", "1")]),
        );
        mark(&mut node, Some(&first));
        assert_eq!(seen(&node)[0], json!({"theirs": "1", "ours": "1", "goes": "1"}));
        assert_eq!(seen(&node)[2].as_array().unwrap().len(), 4);
        let again = node.clone();
        mark(&mut node, Some(&first));
        assert_eq!(node, again);

        let second = template(json!({"ours": "2"}), json!({"comes": "2"}), json!([taint("ours", "2")]));
        mark(&mut node, Some(&second));
        let expected = json!([
            {"theirs": "1", "ours": "2"},
            {"theirs": "1", "comes": "2"},
            [taint("theirs", "1"), {"key": "ours", "effect": "NoExecute"}, taint("ours", "2")],
        ]);
        assert_eq!(seen(&node), expected);

        mark(&mut node, None);
        assert_eq!(seen(&node), theirs);
    }

    #[test]
    fn what_machine_controller_manager_has_remembered_is_understood() {
        let remembered = r#"{"metadata":{"creationTimestamp":null,"labels":{"goes":"1"}},"spec":{"taints":[{"key":"goes","effect":"NoSchedule"}]}}"#;
        let mut node = Node::default();
        node.labels_mut().insert("goes".into(), "1".into());
        node.annotations_mut()
            .insert(LAST_APPLIED_ANNOTATION.into(), remembered.into());
        let taints = serde_json::from_value(json!([{"key": "goes", "effect": "NoSchedule"}])).unwrap();
        node.spec = Some(NodeSpec {
            taints,
            ..Default::default()
        });
        mark(&mut node, Some(&NodeTemplateSpec::default()));
        assert_eq!(seen(&node), json!([{}, {}, null]));
    }

    #[test]
    fn a_node_without_template_is_left_as_it_is() {
        let mut node = Node::default();
        mark(&mut node, None);
        assert_eq!(node, Node::default());
    }
}
