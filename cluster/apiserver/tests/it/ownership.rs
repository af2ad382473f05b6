//! Ownership of fields: those that the server fills in have no owner, and `kubectl apply` can become server-side.

use http::{Method, Request};
use serde_json::{Value, json};

use crate::custom::{CRDS, definition};
use crate::server::{Server, call, get, merge, post, put, send, start};

const NAMESPACES: &str = "/api/v1/namespaces";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const APPLY: &str = "application/apply-patch+yaml";

/// The fields of one manager.
fn owned(object: &Value, manager: &str) -> Value {
    entry(object, manager)["fieldsV1"].clone()
}

fn entry(object: &Value, manager: &str) -> Value {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let found = entries.iter().find(|entry| entry["manager"] == manager);
    found.cloned().unwrap_or_default()
}

/// A request of one field manager.
async fn by(server: &Server, manager: &str, method: Method, path: &str, body: &Value) -> Value {
    let request = Request::builder()
        .method(method)
        .uri(format!("{path}?fieldManager={manager}"))
        .header("content-type", "application/json")
        .body(body.to_string().into_bytes())
        .unwrap();
    let (code, answer) = send(&server.admin(), request).await;
    assert!(code < 300, "{answer}");
    answer
}

async fn apply(server: &Server, manager: &str, path: &str, body: &Value) -> (u16, Value) {
    let path = format!("{path}?fieldManager={manager}");
    call(&server.admin(), Method::PATCH, &path, APPLY, body.to_string()).await
}

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"type": "NodePort", "selector": {"a": "b"}, "ports": [{"port": 80}]}, "status": {"loadBalancer": {}},
    })
}

#[tokio::test(start_paused = true)]
async fn the_creator_owns_defaults_and_not_what_the_server_fills_in() {
    let server = start().await;
    let made = by(&server, "creator", Method::POST, SERVICES, &service()).await;
    let port = &made["spec"]["ports"][0];
    assert!(
        made["spec"]["clusterIP"].is_string() && port["nodePort"].is_number(),
        "{made}"
    );
    let fields = owned(&made, "creator");
    let spec = &fields["f:spec"];
    assert_eq!(spec["f:sessionAffinity"], json!({}), "a default: {fields}");
    for field in ["f:clusterIP", "f:clusterIPs", "f:ipFamilies", "f:ipFamilyPolicy"] {
        assert_eq!(spec.get(field), None, "{field}");
    }
    let port = r#"k:{"port":80,"protocol":"TCP"}"#;
    assert_eq!(spec["f:ports"][port].get("f:nodePort"), None);
    assert_eq!(fields.get("f:status"), None, "what a create cannot set");

    let made = by(
        &server,
        "creator",
        Method::POST,
        NAMESPACES,
        &json!({"metadata": {"name": "n", "annotations": {"a": "b"}}}),
    )
    .await;
    assert_eq!(made["spec"]["finalizers"], json!(["kubernetes"]));
    let label = json!({".": {}, "f:kubernetes.io/metadata.name": {}});
    let annotations = json!({".": {}, "f:a": {}});
    assert_eq!(
        owned(&made, "creator"),
        json!({"f:metadata": {"f:annotations": annotations, "f:labels": label}})
    );
}

#[tokio::test(start_paused = true)]
async fn a_subresource_owns_only_what_it_can_change() {
    let server = start().await;
    let made = by(
        &server,
        "creator",
        Method::POST,
        NAMESPACES,
        &json!({"metadata": {"name": "n"}}),
    )
    .await;
    let mut finalized = made.clone();
    finalized["spec"]["finalizers"] = json!(["example.org/mine"]);
    finalized["status"]["phase"] = json!("Terminating");
    finalized["metadata"]["managedFields"] = json!([{}]);
    let after = by(
        &server,
        "emptier",
        Method::PUT,
        "/api/v1/namespaces/n/finalize",
        &finalized,
    )
    .await;
    assert_eq!(after["status"]["phase"], "Active");
    assert_eq!(owned(&after, "emptier"), json!({"f:spec": {"f:finalizers": {}}}));
    assert_eq!(entry(&after, "emptier")["subresource"], "finalize");
}

#[tokio::test(start_paused = true)]
async fn the_node_of_a_pod_has_no_owner() {
    let server = start().await;
    let client = server.admin();
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made = by(&server, "creator", Method::POST, pods, &pod).await;
    let binding = json!({"target": {"kind": "Node", "name": "n"}});
    let (code, answer) = post(&client, &format!("{pods}/p/binding"), &binding).await;
    assert_eq!(code, 201, "{answer}");
    let (_, bound) = get(&client, &format!("{pods}/p")).await;
    assert_eq!(bound["spec"]["nodeName"], "n");
    assert_eq!(bound["metadata"]["managedFields"], made["metadata"]["managedFields"]);
}

#[tokio::test(start_paused = true)]
async fn ownership_is_recorded_in_the_version_of_the_client() {
    let server = start().await;
    post(&server.admin(), CRDS, &definition()).await;
    let path = |version: &str| format!("/apis/example.org/{version}/namespaces/default/things");
    let thing = json!({"apiVersion": "example.org/v1beta1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"type": "a", "size": 1, "open": {"x": 1}}});
    let made = by(&server, "old", Method::POST, &path("v1beta1"), &thing).await;
    assert_eq!(entry(&made, "old")["apiVersion"], "example.org/v1beta1");
    let mut changed = get(&server.admin(), &format!("{}/t", path("v1"))).await.1;
    changed["spec"]["size"] = json!(2);
    let after = by(&server, "new", Method::PUT, &format!("{}/t", path("v1")), &changed).await;
    assert_eq!(entry(&after, "new")["apiVersion"], "example.org/v1");
    assert_eq!(owned(&after, "new"), json!({"f:spec": {"f:size": {}}}));
    let shrunk = json!({"spec": {"size": 1, "open": {"x": null}}});
    let patch = format!("{}/t?fieldManager=old", path("v1beta1"));
    let (_, back) = merge(&server.admin(), &patch, &shrunk).await;
    assert_eq!(owned(&back, "new"), Value::Null);
    assert_eq!(entry(&back, "old")["apiVersion"], "example.org/v1beta1");
}

/// What kubectl 1.35 sends, in its order: a client-side apply, then `apply --server-side` of a changed configuration,
/// which moves the ownership by a JSON patch and applies again.
#[tokio::test(start_paused = true)]
async fn client_side_apply_becomes_server_side_apply() {
    let server = start().await;
    let client = server.admin();
    let path = format!("{SERVICES}/s");
    let mut configuration = service();
    configuration.as_object_mut().unwrap().remove("status");
    let mut first = configuration.clone();
    first["metadata"]["annotations"] = json!({LAST_APPLIED: configuration.to_string()});
    let made = by(&server, "kubectl-client-side-apply", Method::POST, SERVICES, &first).await;

    configuration["spec"]["selector"] = json!({"a": "c"});
    let (code, applied) = apply(&server, "kubectl", &path, &configuration).await;
    assert_eq!(code, 200, "{applied}");
    let renewed = applied["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(renewed).unwrap(), configuration);

    let mut all = entry(&made, "kubectl-client-side-apply");
    all["manager"] = json!("kubectl");
    all["operation"] = json!("Apply");
    let moved = json!([
        {"op": "replace", "path": "/metadata/managedFields", "value": [all]},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": applied["metadata"]["resourceVersion"]},
    ]);
    let json_patch = "application/json-patch+json";
    let (code, answer) = call(&client, Method::PATCH, &path, json_patch, moved.to_string()).await;
    assert_eq!(code, 200, "{answer}");
    let (code, last) = apply(&server, "kubectl", &path, &configuration).await;
    assert_eq!(code, 200, "{last}");
    assert_eq!(last["spec"]["selector"], json!({"a": "c"}));
    for field in ["clusterIP", "sessionAffinity", "ports"] {
        assert_eq!(last["spec"][field], made["spec"][field], "{field}");
    }
    assert_eq!(last["metadata"].get("annotations"), None, "it is applied no more");
}

#[tokio::test(start_paused = true)]
async fn managed_fields_are_cleared_by_an_empty_list_and_retained_when_omitted() {
    let server = start().await;
    let client = server.admin();
    let path = format!("{SERVICES}/s");
    let (_, made) = post(&client, SERVICES, &service()).await;
    let mut without = made.clone();
    without["metadata"].as_object_mut().unwrap().remove("managedFields");
    let (_, retained) = put(&client, &path, &without).await;
    assert_eq!(retained, made);
    let (code, forgotten) = merge(&client, &path, &json!({"metadata": {"managedFields": []}})).await;
    assert_eq!(
        (code, forgotten["metadata"].get("managedFields")),
        (200, None),
        "{forgotten}"
    );
}
