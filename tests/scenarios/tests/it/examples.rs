//! The example extension as it stands, with a Shoot of its type; and what is said where either is not allowed to work.

use api_core::v1beta1::{CloudProfile, ControllerDeployment, ControllerInstallation, Shoot};
use api_extensions::Worker;
use api_meta::{Condition, ConditionStatus, LastOperationState};
use futures::StreamExt;
use kube::Api;
use kube::runtime::{WatchStreamExt, watcher};
use landscape_local::{apply_all, documents, provider_rules};
use serde_json::{Value, json};
use tests_scenarios::{NAMESPACE, PATIENCE, SHOOT, SURROUNDINGS, World, merge, wait};

const EXTENSION: &str = include_str!("../../../../examples/50-extension.yaml");
const OTHER: &str = "other";

/// The example Shoot as one of the example extension's type.
fn shoot() -> Value {
    let mut shoot = documents(SHOOT).unwrap().remove(0);
    shoot["metadata"]["name"] = json!(OTHER);
    shoot["spec"]["cloudProfile"]["name"] = json!(OTHER);
    shoot["spec"]["credentialsBindingName"] = json!(OTHER);
    shoot["spec"]["provider"]["type"] = json!(OTHER);
    shoot["spec"]["provider"]["workers"][0]["machine"]["type"] = json!(OTHER);
    shoot
}

/// The binding of the example's credentials for the other type.
fn binding() -> Value {
    let mut binding = documents(SURROUNDINGS[2]).unwrap().remove(1);
    binding["metadata"]["name"] = json!(OTHER);
    binding["provider"]["type"] = json!(OTHER);
    binding
}

async fn world() -> World {
    let world = World::start().await;
    world.apply(&SURROUNDINGS).await;
    world.apply(&[EXTENSION]).await;
    world
}

async fn until_pending(world: &World, part: &str) {
    wait(&world.shoots(NAMESPACE), OTHER, |shoot: Option<&Shoot>| {
        let last = shoot?.status.as_ref()?.last_operation.as_ref()?;
        (last.state == LastOperationState::Pending && last.description.contains(part)).then_some(())
    })
    .await;
}

#[test]
fn the_example_extension_has_the_rights_of_the_local_provider() {
    let deployment = documents(EXTENSION).unwrap().remove(0);
    assert_eq!(deployment["providerConfig"]["rules"], provider_rules());
}

#[tokio::test(start_paused = true)]
async fn a_shoot_of_the_example_extensions_type_is_made_by_it() {
    let world = world().await;
    apply_all(&world.garden, vec![binding(), shoot()]).await.unwrap();
    let shoot = world.succeeded(NAMESPACE, OTHER).await;
    assert_eq!(shoot.status.unwrap().last_errors, []);
    let workers: Api<Worker> = Api::namespaced(world.seed.clone(), "shoot--local--other");
    assert_eq!(workers.get(OTHER).await.unwrap().spec.type_, OTHER);
    world.delete_shoot(NAMESPACE, OTHER).await;
}

#[tokio::test(start_paused = true)]
async fn without_a_seed_selector_the_scheduler_names_the_field_to_set() {
    let world = world().await;
    let profiles: Api<CloudProfile> = Api::all(world.garden.clone());
    merge(&profiles, OTHER, &json!({"spec": {"seedSelector": null}})).await;
    apply_all(&world.garden, vec![binding(), shoot()]).await.unwrap();
    until_pending(
        &world,
        "set seedSelector.providerTypes of the cloud profile, [\"*\"] allows all",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_an_extension_reports_when_it_ends_stands_in_its_installations_conditions() {
    let world = world().await;
    let deployments: Api<ControllerDeployment> = Api::all(world.garden.clone());
    let wrong = json!({"providerConfig": {"args": ["--provider-type=other"]}});
    merge(&deployments, "provider-other", &wrong).await;
    apply_all(&world.garden, vec![binding(), shoot()]).await.unwrap();
    let installations: Api<ControllerInstallation> = Api::all(world.garden.clone());
    let mut seen = watcher(installations, watcher::Config::default())
        .default_backoff()
        .applied_objects()
        .boxed();
    let reported = async {
        while let Some(seen) = seen.next().await {
            if seen.is_ok_and(|installation| is_reported(&installation)) {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, reported)
        .await
        .expect("the conditions tell why");
}

/// Whether the installation of the example extension says what its program said.
fn is_reported(installation: &ControllerInstallation) -> bool {
    let conditions = installation
        .status
        .as_ref()
        .map_or(&[][..], |status| &status.conditions);
    installation.spec.registration_ref.name.as_deref() == Some("provider-other")
        && ["Installed", "Healthy"].into_iter().all(|type_| {
            Condition::find(conditions, type_).is_some_and(|condition| {
                condition.status == ConditionStatus::False
                    && condition.message.contains("provider-local: --data-dir is required")
            })
        })
}
