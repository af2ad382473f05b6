//! Nothing hangs on a name: everything that can be called otherwise is, and of two seeds the right one is taken.

use kube::Api;
use serde_json::{Value, json};
use tests_scenarios::{World, wait};

#[tokio::test(start_paused = true)]
async fn a_shoot_succeeds_when_everything_has_another_name() {
    let world = World::start_with(|settings| {
        settings.seeds[0].name = "orchard-9".to_owned();
        settings.seeds[0].region = "far-west".to_owned();
        settings.seeds[0].provider_type = "Pear".to_owned();
    })
    .await;
    landscape_local::apply_all(&world.garden, renamed()).await.unwrap();
    let shoot = world.succeeded("garden-grove", "tree-1").await;
    assert_eq!(shoot.spec.seed_name.as_deref(), Some("orchard-9"));
}

#[tokio::test(start_paused = true)]
async fn of_two_seeds_the_one_in_the_region_is_taken() {
    let world = World::start().await;
    let seeds: Api<api_core::v1beta1::Seed> = Api::all(world.garden.clone());
    let mut other: Value = serde_json::to_value(seeds.get("local").await.unwrap()).unwrap();
    other["metadata"] = json!({"name": "elsewhere"});
    other["spec"]["provider"]["region"] = json!("elsewhere");
    other.as_object_mut().unwrap().remove("status");
    landscape_local::apply_all(&world.garden, vec![other]).await.unwrap();
    world.apply(&tests_scenarios::SURROUNDINGS).await;
    world.apply(&[tests_scenarios::SHOOT]).await;
    let seed = wait(&world.shoots("garden-local"), "local", |shoot| {
        shoot?.spec.seed_name.clone()
    })
    .await;
    assert_eq!(seed, "local");
}

/// The example with every name exchanged.
fn renamed() -> Vec<Value> {
    let metadata = |name: &str| json!({"name": name, "namespace": "garden-grove"});
    vec![
        json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Project", "metadata": {"name": "grove"}, "spec": {"namespace": "garden-grove"}}),
        json!({
            "apiVersion": "core.gardener.cloud/v1beta1", "kind": "CloudProfile", "metadata": {"name": "pears"},
            "spec": {
                "type": "Pear",
                "kubernetes": {"versions": [{"version": "1.34.7"}]},
                "machineImages": [{"name": "pear", "versions": [{"version": "7.0.1", "cri": [{"name": "containerd"}], "architectures": ["amd64"]}]}],
                "machineTypes": [{"name": "big.one", "cpu": "2", "gpu": "0", "memory": "4Gi", "architecture": "amd64"}],
                "regions": [{"name": "far-west"}],
            },
        }),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata("purse"), "type": "Opaque"}),
        json!({
            "apiVersion": "security.gardener.cloud/v1alpha1", "kind": "CredentialsBinding", "metadata": metadata("purse-b"),
            "provider": {"type": "Pear"},
            "credentialsRef": {"apiVersion": "v1", "kind": "Secret", "name": "purse", "namespace": "garden-grove"},
        }),
        json!({
            "apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot", "metadata": metadata("tree-1"),
            "spec": {
                "cloudProfile": {"kind": "CloudProfile", "name": "pears"},
                "credentialsBindingName": "purse-b",
                "region": "far-west",
                "kubernetes": {"version": "1.34.7"},
                "networking": {"type": "Pear"},
                "provider": {
                    "type": "Pear",
                    "workers": [{
                        "name": "w", "minimum": 1, "maximum": 1, "maxSurge": 1, "maxUnavailable": 0,
                        "machine": {"type": "big.one", "image": {"name": "pear", "version": "7.0.1"}},
                    }],
                },
            },
        }),
    ]
}
