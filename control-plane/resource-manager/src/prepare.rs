//! What is added to an object before it is applied. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::decode::Desired;
use crate::naming::{DESCRIPTION, DESCRIPTION_TEXT, MANAGED_BY, MANAGED_BY_GARDENER, ORIGIN, REFERENCE_PREFIX};

/// Annotations that Kubernetes' controllers write: removed, they come back, and are removed again without end.
const SERVERS_ANNOTATIONS: [&str; 2] = ["deployment.kubernetes.io/", "deprecated.daemonset.template.generation"];

/// The object as it is sent: with its namespace, origin, description, managed-by label and the injected labels. Labels
/// also go into templates of pods, by which we find them, and the injected ones into those of volume claims. An object
/// that is ignored once it exists gets no description: others may edit it.
pub(crate) fn prepare(
    object: &Desired,
    namespace: Option<&str>,
    origin: &str,
    inject: &BTreeMap<String, String>,
) -> Value {
    let is_ignored = object.is_ignored();
    let mut value = object.value.clone();
    if let Some(metadata) = object_at(&mut value, &["metadata"]) {
        match namespace {
            Some(namespace) => metadata.insert("namespace".to_owned(), json!(namespace)),
            None => metadata.remove("namespace"),
        };
    }
    put(&mut value, "annotations", [(ORIGIN, origin)]);
    if !is_ignored {
        put(&mut value, "annotations", [(DESCRIPTION, DESCRIPTION_TEXT)]);
    }
    put(&mut value, "labels", [(MANAGED_BY, MANAGED_BY_GARDENER)]);
    let labels = || inject.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    put(&mut value, "labels", labels());
    for pointer in ["/spec/template", "/spec/jobTemplate/spec/template"] {
        // Other kinds have templates too, of something else than pods.
        if let Some(template) = value
            .pointer_mut(pointer)
            .filter(|template| template.pointer("/spec/containers").is_some())
        {
            let managed = [(MANAGED_BY, MANAGED_BY_GARDENER)];
            put(template, "labels", managed.into_iter().chain(labels()));
        }
    }
    for pods in ["/spec", "/spec/template/spec", "/spec/jobTemplate/spec/template/spec"] {
        for list in ["containers", "initContainers"] {
            let containers = value
                .pointer_mut(&format!("{pods}/{list}"))
                .and_then(Value::as_array_mut);
            containers.into_iter().flatten().for_each(drop_overridden);
        }
    }
    for claim in value
        .pointer_mut("/spec/volumeClaimTemplates")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        put(claim, "labels", labels());
    }
    value
}

/// Drops environment variables that a later one of the same name overrides. Charts have them: an update takes both, and the
/// last counts in the container; server-side apply knows an entry by its name and refuses a second.
fn drop_overridden(container: &mut Value) {
    let Some(variables) = container.get_mut("env").and_then(Value::as_array_mut) else {
        return;
    };
    let mut later = BTreeSet::new();
    variables.reverse();
    variables.retain(|variable| {
        let name = variable.get("name").and_then(Value::as_str);
        name.is_none_or(|name| later.insert(name.to_owned()))
    });
    variables.reverse();
}

/// Keys of metadata's `labels` or `annotations` of a live object that no source wants and that must be removed: all of
/// them with `force`, and references of the garbage collector always, as a stale one retains what is unused.
pub(crate) fn surplus(live: Option<&BTreeMap<String, String>>, wanted: &Value, force: bool) -> Vec<String> {
    let goes = |key: &&String| {
        let requested = wanted.get(key.as_str()).is_some();
        let forced = force && !SERVERS_ANNOTATIONS.iter().any(|own| key.starts_with(own));
        !requested && (forced || key.starts_with(REFERENCE_PREFIX))
    };
    live.into_iter()
        .flat_map(BTreeMap::keys)
        .filter(goes)
        .cloned()
        .collect()
}

/// The object at the end of a path of members, made where it is missing. `None` where the value or a member is of
/// another type: that goes to the API server unchanged, which refuses it with a reason.
pub(crate) fn object_at<'a>(mut value: &'a mut Value, path: &[&str]) -> Option<&'a mut Map<String, Value>> {
    for member in path {
        value = value.as_object_mut()?.entry(*member).or_insert(Value::Null);
        if value.is_null() {
            *value = json!({});
        }
    }
    value.as_object_mut()
}

/// Adds entries to a member of the value's metadata.
fn put<'a>(value: &mut Value, member: &str, entries: impl IntoIterator<Item = (&'a str, &'a str)>) {
    if let Some(inner) = object_at(value, &["metadata", member]) {
        inner.extend(entries.into_iter().map(|(key, value)| (key.to_owned(), json!(value))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desired(value: Value) -> Desired {
        Desired {
            api_version: "apps/v1".to_owned(),
            group: "apps".to_owned(),
            kind: "StatefulSet".to_owned(),
            namespace: None,
            name: "d".to_owned(),
            value,
        }
    }

    #[test]
    fn an_ignored_object_gets_its_origin_and_no_description() {
        let of = |ignore: &str| {
            let annotations = json!({"resources.gardener.cloud/ignore": ignore});
            let object = desired(json!({"metadata": {"name": "d", "annotations": annotations}}));
            let made = prepare(&object, None, "ns/mr", &BTreeMap::new());
            let annotations = &made["metadata"]["annotations"];
            (annotations[ORIGIN].clone(), annotations.get(DESCRIPTION).is_some())
        };
        assert_eq!(
            (of("t"), of("false")),
            ((json!("ns/mr"), false), (json!("ns/mr"), true))
        );
    }

    #[test]
    fn labels_go_into_object_and_template_and_a_namespace_by_mistake_goes() {
        let given = desired(
            json!({"metadata": {"name": "d", "namespace": "n", "labels": {"own": "1"}, "annotations": null}, "spec": {"template": {"spec": {"containers": []}}, "volumeClaimTemplates": [{}]}}),
        );
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
            json!({"shoot.gardener.cloud/no-cleanup": "true", "resources.gardener.cloud/managed-by": "gardener"})
        );
        assert_eq!(
            made["spec"]["volumeClaimTemplates"],
            json!([{"metadata": {"labels": {"shoot.gardener.cloud/no-cleanup": "true"}}}])
        );
        let other = desired(json!({"metadata": {"name": "d"}, "spec": {"template": {"spec": {}}}}));
        let plain = prepare(&other, Some("default"), "ns/mr", &BTreeMap::new());
        assert_eq!(
            (&plain["metadata"]["namespace"], &plain["spec"]["template"]),
            (&json!("default"), &json!({"spec": {}}))
        );
    }

    #[test]
    fn the_last_of_several_variables_of_one_name_stays() {
        let env =
            json!([{"name": "A", "value": "1"}, {"name": "B"}, {"name": "A", "value": "2"}, "x", {"value": "y"}, "x"]);
        let wanted = json!([{"name": "B"}, {"name": "A", "value": "2"}, "x", {"value": "y"}, "x"]);
        let containers = |env: &Value| json!({"initContainers": [{"name": "i", "env": env}], "containers": [{"name": "c", "env": env}, "x"]});
        let of = |env: &Value| json!({"metadata": {"name": "d"}, "spec": {"template": {"spec": containers(env)}}});
        let made = prepare(&desired(of(&env)), None, "ns/mr", &BTreeMap::new());
        assert_eq!(made["spec"]["template"]["spec"], containers(&wanted));
    }

    #[test]
    fn values_of_another_type_stay_as_they_are() {
        for wrong in [json!("x"), json!(["x"]), json!(1)] {
            let given = json!({
                "metadata": {"name": "d", "labels": wrong, "annotations": wrong},
                "spec": {"template": {"metadata": wrong, "spec": {"containers": wrong}}, "volumeClaimTemplates": [wrong, {"metadata": wrong}]},
            });
            let made = prepare(&desired(given.clone()), None, "ns/mr", &BTreeMap::new());
            assert_eq!(made, given);
        }
        let given = desired(json!({"metadata": {"name": "d"}, "spec": "x"}));
        assert_eq!(prepare(&given, None, "ns/mr", &BTreeMap::new())["spec"], "x");
    }

    #[test]
    fn only_forced_keys_and_stale_references_are_surplus() {
        let of = |keys: &[&str]| -> BTreeMap<String, String> {
            keys.iter().map(|key| ((*key).to_owned(), String::new())).collect()
        };
        let live = of(&[
            "a",
            "deployment.kubernetes.io/revision",
            "reference.resources.gardener.cloud/secret-1",
            "theirs",
        ]);
        let wanted = json!({"a": "1"});
        assert_eq!(
            surplus(Some(&live), &wanted, false),
            ["reference.resources.gardener.cloud/secret-1"]
        );
        assert_eq!(
            surplus(Some(&live), &wanted, true),
            ["reference.resources.gardener.cloud/secret-1", "theirs"]
        );
        let requested = json!({"reference.resources.gardener.cloud/secret-1": "s"});
        assert!(surplus(Some(&live), &requested, false).is_empty() && surplus(None, &wanted, true).is_empty());
    }
}
