//! One part that is missing, slow or forbidden holds back what depends on it and nothing else, and says so.

use api_core::v1beta1::{ControllerRegistration, Shoot};
use api_extensions::Infrastructure;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use tests_scenarios::{NAME, NAMESPACE, SHOOT, SURROUNDINGS, TECHNICAL_ID, World, merge, wait};

fn shoot_manifest() -> Value {
    programs_orangery::landscape::documents(SHOOT).unwrap().remove(0)
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
async fn a_registration_that_goes_away_is_reported_on_that_shoot_and_others_go_on() {
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
async fn without_its_extension_a_shoot_waits_by_name_and_goes_on_when_it_is_back() {
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
