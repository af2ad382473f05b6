//! The pods of rendered objects, whatever their kind: found and changed as JSON, so that no field is lost that our types
//! do not know. Pure.

use serde_json::{Map, Value, json};

/// What the pods of an object of those API groups in `namespace` are made from.
pub(crate) fn pod_spec<'o>(object: &'o mut Value, groups: &[&str], namespace: &str) -> Option<&'o mut Value> {
    let (group, _) = object["apiVersion"].as_str()?.split_once('/')?;
    if !groups.contains(&group) || object["metadata"]["namespace"].as_str() != Some(namespace) {
        return None;
    }
    object.pointer_mut(&format!("{}/spec", template_of(object)?))
}

fn template_of(object: &Value) -> Option<&'static str> {
    match object["kind"].as_str()? {
        "Deployment" | "StatefulSet" | "DaemonSet" | "Job" | "ReplicaSet" => Some("/spec/template"),
        "CronJob" => Some("/spec/jobTemplate/spec/template"),
        _ => None,
    }
}

/// Containers and init containers.
pub(crate) fn containers(pods: &mut Value) -> impl Iterator<Item = &mut Value> {
    let lists = pods.as_object_mut().into_iter().flat_map(Map::iter_mut);
    lists
        .filter(|(name, _)| matches!(name.as_str(), "containers" | "initContainers"))
        .filter_map(|(_, list)| list.as_array_mut())
        .flatten()
        .filter(|container| container.is_object())
}

/// Whether a container has that environment variable.
pub(crate) fn has_variable(container: &Value, name: &str) -> bool {
    let variables = container["env"].as_array();
    variables
        .into_iter()
        .flatten()
        .any(|variable| variable["name"].as_str() == Some(name))
}

/// Returns a container an environment variable, whatever it had of that name.
pub(crate) fn set_variable(container: &mut Value, name: &str, value: &Value) {
    set_named(container, "env", json!({"name": name, "value": value}));
}

/// Puts `item` into the list `field`, in place of one of its name.
pub(crate) fn set_named(object: &mut Value, field: &str, item: Value) {
    if !object[field].is_array() {
        object[field] = json!([]);
    }
    let Some(items) = object[field].as_array_mut() else {
        return;
    };
    match items.iter_mut().find(|known| known["name"] == item["name"]) {
        Some(known) => *known = item,
        None => items.push(item),
    }
}

/// Annotates an object and the template of its pods.
pub(crate) fn annotate(object: &mut Value, key: &str, value: &str) {
    let of_pods = template_of(object).map(|template| format!("{template}/metadata"));
    if let Some(template) = template_of(object).and_then(|template| object.pointer_mut(template))
        && !template["metadata"].is_object()
    {
        template["metadata"] = json!({});
    }
    for pointer in [Some("/metadata".to_owned()), of_pods].into_iter().flatten() {
        let Some(metadata) = object.pointer_mut(&pointer) else {
            continue;
        };
        if !metadata["annotations"].is_object() {
            metadata["annotations"] = json!({});
        }
        metadata["annotations"][key] = json!(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pods_of_the_groups_and_the_namespace_are_found() {
        let object = |version: &str, kind: &str, namespace: Value| {
            let template = json!({"spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "b"}]}});
            let spec = json!({"template": template, "jobTemplate": {"spec": {"template": template}}});
            json!({"apiVersion": version, "kind": kind, "metadata": {"namespace": namespace}, "spec": spec})
        };
        let found =
            |mut object: Value| pod_spec(&mut object, &["apps", "batch"], "n").map(|pods| containers(pods).count());
        assert_eq!(found(object("apps/v1", "Deployment", json!("n"))), Some(2));
        assert_eq!(found(object("batch/v1", "CronJob", json!("n"))), Some(2));
        assert_eq!(found(object("apps/v1", "Deployment", json!("other"))), None);
        assert_eq!(found(object("apps/v1", "Deployment", Value::Null)), None);
        assert_eq!(found(object("apps/v1", "ControllerRevision", json!("n"))), None);
        assert_eq!(found(object("example.org/v1", "Deployment", json!("n"))), None);
        assert_eq!(
            found(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "n"}})),
            None
        );
    }

    #[test]
    fn a_variable_replaces_the_one_of_its_name_and_annotations_reach_the_pods() {
        let mut container = json!({"name": "a", "env": [{"name": "X", "valueFrom": {}}, {"name": "Y", "value": "1"}]});
        assert!(has_variable(&container, "X") && !has_variable(&container, "Z"));
        set_variable(&mut container, "X", &json!("2"));
        assert_eq!(
            container["env"],
            json!([{"name": "X", "value": "2"}, {"name": "Y", "value": "1"}])
        );
        let mut object = json!({"kind": "Deployment", "metadata": {}, "spec": {"template": {}}});
        annotate(&mut object, "k", "v");
        assert_eq!(object["metadata"]["annotations"]["k"], "v");
        assert_eq!(object["spec"]["template"]["metadata"]["annotations"]["k"], "v");
    }
}
