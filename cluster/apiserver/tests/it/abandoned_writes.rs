//! Clients that disconnect in the middle of a write, and writers whose responses overtake each other: access rules and served
//! kinds still match the store.

use std::future::poll_fn;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use cluster_apiserver::{AUDIT_RECORDS_MAX, ApiServer};
use cluster_store::{
    Changes, Entry, FileOptions, FileStore, Key, Listing, MemoryStore, Object, Page, Range, Revision, Store, StoreError,
};
use http::Method;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tower::ServiceExt;

use crate::custom::{CRDS, definition};
use crate::server::{call, delete, get, merge, post, put};

const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const EVE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/eve";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.org";
const THINGS: &str = "/apis/example.org/v1/namespaces/default/things";
/// Long enough for a few writes on any disk.
const TIMEOUT: Duration = Duration::from_secs(20);

fn binding(user: &str, finalizers: &[&str]) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "eve", "labels": {"of": "eve"}, "finalizers": finalizers},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    })
}

fn administrator(user: &str) -> Value {
    let mut binding = binding(user, &[]);
    binding["metadata"] = json!({"name": "administrator"});
    binding
}

async fn may(client: &Client, user: &str) -> bool {
    let question = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": {"verb": "get", "resource": "secrets", "namespace": "default"}},
    });
    let (code, answer) = post(client, "/apis/authorization.k8s.io/v1/subjectaccessreviews", &question).await;
    assert_eq!(code, 201, "{answer}");
    answer["status"]["allowed"] == true
}

/// Polls a request until it has been pending so many times, then drops it. True: it was answered before.
async fn dropped_after(waits: usize, request: impl Future<Output = (u16, Value)>) -> bool {
    let mut request = Box::pin(request);
    let mut left = waits;
    poll_fn(|context| match request.as_mut().poll(context) {
        Poll::Ready(_) => Poll::Ready(true),
        Poll::Pending if left <= 1 => Poll::Ready(false),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

/// Waits until `holds`, which must become true.
async fn eventually(what: &str, holds: impl AsyncFn() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(TIMEOUT, waiting).await;
    assert!(waited.is_ok(), "{what}");
}

struct OnDisk {
    client: Client,
    /// A client of an administrator which runs the server itself, so that its requests can be dropped at each wait of the server.
    dropping: Client,
    api: ApiServer,
    store: FileStore,
    folder: PathBuf,
}

impl OnDisk {
    async fn start(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("apiserver-{name}-{}", std::process::id()));
        let store = FileStore::open(&folder, FileOptions::default()).await.unwrap();
        let api = ApiServer::builder("test")
            .store(store.clone())
            .audit_records(AUDIT_RECORDS_MAX)
            .build()
            .await
            .unwrap();
        let client = api.loopback_client();
        let (created, why) = post(&client, BINDINGS, &administrator("system:anonymous")).await;
        assert_eq!(created, 201, "{why}");
        let service = api.service();
        Self {
            client,
            dropping: Client::new(
                tower::service_fn(move |request| service.clone().oneshot(request)),
                "default",
            ),
            api,
            store,
            folder,
        }
    }

    async fn stop(self) {
        self.api.shutdown().await;
        self.store.close().await.unwrap();
        std::fs::remove_dir_all(&self.folder).unwrap();
    }

    /// A write after all that were made so far.
    async fn flush(&self) {
        let name = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "f-"}});
        assert_eq!(post(&self.client, crate::server::CONFIG_MAPS, &name).await.0, 201);
    }

    async fn rules_follow(&self, after: &str) {
        self.flush().await;
        eventually(
            &format!("the rules do not follow the store after {after}"),
            async || (get(&self.client, EVE).await.0 == 200) == may(&self.client, "eve").await,
        )
        .await;
    }
}

#[tokio::test]
async fn access_rules_match_the_store_wherever_a_client_disconnects() {
    let server = OnDisk::start("rules").await;
    let (client, dropping) = (&server.client, &server.dropping);
    for waits in 1.. {
        let mut answered = dropped_after(waits, post(dropping, BINDINGS, &binding("eve", &[]))).await;
        server.rules_follow("a create").await;

        post(client, BINDINGS, &binding("eve", &[])).await;
        answered &= dropped_after(waits, delete(dropping, EVE)).await;
        server.rules_follow("a delete").await;

        post(client, BINDINGS, &binding("eve", &[])).await;
        answered &= dropped_after(waits, delete(dropping, &format!("{BINDINGS}?labelSelector=of%3Deve"))).await;
        server.rules_follow("a delete of a collection").await;

        delete(client, EVE).await;
        post(client, BINDINGS, &binding("eve", &["example.org/waits"])).await;
        delete(client, EVE).await;
        let freed = json!({"metadata": {"finalizers": null}});
        answered &= dropped_after(waits, merge(dropping, EVE, &freed)).await;
        server.rules_follow("the last finalizer").await;
        merge(client, EVE, &freed).await;

        post(client, BINDINGS, &binding("eve", &[])).await;
        answered &= dropped_after(waits, put(dropping, EVE, &binding("mallory", &[]))).await;
        server.flush().await;
        eventually("the rules do not follow the store after an update", async || {
            let stored = get(client, EVE).await.1;
            may(client, "mallory").await == (stored["subjects"][0]["name"] == "mallory")
                && may(client, "eve").await == (stored["subjects"][0]["name"] == "eve")
        })
        .await;
        delete(client, EVE).await;
        if answered {
            break;
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn served_kinds_match_the_store_wherever_a_client_disconnects() {
    let server = OnDisk::start("kinds").await;
    let (client, dropping) = (&server.client, &server.dropping);
    for waits in 1.. {
        let mut answered = dropped_after(waits, post(dropping, CRDS, &definition())).await;
        server.flush().await;
        eventually("a stored definition is not served", async || {
            (get(client, DEFINITION).await.0 == 200) == (get(client, THINGS).await.0 == 200)
        })
        .await;

        post(client, CRDS, &definition()).await;
        answered &= dropped_after(waits, delete(dropping, DEFINITION)).await;
        server.flush().await;
        eventually("a definition that was deleted stays", async || {
            match get(client, DEFINITION).await {
                (404, _) => get(client, THINGS).await.0 == 404,
                (_, stored) => stored["metadata"]["deletionTimestamp"].is_null(),
            }
        })
        .await;
        delete(client, DEFINITION).await;
        eventually("a definition that was deleted stays", async || {
            get(client, DEFINITION).await.0 == 404
        })
        .await;
        if answered {
            break;
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn a_write_whose_client_has_disconnected_is_recorded_and_awaited() {
    let server = OnDisk::start("record").await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = seen.clone();
    server
        .api
        .audit()
        .subscribe(move |record| sees.lock().unwrap().push((record.verb.clone(), record.code)));
    // The first wait is for the client's own queue, the second for the disk.
    assert!(!dropped_after(2, post(&server.dropping, BINDINGS, &binding("eve", &[]))).await);
    server.api.shutdown().await;
    assert_eq!(*seen.lock().unwrap(), [("create".to_owned(), 201)]);
    let key = Key::new("rbac.authorization.k8s.io/clusterrolebindings", None, "eve");
    assert!(server.store.get(&key).await.unwrap().is_some());
    server.stop().await;
}

/// A store whose responses to updates of `eve` come when the test releases them; the updates themselves happen at once.
struct Held {
    store: MemoryStore,
    updated: mpsc::UnboundedSender<oneshot::Sender<()>>,
}

#[async_trait]
impl Store for Held {
    async fn get(&self, key: &Key) -> Result<Option<Entry>, StoreError> {
        self.store.get(key).await
    }

    async fn list(&self, range: &Range, page: Page) -> Result<Listing, StoreError> {
        self.store.list(range, page).await
    }

    async fn create(&self, key: Key, object: Object) -> Result<Entry, StoreError> {
        self.store.create(key, object).await
    }

    async fn update(&self, key: &Key, expected: Revision, object: Object) -> Result<Entry, StoreError> {
        let outcome = self.store.update(key, expected, object).await;
        if &*key.name == "eve" {
            let (go, gone) = oneshot::channel();
            self.updated.send(go).unwrap();
            gone.await.unwrap();
        }
        outcome
    }

    async fn delete(&self, key: &Key, expected: Revision) -> Result<Entry, StoreError> {
        self.store.delete(key, expected).await
    }

    async fn watch(&self, range: &Range, from: Revision) -> Result<Changes, StoreError> {
        self.store.watch(range, from).await
    }

    async fn revision(&self) -> Result<Revision, StoreError> {
        self.store.revision().await
    }
}

#[tokio::test(start_paused = true)]
async fn the_newest_rule_holds_in_whatever_order_writers_are_answered() {
    let (updated, mut updates) = mpsc::unbounded_channel();
    let store = Held {
        store: MemoryStore::new(),
        updated,
    };
    let api = ApiServer::builder("test").store(store).build().await.unwrap();
    let client = api.loopback_client();
    assert_eq!(post(&client, BINDINGS, &binding("zero", &[])).await.0, 201);
    let mut writers = Vec::new();
    for user in ["one", "two", "three"] {
        let client = client.clone();
        let writing = tokio::spawn(async move {
            let body = binding(user, &[]).to_string();
            call(&client, Method::PUT, EVE, "application/json", body).await.0
        });
        writers.push((updates.recv().await.unwrap(), writing));
    }
    for turn in [2, 0, 0] {
        let (go, writing) = writers.remove(turn);
        go.send(()).unwrap();
        assert_eq!(writing.await.unwrap(), 200);
        assert!(may(&client, "three").await, "the newest write was applied first");
    }
    assert!(!may(&client, "two").await && !may(&client, "one").await);
}
