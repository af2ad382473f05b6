//! Protected objects are deleted once their deletion is confirmed, and not before.

use cluster_apiserver::Protection;
use serde_json::{Value, json};

use crate::custom::{CRDS, definition};
use crate::server::{Server, delete, get, merge, post, start_with};

const THINGS: &str = "/apis/example.org/v1/namespaces/default/things";
const CONFIRMED: &str = "confirm.example.org/deletion";

async fn protected() -> Server {
    let protection = Protection {
        annotation: CONFIRMED.to_owned(),
        label: "example.org/protected".to_owned(),
        kinds: vec![("example.org".to_owned(), "things".to_owned())],
    };
    let server = start_with(|builder| builder.protect(protection)).await;
    let mut things = definition();
    things["metadata"]["labels"] = json!({"example.org/protected": "true"});
    assert_eq!(post(&server.admin(), CRDS, &things).await.0, 201);
    server
}

fn refused((code, answer): (u16, Value), command: &str) {
    assert_eq!(code, 403, "{answer}");
    let message = answer["message"].as_str().unwrap();
    assert!(
        message.contains("must have a \"confirm.example.org/deletion\" annotation to delete"),
        "{message}"
    );
    assert!(message.ends_with(command), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_protected_object_and_its_definition_are_deleted_once_confirmed() {
    let server = protected().await;
    let client = server.admin();
    for name in ["t", "u"] {
        let thing =
            json!({"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": name}, "spec": {"type": "a"}});
        assert_eq!(post(&client, THINGS, &thing).await.0, 201);
    }
    let (one, all) = (format!("{THINGS}/t"), format!("{CRDS}/things.example.org"));
    let command = format!("run: kubectl annotate -n default things.example.org t {CONFIRMED}=true");
    refused(delete(&client, &one).await, &command);
    refused(delete(&client, THINGS).await, &command);
    let command = format!(
        "run: kubectl annotate customresourcedefinitions.apiextensions.k8s.io things.example.org {CONFIRMED}=true"
    );
    refused(delete(&client, &all).await, &command);

    let confirmed = |value: &str| json!({"metadata": {"annotations": {CONFIRMED: value}}});
    assert_eq!(merge(&client, &one, &confirmed("no")).await.0, 200);
    assert_eq!(delete(&client, &one).await.0, 403);
    assert_eq!(merge(&client, &one, &confirmed("True")).await.0, 200);
    assert_eq!(delete(&client, &one).await.0, 200);
    assert_eq!(get(&client, &one).await.0, 404);
    assert_eq!(
        get(&client, &format!("{THINGS}/u")).await.0,
        200,
        "this one is not confirmed"
    );
    assert_eq!(merge(&client, &all, &confirmed("1")).await.0, 200);
    assert_eq!(delete(&client, &all).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn unprotected_kinds_and_definitions_are_deleted_at_once() {
    let server = protected().await;
    let client = server.admin();
    let mut other = definition();
    other["metadata"]["name"] = json!("others.example.org");
    let names = json!({"plural": "others", "singular": "other", "kind": "Other", "listKind": "OtherList"});
    other["spec"]["names"] = names;
    assert_eq!(post(&client, CRDS, &other).await.0, 201);
    let others = THINGS.replace("things", "others");
    let object =
        json!({"apiVersion": "example.org/v1", "kind": "Other", "metadata": {"name": "o"}, "spec": {"type": "a"}});
    assert_eq!(post(&client, &others, &object).await.0, 201);
    assert_eq!(delete(&client, &format!("{others}/o")).await.0, 200);
    assert_eq!(delete(&client, &format!("{CRDS}/others.example.org")).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn a_refused_deletion_does_not_stop_the_rest_of_a_collection() {
    let server = protected().await;
    let client = server.admin();
    for (name, confirmed) in [("a", "true"), ("b", "no"), ("c", "true")] {
        let thing = json!({"apiVersion": "example.org/v1", "kind": "Thing",
            "metadata": {"name": name, "annotations": {CONFIRMED: confirmed}}, "spec": {"type": "a"}});
        assert_eq!(post(&client, THINGS, &thing).await.0, 201);
    }
    let command = format!("run: kubectl annotate -n default things.example.org b {CONFIRMED}=true");
    refused(delete(&client, THINGS).await, &command);
    let (_, left) = get(&client, THINGS).await;
    let names = left["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|thing| &thing["metadata"]["name"]);
    assert_eq!(names.collect::<Vec<_>>(), ["b"]);
}
