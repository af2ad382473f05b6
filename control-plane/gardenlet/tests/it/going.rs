//! What goes with a shoot or before it, and what may not be deleted too soon.

use std::time::Duration;

use api_core::v1beta1 as core;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::runtime::wait::{await_condition, conditions::is_crd_established};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tests_kit::{until, until_gone};

use crate::succeeded;
use crate::world::{GARDEN_NAMESPACE, World, shoot};

/// A shoot that refers to these objects of its namespace, which are there.
async fn referring(world: &World, objects: &[(&str, &str)]) -> Value {
    for (kind, name) in objects {
        let object =
            json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": GARDEN_NAMESPACE}});
        world.create(object).await;
    }
    let mut requested = shoot();
    requested["spec"]["resources"] = references(objects);
    requested
}

fn references(objects: &[(&str, &str)]) -> Value {
    objects
        .iter()
        .map(|(kind, name)| {
            let name_of_both = format!("{}-{name}", kind.to_lowercase());
            json!({"name": name_of_both, "resourceRef": {"apiVersion": "v1", "kind": kind, "name": name}})
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_shoot_goes_though_what_it_refers_to_went_before_it() {
    let world = World::start().await;
    let requested = referring(&world, &[("Secret", "kept"), ("ConfigMap", "kept")]).await;
    world.create_shoot(&requested).await;
    let shoots = world.shoots();
    until(&shoots, "b", "ready", succeeded).await;
    let (secrets, config_maps) = (
        world.garden_namespace::<Secret>(),
        world.garden_namespace::<ConfigMap>(),
    );
    base_client::delete(&secrets, "kept").await.unwrap();
    base_client::delete(&config_maps, "kept").await.unwrap();
    shoots.delete("b", &DeleteParams::default()).await.unwrap();
    until_gone(&shoots, "b").await;
}

#[tokio::test(start_paused = true)]
async fn a_copy_goes_with_its_reference_and_with_nothing_else() {
    let world = World::start().await;
    let requested = referring(&world, &[("Secret", "both"), ("ConfigMap", "both"), ("Secret", "one")]).await;
    world.create_shoot(&requested).await;
    let shoots = world.shoots();
    until(&shoots, "b", "ready", succeeded).await;
    let (secrets, config_maps) = (world.seed::<Secret>(), world.seed::<ConfigMap>());
    let there = || async {
        let secret = |name| {
            let secrets = secrets.clone();
            async move { secrets.get_opt(name).await.unwrap().is_some() }
        };
        [
            secret("ref-both").await,
            secret("ref-one").await,
            config_maps.get_opt("ref-both").await.unwrap().is_some(),
        ]
    };
    assert_eq!(there().await, [true, true, true]);
    let fewer = json!({"spec": {"resources": references(&[("ConfigMap", "both"), ("Secret", "one")])}});
    let requested = shoots
        .patch("b", &PatchParams::default(), &Patch::Merge(fewer))
        .await
        .unwrap();
    let again = |shoot: &core::Shoot| succeeded(shoot) && shoot.metadata.generation >= requested.metadata.generation;
    until(&shoots, "b", "reconciled once more", again).await;
    assert_eq!(
        there().await,
        [false, true, true],
        "of one name, only the copy of the kind no longer referred to goes"
    );
}

#[tokio::test(start_paused = true)]
async fn custom_resources_keep_finalizers_for_an_hour_or_as_annotated() {
    let world = World::start().await;
    world.create_shoot(&shoot()).await;
    let shoots = world.shoots();
    until(&shoots, "b", "ready", succeeded).await;
    let lakes = held_lake(&world).await;
    shoots.delete("b", &DeleteParams::default()).await.unwrap();
    until(&lakes, "deep", "deletion requested", |lake| {
        lake.metadata.deletion_timestamp.is_some()
    })
    .await;
    tokio::time::sleep(Duration::from_secs(900)).await;
    let lake = lakes.get("deep").await.unwrap();
    assert_eq!(
        lake.finalizers(),
        ["users.example/drain"],
        "the operator may still work"
    );
    let annotate = |value: &str| {
        let key = "shoot.gardener.cloud/cleanup-extended-apis-finalize-grace-period-seconds";
        let patch = json!({"metadata": {"annotations": {key: value}}});
        let shoots = shoots.clone();
        async move {
            let params = PatchParams::default();
            shoots.patch("b", &params, &Patch::Merge(patch)).await.unwrap();
        }
    };
    annotate("soon").await;
    let reported = |shoot: &core::Shoot| crate::errors(shoot).contains("\"soon\"");
    until(&shoots, "b", "reported with its wrong annotation", reported).await;
    assert!(lakes.get_opt("deep").await.unwrap().is_some());
    annotate("1").await;
    until_gone(&shoots, "b").await;
    assert!(lakes.get_opt("deep").await.ok().flatten().is_none());
}

/// A custom resource in the shoot whose operator takes its time.
async fn held_lake(world: &World) -> Api<DynamicObject> {
    let names = json!({"kind": "Lake", "plural": "lakes", "singular": "lake", "listKind": "LakeList"});
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = serde_json::from_value(json!({
        "metadata": {"name": "lakes.users.example"},
        "spec": {"group": "users.example", "scope": "Cluster", "names": names, "versions": [{
            "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
        }]},
    }));
    let definitions: Api<CustomResourceDefinition> = Api::all(world.shoot.admin());
    let definition: CustomResourceDefinition = definition.unwrap();
    definitions.create(&PostParams::default(), &definition).await.unwrap();
    await_condition(definitions, "lakes.users.example", is_crd_established())
        .await
        .unwrap();
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("users.example", "v1", "Lake"));
    let lakes: Api<DynamicObject> = Api::all_with(world.shoot.admin(), &kind);
    let mut lake = DynamicObject::new("deep", &kind);
    lake.metadata.finalizers = Some(vec!["users.example/drain".to_owned()]);
    lakes.create(&PostParams::default(), &lake).await.unwrap();
    lakes
}
