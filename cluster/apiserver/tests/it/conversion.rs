//! Conversion webhooks: which requests wait for them, and how often they are called.

use std::time::Duration;

use futures::{AsyncBufReadExt, TryStreamExt};
use http::Request;
use kube::Client;
use serde_json::{Value, json};

use crate::hook::Hook;
use crate::server::{Server, get, post, start};

const GROUP: &str = "hooked.example.com";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WATCHERS: usize = 20;
/// Longer than anything here takes.
const TIMEOUT: Duration = Duration::from_secs(20);

fn path(version: &str) -> String {
    format!("/apis/{GROUP}/{version}/namespaces/default/things")
}

fn thing(version: &str, name: &str) -> Value {
    json!({"apiVersion": format!("{GROUP}/{version}"), "kind": "Thing", "metadata": {"name": name}})
}

async fn defined(hook: &Hook, behaviour: &str) -> (Server, Client) {
    let server = start().await;
    let admin = server.admin();
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version =
        |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": schema});
    let definition = json!({
        "metadata": {"name": format!("things.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "conversion": hook.conversion(behaviour), "versions": [version("v1", true), version("v2", false)],
        },
    });
    let (code, body) = post(&admin, DEFINITIONS, &definition).await;
    assert_eq!(code, 201, "{body}");
    (server, admin)
}

#[tokio::test]
async fn a_webhook_that_does_not_answer_delays_only_requests_that_need_it() {
    let hook = Hook::start().await;
    let (server, admin) = defined(&hook, "hold").await;
    let held = tokio::spawn({
        let admin = admin.clone();
        async move { post(&admin, &path("v2"), &thing("v2", "held")).await }
    });
    hook.has_received(1).await;
    assert_eq!(
        get(&admin, &format!("{}/held", path("v1"))).await.0,
        404,
        "nothing is stored yet"
    );
    assert_eq!(post(&admin, &path("v1"), &thing("v1", "free")).await.0, 201);
    assert_eq!(get(&admin, &path("v1")).await.1["items"].as_array().unwrap().len(), 1);
    assert_eq!(get(&admin, "/apis").await.0, 200);
    // To be stored, and to be shown.
    hook.release(2);
    let (code, body) = held.await.unwrap();
    assert_eq!(code, 201, "{body}");
    drop(server);
}

#[tokio::test]
async fn what_cannot_be_converted_is_not_stored() {
    let hook = Hook::start().await;
    let (_server, admin) = defined(&hook, "deny").await;
    let (code, body) = post(&admin, &path("v2"), &thing("v2", "a")).await;
    assert_eq!(code, 500, "{body}");
    assert_eq!(
        body["message"],
        format!("conversion webhook for {GROUP}/v2, Kind=Thing failed: no")
    );
    assert_eq!(get(&admin, &format!("{}/a", path("v1"))).await.0, 404);
}

#[tokio::test]
async fn watches_of_a_version_share_one_conversion_of_a_change() {
    let hook = Hook::start().await;
    let (server, admin) = defined(&hook, "").await;
    let mut watches = Vec::new();
    for _ in 0..WATCHERS {
        let request = Request::get(format!("{}?watch=true&resourceVersion=1", path("v2")));
        let lines = admin.request_stream(request.body(Vec::new()).unwrap()).await.unwrap();
        watches.push(lines.lines());
    }
    assert_eq!(server.api.watches(), WATCHERS);
    assert_eq!(post(&admin, &path("v1"), &thing("v1", "a")).await.0, 201);
    for watch in &mut watches {
        let line = tokio::time::timeout(TIMEOUT, watch.try_next()).await.unwrap();
        let event: Value = serde_json::from_str(&line.unwrap().unwrap()).unwrap();
        assert_eq!(event["object"]["apiVersion"], format!("{GROUP}/v2"));
        assert_eq!(event["object"]["metadata"]["labels"]["converted"], "yes");
    }
    assert_eq!(hook.requests(), 1);
    // Lists use conversions that watches have cached.
    let (_, list) = get(&admin, &path("v2")).await;
    assert_eq!(list["items"][0]["apiVersion"], format!("{GROUP}/v2"));
    assert_eq!(hook.requests(), 1);
}
