//! A Shoot that falls asleep and wakes: what goes, what stays, and in which order its extensions are handled.

use std::time::Duration;

use api_core::v1beta1::Shoot;
use api_meta::LastOperationState;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Node, PersistentVolumeClaim, Pod};
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tests_scenarios::moon::Moon;
use tests_scenarios::{NAME, NAMESPACE, TECHNICAL_ID, wait};

use crate::scene::Scene;

/// Wishes the Shoot asleep or awake, some time after what it was asked before: extensions report in whole seconds, and an
/// answer of the same second would pass for that to this wish.
async fn wish(scene: &Scene, enabled: bool) {
    tokio::time::sleep(Duration::from_secs(60)).await;
    scene
        .change(json!({"spec": {"hibernation": {"enabled": enabled}}}))
        .await;
}

async fn note(scene: &Scene) -> Api<ConfigMap> {
    Api::namespaced(scene.shoot_client().await, "default")
}

/// Every workload of the control plane, with the pods that it wants and has.
async fn sizes(scene: &Scene) -> Vec<(String, i32, i32)> {
    let seed = &scene.world.seed;
    let deployments = Api::<Deployment>::namespaced(seed.clone(), TECHNICAL_ID);
    let sets = Api::<StatefulSet>::namespaced(seed.clone(), TECHNICAL_ID);
    let deployments = deployments.list(&ListParams::default()).await.unwrap();
    let sets = sets.list(&ListParams::default()).await.unwrap();
    let of_deployment = |one: &Deployment| {
        let present = one.status.as_ref().and_then(|status| status.replicas);
        let wanted = one.spec.as_ref().and_then(|spec| spec.replicas);
        (one.name_any(), wanted.unwrap_or(1), present.unwrap_or_default())
    };
    let of_set = |one: &StatefulSet| {
        let present = one.status.as_ref().map(|status| status.replicas);
        let wanted = one.spec.as_ref().and_then(|spec| spec.replicas);
        (one.name_any(), wanted.unwrap_or(1), present.unwrap_or_default())
    };
    deployments
        .items
        .iter()
        .map(of_deployment)
        .chain(sets.items.iter().map(of_set))
        .collect()
}

async fn assert_asleep(scene: &Scene, shoot: &Shoot) {
    assert!(shoot.status.as_ref().unwrap().hibernated);
    let awake: Vec<_> = sizes(scene)
        .await
        .into_iter()
        .filter(|(_, wanted, pods)| (*wanted, *pods) != (0, 0))
        .collect();
    assert_eq!(awake, Vec::<(String, i32, i32)>::new());
    let pods = Api::<Pod>::namespaced(scene.world.seed.clone(), TECHNICAL_ID);
    let pods: Vec<String> = pods
        .list(&ListParams::default())
        .await
        .unwrap()
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    assert_eq!(pods, Vec::<String>::new(), "machines are pods here too");
    assert!(scene.machines().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_shoot_keeps_its_data_in_hibernation_and_nothing_of_it_runs() {
    let scene = Scene::start().await;
    scene.created(|_| {}).await;
    let written = json!({"metadata": {"name": "note"}, "data": {"of": "before"}});
    let written = serde_json::from_value(written).unwrap();
    note(&scene)
        .await
        .create(&PostParams::default(), &written)
        .await
        .unwrap();
    let claims = Api::<PersistentVolumeClaim>::namespaced(scene.world.seed.clone(), TECHNICAL_ID);
    let volumes = async || {
        let all = claims.list(&ListParams::default()).await.unwrap().items;
        all.into_iter()
            .map(|claim| (claim.name_any(), claim.spec.unwrap().volume_name))
            .collect::<Vec<_>>()
    };
    let before = volumes().await;
    let names: Vec<&str> = before.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["etcd-events-etcd-events-0", "etcd-main-etcd-main-0"]);

    wish(&scene, true).await;
    let asleep = scene.succeeded().await;
    assert_asleep(&scene, &asleep).await;
    assert_eq!(volumes().await, before);
    let conditions = asleep.status.unwrap().conditions;
    assert!(
        conditions.iter().all(|one| one.status.to_string() == "True"),
        "{conditions:?}"
    );

    wish(&scene, false).await;
    let awake = scene.succeeded().await;
    assert!(!awake.status.unwrap().hibernated);
    let found = note(&scene).await.get("note").await.unwrap();
    assert_eq!(found.data.unwrap()["of"], "before");
    let nodes: Api<Node> = Api::all(scene.shoot_client().await);
    assert_eq!(nodes.list(&ListParams::default()).await.unwrap().items.len(), 1);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_shoot_that_begins_asleep_has_no_machines_until_it_wakes() {
    let scene = Scene::start().await;
    scene
        .created(|shoot| shoot["spec"]["hibernation"] = json!({"enabled": true}))
        .await;
    let shoot = scene.succeeded().await;
    assert_asleep(&scene, &shoot).await;
    wish(&scene, false).await;
    scene.succeeded().await;
    assert_eq!(scene.machines().await.len(), 1);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_hibernated_shoot_is_changed_reconciled_and_deleted_without_a_trace() {
    let scene = Scene::start().await;
    scene.created(|_| {}).await;
    wish(&scene, true).await;
    scene.succeeded().await;
    scene.change(json!({"spec": {"purpose": "testing"}, "metadata": {"annotations": {"gardener.cloud/operation": "reconcile"}}})).await;
    let shoot = scene.succeeded().await;
    assert_asleep(&scene, &shoot).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_workerless_shoot_sleeps_and_wakes() {
    let scene = Scene::start().await;
    scene
        .created(|shoot| {
            for field in ["networking", "credentialsBindingName", "secretBindingName"] {
                shoot["spec"].as_object_mut().unwrap().remove(field);
            }
            shoot["spec"]["provider"] = json!({"type": "local"});
        })
        .await;
    wish(&scene, true).await;
    let shoot = scene.succeeded().await;
    assert_asleep(&scene, &shoot).await;
    wish(&scene, false).await;
    scene.succeeded().await;
    scene.end().await;
}

/// A user who changes `spec.hibernation.enabled` meanwhile gets the last value.
#[tokio::test(start_paused = true)]
async fn a_shoot_follows_the_last_wish_while_it_falls_asleep_or_wakes() {
    let scene = Scene::start().await;
    scene.create(|_| {}).await;
    // While it is created, while it falls asleep, while it wakes.
    for (task, enabled) in [
        ("Deploying Kubernetes API server", true),
        ("Hibernating control plane", false),
        ("Deploying Kubernetes API server", true),
    ] {
        scene.journal.until_in(task).await;
        scene
            .change(json!({"spec": {"hibernation": {"enabled": enabled}}}))
            .await;
    }
    let shoot = scene.succeeded().await;
    assert_asleep(&scene, &shoot).await;
    wish(&scene, false).await;
    scene
        .journal
        .until_in("Waiting until Kubernetes API server rolled out")
        .await;
    // Deleted while it wakes.
    scene.end().await;
}

const POINTS: [(&str, &str); 3] = [
    ("moon-first", "BeforeKubeAPIServer"),
    ("moon-then", "AfterKubeAPIServer"),
    ("moon-last", "AfterWorker"),
];

/// "During shoot hibernation the opposite rule is applied" (seed document on registrations).
#[tokio::test(start_paused = true)]
async fn extensions_find_the_api_server_as_their_point_promises() {
    let scene = Scene::start().await;
    let types: Vec<(&str, Value)> = POINTS
        .iter()
        .map(|(type_, point)| (*type_, json!({"reconcile": point})))
        .collect();
    let moon = Moon::rise(&scene.world, &scene.clock, &types).await;
    let all: Vec<Value> = POINTS.iter().map(|(type_, _)| json!({"type": type_})).collect();
    scene.created(|shoot| shoot["spec"]["extensions"] = json!(all)).await;
    let mut seen = moon.found();
    assert_eq!(
        seen.drain(..)
            .map(|(type_, up)| format!("{type_} {up}"))
            .collect::<Vec<_>>(),
        ["moon-first false", "moon-then true", "moon-last true"],
        "created"
    );
    let asked = seen.len() + 3;
    wish(&scene, true).await;
    scene.succeeded().await;
    let asleep: Vec<String> = moon
        .found()
        .into_iter()
        .skip(asked)
        .map(|(type_, up)| format!("{type_} {up}"))
        .collect();
    let place = |text: &str| asleep.iter().position(|one| one == text);
    assert_eq!(asleep.len(), 3, "{asleep:?}");
    assert!(
        place("moon-then true").is_some() && place("moon-first false") == Some(2),
        "{asleep:?}"
    );
    wish(&scene, false).await;
    scene.succeeded().await;
    let awake: Vec<String> = moon
        .found()
        .into_iter()
        .skip(asked + 3)
        .map(|(type_, up)| format!("{type_} {up}"))
        .collect();
    assert_eq!(awake, ["moon-first false", "moon-then true", "moon-last true"], "woken");
}

#[tokio::test(start_paused = true)]
async fn an_extension_that_never_ends_keeps_the_control_plane_awake_and_is_named() {
    let scene = Scene::start().await;
    let moon = Moon::rise(
        &scene.world,
        &scene.clock,
        &[("moon-then", json!({"reconcile": "AfterKubeAPIServer"}))],
    )
    .await;
    scene
        .created(|shoot| shoot["spec"]["extensions"] = json!([{"type": "moon-then"}]))
        .await;
    moon.behave(tests_scenarios::moon::Behaviour::Sleeps);
    wish(&scene, true).await;
    let errors = wait(&scene.world.shoots(NAMESPACE), NAME, |shoot| {
        let status = shoot?.status.clone()?;
        (status.last_operation?.state == LastOperationState::Error).then_some(status.last_errors)
    })
    .await;
    let named = "Waiting until extension resources hibernated before kube-apiserver hibernation are ready";
    assert!(
        errors.iter().any(|error| error.task_id.as_deref() == Some(named)),
        "{errors:?}"
    );
    let api_server = sizes(&scene)
        .await
        .into_iter()
        .find(|(name, ..)| name == "kube-apiserver");
    assert_eq!(api_server, Some(("kube-apiserver".to_owned(), 1, 1)));
    moon.behave(tests_scenarios::moon::Behaviour::Works);
    let shoot = scene.succeeded().await;
    assert_asleep(&scene, &shoot).await;
}
