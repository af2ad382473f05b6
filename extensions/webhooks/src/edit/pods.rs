//! Containers, environment, volumes and mounts of a pod.

use api_meta::Fault;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{
    Container, EnvVar, PersistentVolumeClaim, PodSpec, PodTemplateSpec, Volume, VolumeMount,
};

use crate::refusal::Refusal;

/// What runs pods of a template.
pub trait HasPods {
    /// The template of its pods.
    fn template(&mut self) -> &mut PodTemplateSpec;

    /// What its pods are to be.
    fn pod(&mut self) -> &mut PodSpec {
        self.template().spec.get_or_insert_default()
    }
}

impl HasPods for Deployment {
    fn template(&mut self) -> &mut PodTemplateSpec {
        &mut self.spec.get_or_insert_default().template
    }
}

impl HasPods for StatefulSet {
    fn template(&mut self) -> &mut PodTemplateSpec {
        &mut self.spec.get_or_insert_default().template
    }
}

impl HasPods for DaemonSet {
    fn template(&mut self) -> &mut PodTemplateSpec {
        &mut self.spec.get_or_insert_default().template
    }
}

/// The container of a name.
///
/// # Errors
/// There is none: a dependency fault, because who has written the object does not know what the extension expects.
pub fn container<'a>(pod: &'a mut PodSpec, name: &str) -> Result<&'a mut Container, Refusal> {
    let names: Vec<&str> = pod.containers.iter().map(|one| one.name.as_str()).collect();
    let missing = format!("there is no container {name}, only [{}]", names.join(", "));
    let found = pod.containers.iter_mut().find(|one| one.name == name);
    found.ok_or_else(|| {
        Fault::dependency(missing)
            .hint("compare the versions of gardenlet and of this extension")
            .into()
    })
}

/// Puts a container in the place of the one of its name, or behind the others.
pub fn ensure_container(pod: &mut PodSpec, container: Container) {
    put(&mut pod.containers, container, |one| one.name.as_str());
}

/// Takes a container away.
pub fn remove_container(pod: &mut PodSpec, name: &str) {
    pod.containers.retain(|one| one.name != name);
}

/// Puts an init container in the place of the one of its name, or behind the others.
pub fn ensure_init_container(pod: &mut PodSpec, container: Container) {
    put(pod.init_containers.get_or_insert_default(), container, |one| {
        one.name.as_str()
    });
}

/// Takes an init container away.
pub fn remove_init_container(pod: &mut PodSpec, name: &str) {
    retain(&mut pod.init_containers, |one| one.name != name);
}

/// Puts a volume in the place of the one of its name, or behind the others.
pub fn ensure_volume(pod: &mut PodSpec, volume: Volume) {
    put(pod.volumes.get_or_insert_default(), volume, |one| one.name.as_str());
}

/// Takes a volume away, but not its mounts: see [`remove_mounts`].
pub fn remove_volume(pod: &mut PodSpec, name: &str) {
    retain(&mut pod.volumes, |one| one.name != name);
}

/// Puts an environment variable in the place of the one of its name, or behind the others.
pub fn ensure_env(container: &mut Container, variable: EnvVar) {
    put(container.env.get_or_insert_default(), variable, |one| one.name.as_str());
}

/// Takes an environment variable away.
pub fn remove_env(container: &mut Container, name: &str) {
    retain(&mut container.env, |one| one.name != name);
}

/// Puts a mount in the place of the one of its path, or behind the others. One volume may be mounted at several paths.
pub fn ensure_mount(container: &mut Container, mount: VolumeMount) {
    put(container.volume_mounts.get_or_insert_default(), mount, |one| {
        one.mount_path.as_str()
    });
}

/// Takes all mounts of a volume away.
pub fn remove_mounts(container: &mut Container, volume: &str) {
    retain(&mut container.volume_mounts, |one| one.name != volume);
}

/// Puts a claim in the place of the template of its name, or behind the others. Kubernetes refuses it in a StatefulSet that is there
/// already.
pub fn ensure_claim(set: &mut StatefulSet, claim: PersistentVolumeClaim) {
    let claims = set
        .spec
        .get_or_insert_default()
        .volume_claim_templates
        .get_or_insert_default();
    put(claims, claim, |one| one.metadata.name.as_deref().unwrap_or_default());
}

/// Puts an item in the place of the first of its key, or behind the others.
pub(crate) fn put<T>(items: &mut Vec<T>, item: T, key: impl Fn(&T) -> &str) {
    match items.iter_mut().find(|one| key(one) == key(&item)) {
        Some(place) => *place = item,
        None => items.push(item),
    }
}

fn retain<T>(items: &mut Option<Vec<T>>, stays: impl FnMut(&T) -> bool) {
    if let Some(items) = items {
        items.retain(stays);
    }
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn of<T: DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn pod() -> PodSpec {
        of(json!({
            "containers": [
                {"name": "a", "env": [{"name": "E", "value": "1"}], "volumeMounts": [
                    {"name": "v", "mountPath": "/1"}, {"name": "v", "mountPath": "/2"}, {"name": "w", "mountPath": "/3"},
                ]},
                {"name": "b"},
            ],
            "initContainers": [{"name": "i"}], "volumes": [{"name": "v"}, {"name": "w"}],
        }))
    }

    /// What a change leaves at a path, which it leaves as well when it is made again.
    fn changed(path: &str, change: impl Fn(&mut PodSpec)) -> Value {
        let mut pod = pod();
        change(&mut pod);
        let once = pod.clone();
        change(&mut pod);
        assert_eq!(pod, once);
        json!(pod).pointer(path).cloned().unwrap_or_default()
    }

    #[test]
    fn what_has_the_same_key_is_replaced_in_its_place() {
        let named = |names: &[&str]| -> Value { names.iter().map(|name| json!({"name": name})).collect() };
        let images = changed("/containers/1", |pod| {
            ensure_container(pod, of(json!({"name": "b", "image": "x"})))
        });
        assert_eq!(images, json!({"name": "b", "image": "x"}));
        let inits = changed("/initContainers", |pod| {
            ensure_init_container(pod, of(json!({"name": "j"})))
        });
        assert_eq!(inits, named(&["i", "j"]));
        let volumes = changed("/volumes", |pod| {
            ensure_volume(pod, of(json!({"name": "v", "emptyDir": {}})))
        });
        assert_eq!(volumes, json!([{"name": "v", "emptyDir": {}}, {"name": "w"}]));
        let env = changed("/containers/0/env", |pod| {
            ensure_env(&mut pod.containers[0], of(json!({"name": "E", "value": "2"})));
            ensure_env(&mut pod.containers[0], of(json!({"name": "F"})));
        });
        assert_eq!(env, json!([{"name": "E", "value": "2"}, {"name": "F"}]));
        let mounts = changed("/containers/0/volumeMounts", |pod| {
            ensure_mount(&mut pod.containers[0], of(json!({"name": "w", "mountPath": "/2"})));
            ensure_mount(&mut pod.containers[0], of(json!({"name": "v", "mountPath": "/4"})));
        });
        let paths: Vec<_> = mounts
            .as_array()
            .unwrap()
            .iter()
            .map(|it| format!("{}{}", it["name"], it["mountPath"]))
            .collect();
        assert_eq!(paths.join(" ").replace('"', ""), "v/1 w/2 w/3 v/4");
    }

    #[test]
    fn what_is_removed_leaves_the_rest_and_what_is_not_there_nothing() {
        let names = |path: &str, change: fn(&mut PodSpec)| -> Vec<String> {
            let left = changed(path, change);
            left.as_array()
                .unwrap()
                .iter()
                .map(|it| it["name"].as_str().unwrap().to_owned())
                .collect()
        };
        assert_eq!(names("/containers", |pod| remove_container(pod, "a")), ["b"]);
        assert_eq!(
            names("/initContainers", |pod| remove_init_container(pod, "none")),
            ["i"]
        );
        assert_eq!(names("/volumes", |pod| remove_volume(pod, "v")), ["w"]);
        assert_eq!(
            names("/containers/0/volumeMounts", |pod| remove_mounts(
                &mut pod.containers[0],
                "v"
            )),
            ["w"]
        );
        assert_eq!(
            names("/containers/0/env", |pod| remove_env(&mut pod.containers[0], "E")),
            Vec::<String>::new()
        );
        let without = changed("/containers/1", |pod| {
            remove_env(&mut pod.containers[1], "E");
            remove_mounts(&mut pod.containers[1], "v");
        });
        assert_eq!(without, json!({"name": "b"}));
    }

    #[test]
    fn a_missing_container_is_named_with_those_there_are() {
        let mut pod = pod();
        assert_eq!(container(&mut pod, "b").unwrap().name, "b");
        let refusal = container(&mut pod, "c").unwrap_err();
        assert!(
            refusal.to_string().starts_with("there is no container c, only [a, b]"),
            "{refusal}"
        );
    }

    #[test]
    fn templates_of_all_workloads_are_reached() {
        let mut deployment: Deployment = of(json!({"spec": {"selector": {}, "template": {"spec": pod()}}}));
        ensure_container(deployment.pod(), of(json!({"name": "c"})));
        assert_eq!(deployment.pod().containers.len(), 3);
        let mut set = StatefulSet::default();
        ensure_claim(
            &mut set,
            of(json!({"metadata": {"name": "data"}, "spec": {"storageClassName": "fast"}})),
        );
        ensure_claim(
            &mut set,
            of(json!({"metadata": {"name": "data"}, "spec": {"storageClassName": "slow"}})),
        );
        let claims = set.spec.clone().unwrap().volume_claim_templates.unwrap();
        assert_eq!(
            (claims.len(), claims[0].spec.clone().unwrap().storage_class_name),
            (1, Some("slow".to_owned()))
        );
        ensure_container(DaemonSet::default().pod(), Container::default());
    }
}
