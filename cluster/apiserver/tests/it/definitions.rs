//! Deletion of CustomResourceDefinitions: their instances are deleted in spite of store errors, and watches end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use cluster_store::{Changes, Entry, Key, Listing, MemoryStore, Object, Page, Range, Revision, Store, StoreError};
use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};
use tokio::task::{JoinHandle, yield_now};

use crate::custom::{CRDS, definition};
use crate::overtaken::{Other, Overtaken};
use crate::server::{Server, delete, get, merge, post, send_text, start, start_with};

const THINGS: &str = "/apis/example.org/v1/namespaces/default/things";
const STORED: &str = "example.org/things";

fn thing(name: &str) -> Value {
    json!({"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": name}, "spec": {"type": "a"}})
}

/// Opens a watch that lasts `secs`; its task returns all that was sent.
async fn watching(server: &Server, client: &Client, path: &str, secs: u64) -> JoinHandle<String> {
    let before = server.api.watches();
    let request = Request::builder()
        .method(Method::GET)
        .uri(format!("{path}?watch=1&timeoutSeconds={secs}"))
        .body(Vec::new())
        .unwrap();
    let client = client.clone();
    let watch = tokio::spawn(async move { send_text(&client, request).await.1 });
    while server.api.watches() == before {
        yield_now().await;
    }
    watch
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_with_the_definition_of_its_kind() {
    let server = start().await;
    let client = server.admin();
    post(&client, CRDS, &definition()).await;
    post(&client, THINGS, &thing("old")).await;
    let things = watching(&server, &client, THINGS, 600).await;
    let definitions = watching(&server, &client, CRDS, 60).await;
    let path = format!("{CRDS}/things.example.org");
    let (code, answer) = merge(&client, &path, &json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(code, 200, "{answer}");
    post(&client, THINGS, &thing("later")).await;
    assert_eq!(delete(&client, &path).await.0, 200);
    while get(&client, &path).await.0 != 404 {
        yield_now().await;
    }
    assert_eq!(post(&client, CRDS, &definition()).await.0, 201);
    assert_eq!(post(&client, THINGS, &thing("new")).await.0, 201);
    let events = things.await.unwrap();
    let count = |what: &str| events.matches(what).count();
    assert_eq!(count(r#""name":"new""#), 0, "{events}");
    assert!(
        count(r#""name":"later""#) >= 2,
        "a write of the definition ends no watch: {events}"
    );
    assert_eq!(count(r#"{"type":"DELETED""#), 2, "{events}");
    assert_eq!(server.api.watches(), 1, "it ended before its time");
    definitions.await.unwrap();
}

/// A store that answers so many lists of things with an error, and counts the watches of them.
#[derive(Clone)]
struct Faulty {
    store: MemoryStore,
    faults: Arc<AtomicUsize>,
    watches: Arc<AtomicUsize>,
}

impl Faulty {
    fn new() -> Self {
        Self {
            store: MemoryStore::new(),
            faults: Arc::default(),
            watches: Arc::default(),
        }
    }
}

#[async_trait]
impl Store for Faulty {
    async fn get(&self, key: &Key) -> Result<Option<Entry>, StoreError> {
        self.store.get(key).await
    }

    async fn list(&self, range: &Range, page: Page) -> Result<Listing, StoreError> {
        let left = |faults: usize| faults.checked_sub(1);
        if &*range.resource == STORED
            && self
                .faults
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, left)
                .is_ok()
        {
            return Err(StoreError::Unavailable("as the test wants it".to_owned()));
        }
        self.store.list(range, page).await
    }

    async fn create(&self, key: Key, object: Object) -> Result<Entry, StoreError> {
        self.store.create(key, object).await
    }

    async fn update(&self, key: &Key, expected: Revision, object: Object) -> Result<Entry, StoreError> {
        self.store.update(key, expected, object).await
    }

    async fn delete(&self, key: &Key, expected: Revision) -> Result<Entry, StoreError> {
        self.store.delete(key, expected).await
    }

    async fn watch(&self, range: &Range, from: Revision) -> Result<Changes, StoreError> {
        if &*range.resource == STORED {
            self.watches.fetch_add(1, Ordering::Relaxed);
        }
        self.store.watch(range, from).await
    }

    async fn revision(&self) -> Result<Revision, StoreError> {
        self.store.revision().await
    }
}

#[tokio::test(start_paused = true)]
async fn the_clean_up_of_a_definition_survives_errors_of_the_store() {
    let store = Faulty::new();
    let server = start_with(|builder| builder.store(store.clone())).await;
    let client = server.admin();
    post(&client, CRDS, &definition()).await;
    post(&client, THINGS, &thing("t")).await;
    store.faults.store(3, Ordering::Relaxed);
    let definitions = watching(&server, &client, CRDS, 300).await;
    assert_eq!(delete(&client, &format!("{CRDS}/things.example.org")).await.0, 200);
    let events = definitions.await.unwrap();
    assert_eq!(store.faults.load(Ordering::Relaxed), 0, "the clean-up was repeated");
    assert!(events.contains(r#"{"type":"DELETED""#), "{events}");
}

#[tokio::test(start_paused = true)]
async fn writes_of_a_definition_being_deleted_start_no_further_clean_up() {
    let store = Faulty::new();
    let server = start_with(|builder| builder.store(store.clone())).await;
    let client = server.admin();
    post(&client, CRDS, &definition()).await;
    let mut held = thing("t");
    held["metadata"]["finalizers"] = json!(["example.org/hold"]);
    post(&client, THINGS, &held).await;
    let path = format!("{CRDS}/things.example.org");
    delete(&client, &path).await;
    // The clean-up marks the instance, sees that change and waits for the next: two watches.
    while store.watches.load(Ordering::Relaxed) < 2 {
        yield_now().await;
    }
    for turn in 0..5 {
        let (code, answer) = merge(
            &client,
            &path,
            &json!({"metadata": {"labels": {"turn": turn.to_string()}}}),
        )
        .await;
        assert_eq!(code, 200, "{answer}");
    }
    // Paused time advances only when no task has anything left to do.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(store.watches.load(Ordering::Relaxed), 2);
    merge(
        &client,
        &format!("{THINGS}/t"),
        &json!({"metadata": {"finalizers": null}}),
    )
    .await;
    while get(&client, &path).await.0 != 404 {
        yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_definition_without_conditions_gets_them_from_the_next_server() {
    let store = MemoryStore::new();
    let stored = |name: &str, change: &dyn Fn(&mut Value)| {
        let mut stored = definition();
        stored["metadata"] = json!({"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"});
        stored["status"] = json!({"storedVersions": ["v1"]});
        change(&mut stored);
        let key = Key::new("apiextensions.k8s.io/customresourcedefinitions", None, name);
        store.create(key, Object::from_value(stored).unwrap())
    };
    let established = json!([{"type": "Established", "status": "True"}]);
    let settled = |name: &str, stored: &mut Value| {
        stored["spec"]["names"] = json!({"plural": name, "kind": name});
        stored["status"]["acceptedNames"] = stored["spec"]["names"].clone();
        stored["status"]["conditions"] = established.clone();
    };
    // Comes first in the list, and wants names that another has.
    stored("aliens.example.org", &|stored| {
        stored["spec"]["names"]["plural"] = "aliens".into();
        stored["spec"]["names"]["kind"] = "others".into();
    })
    .await
    .unwrap();
    stored("broken.example.org", &|stored| {
        settled("broken", stored);
        stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({"type": "object", "pattern": "("});
    })
    .await
    .unwrap();
    stored("lax.example.org", &|stored| {
        settled("lax", stored);
        let rule = json!({"rule": "self >\n0"});
        let properties = json!({"n": {"type": "integer", "x-kubernetes-validations": [rule], "x-kubernetes-preserve-unknown-fields": false}});
        stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] = properties;
    })
    .await
    .unwrap();
    stored("others.example.org", &|stored| settled("others", stored))
        .await
        .unwrap();
    stored("things.example.org", &|_| ()).await.unwrap();
    let server = start_with(|builder| builder.store(store.clone())).await;
    let client = server.admin();
    let condition = async |name: &str, kind: &str| {
        let (_, found) = get(&client, &format!("{CRDS}/{name}.example.org")).await;
        let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let condition = conditions.into_iter().find(|condition| condition["type"] == kind);
        condition.map(|condition| condition["status"].as_str().unwrap_or_default().to_owned())
    };
    let of = |plural: &str| format!("/apis/example.org/v1/namespaces/default/{plural}");
    for (name, is, code) in [
        ("things", "True", 200),
        ("others", "True", 200),
        ("lax", "True", 200),
        ("aliens", "False", 404),
        ("broken", "False", 404),
    ] {
        assert_eq!(condition(name, "Established").await.as_deref(), Some(is), "{name}");
        assert_eq!(get(&client, &of(name)).await.0, code, "{name}");
    }
    assert_eq!(condition("aliens", "NamesAccepted").await.as_deref(), Some("False"));
    // Definitions that were never served are deleted as well.
    for name in ["aliens", "broken"] {
        let path = format!("{CRDS}/{name}.example.org");
        assert_eq!(delete(&client, &path).await.0, 200);
        while get(&client, &path).await.0 != 404 {
            yield_now().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_released_name_goes_to_the_definition_that_waits_for_it() {
    let server = start().await;
    let client = server.admin();
    let named = |plural: &str, short: &str| {
        let mut named = definition();
        named["metadata"]["name"] = format!("{plural}.example.org").into();
        named["spec"]["names"] = json!({"plural": plural, "kind": plural, "shortNames": [short]});
        named
    };
    for (plural, short) in [("ones", "xx"), ("twos", "xx"), ("threes", "zz")] {
        assert_eq!(post(&client, CRDS, &named(plural, short)).await.0, 201);
    }
    let short_names = async |plural: &str| {
        let (_, found) = get(&client, "/apis/example.org/v1").await;
        let resources = found["resources"].as_array().cloned().unwrap_or_default();
        resources
            .into_iter()
            .find(|resource| resource["name"] == plural)
            .map(|found| found["shortNames"].clone())
    };
    assert_eq!(short_names("ones").await, Some(json!(["xx"])));
    assert_eq!(short_names("twos").await, None, "it waits");
    let renamed = |short: &str| json!({"spec": {"names": {"shortNames": [short]}}});
    let ones = format!("{CRDS}/ones.example.org");
    assert_eq!(merge(&client, &ones, &renamed("zz")).await.0, 200);
    assert_eq!(
        short_names("ones").await,
        Some(json!(["xx"])),
        "the requested name is that of another"
    );
    assert_eq!(merge(&client, &ones, &renamed("yy")).await.0, 200);
    assert_eq!(short_names("ones").await, Some(json!(["yy"])));
    while short_names("twos").await != Some(json!(["xx"])) {
        yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_is_deleted_before_it_is_established_was_created() {
    let store = Overtaken::new(MemoryStore::new(), [("things.example.org", Other::Deletes)]);
    let server = start_with(|builder| builder.store(store.clone())).await;
    let client = server.admin();
    let (code, answer) = post(&client, CRDS, &definition()).await;
    assert!(store.is_over());
    assert_eq!(code, 201, "{answer}");
    assert_eq!(get(&client, &format!("{CRDS}/things.example.org")).await.0, 404);
    assert_eq!(get(&client, THINGS).await.0, 404, "and is not served");
    assert_eq!(post(&client, CRDS, &definition()).await.0, 201);
    assert_eq!(get(&client, THINGS).await.0, 200);
}
