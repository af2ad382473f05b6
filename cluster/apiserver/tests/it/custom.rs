//! Custom resources: pruning, defaulting, validation, CEL rules, versions, exact numbers, clean-up.

use serde_json::{Value, json};

use crate::server::{call, delete, get, merge, post, put, start};
use http::Method;

pub(crate) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const THINGS: &str = "/apis/example.org/v1/namespaces/default/things";

pub(crate) fn definition() -> Value {
    let schema = json!({
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["type"],
                "properties": {
                    "type": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "type is immutable"}]},
                    "size": {"type": "integer", "default": 3, "minimum": 1},
                    "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                },
            },
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        },
    });
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
            "additionalPrinterColumns": [{"name": "Type", "type": "string", "jsonPath": ".spec.type"}],
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList", "shortNames": ["th"]},
            "versions": [version("v1", true), version("v1beta1", false)],
        },
    })
}

fn thing(spec: &Value) -> Value {
    json!({"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": spec})
}

#[tokio::test(start_paused = true)]
async fn a_custom_resource_is_served_once_its_definition_is_created() {
    let server = start().await;
    let client = server.admin();
    assert_eq!(get(&client, THINGS).await.0, 404);
    let (code, made) = post(&client, CRDS, &definition()).await;
    assert_eq!(code, 201, "{made}");
    let (_, settled) = get(&client, &format!("{CRDS}/things.example.org")).await;
    let established = settled["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .any(|c| c["type"] == "Established" && c["status"] == "True");
    assert!(established, "{settled}");
    assert_eq!(get(&client, THINGS).await.0, 200);
    let (_, resources) = get(&client, "/apis/example.org/v1").await;
    assert_eq!(resources["resources"][0]["shortNames"], json!(["th"]));
    let (_, groups) = get(&client, "/apis/example.org").await;
    assert_eq!(groups["preferredVersion"]["version"], "v1");
    let (_, document) = get(&client, "/openapi/v3/apis/example.org/v1").await;
    let patch = &document["paths"]["/apis/example.org/v1/namespaces/{namespace}/things/{name}"]["patch"];
    assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Thing");
    let media_types: Vec<&String> = patch["requestBody"]["content"].as_object().unwrap().keys().collect();
    assert_eq!(
        media_types,
        [
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json"
        ],
        "kubectl sends a strategic merge patch wherever it is listed"
    );
    let schemas = &document["components"]["schemas"];
    let metadata = &schemas["org.example.v1.Thing"]["properties"]["metadata"];
    assert!(
        metadata["description"]
            .as_str()
            .unwrap()
            .starts_with("Standard object's metadata")
    );
    for name in ["ObjectMeta", "OwnerReference", "ManagedFieldsEntry"] {
        let schema = &schemas[format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}")];
        assert!(schema["properties"].is_object(), "{name}");
    }
    assert!(
        patch["parameters"]
            .as_array()
            .unwrap()
            .iter()
            .any(|p| p["name"] == "fieldValidation")
    );
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_are_pruned_defaults_are_set_and_rules_hold() {
    let server = start().await;
    let client = server.admin();
    post(&client, CRDS, &definition()).await;
    let (code, made) = post(
        &client,
        THINGS,
        &thing(&json!({"type": "a", "junk": 1, "open": {"kept": [1]}})),
    )
    .await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(made["spec"], json!({"type": "a", "size": 3, "open": {"kept": [1]}}));
    assert_eq!(made["metadata"]["generation"], 1);
    let path = format!("{THINGS}/t");
    let (code, refused) = merge(&client, &path, &json!({"spec": {"type": "b"}})).await;
    assert_eq!(
        (code, refused["message"].as_str().unwrap().contains("type is immutable")),
        (422, true),
        "{refused}"
    );
    let (code, refused) = merge(&client, &path, &json!({"spec": {"size": 0}})).await;
    assert_eq!(code, 422);
    assert_eq!(
        refused["message"],
        r#"Thing.example.org "t" is invalid: spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"#
    );
    let (code, refused) = post(&client, THINGS, &thing(&json!({}))).await;
    assert_eq!(
        (code, &refused["details"]["causes"][0]["field"]),
        (422, &json!("spec.type"))
    );
    let (code, refused) = post(
        &client,
        &format!("{THINGS}?fieldValidation=Strict"),
        &thing(&json!({"type": "a", "junk": 1})),
    )
    .await;
    assert_eq!(code, 400);
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .contains(r#"strict decoding error: unknown field "spec.junk""#),
        "{refused}"
    );
}

#[tokio::test(start_paused = true)]
async fn all_versions_show_the_same_object() {
    let server = start().await;
    let client = server.admin();
    post(&client, CRDS, &definition()).await;
    let mut old = thing(&json!({"type": "a"}));
    old["apiVersion"] = json!("example.org/v1beta1");
    let beta = "/apis/example.org/v1beta1/namespaces/default/things";
    let (code, made) = post(&client, beta, &old).await;
    assert_eq!(
        (code, &made["apiVersion"]),
        (201, &json!("example.org/v1beta1")),
        "{made}"
    );
    let (_, stable) = get(&client, &format!("{THINGS}/t")).await;
    assert_eq!(
        (&stable["apiVersion"], &stable["metadata"]["uid"]),
        (&json!("example.org/v1"), &made["metadata"]["uid"])
    );
    let (_, list) = get(&client, beta).await;
    assert_eq!(
        list["items"][0]["apiVersion"], "example.org/v1beta1",
        "items of custom lists carry their type"
    );
    let (code, wrong) = post(&client, THINGS, &old).await;
    assert_eq!(code, 400);
    assert_eq!(
        wrong["message"],
        "the API version in the data (example.org/v1beta1) does not match the expected API version (example.org/v1)"
    );
}

#[tokio::test(start_paused = true)]
async fn large_numbers_in_unknown_fields_are_stored_exactly() {
    let server = start().await;
    let client = server.admin();
    post(&client, CRDS, &definition()).await;
    post(&client, THINGS, &thing(&json!({"type": "a"}))).await;
    let status = r#"{"status":{"providerStatus":{"a":9007199254740993,"b":-9223372036854775808,"c":18446744073709551615,"d":1.5,"e":"\"\\\n\u00e9","f":{"z":[],"y":{}},"g":1.0}}}"#;
    let (code, _) = call(
        &client,
        Method::PATCH,
        &format!("{THINGS}/t/status"),
        "application/merge-patch+json",
        status,
    )
    .await;
    assert_eq!(code, 200);
    let request = http::Request::get(format!("{THINGS}/t")).body(Vec::new()).unwrap();
    let (_, text) = crate::server::send_text(&client, request).await;
    let canonical = r#""providerStatus":{"a":9007199254740993,"b":-9223372036854775808,"c":18446744073709551615,"d":1.5,"e":"\"\\\né","f":{"y":{},"z":[]},"g":1}"#;
    assert!(text.contains(canonical), "{text}");
}

#[tokio::test(start_paused = true)]
async fn custom_resource_status_is_written_separately_and_needs_a_version_on_put() {
    let server = start().await;
    let client = server.admin();
    post(&client, CRDS, &definition()).await;
    let mut body = thing(&json!({"type": "a"}));
    body["status"] = json!({"x": 1});
    let (_, made) = post(&client, THINGS, &body).await;
    assert!(made.get("status").is_none());
    let mut whole = made.clone();
    whole["status"] = json!({"x": 2});
    whole["spec"]["size"] = json!(8);
    whole["metadata"]["labels"] = json!({"a": "b"});
    let (code, after) = put(&client, &format!("{THINGS}/t/status"), &whole).await;
    assert_eq!(code, 200, "{after}");
    assert_eq!(
        (
            &after["spec"]["size"],
            &after["status"]["x"],
            after["metadata"].get("labels")
        ),
        (&json!(3), &json!(2), None)
    );
    body["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    let (code, refused) = put(&client, &format!("{THINGS}/t"), &body).await;
    assert_eq!(code, 422);
    assert_eq!(
        refused["message"],
        r#"things.example.org "t" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"#
    );
}

#[tokio::test(start_paused = true)]
async fn deleting_a_definition_deletes_its_instances() {
    let server = start().await;
    let client = server.admin();
    post(&client, CRDS, &definition()).await;
    let mut held = thing(&json!({"type": "a"}));
    held["metadata"]["finalizers"] = json!(["example.org/hold"]);
    post(&client, THINGS, &held).await;
    let (code, _) = delete(&client, &format!("{CRDS}/things.example.org")).await;
    assert_eq!(code, 200);
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let (code, going) = get(&client, &format!("{THINGS}/t")).await;
    assert_eq!(
        (code, going["metadata"]["deletionTimestamp"].is_string()),
        (200, true),
        "{going}"
    );
    merge(
        &client,
        &format!("{THINGS}/t"),
        &json!({"metadata": {"finalizers": null}}),
    )
    .await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(get(&client, &format!("{CRDS}/things.example.org")).await.0, 404);
    assert_eq!(get(&client, THINGS).await.0, 404);
    let (code, _) = post(&client, CRDS, &definition()).await;
    assert_eq!((code, get(&client, THINGS).await.1["items"].clone()), (201, json!([])));
}

#[tokio::test(start_paused = true)]
async fn a_definition_never_takes_names_that_others_have() {
    let server = start().await;
    let client = server.admin();
    post(&client, CRDS, &definition()).await;
    let mut second = definition();
    second["metadata"]["name"] = json!("others.example.org");
    second["spec"]["names"]["plural"] = json!("others");
    assert_eq!(post(&client, CRDS, &second).await.0, 201);
    let path = format!("{CRDS}/others.example.org");
    let others = THINGS.replace("/things", "/others");
    let (_, waiting) = get(&client, &path).await;
    assert_eq!(
        (
            &waiting["status"]["acceptedNames"]["plural"],
            &waiting["status"]["conditions"][0]["status"]
        ),
        (&json!("others"), &json!("False")),
        "{waiting}"
    );
    assert_eq!(get(&client, &others).await.0, 404);
    // The name is free once no definition has it.
    delete(&client, &format!("{CRDS}/things.example.org")).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(get(&client, &others).await.0, 200);
    let mut own = definition();
    own["metadata"]["name"] = json!("deployments.apps");
    own["spec"]["group"] = json!("apps");
    own["spec"]["names"]["plural"] = json!("deployments");
    assert_eq!(post(&client, CRDS, &own).await.0, 422);
}

#[tokio::test(start_paused = true)]
async fn a_definition_without_a_valid_schema_is_refused() {
    let server = start().await;
    let client = server.admin();
    let mut crd = definition();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = json!({"properties": {"x": {}}});
    let (code, refused) = post(&client, CRDS, &crd).await;
    assert_eq!((code, &refused["reason"]), (422, &json!("Invalid")), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn no_instance_is_created_while_a_definition_is_being_deleted() {
    let server = start().await;
    let client = server.admin();
    post(&client, CRDS, &definition()).await;
    let mut held = thing(&json!({"type": "a"}));
    held["metadata"]["finalizers"] = json!(["example.org/hold"]);
    post(&client, THINGS, &held).await;
    delete(&client, &format!("{CRDS}/things.example.org")).await;
    let mut late = thing(&json!({"type": "a"}));
    late["metadata"]["name"] = json!("late");
    let (code, refused) = post(&client, THINGS, &late).await;
    assert_eq!((code, &refused["reason"]), (403, &json!("Forbidden")), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn stored_instances_are_read_by_the_changed_definition() {
    let server = start().await;
    let client = server.admin();
    post(&client, CRDS, &definition()).await;
    let (_, made) = post(&client, THINGS, &thing(&json!({"type": "a", "open": {"x": 1}}))).await;
    assert_eq!(made["spec"]["open"], json!({"x": 1}));
    let (_, mut changed) = get(&client, &format!("{CRDS}/things.example.org")).await;
    for version in changed["spec"]["versions"].as_array_mut().unwrap() {
        let spec = &mut version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        spec["added"] = json!({"type": "string", "default": "new"});
        spec.as_object_mut().unwrap().remove("open");
    }
    let (code, answer) = put(&client, &format!("{CRDS}/things.example.org"), &changed).await;
    assert_eq!(code, 200, "{answer}");
    let expected = json!({"type": "a", "size": 3, "added": "new"});
    let (_, now) = get(&client, &format!("{THINGS}/t")).await;
    assert_eq!(now["spec"], expected);
    let (_, all) = get(&client, THINGS).await;
    assert_eq!(all["items"][0]["spec"], expected);
}
