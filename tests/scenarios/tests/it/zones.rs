//! Worker pools that get more zones: the infrastructure is made for them before the machines are.

use std::collections::BTreeMap;

use api_core::v1beta1::CloudProfile;
use api_machine::{Machine, MachineClass};
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tests_scenarios::{TECHNICAL_ID, merge};

use crate::scene::{Scene, is_running, pool};

/// A landscape whose cloud profile has these zones.
async fn scene_with_zones(names: &[&str]) -> Scene {
    let scene = Scene::start().await;
    let zones: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
    let profiles: Api<CloudProfile> = Api::all(scene.world.garden.clone());
    let regions = json!({"spec": {"regions": [{"name": "local", "zones": zones}]}});
    merge(&profiles, "local", &regions).await;
    scene
}

fn pool_in(name: &str, machines: i32, zones: &[&str]) -> Value {
    let mut pool = pool(name, machines);
    pool["zones"] = json!(zones);
    pool
}

/// Machines by name, with zone and subnet of their class; all of them running.
async fn placed(scene: &Scene) -> BTreeMap<String, (String, String)> {
    let classes: Api<MachineClass> = Api::namespaced(scene.world.seed.clone(), TECHNICAL_ID);
    let machines: Api<Machine> = Api::namespaced(scene.world.seed.clone(), TECHNICAL_ID);
    let mut placed = BTreeMap::new();
    for machine in machines.list(&ListParams::default()).await.unwrap().items {
        assert!(is_running(&machine), "{machine:?}");
        let class = machine
            .spec
            .class
            .as_ref()
            .and_then(|class| class.name.clone())
            .unwrap();
        let class = classes.get(&class).await.unwrap();
        let subnet = class.provider_spec.value()["subnet"].as_str().unwrap().to_owned();
        let zone = class.node_template.unwrap().zone;
        placed.insert(machine.name_any(), (zone, subnet));
    }
    placed
}

fn zones(placed: &BTreeMap<String, (String, String)>) -> Vec<&str> {
    let mut zones: Vec<&str> = placed.values().map(|(zone, _)| zone.as_str()).collect();
    zones.sort_unstable();
    zones
}

#[tokio::test(start_paused = true)]
async fn a_pool_gets_machines_in_a_new_zone_and_keeps_its_others() {
    let scene = scene_with_zones(&["a", "b", "c"]).await;
    scene
        .created(|shoot| shoot["spec"]["provider"]["workers"] = json!([pool_in("pool-a", 1, &["b"])]))
        .await;
    let before = placed(&scene).await;
    assert_eq!(zones(&before), ["b"]);

    scene.with_pools(&[pool_in("pool-a", 2, &["b", "a"])]).await;
    let after = placed(&scene).await;
    assert_eq!(zones(&after), ["a", "b"]);
    let (name, place) = before.iter().next().unwrap();
    assert_eq!(
        after.get(name),
        Some(place),
        "the machine stays, and so does its subnet"
    );
    assert_eq!(scene.nodes().await.len(), 2);

    // A zone that comes with another pool is a new one, too.
    scene
        .with_pools(&[pool_in("pool-a", 2, &["b", "a"]), pool_in("pool-b", 1, &["c"])])
        .await;
    assert_eq!(zones(&placed(&scene).await), ["a", "b", "c"]);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_with_zones_stands_beside_one_without() {
    let scene = scene_with_zones(&["a"]).await;
    scene.created(|_| {}).await;
    let before = placed(&scene).await;
    scene
        .with_pools(&[pool("pool-a", 1), pool_in("pool-b", 1, &["a"])])
        .await;
    let after = placed(&scene).await;
    assert_eq!(zones(&after), ["", "a"]);
    assert!(before.iter().all(|(name, place)| after.get(name) == Some(place)));
    scene.end().await;
}
