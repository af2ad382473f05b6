//! What is said of an extension that does not run as it is described.

use api_core::v1beta1::{ControllerDeployment, ControllerInstallation, Seed};
use api_meta::{Condition, ConditionStatus};
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tests_scenarios::{NAMESPACE, SHOOT, SURROUNDINGS, World, merge, wait};

use crate::several_seeds::{register, until_installed_on};

const GOOD: [(&str, ConditionStatus); 4] = [
    ("Valid", ConditionStatus::True),
    ("Installed", ConditionStatus::True),
    ("Healthy", ConditionStatus::True),
    ("Progressing", ConditionStatus::False),
];
const BAD: [(&str, ConditionStatus); 4] = [
    ("Valid", ConditionStatus::True),
    ("Installed", ConditionStatus::False),
    ("Healthy", ConditionStatus::False),
    ("Progressing", ConditionStatus::True),
];

async fn until(world: &World, name: &str, wanted: &[(&str, ConditionStatus)]) -> Vec<Condition> {
    let installations: Api<ControllerInstallation> = Api::all(world.garden.clone());
    wait(&installations, name, |installation| {
        let conditions = &installation?.status.as_ref()?.conditions;
        let is = |(type_, status): &(&str, ConditionStatus)| {
            Condition::find(conditions, type_).is_some_and(|condition| condition.status == *status)
        };
        wanted.iter().all(is).then(|| conditions.clone())
    })
    .await
}

async fn until_the_seed_reports(world: &World, reason: &str) {
    let seeds: Api<Seed> = Api::all(world.garden.clone());
    wait(&seeds, "local", |seed| {
        let condition = Condition::find(&seed?.status.as_ref()?.conditions, "ExtensionsReady")?;
        (condition.reason == reason).then_some(())
    })
    .await;
}

/// The installation of a registration on the one seed.
async fn installation_of(world: &World, registration: &str) -> String {
    let installations: Api<ControllerInstallation> = Api::all(world.garden.clone());
    let listed = installations.list(&ListParams::default()).await.unwrap();
    let is_of = |one: &&ControllerInstallation| one.spec.registration_ref.name.as_deref() == Some(registration);
    listed.items.iter().find(is_of).unwrap().name_any()
}

#[tokio::test(start_paused = true)]
async fn an_operators_wrong_image_is_reported_until_it_is_corrected() {
    let world = World::start().await;
    register(&world, "moon", json!({"policy": "Always"})).await;
    until_installed_on(&world, "moon", &["local"]).await;
    let name = installation_of(&world, "moon").await;

    let deployments: Api<ControllerDeployment> = Api::all(world.garden.clone());
    let before = deployments.get("moon").await.unwrap().provider_config;
    let wrong = json!({"providerConfig": {"image": "nowhere.example/none:v9"}});
    merge(&deployments, "moon", &wrong).await;
    let conditions = until(&world, &name, &BAD).await;
    for (type_, reason) in [
        ("Installed", "InstallationPending"),
        ("Healthy", "ControllerNotHealthy"),
        ("Progressing", "ControllerNotRolledOut"),
    ] {
        let condition = Condition::find(&conditions, type_).unwrap();
        assert_eq!(condition.reason, reason);
        assert!(
            condition
                .message
                .contains("ImageNotInCatalogue: image \"nowhere.example/none:v9\" is not in the catalogue"),
            "{condition:?}"
        );
    }
    until_the_seed_reports(&world, "NotAllExtensionsInstalled").await;
    merge(&deployments, "moon", &json!({"providerConfig": before})).await;
    until(&world, &name, &GOOD).await;
    until_the_seed_reports(&world, "AllExtensionsReady").await;
}

#[tokio::test(start_paused = true)]
async fn a_charts_wrong_image_makes_it_unhealthy_until_it_is_right_again() {
    let world = World::start().await;
    let name = installation_of(&world, "provider-local").await;
    until(&world, &name, &GOOD).await;

    let deployments: Api<ControllerDeployment> = Api::all(world.garden.clone());
    let image = |image: Value| json!({"providerConfig": {"values": {"image": image}}});
    merge(&deployments, "provider-local", &image(json!("nowhere.example/none:v9"))).await;
    let unhealthy = [
        ("Valid", ConditionStatus::True),
        ("Installed", ConditionStatus::True),
        ("Healthy", ConditionStatus::False),
    ];
    let conditions = until(&world, &name, &unhealthy).await;
    let healthy = Condition::find(&conditions, "Healthy").unwrap();
    assert_eq!(healthy.reason, "ControllerNotHealthy");
    assert!(healthy.message.contains("provider-local"), "{healthy:?}");

    merge(&deployments, "provider-local", &image(Value::Null)).await;
    until(&world, &name, &GOOD).await;
    until_the_seed_reports(&world, "AllExtensionsReady").await;
    world.apply(&SURROUNDINGS).await;
    world.apply(&[SHOOT]).await;
    world.succeeded(NAMESPACE, "local").await;
}
