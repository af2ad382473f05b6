//! What is added to an object before it is applied. Pure.

use std::collections::BTreeMap;

use kube::core::DynamicObject;
use serde_json::{Map, Value, json};

use crate::naming::{DESCRIPTION, DESCRIPTION_TEXT, MANAGED_BY, MANAGED_BY_GARDENER, ORIGIN, wish};

/// The object as it is sent: with its namespace, origin, description, managed-by label and the injected labels (which
/// also go into pod templates).
pub(crate) fn prepare(
    value: &Value,
    namespace: Option<&str>,
    origin: &str,
    inject: &BTreeMap<String, String>,
) -> Value {
    let mut value = value.clone();
    let metadata = member(&mut value, "metadata");
    match namespace {
        Some(namespace) => metadata.insert("namespace".to_owned(), json!(namespace)),
        None => metadata.remove("namespace"),
    };
    let annotations = [(ORIGIN, origin), (DESCRIPTION, DESCRIPTION_TEXT)];
    put(metadata, "annotations", annotations);
    put(metadata, "labels", [(MANAGED_BY, MANAGED_BY_GARDENER)]);
    put(
        metadata,
        "labels",
        inject.iter().map(|(key, value)| (key.as_str(), value.as_str())),
    );
    if !inject.is_empty() {
        for template in ["/spec/template", "/spec/jobTemplate/spec/template"] {
            if let Some(template) = value.pointer_mut(template) {
                put(
                    member(template, "metadata"),
                    "labels",
                    inject.iter().map(|(key, value)| (key.as_str(), value.as_str())),
                );
            }
        }
    }
    value
}

/// Takes over from the live object what the object's annotations say is others' to set: replicas, resources.
pub(crate) fn preserve(value: &mut Value, live: &DynamicObject) {
    let asked = |name: &str| {
        value
            .pointer("/metadata/annotations")
            .and_then(|all| all.get(name))
            .and_then(Value::as_str)
            == Some("true")
    };
    let (replicas, resources) = (asked(wish::PRESERVE_REPLICAS), asked(wish::PRESERVE_RESOURCES));
    if replicas
        && let (Some(live), Some(wanted)) = (live.data.pointer("/spec/replicas"), value.pointer_mut("/spec/replicas"))
    {
        *wanted = live.clone();
    }
    if resources {
        let of = |name: &Value| {
            live.data
                .pointer("/spec/template/spec/containers")
                .and_then(Value::as_array)?
                .iter()
                .find(|container| &container["name"] == name)?
                .get("resources")
                .cloned()
        };
        for container in value
            .pointer_mut("/spec/template/spec/containers")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            if let (Some(found), Some(container)) = (of(&container["name"]), container.as_object_mut()) {
                container.insert("resources".to_owned(), found);
            }
        }
    }
}

/// Whether [`preserve`] needs the live object.
pub(crate) fn preserves(value: &Value) -> bool {
    let annotations = value.pointer("/metadata/annotations");
    [wish::PRESERVE_REPLICAS, wish::PRESERVE_RESOURCES]
        .iter()
        .any(|name| annotations.and_then(|all| all.get(*name)).and_then(Value::as_str) == Some("true"))
}

/// The member as an object; anything else in its place is replaced.
fn member<'a>(value: &'a mut Value, name: &str) -> &'a mut Map<String, Value> {
    if !value[name].is_object() {
        value[name] = json!({});
    }
    value[name].as_object_mut().expect("it has just been made an object")
}

fn put<'a>(map: &mut Map<String, Value>, name: &str, entries: impl IntoIterator<Item = (&'a str, &'a str)>) {
    let inner = map.entry(name).or_insert_with(|| json!({}));
    if !inner.is_object() {
        *inner = json!({});
    }
    if let Some(inner) = inner.as_object_mut() {
        inner.extend(entries.into_iter().map(|(key, value)| (key.to_owned(), json!(value))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_go_into_object_and_template_and_a_namespace_by_mistake_goes() {
        let given = json!({"metadata": {"name": "d", "namespace": "n", "labels": {"own": "1"}, "annotations": null}, "spec": {"template": {"spec": {}}}});
        let inject = BTreeMap::from([("shoot.gardener.cloud/no-cleanup".to_owned(), "true".to_owned())]);
        let made = prepare(&given, None, "ns/mr", &inject);
        assert_eq!(
            made["metadata"]["labels"],
            json!({"own": "1", "shoot.gardener.cloud/no-cleanup": "true", "resources.gardener.cloud/managed-by": "gardener"})
        );
        assert_eq!(
            made["metadata"]["annotations"]["resources.gardener.cloud/origin"],
            "ns/mr"
        );
        assert_eq!(made["metadata"].get("namespace"), None);
        assert_eq!(
            made["spec"]["template"]["metadata"]["labels"],
            json!({"shoot.gardener.cloud/no-cleanup": "true"})
        );
        let plain = prepare(&given, Some("default"), "ns/mr", &BTreeMap::new());
        assert_eq!(
            (
                &plain["metadata"]["namespace"],
                plain["spec"]["template"].get("metadata")
            ),
            (&json!("default"), None)
        );
    }

    #[test]
    fn replicas_and_resources_stay_as_others_set_them_only_when_asked() {
        let given = json!({"metadata": {"name": "d", "annotations": {"resources.gardener.cloud/preserve-replicas": "true"}}, "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "a", "resources": {"x": 1}}, {"name": "b"}]}}}});
        let live: DynamicObject = serde_json::from_value(json!({"metadata": {}, "spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "a", "resources": {"x": 2}}]}}}})).unwrap();
        let mut made = given.clone();
        assert!(preserves(&made));
        preserve(&mut made, &live);
        assert_eq!(
            (&made["spec"]["replicas"], &made["spec"]["template"]),
            (&json!(3), &given["spec"]["template"])
        );
        made["metadata"]["annotations"] = json!({"resources.gardener.cloud/preserve-resources": "true"});
        preserve(&mut made, &live);
        assert_eq!(
            made["spec"]["template"]["spec"]["containers"],
            json!([{"name": "a", "resources": {"x": 2}}, {"name": "b"}])
        );
    }
}
