//! A Shoot that falls asleep and wakes: what goes, what stays, and in which order its extensions are handled.

use std::time::Duration;

use api_core::v1beta1::Shoot;
use api_meta::LastOperationState;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Node, PersistentVolumeClaim, Pod};
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tests_scenarios::moon::{Found, Moon};
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

/// Types with their points of reconciliation and of deletion.
const POINTS: [(&str, &str, Option<&str>); 3] = [
    ("moon-first", "BeforeKubeAPIServer", Some("AfterKubeAPIServer")),
    ("moon-then", "AfterKubeAPIServer", Some("BeforeKubeAPIServer")),
    ("moon-last", "AfterWorker", None),
];

fn points() -> Vec<(&'static str, Value)> {
    let point = |(type_, reconcile, delete): &(&'static str, &str, Option<&str>)| {
        (*type_, json!({"reconcile": reconcile, "delete": delete}))
    };
    POINTS.iter().map(point).collect()
}

/// "During shoot hibernation the opposite rule is applied" (seed document on registrations).
#[tokio::test(start_paused = true)]
async fn extensions_find_the_api_server_as_their_point_promises() {
    let scene = Scene::start().await;
    let moon = Moon::rise(&scene.world, &scene.clock, &points()).await;
    let all: Vec<Value> = POINTS.iter().map(|(type_, ..)| json!({"type": type_})).collect();
    scene.created(|shoot| shoot["spec"]["extensions"] = json!(all)).await;
    let mut seen = 0;
    let awake = [
        "reconcile moon-first false",
        "reconcile moon-then true",
        "reconcile moon-last true",
    ];
    assert_eq!(found_since(&moon, &mut seen), awake, "created");
    wish(&scene, true).await;
    scene.succeeded().await;
    let asleep = found_since(&moon, &mut seen);
    let place = |text: &str| asleep.iter().position(|one| one == text);
    assert_eq!(asleep.len(), 3, "{asleep:?}");
    assert!(
        place("reconcile moon-then true").is_some() && place("reconcile moon-first false") == Some(2),
        "{asleep:?}"
    );
    wish(&scene, false).await;
    scene.succeeded().await;
    assert_eq!(found_since(&moon, &mut seen), awake, "woken");
    deleted(&scene).await;
    assert_deletions(&found_since(&moon, &mut seen));
}

/// The API server of a hibernated Shoot runs once more for its deletion.
#[tokio::test(start_paused = true)]
async fn extensions_of_a_hibernated_shoot_are_deleted_as_their_point_promises() {
    let scene = Scene::start().await;
    let moon = Moon::rise(&scene.world, &scene.clock, &points()).await;
    let all: Vec<Value> = POINTS.iter().map(|(type_, ..)| json!({"type": type_})).collect();
    scene.created(|shoot| shoot["spec"]["extensions"] = json!(all)).await;
    wish(&scene, true).await;
    scene.succeeded().await;
    let mut seen = 0;
    found_since(&moon, &mut seen);
    deleted(&scene).await;
    assert_deletions(&found_since(&moon, &mut seen));
}

/// "delete: BeforeKubeAPIServer means that the extension resource will be deleted before the kube-apiserver is destroyed
/// [...]. This is the default behaviour if this value is not specified" (seed document on registrations).
fn assert_deletions(found: &[String]) {
    let mut before = found[..2].to_vec();
    before.sort();
    assert_eq!(before, ["delete moon-last true", "delete moon-then true"], "{found:?}");
    assert_eq!(found[2..], ["delete moon-first false"], "{found:?}");
}

/// Deletes the Shoot and waits until it is gone. Moon stays.
async fn deleted(scene: &Scene) {
    scene.request_deletion().await;
    wait(&scene.world.shoots(NAMESPACE), NAME, |shoot| {
        shoot.is_none().then_some(())
    })
    .await;
}

/// What moon's Extensions found since `seen` of them: what was asked for, of which type, and whether the API server answered.
fn found_since(moon: &Moon, seen: &mut usize) -> Vec<String> {
    let found = moon.found().split_off(*seen);
    *seen += found.len();
    let line = |one: Found| {
        assert_eq!(one.answers, one.available, "{one:?}");
        format!("{} {} {}", one.what, one.type_, one.answers)
    };
    found.into_iter().map(line).collect()
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
