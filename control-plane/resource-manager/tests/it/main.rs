//! The resource manager between a source and a target API server, each with its own identity, in virtual time.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where its set-up fails")]

mod cases;
mod configuration;
mod drift;
mod in_process;
mod kubelet_certificates;
mod network_policies;
mod token_requestor;
mod webhooks;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api_meta::{Condition, ConditionStatus, LocalObjectReference};
use api_resources::{ManagedResource, ManagedResourceSpec};
use base_clock::Entropy;
use control_plane_resource_manager::{Options, run};
use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tests_kit::{Embedded, embedded_with, until, until_gone};
use tokio_util::sync::CancellationToken;

const NAMESPACE: &str = "shoot--a--b";

struct Landscape {
    source: Embedded,
    target: Embedded,
    stop: CancellationToken,
}

impl Landscape {
    async fn start() -> Self {
        let target = embedded_with("target", Vec::new(), |builder| builder).await;
        let client = target.admin();
        Self::start_with(target, client).await
    }

    async fn start_with(target: Embedded, client: Client) -> Self {
        let options = Options {
            namespace: Some(NAMESPACE.to_owned()),
            token_requestor: Some("shoot".to_owned()),
            ..Options::default()
        };
        Self::start_as(target, client, options).await
    }

    async fn start_as(target: Embedded, client: Client, options: Options) -> Self {
        let source = embedded_with("source", Vec::new(), |builder| builder).await;
        for definition in api_resources::crds().into_iter().chain(api_machine::crds()) {
            let api: Api<CustomResourceDefinition> = Api::all(source.admin());
            api.create(&PostParams::default(), &definition).await.unwrap();
            tokio::time::timeout(
                Duration::from_secs(60),
                kube::runtime::wait::await_condition(
                    api,
                    &definition.name_any(),
                    kube::runtime::wait::conditions::is_crd_established(),
                ),
            )
            .await
            .unwrap()
            .unwrap();
        }
        create(
            &source.admin(),
            None,
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        )
        .await;
        let stop = CancellationToken::new();
        tokio::spawn(run(source.admin(), client, options, source.clock.clone(), stop.clone()));
        Self { source, target, stop }
    }

    fn resources(&self) -> Api<ManagedResource> {
        Api::namespaced(self.source.admin(), NAMESPACE)
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.target.admin(), "default")
    }

    /// Writes the Secret `mr` with these objects, one per key.
    async fn write(&self, objects: &[Value]) {
        self.write_as("mr", objects).await;
    }

    async fn write_as(&self, name: &str, objects: &[Value]) {
        let data: BTreeMap<String, ByteString> = objects
            .iter()
            .enumerate()
            .map(|(index, object)| (format!("{index}.yaml"), ByteString(object.to_string().into_bytes())))
            .collect();
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data});
        let api: Api<Secret> = Api::namespaced(self.source.admin(), NAMESPACE);
        // Replaced as a whole: a patch would keep keys that are no longer listed.
        match api.get_opt(name).await.unwrap() {
            Some(old) => {
                let mut new: Secret = serde_json::from_value(secret).unwrap();
                new.metadata.resource_version = old.metadata.resource_version;
                api.replace(name, &PostParams::default(), &new).await.unwrap();
            }
            None => {
                api.create(&PostParams::default(), &serde_json::from_value(secret).unwrap())
                    .await
                    .unwrap();
            }
        }
    }

    async fn manage(&self, change: impl FnOnce(&mut ManagedResource)) {
        self.manage_as("mr", change).await;
    }

    async fn manage_as(&self, name: &str, change: impl FnOnce(&mut ManagedResource)) {
        let mut resource = ManagedResource {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            spec: ManagedResourceSpec {
                secret_refs: vec![LocalObjectReference { name: name.to_owned() }],
                ..ManagedResourceSpec::default()
            },
            status: None,
        };
        change(&mut resource);
        self.resources()
            .create(&PostParams::default(), &resource)
            .await
            .unwrap();
    }

    async fn until(&self, type_: &str, status: ConditionStatus, reason: &str) -> ManagedResource {
        let what = format!("{type_}={status:?} {reason}");
        until(&self.resources(), "mr", &what, |resource: &ManagedResource| {
            let conditions = resource
                .status
                .as_ref()
                .map(|status| status.conditions.clone())
                .unwrap_or_default();
            Condition::find(&conditions, type_)
                .is_some_and(|condition| condition.status == status && condition.reason == reason)
        })
        .await
    }
}

impl Drop for Landscape {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn create(client: &Client, namespace: Option<&str>, object: Value) {
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let gvk = GroupVersionKind::try_from(object.types.as_ref().unwrap()).unwrap();
    let resource = ApiResource::from_gvk(&gvk);
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    api.create(&PostParams::default(), &object).await.unwrap();
}

fn map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": value}})
}

#[tokio::test(start_paused = true)]
async fn objects_follow_the_secret_and_go_with_the_managed_resource() {
    let landscape = Landscape::start().await;
    landscape.write(&[map("a", "1"), map("b", "1")]).await;
    landscape
        .manage(|resource| resource.spec.inject_labels = BTreeMap::from([("l".to_owned(), "v".to_owned())]))
        .await;
    let resource = landscape
        .until("ResourcesApplied", ConditionStatus::True, "ApplySucceeded")
        .await;
    landscape
        .until("ResourcesHealthy", ConditionStatus::True, "ResourcesHealthy")
        .await;
    let status = resource.status.as_ref().unwrap();
    assert_eq!(
        (status.observed_generation, status.resources.len()),
        (resource.metadata.generation, 2)
    );
    assert_eq!(status.resources[0].namespace.as_deref(), Some("default"));
    assert_eq!(
        resource.finalizers(),
        ["resources.gardener.cloud/gardener-resource-manager"]
    );
    let a = landscape.maps().get("a").await.unwrap();
    assert_eq!(a.labels()["resources.gardener.cloud/managed-by"], "gardener");
    assert_eq!(
        (
            a.labels()["l"].as_str(),
            a.annotations()["resources.gardener.cloud/origin"].as_str()
        ),
        ("v", "shoot--a--b/mr")
    );
    // Another writer's field stays, ours comes back, and what is no longer listed goes.
    let patch = json!({"data": {"key": "edited", "other": "theirs"}});
    landscape
        .maps()
        .patch("a", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    landscape.write(&[map("a", "2"), map("c", "1")]).await;
    until_gone(&landscape.maps(), "b").await;
    let a = until(&landscape.maps(), "a", "2", |map: &ConfigMap| {
        map.data.as_ref().unwrap()["key"] == "2"
    })
    .await;
    assert_eq!(a.data.unwrap()["other"], "theirs");
    until(&landscape.maps(), "c", "there", |_: &ConfigMap| true).await;
    landscape
        .resources()
        .delete("mr", &DeleteParams::default())
        .await
        .unwrap();
    until_gone(&landscape.resources(), "mr").await;
    assert!(
        landscape.maps().get_opt("a").await.unwrap().is_none()
            && landscape.maps().get_opt("c").await.unwrap().is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn definitions_and_namespaces_are_there_before_what_lives_by_them() {
    let landscape = Landscape::start().await;
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.org"}, "spec": {"group": "example.org", "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"}, "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    let widget = json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "new"}, "spec": {"size": 3}});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}});
    landscape.write(&[widget, definition, namespace]).await;
    landscape.manage(|_| {}).await;
    let resource = landscape
        .until("ResourcesApplied", ConditionStatus::True, "ApplySucceeded")
        .await;
    let kinds: Vec<_> = resource
        .status
        .unwrap()
        .resources
        .into_iter()
        .map(|reference| reference.kind.unwrap())
        .collect();
    assert_eq!(kinds, ["Namespace", "CustomResourceDefinition", "Widget"]);
    landscape
        .until("ResourcesHealthy", ConditionStatus::True, "ResourcesHealthy")
        .await;
}

#[tokio::test(start_paused = true)]
async fn one_failing_object_is_reported_and_holds_back_no_other() {
    let landscape = Landscape::start().await;
    let homeless = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "nowhere"}});
    let strange = json!({"apiVersion": "nobody.example/v1", "kind": "Thing", "metadata": {"name": "t"}});
    landscape.write(&[homeless, strange, map("good", "1")]).await;
    landscape.manage(|_| {}).await;
    let resource = landscape
        .until("ResourcesApplied", ConditionStatus::False, "ApplyFailed")
        .await;
    until(&landscape.maps(), "good", "there", |_: &ConfigMap| true).await;
    let conditions = resource.status.unwrap().conditions;
    let message = &Condition::find(&conditions, "ResourcesApplied").unwrap().message;
    assert!(
        message.contains("ConfigMap \"nowhere/x\"")
            && message.contains("the target serves no kind Thing of nobody.example/v1")
            && !message.contains("good"),
        "{message}"
    );
    // Once the cause is gone, it goes on by itself.
    create(
        &landscape.target.admin(),
        None,
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "nowhere"}}),
    )
    .await;
    let maps: Api<ConfigMap> = Api::namespaced(landscape.target.admin(), "nowhere");
    until(&maps, "x", "there", |_: &ConfigMap| true).await;
}

#[tokio::test(start_paused = true)]
async fn health_follows_the_deployment_and_drift_is_undone() {
    let landscape = Landscape::start().await;
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "default"}, "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    landscape.write(&[deployment]).await;
    landscape.manage(|_| {}).await;
    landscape
        .until("ResourcesApplied", ConditionStatus::True, "ApplySucceeded")
        .await;
    landscape
        .until("ResourcesHealthy", ConditionStatus::False, "DeploymentUnhealthy")
        .await;
    let api: Api<Deployment> = Api::namespaced(landscape.target.admin(), "default");
    let status = |generation: i64| {
        json!({"status": {"observedGeneration": generation, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2,
        "conditions": [{"type": "Available", "status": "True"}, {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}]}})
    };
    api.patch_status("d", &PatchParams::default(), &Patch::Merge(status(1)))
        .await
        .unwrap();
    landscape
        .until("ResourcesHealthy", ConditionStatus::True, "ResourcesHealthy")
        .await;
    landscape
        .until("ResourcesProgressing", ConditionStatus::False, "ResourcesRolledOut")
        .await;
    api.patch(
        "d",
        &PatchParams::default(),
        &Patch::Merge(json!({"spec": {"replicas": 5}})),
    )
    .await
    .unwrap();
    until(&api, "d", "two replicas again", |deployment: &Deployment| {
        deployment.metadata.generation == Some(3) && deployment.spec.as_ref().unwrap().replicas == Some(2)
    })
    .await;
    landscape
        .until("ResourcesHealthy", ConditionStatus::False, "DeploymentUnhealthy")
        .await;
}

#[tokio::test(start_paused = true)]
async fn objects_to_keep_stay_and_those_in_mode_ignore_are_released() {
    let landscape = Landscape::start().await;
    let annotated = |name: &str, annotation: &str, value: &str| {
        let mut object = map(name, "1");
        object["metadata"]["annotations"] = json!({annotation: value});
        object
    };
    let retained = annotated("kept", "resources.gardener.cloud/keep-object", "true");
    landscape
        .write(&[retained.clone(), map("released", "1"), map("gone", "1")])
        .await;
    landscape.manage(|_| {}).await;
    landscape
        .until("ResourcesApplied", ConditionStatus::True, "ApplySucceeded")
        .await;
    let released = annotated("released", "resources.gardener.cloud/mode", "Ignore");
    landscape.write(&[retained, released, map("gone", "1")]).await;
    let two = |resource: &ManagedResource| {
        resource
            .status
            .as_ref()
            .is_some_and(|status| status.resources.len() == 2)
    };
    until(&landscape.resources(), "mr", "two objects", two).await;
    landscape
        .resources()
        .delete("mr", &DeleteParams::default())
        .await
        .unwrap();
    until_gone(&landscape.resources(), "mr").await;
    let left = landscape
        .maps()
        .list(&kube::api::ListParams::default())
        .await
        .unwrap()
        .items;
    let left: Vec<String> = left
        .iter()
        .map(ResourceExt::name_any)
        .filter(|name| !name.starts_with("kube-root"))
        .collect();
    assert_eq!(left, ["kept", "released"]);
}

/// What is left in the status by a crash between the announcement of an object without namespace and its application.
#[tokio::test(start_paused = true)]
async fn an_object_that_is_remembered_without_namespace_is_deleted_from_the_default_one() {
    let landscape = Landscape::start().await;
    landscape.write(&[map("a", "1"), map("b", "1")]).await;
    landscape.manage(|_| {}).await;
    landscape
        .until("ResourcesApplied", ConditionStatus::True, "ApplySucceeded")
        .await;
    let remembered = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "a"}, {"apiVersion": "v1", "kind": "ConfigMap", "name": "b"}]);
    let patch = Patch::Merge(json!({"status": {"resources": remembered}}));
    let resources = landscape.resources();
    resources
        .patch_status("mr", &PatchParams::default(), &patch)
        .await
        .unwrap();
    let mut released = map("b", "1");
    released["metadata"]["annotations"] = json!({"resources.gardener.cloud/mode": "Ignore"});
    landscape.write(&[released]).await;
    until_gone(&landscape.maps(), "a").await;
    until(&landscape.maps(), "b", "released", |map: &ConfigMap| {
        !map.annotations().contains_key("resources.gardener.cloud/origin")
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn secrets_of_the_namespace_are_filled_with_tokens_of_the_target() {
    let landscape = Landscape::start().await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "shoot-access-x",
        "labels": {"resources.gardener.cloud/purpose": "token-requestor", "resources.gardener.cloud/class": "shoot"},
        "annotations": {"serviceaccount.resources.gardener.cloud/name": "x", "serviceaccount.resources.gardener.cloud/namespace": "kube-system"}}});
    create(&landscape.source.admin(), Some(NAMESPACE), secret).await;
    let secrets: Api<Secret> = Api::namespaced(landscape.source.admin(), NAMESPACE);
    until(&secrets, "shoot-access-x", "filled", |secret: &Secret| {
        secret.data.as_ref().is_some_and(|data| data.contains_key("token"))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn managed_resources_of_another_class_are_left_alone() {
    let landscape = Landscape::start().await;
    let other = ManagedResource {
        metadata: ObjectMeta {
            name: Some("seeds".to_owned()),
            ..ObjectMeta::default()
        },
        spec: ManagedResourceSpec {
            class: Some("seed".to_owned()),
            ..ManagedResourceSpec::default()
        },
        status: None,
    };
    landscape
        .resources()
        .create(&PostParams::default(), &other)
        .await
        .unwrap();
    landscape.write(&[map("a", "1")]).await;
    landscape.manage(|_| {}).await;
    landscape
        .until("ResourcesApplied", ConditionStatus::True, "ApplySucceeded")
        .await;
    let seeds = landscape.resources().get("seeds").await.unwrap();
    assert!(seeds.status.is_none() && seeds.finalizers().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_change_of_class_removes_the_objects_before_the_next_manager_applies_them() {
    let target = embedded_with("target", Vec::new(), |builder| builder).await;
    let other = embedded_with("seed", Vec::new(), |builder| builder.entropy(Entropy::seeded(2))).await;
    let client = target.admin();
    let landscape = Landscape::start_with(target, client).await;
    landscape.write(&[map("a", "1"), map("b", "1")]).await;
    landscape.manage(|_| {}).await;
    landscape
        .until("ResourcesApplied", ConditionStatus::True, "ApplySucceeded")
        .await;
    let (source, clock) = (landscape.source.admin(), landscape.source.clock.clone());
    let options = Options {
        class: Some("seed".to_owned()),
        ..Options::default()
    };
    tokio::spawn(run(source, other.admin(), options, clock, landscape.stop.clone()));
    let hold = json!({"metadata": {"finalizers": ["example.org/theirs"]}});
    let maps = landscape.maps();
    maps.patch("a", &PatchParams::default(), &Patch::Merge(hold))
        .await
        .unwrap();
    let change = Patch::Merge(json!({"spec": {"class": "seed"}}));
    let resources = landscape.resources();
    resources.patch("mr", &PatchParams::default(), &change).await.unwrap();
    landscape
        .until("ResourcesApplied", ConditionStatus::Progressing, "DeletionPending")
        .await;
    let others: Api<ConfigMap> = Api::namespaced(other.admin(), "default");
    assert!(others.get_opt("a").await.unwrap().is_none());
    let of_another: ConfigMap = serde_json::from_value(map("b", "theirs")).unwrap();
    others.create(&Default::default(), &of_another).await.unwrap();
    landscape.write(&[map("a", "1")]).await;
    let release = json!({"metadata": {"finalizers": null}});
    maps.patch("a", &PatchParams::default(), &Patch::Merge(release))
        .await
        .unwrap();
    until_gone(&maps, "a").await;
    until(&others, "a", "there", |_: &ConfigMap| true).await;
    until(&resources, "mr", "held by its new manager", |resource| {
        let names = resource.status.iter().flat_map(|status| &status.resources);
        let names: Vec<&str> = names.filter_map(|reference| reference.name.as_deref()).collect();
        resource.finalizers() == ["resources.gardener.cloud/gardener-resource-manager-seed"] && names == ["a"]
    })
    .await;
    assert!(
        others.get_opt("b").await.unwrap().is_some(),
        "an object of the new target that has the name of one in the old target"
    );
    resources.delete("mr", &DeleteParams::default()).await.unwrap();
    until_gone(&resources, "mr").await;
    assert!(others.get_opt("a").await.unwrap().is_none());
}

/// More than there are workers.
const HANGING: usize = 12;

#[tokio::test(start_paused = true)]
async fn hanging_deletions_delay_no_other_and_end_as_soon_as_possible() {
    let landscape = Landscape::start().await;
    for number in 0..HANGING {
        let (name, map) = (format!("hanging-{number}"), map(&format!("hanging-{number}"), "1"));
        landscape.write_as(&name, &[map]).await;
        landscape.manage_as(&name, |_| {}).await;
        until(&landscape.maps(), &name, "there", |_: &ConfigMap| true).await;
        let hold = json!({"metadata": {"finalizers": ["example.org/theirs"]}});
        let params = PatchParams::default();
        landscape
            .maps()
            .patch(&name, &params, &Patch::Merge(hold))
            .await
            .unwrap();
    }
    for number in 0..HANGING {
        let name = format!("hanging-{number}");
        landscape
            .resources()
            .delete(&name, &DeleteParams::default())
            .await
            .unwrap();
    }
    let began = tokio::time::Instant::now();
    landscape.write(&[map("a", "1")]).await;
    landscape.manage(|_| {}).await;
    until(&landscape.maps(), "a", "there", |_: &ConfigMap| true).await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    // Long enough for the back-off to be at its longest.
    tokio::time::sleep(Duration::from_secs(1000)).await;
    let release = json!({"metadata": {"finalizers": null}});
    let params = PatchParams::default();
    landscape
        .maps()
        .patch("hanging-0", &params, &Patch::Merge(release))
        .await
        .unwrap();
    let began = tokio::time::Instant::now();
    until_gone(&landscape.resources(), "hanging-0").await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_operation_annotation_is_taken_off_by_its_turn() {
    let landscape = Landscape::start().await;
    landscape.write(&[map("a", "1")]).await;
    landscape.manage(|_| {}).await;
    landscape
        .until("ResourcesApplied", ConditionStatus::True, "ApplySucceeded")
        .await;
    for _ in 0..2 {
        let annotate = json!({"metadata": {"annotations": {"gardener.cloud/operation": "reconcile"}}});
        landscape
            .resources()
            .patch("mr", &PatchParams::default(), &Patch::Merge(annotate))
            .await
            .unwrap();
        until(&landscape.resources(), "mr", "without annotation", |resource| {
            !resource.annotations().contains_key("gardener.cloud/operation")
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_secret_is_waited_for() {
    let landscape = Landscape::start().await;
    landscape.manage(|_| {}).await;
    landscape
        .until("ResourcesApplied", ConditionStatus::False, "CannotReadSecret")
        .await;
    landscape.write(&[map("a", "1")]).await;
    landscape
        .until("ResourcesApplied", ConditionStatus::True, "ApplySucceeded")
        .await;
}

/// The way to a target that may be replaced by another under the same address.
#[derive(Clone)]
struct Address(Arc<Mutex<Client>>);

impl Address {
    fn client(&self) -> Client {
        let address = self.clone();
        let service = tower::service_fn(move |request| {
            let client = address.0.lock().unwrap().clone();
            async move { client.send(request).await }
        });
        Client::new(service, "default")
    }
}

const MANAGER_USER: &str = "resource-manager";
/// Ten caches of the target and the watch of the one applied kind, each of which may send about a dozen requests in a
/// minute, from 0.1 s to 15 s apart.
const REFUSED_MAX: usize = 11 * 12;

async fn bind_manager(target: &Embedded) {
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": MANAGER_USER},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": MANAGER_USER}]});
    create(&target.admin(), None, binding).await;
}

#[tokio::test(start_paused = true)]
async fn a_target_that_lost_its_data_gets_all_objects_again() {
    let full = embedded_with("target", Vec::new(), |builder| builder).await;
    let empty = embedded_with("target", Vec::new(), |builder| builder.entropy(Entropy::seeded(2))).await;
    bind_manager(&full).await;
    let address = Address(Arc::new(Mutex::new(full.client(MANAGER_USER, &[]))));
    let landscape = Landscape::start_with(full, address.client()).await;
    landscape.write(&[map("a", "1")]).await;
    landscape.manage(|_| {}).await;
    let resource = landscape
        .until("ResourcesApplied", ConditionStatus::True, "ApplySucceeded")
        .await;
    let applied_at = |resource: &ManagedResource| {
        let conditions = &resource.status.as_ref().unwrap().conditions;
        Condition::find(conditions, "ResourcesApplied")
            .unwrap()
            .last_transition_time
            .0
    };
    let first = applied_at(&resource);
    *address.0.lock().unwrap() = empty.client(MANAGER_USER, &[]);
    landscape.target.server.shutdown().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let refused = empty
        .server
        .audit()
        .records()
        .iter()
        .filter(|record| record.code == 403)
        .count();
    assert!((1..=REFUSED_MAX).contains(&refused), "{refused} refused in a minute");

    bind_manager(&empty).await;
    let bound = tokio::time::Instant::now();
    let maps: Api<ConfigMap> = Api::namespaced(empty.admin(), "default");
    until(&maps, "a", "there again", |_: &ConfigMap| true).await;
    assert!(bound.elapsed() <= Duration::from_secs(16), "{:?}", bound.elapsed());
    // The status reported in between that it was not applied.
    until(&landscape.resources(), "mr", "applied again", |resource| {
        let status = resource.status.as_ref().unwrap();
        let applied = Condition::find(&status.conditions, "ResourcesApplied").unwrap();
        applied.status == ConditionStatus::True && applied_at(resource) > first
    })
    .await;
}
