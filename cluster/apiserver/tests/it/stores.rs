//! A resource with a store of its own: it is found there and nowhere else, and its versions are those of that store.

use std::sync::Arc;
use std::time::Duration;

use cluster_store::{Key, MemoryStore, Object, Page, Range, Store};
use serde_json::{Value, json};

use crate::custom::{CRDS, definition};
use crate::server::{CONFIG_MAPS, Server, config_map, delete, get, post, start_with};

const EVENTS: &str = "/api/v1/namespaces/default/events";
const RENAMED: &str = "/apis/events.k8s.io/v1/namespaces/default/events";
const THINGS: &str = "/apis/example.org/v1/namespaces/default/things";

async fn with_event_store() -> (Server, MemoryStore, MemoryStore) {
    let (main, events) = (MemoryStore::new(), MemoryStore::new());
    let server = over(&main, &events).await;
    (server, main, events)
}

async fn over(main: &MemoryStore, events: &MemoryStore) -> Server {
    start_with(|builder| {
        builder
            .store(main.clone())
            .store_of("", "events", Arc::new(events.clone()))
            .store_of("example.org", "things", Arc::new(events.clone()))
    })
    .await
}

fn event(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": "default"}, "reason": "Tested",
        "type": "Normal", "involvedObject": {"kind": "ConfigMap", "namespace": "default", "name": "a"},
    })
}

async fn stored(store: &MemoryStore, resource: &str) -> Vec<String> {
    let listed = store.list(&Range::all(resource), Page::default()).await.unwrap();
    listed.entries.iter().map(|entry| entry.key.name.to_string()).collect()
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn events_of_both_groups_go_to_the_event_store() {
    let (server, main, events) = with_event_store().await;
    let client = server.admin();
    assert_eq!(post(&client, EVENTS, &event("a")).await.0, 201);
    let mut renamed = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "b", "namespace": "default"},
        "reason": "Tested", "type": "Normal", "action": "Test", "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "tests.example.org/it", "reportingInstance": "it",
    });
    renamed["regarding"] = json!({"kind": "ConfigMap", "namespace": "default", "name": "a"});
    let (code, made) = post(&client, RENAMED, &renamed).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(post(&client, CONFIG_MAPS, &config_map("c", &json!({}))).await.0, 201);
    assert_eq!(stored(&events, "events").await, ["a", "b"]);
    assert_eq!(stored(&main, "events").await, [""; 0]);
    assert!(stored(&main, "configmaps").await.contains(&"c".to_owned()));
    assert_eq!(stored(&events, "configmaps").await, [""; 0]);
    for path in [EVENTS, RENAMED] {
        let (_, list) = get(&client, path).await;
        assert_eq!(list["items"].as_array().unwrap().len(), 2, "{path}");
        assert_eq!(version(&list), events.revision().await.unwrap().0, "{path}");
    }
    assert_eq!(delete(&client, &format!("{RENAMED}/a")).await.0, 200);
    assert_eq!(stored(&events, "events").await, ["b"]);
}

#[tokio::test(start_paused = true)]
async fn versions_of_a_resource_are_those_of_its_store() {
    let (server, main, events) = with_event_store().await;
    let client = server.admin();
    let (_, made) = post(&client, EVENTS, &event("a")).await;
    let (newest, of_main) = (events.revision().await.unwrap().0, main.revision().await.unwrap().0);
    assert_eq!(version(&made), newest);
    assert!(of_main > newest, "or the rest of the test would prove nothing");
    let (code, ahead) = get(&client, &format!("{EVENTS}?resourceVersion={of_main}")).await;
    assert_eq!(
        (code, ahead["message"].as_str()),
        (
            504,
            Some(&*format!(
                "Timeout: Too large resource version: {of_main}, current: {newest}"
            ))
        )
    );
    assert_eq!(
        get(&client, &format!("{CONFIG_MAPS}?resourceVersion={of_main}"))
            .await
            .0,
        200
    );
    // A watch from where the list ended, with its bookmark, ends at the version of the store of events.
    let query = format!("watch=1&resourceVersion={newest}&timeoutSeconds=10&allowWatchBookmarks=true");
    assert_eq!(post(&client, EVENTS, &event("b")).await.0, 201);
    let request = http::Request::get(format!("{EVENTS}?{query}"))
        .body(Vec::new())
        .unwrap();
    let (code, text) = crate::server::send_text(&client, request).await;
    assert_eq!(code, 200, "{text}");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["object"]["metadata"]["name"], "b");
    let now = events.revision().await.unwrap().0;
    assert!(lines.iter().all(|line| version(&line["object"]) <= now), "{text}");
}

#[tokio::test(start_paused = true)]
async fn events_left_in_the_main_store_are_not_read_and_expire() {
    let (main, events) = (MemoryStore::new(), MemoryStore::new());
    let before = start_with(|builder| builder.store(main.clone())).await;
    assert_eq!(post(&before.admin(), EVENTS, &event("old")).await.0, 201);
    before.api.shutdown().await;
    let server = over(&main, &events).await;
    let client = server.admin();
    assert_eq!(get(&client, &format!("{EVENTS}/old")).await.0, 404);
    assert_eq!(stored(&main, "events").await, ["old"]);
    assert_eq!(post(&client, EVENTS, &event("new")).await.0, 201);
    tokio::time::sleep(Duration::from_secs(3600 + 600)).await;
    assert_eq!(stored(&main, "events").await, [""; 0]);
    assert_eq!(stored(&events, "events").await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn objects_of_an_earlier_version_are_recognized_by_the_mark_of_their_store() {
    let (main, events) = (MemoryStore::new(), MemoryStore::new());
    // So many writes that the mark of the main store, which comes first, would stand before them.
    for number in 0..50 {
        let key = Key::new("events", Some("default"), format!("e{number}"));
        let mut old = event(&format!("e{number}"));
        old["metadata"]["uid"] = json!(format!("{number}"));
        old["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        old["related"] = Value::Null;
        events.create(key, Object::from_value(old).unwrap()).await.unwrap();
    }
    let server = over(&main, &events).await;
    let mark = Key::new("orangery.dev/forms", None, "builtin");
    for store in [&main, &events] {
        assert!(store.get(&mark).await.unwrap().is_some());
    }
    let (_, read) = get(&server.admin(), &format!("{EVENTS}/e49")).await;
    assert!(read["source"].is_object(), "an empty field as Go prints it: {read}");
}

#[tokio::test(start_paused = true)]
async fn custom_resources_stay_in_the_main_store() {
    let (server, main, events) = with_event_store().await;
    let client = server.admin();
    assert_eq!(post(&client, CRDS, &definition()).await.0, 201);
    let thing =
        json!({"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"type": "local"}});
    let (code, made) = post(&client, THINGS, &thing).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(stored(&main, "example.org/things").await, ["a"]);
    assert_eq!(stored(&events, "example.org/things").await, [""; 0]);
}
