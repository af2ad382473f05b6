//! Manifests as the older documents about extensions have them, in kinds and spellings: applied to a running landscape
//! with strict validation, as kubectl does. What is tolerated of them is accepted, what is not is refused by the name of
//! its field.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::PostParams;
use kube::core::Request;
use kube::{Api, Client};
use landscape_local::{Landscape, Settings, State, documents};
use serde_json::{Value, json};

/// Virtual time, longer than any wait inside the product.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Documents of the seed: what a gardenlet writes for extensions.
const INFRASTRUCTURE: &str = include_str!("older_documents/infrastructure.yaml");
const CONTROL_PLANE: &str = include_str!("older_documents/control-plane.yaml");
/// Documents of the garden: how extensions are made known and installed.
const REGISTRATION: &str = include_str!("older_documents/registration.yaml");
const CHART_CUT_SHORT: &str = include_str!("older_documents/chart-cut-short.yaml");
const SHOOT_OF_2019: &str = include_str!("older_documents/shoot-of-2019.yaml");

/// Creates an object as `kubectl create` does; gives it as stored, or what was said.
async fn create(client: &Client, object: &Value) -> Result<Value, String> {
    let text = |field: &str| object[field].as_str().unwrap();
    let plural = match text("kind") {
        "Infrastructure" => "infrastructures".to_owned(),
        kind => format!("{}s", kind.to_lowercase()),
    };
    let place = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("namespaces/{namespace}/{plural}"),
        None => plural,
    };
    let mut request = Request::new(format!("/apis/{}/{place}", text("apiVersion")))
        .create(&PostParams::default(), serde_json::to_vec(object).unwrap())
        .unwrap();
    *request.uri_mut() = format!("{}&fieldValidation=Strict", request.uri()).parse().unwrap();
    match client.request::<Value>(request).await {
        Ok(stored) => Ok(stored),
        Err(kube::Error::Api(status)) => Err(status.message),
        Err(error) => unreachable!("no answer: {error}"),
    }
}

async fn create_all(client: &Client, yaml: &str) -> Vec<Value> {
    let mut stored = Vec::new();
    for object in documents(yaml).unwrap() {
        stored.push(
            create(client, &object)
                .await
                .unwrap_or_else(|error| unreachable!("{object}: {error}")),
        );
    }
    stored
}

async fn landscape() -> (Landscape, Client, Client) {
    let epoch = "2026-01-01T00:00:00Z".parse().unwrap();
    let settings = Settings::simulated("data".into(), epoch, 1);
    let state = State::memory(&settings).unwrap();
    let landscape = Landscape::start(&settings, &state).await.unwrap();
    landscape.ready(PATIENCE).await.unwrap();
    let client = |kubeconfig| landscape.connector().client(&kubeconfig).unwrap();
    let garden = client(landscape.garden_kubeconfig().unwrap());
    let seed = client(landscape.seed_kubeconfig().unwrap());
    (landscape, garden, seed)
}

#[tokio::test(start_paused = true)]
async fn extension_resources_of_the_older_documents_are_accepted() {
    let (_landscape, _, seed) = landscape().await;
    let namespaces: Api<Namespace> = Api::all(seed.clone());
    for name in ["shoot--old--one", "shoot--old--two"] {
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    }
    let [without_namespace, whole]: [Value; 2] = documents(INFRASTRUCTURE).unwrap().try_into().unwrap();
    let refusal = create(&seed, &without_namespace).await.unwrap_err();
    assert!(
        refusal.contains("spec.secretRef.namespace: Required value") && !refusal.contains("dns"),
        "only the namespace of the Secret is required beyond the document: {refusal}"
    );
    let stored = create(&seed, &whole).await.unwrap();
    assert_eq!(stored["spec"]["dns"], json!({"apiserver": "api.one.old.example.com"}));
    assert_eq!(stored["spec"]["providerConfig"], whole["spec"]["providerConfig"]);
    create_all(&seed, CONTROL_PLANE).await;
}

#[tokio::test(start_paused = true)]
async fn registrations_of_the_older_documents_are_accepted_in_todays_words() {
    let (_landscape, garden, _) = landscape().await;
    let stored = create_all(&garden, REGISTRATION).await;
    let by_itself = stored
        .iter()
        .find(|object| object["metadata"]["name"] == "everywhere")
        .unwrap();
    let resource = &by_itself["spec"]["resources"][0];
    assert_eq!(resource["autoEnable"], json!(["shoot"]));
    assert!(resource.get("globallyEnabled").is_none(), "{resource}");
}

#[tokio::test(start_paused = true)]
async fn what_is_no_longer_valid_is_refused_by_its_field() {
    let (_landscape, garden, _) = landscape().await;
    for (yaml, expected) in [
        (
            CHART_CUT_SHORT,
            "providerConfig.chart: Invalid value: \"H4sIAAAAAAAA/cut...\"",
        ),
        (SHOOT_OF_2019, "unknown field \"spec.cloud\""),
    ] {
        let object = documents(yaml).unwrap().remove(0);
        let refusal = create(&garden, &object).await.unwrap_err();
        assert!(refusal.contains(expected), "{refusal}");
    }
}
