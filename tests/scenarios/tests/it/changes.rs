//! A Shoot that is changed or deleted while its flow runs: what has become pointless ends at a task's boundary, and
//! what is wanted now is done.

use api_extensions::Extension;
use api_meta::{LastOperationState, LastOperationType};
use base_flow_run::FlowEnd;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};
use tests_scenarios::moon::{Behaviour, MOON, Moon};
use tests_scenarios::{NAME, TECHNICAL_ID, wait};

use crate::scene::{Scene, pool, until};

const CREATE: &str = "Shoot cluster reconciliation";
const DELETE: &str = "Shoot cluster deletion";
const WAIT_INFRASTRUCTURE: &str = "Waiting until Shoot infrastructure has been reconciled";
const WAIT_API_SERVER: &str = "Waiting until Kubernetes API server rolled out";
const WAIT_CONTROL_PLANE: &str = "Waiting until shoot control plane has been reconciled";
const WAIT_OS_CONFIGS: &str = "Waiting until OperatingSystemConfig for worker pools have been reconciled";
const WAIT_NETWORK: &str = "Waiting until shoot network plugin has been reconciled";
const WAIT_WORKERS: &str = "Waiting until worker pools have been reconciled";
const WAIT_MACHINE_DEPLOYMENTS: &str =
    "Waiting until worker resource status is updated with latest machine deployments";

/// A change while `task` waits for the held kind ends that run; the next one does what is wanted now.
async fn check_change(plural: &str, task: &str, never_begun: &str) {
    let scene = Scene::start().await;
    let hold = scene.world.hold(plural).await;
    scene.create(|_| {}).await;
    scene.journal.until_in(task).await;
    let changed = scene
        .change(json!({"spec": {"provider": {"workers": [pool("pool-a", 2)]}}}))
        .await;
    let runs = scene
        .journal
        .until("interrupted and started again", |runs| {
            runs.len() == 2 && runs[1].started.contains(task)
        })
        .await;
    assert_eq!(runs[0].end, Some(FlowEnd::Interrupted), "{runs:#?}");
    assert!(!runs[0].succeeded.contains(task), "{runs:#?}");
    assert!(!runs[0].started.contains(never_begun), "{runs:#?}");
    scene.world.release(hold).await;
    let shoot = scene.succeeded().await;
    assert!(shoot.metadata.generation >= changed.metadata.generation);
    let last = shoot.status.unwrap().last_operation.unwrap();
    assert_eq!(last.type_, LastOperationType::Create);
    let runs = scene.journal.runs();
    assert_eq!(runs.last().unwrap().end, Some(FlowEnd::Succeeded), "{runs:#?}");
    assert_eq!(scene.machines().await.len(), 2);
    assert_eq!(scene.nodes().await.len(), 2);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_while_the_infrastructure_is_waited_for_is_what_is_done() {
    Box::pin(check_change("infrastructures", WAIT_INFRASTRUCTURE, WAIT_CONTROL_PLANE)).await;
}

#[tokio::test(start_paused = true)]
async fn a_change_while_machines_are_waited_for_is_what_is_done() {
    Box::pin(check_change("workers", WAIT_MACHINE_DEPLOYMENTS, WAIT_WORKERS)).await;
}

#[tokio::test(start_paused = true)]
async fn of_many_changes_in_a_row_the_last_one_holds() {
    let scene = Scene::start().await;
    scene.create(|_| {}).await;
    for (task, machines) in [
        (WAIT_INFRASTRUCTURE, 3),
        (WAIT_CONTROL_PLANE, 1),
        (WAIT_OS_CONFIGS, 3),
        (WAIT_WORKERS, 2),
    ] {
        scene.journal.until_in(task).await;
        scene
            .change(json!({"spec": {"provider": {"workers": [pool("pool-a", machines)]}}}))
            .await;
    }
    scene.succeeded().await;
    assert_eq!(scene.nodes().await.len(), 2);
    let runs = scene.journal.runs();
    let ends: Vec<_> = runs.iter().filter_map(|run| run.end).collect();
    assert_eq!(ends.last(), Some(&FlowEnd::Succeeded), "{ends:?}");
    assert!(
        ends[..ends.len() - 1].iter().all(|end| *end == FlowEnd::Interrupted),
        "{ends:?}"
    );
    scene.end().await;
}

/// A deletion while `task` waits for the held kind takes everything down.
async fn check_deletion(plural: &str, task: &str) {
    let scene = Scene::start().await;
    let hold = scene.world.hold(plural).await;
    scene.create(|_| {}).await;
    scene.journal.until_in(task).await;
    scene.request_deletion().await;
    let runs = scene
        .journal
        .until("being deleted", |runs| {
            runs.last().is_some_and(|run| run.flow == DELETE)
        })
        .await;
    assert_eq!(runs[0].flow, CREATE);
    assert_eq!(runs[0].end, Some(FlowEnd::Interrupted), "{runs:#?}");
    scene.world.release(hold).await;
    scene.gone().await;
    let runs = scene.journal.runs();
    assert_eq!(runs.last().unwrap().end, Some(FlowEnd::Succeeded), "{runs:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_while_the_infrastructure_is_waited_for_leaves_nothing() {
    check_deletion("infrastructures", WAIT_INFRASTRUCTURE).await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_while_the_control_plane_is_waited_for_leaves_nothing() {
    check_deletion("controlplanes", WAIT_CONTROL_PLANE).await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_while_the_operating_system_is_waited_for_leaves_nothing() {
    check_deletion("operatingsystemconfigs", WAIT_OS_CONFIGS).await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_while_the_network_is_waited_for_leaves_nothing() {
    check_deletion("networks", WAIT_NETWORK).await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_while_machines_are_waited_for_leaves_nothing() {
    check_deletion("workers", WAIT_MACHINE_DEPLOYMENTS).await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_in_the_moment_of_creation_leaves_nothing() {
    let scene = Scene::start().await;
    scene.create(|_| {}).await;
    scene.request_deletion().await;
    scene.gone().await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_while_a_machine_joins_leaves_nothing() {
    let scene = Scene::start().await;
    scene.create(|_| {}).await;
    scene.journal.until_in(WAIT_WORKERS).await;
    scene.request_deletion().await;
    scene.gone().await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_after_a_failure_leaves_nothing() {
    let scene = Scene::start().await;
    scene
        .create(|shoot| shoot["spec"]["provider"]["infrastructureConfig"] = json!({"networks": 5}))
        .await;
    until(&scene.world, NAME, LastOperationState::Failed).await;
    scene.end().await;
}

const LIFECYCLES: [(&str, &str, &str); 3] = [
    (
        "moon-first",
        "BeforeKubeAPIServer",
        "Waiting until extension resources handled before kube-apiserver are ready",
    ),
    (
        "moon-then",
        "AfterKubeAPIServer",
        "Waiting until extension resources handled after kube-apiserver are ready",
    ),
    (
        "moon-last",
        "AfterWorker",
        "Waiting until extension resources handled after workers are ready",
    ),
];

async fn types(scene: &Scene) -> Vec<String> {
    let extensions: Api<Extension> = Api::namespaced(scene.world.seed.clone(), TECHNICAL_ID);
    let mut types: Vec<String> = extensions
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .into_iter()
        .map(|extension| extension.spec.type_)
        .collect();
    types.sort();
    types
}

#[tokio::test(start_paused = true)]
async fn extensions_come_and_go_with_the_shoots_wish_each_at_its_point() {
    let scene = Scene::start().await;
    let types_of_moon: Vec<(&str, Value)> = LIFECYCLES
        .iter()
        .map(|(type_, point, _)| (*type_, json!({"reconcile": point, "delete": "AfterKubeAPIServer"})))
        .collect();
    let moon = Moon::rise(&scene.world, &scene.clock, &types_of_moon).await;
    scene
        .created(|shoot| shoot["spec"]["extensions"] = json!([{"type": "moon-then"}]))
        .await;
    assert_eq!(types(&scene).await, ["moon-then"]);

    let all: Vec<Value> = LIFECYCLES
        .iter()
        .map(|(type_, ..)| json!({"type": type_, "providerConfig": {"of": type_}}))
        .collect();
    scene.change(json!({"spec": {"extensions": all}})).await;
    scene.succeeded().await;
    assert_eq!(types(&scene).await, ["moon-first", "moon-last", "moon-then"]);
    let order: Vec<String> = moon
        .requests()
        .iter()
        .skip(1)
        .map(|(what, _, type_)| format!("{what} {type_}"))
        .collect();
    assert_eq!(
        order,
        ["reconcile moon-first", "reconcile moon-then", "reconcile moon-last"]
    );
    let machines = scene.machines().await;

    scene
        .change(json!({"spec": {"extensions": [{"type": "moon-last"}]}}))
        .await;
    scene.succeeded().await;
    assert_eq!(types(&scene).await, ["moon-last"]);
    let mut gone: Vec<String> = moon
        .requests()
        .into_iter()
        .filter(|(what, ..)| *what == "delete")
        .map(|(_, _, type_)| type_)
        .collect();
    gone.sort();
    assert_eq!(gone, ["moon-first", "moon-then"]);
    assert_eq!(scene.machines().await, machines, "no machine is replaced for it");

    scene.change(json!({"spec": {"extensions": null}})).await;
    scene.succeeded().await;
    assert_eq!(types(&scene).await, [""; 0]);
    scene.end_with_moon().await;
}

/// An Extension that is asleep at its point, and which of two tasks behind it were reached nevertheless.
async fn check_point((type_, point, task): (&str, &str, &str), expected: [bool; 2]) {
    let scene = Scene::start().await;
    let moon = Moon::rise(&scene.world, &scene.clock, &[(type_, json!({"reconcile": point}))]).await;
    moon.behave(Behaviour::Sleeps);
    scene
        .create(|shoot| shoot["spec"]["extensions"] = json!([{"type": type_}]))
        .await;
    let in_error = until(&scene.world, NAME, LastOperationState::Error).await;
    let errors = in_error.status.unwrap().last_errors;
    let description = &errors[0].description;
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(errors[0].task_id.as_deref(), Some(task));
    assert!(
        description.contains(&format!("Extension {TECHNICAL_ID}/{type_}: extension \"{type_}\"")),
        "{description}"
    );
    let run = scene.journal.runs().remove(0);
    let reached = [WAIT_API_SERVER, WAIT_MACHINE_DEPLOYMENTS].map(|task| run.succeeded.contains(task));
    assert_eq!(reached, expected, "{type_}: {run:#?}");
    moon.behave(Behaviour::Works);
    scene.succeeded().await;
    scene.end_with_moon().await;
}

#[tokio::test(start_paused = true)]
async fn an_extension_before_the_api_server_delays_it_and_nothing_earlier() {
    check_point(LIFECYCLES[0], [false, false]).await;
}

#[tokio::test(start_paused = true)]
async fn an_extension_after_the_api_server_delays_machines_and_nothing_earlier() {
    check_point(LIFECYCLES[1], [true, false]).await;
}

#[tokio::test(start_paused = true)]
async fn an_extension_of_after_the_workers_holds_back_nothing_but_itself() {
    check_point(LIFECYCLES[2], [true, true]).await;
}

impl Scene {
    /// Ends the scene and takes moon's registration away again, which is nothing of the Shoot's.
    pub(crate) async fn end_with_moon(&self) {
        use api_core::v1beta1::{ControllerDeployment, ControllerInstallation, ControllerRegistration};
        self.request_deletion().await;
        wait(&self.world.shoots(tests_scenarios::NAMESPACE), NAME, |shoot| {
            shoot.is_none().then_some(())
        })
        .await;
        let garden = self.world.garden.clone();
        let installations: Api<ControllerInstallation> = Api::all(garden.clone());
        base_client::delete_and_wait(
            &Api::<ControllerRegistration>::all(garden.clone()),
            MOON,
            tests_scenarios::PATIENCE,
        )
        .await
        .unwrap();
        let left = installations.list(&ListParams::default()).await.unwrap();
        assert!(
            left.items
                .iter()
                .all(|one| one.spec.registration_ref.name.as_deref() != Some(MOON))
        );
        base_client::delete_and_wait(
            &Api::<ControllerDeployment>::all(garden),
            MOON,
            tests_scenarios::PATIENCE,
        )
        .await
        .unwrap();
        self.gone().await;
    }
}
