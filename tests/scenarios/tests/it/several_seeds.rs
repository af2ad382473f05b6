//! Several seeds in one landscape: each takes Shoots, and a registration is installed where its policy and its seed
//! selector say.

use std::collections::BTreeSet;

use api_core::v1beta1::{ControllerInstallation, Seed};
use api_meta::{Condition, ConditionStatus};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use landscape_local::{Landscape, Settings, State, apply_all, documents, provider_rules};
use serde_json::{Value, json};
use tests_scenarios::{NAMESPACE, PATIENCE, SHOOT, SURROUNDINGS, World, merge, wait};

/// The example Shoot under another name, on a seed.
fn shoot_on(seed: &str, name: &str) -> Value {
    let mut shoot = documents(SHOOT).unwrap().remove(0);
    shoot["metadata"]["name"] = json!(name);
    shoot["spec"]["seedName"] = json!(seed);
    shoot
}

fn technical_id(name: &str) -> String {
    format!("shoot--local--{name}")
}

async fn has_namespace(client: &kube::Client, name: &str) -> bool {
    Api::<Namespace>::all(client.clone())
        .get_opt(name)
        .await
        .unwrap()
        .is_some()
}

/// An extension of type `NAME-ext`, installed by the builtin operator.
pub(crate) async fn register(world: &World, name: &str, deployment: Value) {
    let objects = vec![
        json!({
            "apiVersion": "core.gardener.cloud/v1beta1", "kind": "ControllerDeployment", "metadata": {"name": name},
            "type": "builtin",
            "providerConfig": {
                "image": "provider-local",
                "args": [format!("--provider-type={name}"), format!("--data-dir={}", world.folder().join(name).display())],
                "rules": provider_rules(),
            },
        }),
        registration(name, deployment),
    ];
    apply_all(&world.garden, objects).await.unwrap();
}

fn registration(name: &str, mut deployment: Value) -> Value {
    deployment["deploymentRefs"] = json!([{"name": name}]);
    // Whoever is primary is so on every seed.
    let primary = deployment["seedSelector"].is_null();
    let resources = json!([{"kind": "Extension", "type": format!("{name}-ext"), "primary": primary}]);
    json!({
        "apiVersion": "core.gardener.cloud/v1beta1", "kind": "ControllerRegistration", "metadata": {"name": name},
        "spec": {"deployment": deployment, "resources": resources},
    })
}

/// The seeds on which a registration is installed and works.
async fn installed_on(world: &World, registration: &str) -> BTreeSet<String> {
    let installations: Api<ControllerInstallation> = Api::all(world.garden.clone());
    let listed = installations.list(&ListParams::default()).await.unwrap();
    let works = |installation: &&ControllerInstallation| {
        let conditions = installation.status.iter().flat_map(|status| &status.conditions);
        let all: Vec<Condition> = conditions.cloned().collect();
        ["Valid", "Installed", "Healthy"].iter().all(|type_| {
            Condition::find(&all, type_).is_some_and(|condition| condition.status == ConditionStatus::True)
        })
    };
    let of = |installation: &ControllerInstallation| {
        let spec = &installation.spec;
        let ours = spec.registration_ref.name.as_deref() == Some(registration);
        ours.then(|| spec.seed_ref.as_ref()?.name.clone()).flatten()
    };
    listed.items.iter().filter(works).filter_map(of).collect()
}

/// Waits until a registration is installed on these seeds and on no other.
pub(crate) async fn until_installed_on(world: &World, registration: &str, seeds: &[&str]) {
    let wanted: BTreeSet<String> = seeds.iter().map(|&seed| seed.to_owned()).collect();
    let installations: Api<ControllerInstallation> = Api::all(world.garden.clone());
    let mut changes = std::pin::pin!(base_client::watch(installations, Default::default()));
    let installed = async {
        while installed_on(world, registration).await != wanted {
            changes.next().await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, installed).await;
    assert!(
        waited.is_ok(),
        "{registration} is installed on {:?}, not on {wanted:?}",
        installed_on(world, registration).await
    );
}

/// Lets everything settle that has been set off.
async fn settled() {
    tokio::time::sleep(std::time::Duration::from_secs(120)).await;
}

#[tokio::test(start_paused = true)]
async fn each_of_three_seeds_takes_a_shoot_and_lets_it_go() {
    let world = World::start_with(|settings| *settings = settings.clone().with_seeds(3)).await;
    world.apply(&SURROUNDINGS).await;
    let names = [("local", "one"), ("local-2", "two"), ("local-3", "three")];
    let shoots = names.iter().map(|(seed, name)| shoot_on(seed, name)).collect();
    apply_all(&world.garden, shoots).await.unwrap();
    for (place, (seed, name)) in names.into_iter().enumerate() {
        let shoot = world.succeeded(NAMESPACE, name).await;
        assert_eq!(shoot.status.unwrap().seed_name.as_deref(), Some(seed));
        for (other, client) in world.seeds.iter().enumerate() {
            let is_there = has_namespace(client, &technical_id(name)).await;
            assert_eq!(is_there, other == place, "{name} on seed {other}");
        }
        let nodes: Api<Node> = Api::all(world.shoot_client(NAMESPACE, name).await);
        assert_eq!(
            nodes.list(&ListParams::default()).await.unwrap().items.len(),
            1,
            "{name}"
        );
    }
    world.delete_shoot(NAMESPACE, "two").await;
    assert!(has_namespace(&world.seeds[0], &technical_id("one")).await);
}

#[tokio::test(start_paused = true)]
async fn a_seed_selector_installs_a_registration_on_the_labelled_seed_alone() {
    let world = World::start_with(|settings| {
        *settings = settings.clone().with_seeds(2);
        settings.seeds[1].labels.insert("env".to_owned(), "prod".to_owned());
    })
    .await;
    let selector = json!({"matchLabels": {"env": "prod"}});
    register(&world, "moon", json!({"policy": "Always", "seedSelector": selector})).await;
    until_installed_on(&world, "moon", &["local-2"]).await;
    settled().await;
    assert_eq!(installed_on(&world, "moon").await.len(), 1);
    // Who labels the other seed gets it there as well; a label that goes takes it away.
    let seeds: Api<Seed> = Api::all(world.garden.clone());
    merge(&seeds, "local", &json!({"metadata": {"labels": {"env": "prod"}}})).await;
    until_installed_on(&world, "moon", &["local", "local-2"]).await;
    merge(&seeds, "local", &json!({"metadata": {"labels": {"env": null}}})).await;
    until_installed_on(&world, "moon", &["local-2"]).await;
}

#[tokio::test(start_paused = true)]
async fn policies_install_on_all_seeds_on_seeds_with_shoots_and_on_demand() {
    let world = World::start_with(|settings| *settings = settings.clone().with_seeds(2)).await;
    world.apply(&SURROUNDINGS).await;
    register(&world, "sun", json!({"policy": "Always"})).await;
    register(&world, "moon", json!({"policy": "AlwaysExceptNoShoots"})).await;
    register(&world, "star", json!({"policy": "OnDemand"})).await;
    until_installed_on(&world, "sun", &["local", "local-2"]).await;
    settled().await;
    until_installed_on(&world, "moon", &[]).await;
    until_installed_on(&world, "star", &[]).await;

    let mut plain = shoot_on("local", "plain");
    let mut extended = shoot_on("local-2", "extended");
    plain["spec"]["purpose"] = json!("testing");
    extended["spec"]["extensions"] = json!([{"type": "star-ext"}]);
    apply_all(&world.garden, vec![plain, extended]).await.unwrap();
    world.succeeded(NAMESPACE, "plain").await;
    world.succeeded(NAMESPACE, "extended").await;
    until_installed_on(&world, "moon", &["local", "local-2"]).await;
    until_installed_on(&world, "star", &["local-2"]).await;

    world.delete_shoot(NAMESPACE, "extended").await;
    until_installed_on(&world, "moon", &["local"]).await;
    until_installed_on(&world, "star", &[]).await;
    until_installed_on(&world, "sun", &["local", "local-2"]).await;
    world.delete_shoot(NAMESPACE, "plain").await;
    until_installed_on(&world, "moon", &[]).await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_seed_leaves_the_other_and_its_shoot_alone() {
    let world = World::start_with(|settings| *settings = settings.clone().with_seeds(2)).await;
    world.apply(&SURROUNDINGS).await;
    apply_all(&world.garden, vec![shoot_on("local", "stays")])
        .await
        .unwrap();
    world.succeeded(NAMESPACE, "stays").await;
    let seeds: Api<Seed> = Api::all(world.garden.clone());
    let refused = seeds.delete("local", &DeleteParams::default()).await.unwrap_err();
    assert!(refused.to_string().contains("still used by shoot"), "{refused}");
    base_client::delete_and_wait(&seeds, "local-2", PATIENCE).await.unwrap();
    settled().await;
    world.succeeded(NAMESPACE, "stays").await;
    let namespaces: Api<Namespace> = Api::all(world.garden.clone());
    wait(&namespaces, "seed-local-2", |namespace| {
        namespace.is_none().then_some(())
    })
    .await;
    assert!(has_namespace(&world.garden, "seed-local").await);
}

#[tokio::test(start_paused = true)]
async fn a_state_of_two_seeds_goes_on_where_it_was() {
    let epoch = "2026-01-01T00:00:00Z".parse().unwrap();
    let folder = std::env::temp_dir().join(format!("orangery-two-seeds-{}", std::process::id()));
    let settings = Settings::simulated(folder.clone(), epoch, 1).with_seeds(2);
    let state = State::memory(&settings).unwrap();
    let started = async || {
        let landscape = Landscape::start(&settings, &state).await.unwrap();
        landscape.ready(PATIENCE).await.unwrap();
        let world = World::of(landscape, folder.clone());
        (world.garden.clone(), world)
    };
    let (_, world) = started().await;
    world.apply(&SURROUNDINGS).await;
    apply_all(&world.garden, vec![shoot_on("local-2", "far")])
        .await
        .unwrap();
    world.succeeded(NAMESPACE, "far").await;
    world.landscape.stop(PATIENCE).await;
    let (garden, world) = started().await;
    // Work of this life, not of the one before.
    let shoots = world.shoots(NAMESPACE);
    merge(&shoots, "far", &json!({"spec": {"purpose": "testing"}})).await;
    let shoot = world.succeeded(NAMESPACE, "far").await;
    assert_eq!(
        shoot.spec.purpose.map(|purpose| purpose.to_string()).as_deref(),
        Some("testing")
    );
    let seeds: Api<Seed> = Api::all(garden);
    let names: Vec<String> = seeds
        .list(&ListParams::default())
        .await
        .unwrap()
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    assert_eq!(names, ["local", "local-2"]);
    world.landscape.stop(PATIENCE).await;
}
