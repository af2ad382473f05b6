//! What of a live object stays although the wanted one says otherwise: what others are meant to set, and what must not
//! change (gardener/gardener v1.150 pkg/resourcemanager/controller/managedresource/merger.go). Server-side apply leaves
//! all fields alone that are not given; this is about those that are. Pure.

use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::decode::Desired;
use crate::naming::wish;
use crate::prepare::object_at;

/// Takes over from the live object what is to stay. `is_scaled` says whether a HorizontalPodAutoscaler sets the replicas.
pub(crate) fn merge(value: &mut Value, object: &Desired, live: &DynamicObject, is_scaled: bool) {
    let live = &live.data;
    match (object.group.as_str(), object.kind.as_str()) {
        ("apps" | "extensions", "Deployment" | "StatefulSet") => {
            if is_scaled || wishes(value, wish::PRESERVE_REPLICAS) || value.pointer("/spec/replicas").is_none() {
                take(value, live, "replicas");
            }
            if object.kind == "StatefulSet" {
                take(value, live, "volumeClaimTemplates");
            }
        }
        ("batch", "Job") => merge_job(value, live),
        ("", "Service") => merge_service(value, live),
        _ => {}
    }
    if wishes(value, wish::PRESERVE_RESOURCES) {
        for template in [
            "/spec/template/spec/containers",
            "/spec/jobTemplate/spec/template/spec/containers",
        ] {
            merge_resources(value.pointer_mut(template), live.pointer(template));
        }
    }
}

/// Whether [`merge`] depends on who sets the replicas.
pub(crate) fn differs_in_replicas(value: &Value, live: &DynamicObject) -> bool {
    match (value.pointer("/spec/replicas"), live.data.pointer("/spec/replicas")) {
        (Some(wanted), Some(live)) => wanted != live,
        _ => false,
    }
}

fn wishes(value: &Value, annotation: &str) -> bool {
    let annotations = value.pointer("/metadata/annotations");
    annotations.and_then(|all| all.get(annotation)).and_then(Value::as_str) == Some("true")
}

/// Makes a field of `spec` what it is in the live object, absent if it is absent there.
fn take(value: &mut Value, live: &Value, field: &str) {
    let Some(spec) = value.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    match live.pointer("/spec").and_then(|spec| spec.get(field)) {
        Some(live) => spec.insert(field.to_owned(), live.clone()),
        None => spec.remove(field),
    };
}

/// The selector never changes, and the labels that the server put into the template cannot.
fn merge_job(value: &mut Value, live: &Value) {
    take(value, live, "selector");
    let labels = live
        .pointer("/spec/template/metadata/labels")
        .and_then(Value::as_object);
    let (Some(labels), Some(template)) = (labels, value.pointer_mut("/spec/template")) else {
        return;
    };
    let Some(wanted) = object_at(template, &["metadata", "labels"]) else {
        return;
    };
    for (key, label) in labels {
        wanted.entry(key).or_insert_with(|| label.clone());
    }
}

/// What the server has allocated stays: the address, unless none is wanted from now on, and ports of nodes.
fn merge_service(value: &mut Value, live: &Value) {
    let type_of = |service: &Value| {
        service
            .pointer("/spec/type")
            .and_then(Value::as_str)
            .unwrap_or("ClusterIP")
            .to_owned()
    };
    let (wanted, there) = (type_of(value), type_of(live));
    if matches!(wanted.as_str(), "LoadBalancer" | "NodePort") {
        let live = live.pointer("/spec/ports").and_then(Value::as_array);
        let ports = value.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
        ports.into_iter().flatten().for_each(|port| merge_port(port, live));
    }
    let given = value.pointer("/spec/clusterIP").and_then(Value::as_str);
    if wanted != "ExternalName" && there != "ExternalName" && given.is_some_and(|address| address != "None") {
        take(value, live, "clusterIP");
    }
}

fn merge_port(port: &mut Value, live: Option<&Vec<Value>>) {
    if port.get("nodePort").is_some_and(|given| *given != json!(0)) {
        return;
    }
    let protocol = |port: &Value| port.get("protocol").cloned().unwrap_or_else(|| json!("TCP"));
    let same = |other: &&Value| {
        protocol(other) == protocol(port) && (other["port"] == port["port"] || other.get("name") == port.get("name"))
    };
    let found = live
        .into_iter()
        .flatten()
        .find(same)
        .and_then(|other| other.get("nodePort"));
    if let (Some(found), Some(port)) = (found.cloned(), port.as_object_mut()) {
        port.insert("nodePort".to_owned(), found);
    }
}

/// Requests and limits of processor and memory, container by container.
fn merge_resources(containers: Option<&mut Value>, live: Option<&Value>) {
    let (Some(containers), Some(live)) = (containers.and_then(Value::as_array_mut), live.and_then(Value::as_array))
    else {
        return;
    };
    for container in containers {
        let Some(found) = live.iter().find(|other| other["name"] == container["name"]) else {
            continue;
        };
        for (list, resource) in [
            ("requests", "cpu"),
            ("requests", "memory"),
            ("limits", "cpu"),
            ("limits", "memory"),
        ] {
            if let Some(amount) = found.pointer(&format!("/resources/{list}/{resource}"))
                && let Some(amounts) = object_at(container, &["resources", list])
            {
                amounts.insert(resource.to_owned(), amount.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(version: &str, kind: &str, wanted: Value, live: Value, is_scaled: bool) -> Value {
        let group = version
            .split_once('/')
            .map(|(group, _)| group.to_owned())
            .unwrap_or_default();
        let object = Desired {
            api_version: version.to_owned(),
            group,
            kind: kind.to_owned(),
            namespace: None,
            name: "x".to_owned(),
            value: wanted.clone(),
        };
        let mut value = wanted;
        let live: DynamicObject = serde_json::from_value(json!({"metadata": {}, "spec": live})).unwrap();
        merge(&mut value, &object, &live, is_scaled);
        value["spec"].clone()
    }

    #[test]
    fn replicas_stay_when_another_writer_sets_them_or_none_are_given() {
        let wish = json!({"metadata": {"annotations": {"resources.gardener.cloud/preserve-replicas": "true"}}, "spec": {"replicas": 1}});
        let plain = json!({"spec": {"replicas": 1}});
        let of = |wanted: &Value, is_scaled| {
            merged(
                "apps/v1",
                "Deployment",
                wanted.clone(),
                json!({"replicas": 3}),
                is_scaled,
            )
        };
        assert_eq!(
            (of(&plain, false), of(&plain, true)),
            (json!({"replicas": 1}), json!({"replicas": 3}))
        );
        assert_eq!(
            (of(&wish, false), of(&json!({"spec": {}}), false)),
            (json!({"replicas": 3}), json!({"replicas": 3}))
        );
        assert_eq!(
            merged("x.example/v1", "Deployment", plain, json!({"replicas": 3}), true),
            json!({"replicas": 1})
        );
    }

    #[test]
    fn only_processor_and_memory_are_preserved() {
        let wanted = json!({"metadata": {"annotations": {"resources.gardener.cloud/preserve-resources": "true"}},
            "spec": {"template": {"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "1", "x": "1"}}}, {"name": "new"}]}}}});
        let live = json!({"template": {"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "2", "x": "2"}, "limits": {"memory": "1Gi"}}}]}}});
        assert_eq!(
            merged("apps/v1", "DaemonSet", wanted, live, false)["template"]["spec"]["containers"],
            json!([{"name": "a", "resources": {"requests": {"cpu": "2", "x": "1"}, "limits": {"memory": "1Gi"}}}, {"name": "new"}])
        );
    }

    #[test]
    fn values_of_another_type_stay_as_they_are() {
        let live_containers = json!([{"name": "a", "resources": {"requests": {"cpu": "2"}}}]);
        let live = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30000}],
            "template": {"metadata": {"labels": {"uid": "1"}}, "spec": {"containers": live_containers}}});
        for wrong in [json!("x"), json!(["x"]), json!([["x"]]), json!(1)] {
            let service = json!({"type": "NodePort", "ports": wrong});
            let job = json!({"template": wrong});
            let labels = json!({"template": {"metadata": {"labels": wrong}}});
            let containers = json!({"template": {"spec": {"containers": wrong}}});
            let resources = json!({"template": {"spec": {"containers": [{"name": "a", "resources": wrong}]}}});
            for (version, kind, spec) in [
                ("v1", "Service", service),
                ("batch/v1", "Job", job),
                ("batch/v1", "Job", labels),
                ("apps/v1", "DaemonSet", containers),
                ("apps/v1", "DaemonSet", resources),
                ("apps/v1", "StatefulSet", wrong.clone()),
            ] {
                let annotations = json!({"resources.gardener.cloud/preserve-resources": "true"});
                let wanted = json!({"metadata": {"annotations": annotations}, "spec": spec});
                assert_eq!(merged(version, kind, wanted, live.clone(), false), spec);
            }
        }
    }

    #[test]
    fn what_cannot_change_is_taken_as_it_is() {
        let claims = json!([{"metadata": {"name": "old"}}]);
        let set = merged(
            "apps/v1",
            "StatefulSet",
            json!({"spec": {"replicas": 1, "volumeClaimTemplates": [{"metadata": {"name": "new"}}]}}),
            json!({"volumeClaimTemplates": claims}),
            false,
        );
        assert_eq!(set, json!({"replicas": 1, "volumeClaimTemplates": claims}));
        let live = json!({"selector": {"matchLabels": {"uid": "1"}}, "template": {"metadata": {"labels": {"uid": "1", "a": "old"}}}});
        let job = merged(
            "batch/v1",
            "Job",
            json!({"spec": {"template": {"metadata": {"labels": {"a": "new"}}}}}),
            live,
            false,
        );
        assert_eq!(
            job,
            json!({"selector": {"matchLabels": {"uid": "1"}}, "template": {"metadata": {"labels": {"uid": "1", "a": "new"}}}})
        );
    }

    #[test]
    fn a_service_keeps_its_address_and_its_ports_on_nodes() {
        let service = |wanted: Value, live: Value| merged("v1", "Service", json!({"spec": wanted}), live, false);
        let live = json!({"type": "NodePort", "clusterIP": "10.0.0.1", "ports": [{"name": "a", "port": 1, "nodePort": 30001}]});
        let moved = service(
            json!({"type": "NodePort", "clusterIP": "10.0.0.9", "ports": [{"name": "a", "port": 2}, {"name": "b", "port": 3}]}),
            live.clone(),
        );
        assert_eq!(
            moved,
            json!({"type": "NodePort", "clusterIP": "10.0.0.1", "ports": [{"name": "a", "port": 2, "nodePort": 30001}, {"name": "b", "port": 3}]})
        );
        let plain = service(json!({"ports": [{"name": "a", "port": 1}]}), live.clone());
        assert_eq!(plain, json!({"ports": [{"name": "a", "port": 1}]}));
        assert_eq!(
            service(json!({"clusterIP": "None"}), live),
            json!({"clusterIP": "None"})
        );
        assert_eq!(
            service(json!({"clusterIP": "10.0.0.9"}), json!({"type": "ExternalName"})),
            json!({"clusterIP": "10.0.0.9"})
        );
    }
}
