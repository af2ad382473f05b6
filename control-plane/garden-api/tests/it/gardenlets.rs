//! ManagedSeeds, their sets and Gardenlets: defaults, validation, what raises their generation. Nothing acts on them yet.

use http::Method;
use serde_json::{Value, json};

use crate::garden::{Garden, shoot};

const GROUP: &str = "/apis/seedmanagement.gardener.cloud/v1alpha1/namespaces/garden";

async fn garden() -> Garden {
    let garden = Garden::with_landscape().await;
    let namespace = json!({"metadata": {"name": "garden"}});
    garden.ok(Method::POST, "/api/v1/namespaces", &namespace).await;
    garden
}

fn managed_seed() -> Value {
    json!({"metadata": {"name": "s"}, "spec": {"shoot": {"name": "s"}}})
}

/// Its name is not that of the ManagedSeed.
fn gardenlet() -> Value {
    json!({"metadata": {"name": "g"}, "spec": {"deployment": {"podLabels": {"a": "b"},
        "additionalVolumes": [{"name": "v", "emptyDir": {}}], "helm": {"ociRepository": {"ref": "r:1"}}}}})
}

#[tokio::test(start_paused = true)]
async fn both_kinds_are_completed_and_validated() {
    let garden = garden().await;
    let made = garden
        .ok(
            Method::POST,
            &format!("{GROUP}/managedseeds?fieldValidation=Strict"),
            &managed_seed(),
        )
        .await;
    assert_eq!(made["spec"]["gardenlet"]["bootstrap"], "BootstrapToken");
    assert_eq!(
        made["spec"]["gardenlet"]["config"]["resources"]["capacity"]["shoots"],
        "250"
    );
    assert_eq!(made["status"], json!({}));
    let made = garden
        .ok(
            Method::POST,
            &format!("{GROUP}/gardenlets?fieldValidation=Strict"),
            &gardenlet(),
        )
        .await;
    assert_eq!(made["spec"]["deployment"]["replicaCount"], 2);
    assert_eq!(
        made["spec"]["deployment"]["additionalVolumes"],
        gardenlet()["spec"]["deployment"]["additionalVolumes"]
    );
    let elsewhere = GROUP.replace("/garden", "/garden-p");
    for (resource, body) in [("managedseeds", managed_seed()), ("gardenlets", gardenlet())] {
        let (code, answer) = garden
            .call(Method::POST, &format!("{elsewhere}/{resource}"), &body)
            .await;
        assert_eq!(code, 422, "{answer}");
        assert!(
            answer["message"].as_str().unwrap().contains("metadata.namespace"),
            "{answer}"
        );
    }
    let found = garden
        .ok(
            Method::GET,
            &format!("{GROUP}/managedseeds?fieldSelector=spec.shoot.name=s"),
            &Value::Null,
        )
        .await;
    assert_eq!(found["items"].as_array().map(Vec::len), Some(1));
    let table = garden.table(&format!("{GROUP}/managedseeds")).await;
    assert_eq!(
        table["rows"][0]["cells"].as_array().unwrap()[..3],
        ["s", "Unknown", "s"].map(|cell| json!(cell))
    );
}

#[tokio::test(start_paused = true)]
async fn operations_raise_the_generation_and_reconcile_is_used_up() {
    let garden = garden().await;
    for (resource, body, lasting) in [
        ("managedseeds", managed_seed(), "renew-kubeconfig"),
        ("gardenlets", gardenlet(), "force-redeploy"),
    ] {
        garden.ok(Method::POST, &format!("{GROUP}/{resource}"), &body).await;
        let path = format!("{GROUP}/{resource}/{}", body["metadata"]["name"].as_str().unwrap());
        let annotate = |key: &'static str, value: &'static str| {
            let patch = json!({"metadata": {"annotations": {key: value}}});
            let (garden, path) = (garden.clone(), path.clone());
            async move { garden.ok(Method::PATCH, &path, &patch).await["metadata"].clone() }
        };
        let generation = |metadata: &Value| metadata["generation"].as_i64();
        let operation = "gardener.cloud/operation";
        assert_eq!(generation(&annotate("a", "b").await), Some(1));
        let reconciled = annotate(operation, "reconcile").await;
        assert_eq!(generation(&reconciled), Some(2));
        assert_eq!(reconciled["annotations"], json!({"a": "b"}));
        assert_eq!(generation(&annotate(operation, lasting).await), Some(3));
        assert_eq!(
            generation(&annotate("a", "c").await),
            Some(4),
            "{lasting} is still there"
        );
        let observed = json!({"status": {"observedGeneration": -1}});
        let (code, answer) = garden.call(Method::PATCH, &format!("{path}/status"), &observed).await;
        assert_eq!(code, 422, "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_of_managed_seeds_can_be_scaled() {
    let garden = garden().await;
    let labels = json!({"labels": {"a": "b"}});
    let mut shoot = shoot("s")["spec"].clone();
    shoot["kubernetes"]["version"] = json!("1.35.0");
    let set = json!({"metadata": {"name": "s"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": labels, "spec": {"gardenlet": {}}}, "shootTemplate": {"metadata": labels, "spec": shoot}}});
    let made = garden.ok(Method::POST, &format!("{GROUP}/managedseedsets"), &set).await;
    assert_eq!(
        made["spec"]["shootTemplate"]["spec"]["provider"], shoot["provider"],
        "the template stays as it is"
    );
    assert_eq!(made["status"], json!({"replicas": 0}));
    let path = format!("{GROUP}/managedseedsets/s");
    let scale = garden.ok(Method::GET, &format!("{path}/scale"), &Value::Null).await;
    assert_eq!(scale["spec"]["replicas"], 1);
    assert_eq!(scale["status"]["selector"], "a=b");
    let scaled = garden
        .ok(
            Method::PATCH,
            &format!("{path}/scale"),
            &json!({"spec": {"replicas": 3}}),
        )
        .await;
    assert_eq!(scaled["spec"]["replicas"], 3);
    let stored = garden.ok(Method::GET, &path, &Value::Null).await;
    assert_eq!(
        (&stored["spec"]["replicas"], &stored["metadata"]["generation"]),
        (&json!(3), &json!(2))
    );
    let (code, answer) = garden
        .call(Method::PATCH, &path, &json!({"spec": {"replicas": -1}}))
        .await;
    assert_eq!(code, 422, "{answer}");
}
