//! One part that is missing, slow or forbidden holds back what depends on it and nothing else, and says so.

use api_core::v1beta1::{ControllerDeployment, ControllerRegistration, Shoot};
use api_extensions::{ExtensionKind, Infrastructure};
use api_meta::LastOperationState;
use control_plane_shoot_flow::{Goal, Kind, ShootFacts, ShootTask, Step, Verb, Way, shoot_flow};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tests_scenarios::{NAME, NAMESPACE, SHOOT, SURROUNDINGS, TECHNICAL_ID, World, merge, wait};

fn shoot_manifest() -> Value {
    landscape_local::documents(SHOOT).unwrap().remove(0)
}

async fn create(world: &World, shoot: &Value) -> Result<Shoot, kube::Error> {
    let shoot: Shoot = serde_json::from_value(shoot.clone()).unwrap();
    world.shoots(NAMESPACE).create(&PostParams::default(), &shoot).await
}

#[tokio::test(start_paused = true)]
async fn a_shoot_with_an_unregistered_type_is_refused_by_field_kind_and_type() {
    let world = World::start().await;
    world.apply(&SURROUNDINGS).await;
    let mut shoot = shoot_manifest();
    shoot["spec"]["networking"]["type"] = json!("moonnet");
    let error = create(&world, &shoot).await.unwrap_err().to_string();
    for part in ["spec.networking.type", "Network", "moonnet"] {
        assert!(error.contains(part), "{part} is missing in: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_registration_is_reported_on_its_shoot_and_others_continue() {
    let world = World::start().await;
    world.apply(&SURROUNDINGS).await;
    let registrations: Api<ControllerRegistration> = Api::all(world.garden.clone());
    let extra: ControllerRegistration = serde_json::from_value(json!({
        "metadata": {"name": "net-extra"},
        "spec": {"resources": [{"kind": "Network", "type": "extra"}]},
    }))
    .unwrap();
    registrations.create(&PostParams::default(), &extra).await.unwrap();
    let mut odd = shoot_manifest();
    odd["metadata"]["name"] = json!("odd");
    odd["spec"]["networking"]["type"] = json!("extra");
    create(&world, &odd).await.unwrap();
    registrations
        .delete("net-extra", &DeleteParams::default())
        .await
        .unwrap();
    let why = wait(&world.shoots(NAMESPACE), "odd", |shoot| {
        let errors = &shoot?.status.as_ref()?.last_errors;
        errors
            .iter()
            .find(|error| error.description.contains("extra"))
            .map(|error| error.description.clone())
    })
    .await;
    assert!(why.contains("Network"), "{why}");
    world.apply(&[SHOOT]).await;
    world.succeeded(NAMESPACE, NAME).await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_rule_of_gardenlet_shows_as_forbidden_with_its_code() {
    let world = World::start().await;
    world.apply(&SURROUNDINGS).await;
    let roles: Api<ClusterRole> = Api::all(world.seed.clone());
    let role = roles.get("gardener.cloud:system:gardenlet").await.unwrap();
    let rules: Vec<Value> = role
        .rules
        .unwrap()
        .into_iter()
        .map(|rule| serde_json::to_value(rule).unwrap())
        .filter(|rule| rule["apiGroups"] != json!(["apps"]) || rule["resources"] != json!(["deployments", "statefulsets"]))
        .chain([json!({"apiGroups": ["apps"], "resources": ["deployments", "statefulsets"], "verbs": ["get", "list", "watch"]})])
        .collect();
    merge(&roles, "gardener.cloud:system:gardenlet", &json!({"rules": rules})).await;
    world.apply(&[SHOOT]).await;
    let error = wait(&world.shoots(NAMESPACE), NAME, |shoot| {
        let errors = &shoot?.status.as_ref()?.last_errors;
        errors
            .iter()
            .find(|error| error.description.contains("forbidden"))
            .cloned()
    })
    .await;
    assert!(
        error.description.contains("403") || error.description.contains("cannot"),
        "{}",
        error.description
    );
    assert!(error.task_id.is_some());
    assert!(!error.codes.is_empty(), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_shoot_names_the_missing_extension_and_continues_with_its_return() {
    let world = World::start().await;
    world.apply(&SURROUNDINGS).await;
    world.scale_provider(0).await;
    world.apply(&[SHOOT]).await;
    let infrastructures: Api<Infrastructure> = Api::namespaced(world.seed.clone(), TECHNICAL_ID);
    wait(&infrastructures, NAME, |infrastructure| infrastructure.map(|_| ())).await;
    let why = wait(&world.shoots(NAMESPACE), NAME, |shoot| {
        let errors = &shoot?.status.as_ref()?.last_errors;
        errors
            .iter()
            .find(|error| error.description.contains("Infrastructure"))
            .map(|error| error.description.clone())
    })
    .await;
    assert!(
        why.contains(&format!("{TECHNICAL_ID}/{NAME}")) && why.contains("\"local\""),
        "{why}"
    );
    world.scale_provider(1).await;
    world.succeeded(NAMESPACE, NAME).await;
}

#[tokio::test(start_paused = true)]
async fn holding_the_infrastructure_back_stops_only_what_depends_on_it() {
    let world = World::start().await;
    world.apply(&SURROUNDINGS).await;
    forbid_writing_infrastructures(&world).await;
    world.apply(&[SHOOT]).await;
    let facts = ShootFacts {
        has_credentials: true,
        has_backup: true,
        has_internal_domain: true,
        has_external_domain: true,
        ..ShootFacts::default()
    };
    let flow = shoot_flow(&facts, &Goal::Reconcile).unwrap();
    let infrastructure = ShootTask {
        way: Way::Reconcile,
        step: Step::Kind(Kind::Infrastructure, Verb::Wait),
    };
    let held = |task| task == infrastructure || flow.precedes(infrastructure, task);
    let all: Vec<ShootTask> = flow
        .steps()
        .filter(|step| step.skipped().is_none())
        .map(|step| step.task())
        .collect();
    let free = all.iter().filter(|task| !held(**task)).count();
    let expected = i32::try_from(100 * free / all.len()).unwrap();
    assert!(expected > 10, "{expected}");
    let status = wait(&world.shoots(NAMESPACE), NAME, |shoot| {
        let status = shoot?.status.as_ref()?;
        (status.last_operation.as_ref()?.state == LastOperationState::Error).then(|| status.clone())
    })
    .await;
    assert_eq!(status.last_operation.unwrap().progress, expected);
    let failed: Vec<_> = status
        .last_errors
        .iter()
        .map(|error| error.task_id.clone().unwrap_or_default())
        .collect();
    assert_eq!(failed, ["Waiting until Shoot infrastructure has been reconciled"]);
}

/// Gives the provider a role with which it can see Infrastructures but not answer them, by its own configuration.
async fn forbid_writing_infrastructures(world: &World) {
    let everything_else = extensions_provider_local::KINDS.into_iter();
    let with_status: Vec<String> = everything_else
        .filter(|kind| *kind != ExtensionKind::Infrastructure)
        .flat_map(|kind| [kind.plural().to_owned(), format!("{}/status", kind.plural())])
        .collect();
    let all = ["get", "list", "watch", "create", "update", "patch", "delete"];
    let rules = json!([
        {"apiGroups": ["extensions.gardener.cloud"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["extensions.gardener.cloud"], "resources": with_status, "verbs": all},
        {"apiGroups": ["", "apps", "coordination.k8s.io", "machine.sapcloud.io", "resources.gardener.cloud", "events.k8s.io"], "resources": ["*"], "verbs": all},
    ]);
    let deployments: Api<ControllerDeployment> = Api::all(world.garden.clone());
    merge(
        &deployments,
        "provider-local",
        &json!({"providerConfig": {"values": {"rules": rules}}}),
    )
    .await;
    let roles: Api<ClusterRole> = Api::all(world.seed.clone());
    let extension = |role: &&ClusterRole| role.name_any().starts_with("orangery:extension:provider-local");
    let name = roles
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .iter()
        .find(extension)
        .unwrap()
        .name_any();
    wait(&roles, &name, |role| (role?.rules.as_ref()?.len() == 3).then_some(())).await;
}
