//! Scale, eviction, deletion of collections, and how discovery lists them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use cluster_apiserver::ApiServer;
use cluster_store::{Changes, Entry, Key, Listing, MemoryStore, Object, Page, Range, Revision, Store, StoreError};
use http::Request;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::server::{CONFIG_MAPS, DEPLOYMENTS, config_map, delete, get, merge, post, put, send, start};

const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

#[tokio::test(start_paused = true)]
async fn an_invalid_scale_changes_nothing() {
    let server = start().await;
    let client = server.admin();
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}},
                 "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}},
    });
    assert_eq!(post(&client, DEPLOYMENTS, &deployment).await.0, 201);
    let path = format!("{DEPLOYMENTS}/web/scale");
    for replicas in [json!("4"), json!(4.5), json!({}), json!(true), json!(3_000_000_000_i64)] {
        let body = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web"}, "spec": {"replicas": replicas}});
        let (code, refused) = put(&client, &path, &body).await;
        assert_eq!(code, 400, "{replicas}: {refused}");
        let (code, refused) = merge(&client, &path, &json!({"spec": {"replicas": replicas}})).await;
        assert_eq!(code, 422, "{replicas}: {refused}");
    }
    let mut whole = get(&client, &format!("{DEPLOYMENTS}/web")).await.1;
    whole["spec"]["replicas"] = json!(5);
    let (code, refused) = put(&client, &path, &whole).await;
    assert_eq!(code, 400, "a Deployment is no Scale: {refused}");
    let later = json!({"apiVersion": "autoscaling/v9", "kind": "Scale", "spec": {"replicas": 5}});
    assert_eq!(put(&client, &path, &later).await.0, 400);
    assert_eq!(put(&client, &path, &json!([1])).await.0, 400);
    assert_eq!(get(&client, &path).await.1["spec"]["replicas"], 3);
    let nonsense = put(
        &client,
        &format!("{path}?dryRun=nonsense"),
        &json!({"spec": {"replicas": 5}}),
    )
    .await;
    assert_eq!(
        (nonsense.0, &nonsense.1["details"]["causes"][0]["field"]),
        (422, &json!("dryRun"))
    );
    let named = json!({"name": "web"});
    let nameless = put(&client, &path, &json!({"spec": {"replicas": 5}})).await;
    assert_eq!(nameless.0, 400, "{}", nameless.1);
    let (code, scaled) = put(&client, &path, &json!({"metadata": named, "spec": {"replicas": 5}})).await;
    assert_eq!((code, &scaled["spec"]["replicas"]), (200, &json!(5)));
    let (code, scaled) = put(&client, &path, &json!({"kind": "Scale", "metadata": named, "spec": {}})).await;
    assert_eq!(
        (code, &scaled["spec"]),
        (200, &json!({})),
        "a missing number is zero, and is left out"
    );
    let deployment = get(&client, &format!("{DEPLOYMENTS}/web")).await.1;
    assert_eq!(deployment["spec"]["replicas"], 0);
}

#[tokio::test(start_paused = true)]
async fn eviction_matches_every_form_of_a_budgets_selector() {
    let server = start().await;
    let client = server.admin();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"app": "web", "tier": "front"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    assert_eq!(post(&client, PODS, &pod).await.0, 201);
    let evict = async |options: Value| {
        let body =
            json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}, "deleteOptions": options});
        post(&client, &format!("{PODS}/p/eviction"), &body).await
    };
    let expression = |key: &str, operator: &str, values: &[&str]| {
        let mut wanted = json!({"key": key, "operator": operator});
        if !values.is_empty() {
            wanted["values"] = json!(values);
        }
        json!({"matchExpressions": [wanted]})
    };
    let dry = json!({"dryRun": ["All"]});
    for (selector, selects) in [
        (json!({}), true),
        (json!({"matchLabels": {"app": "web"}}), true),
        (expression("app", "In", &["api", "web"]), true),
        (expression("app", "NotIn", &["api"]), true),
        (expression("tier", "Exists", &[]), true),
        (expression("other", "DoesNotExist", &[]), true),
        (json!({"matchLabels": {"app": "api"}}), false),
        (expression("app", "In", &["api"]), false),
        (expression("app", "NotIn", &["web"]), false),
        (expression("other", "Exists", &[]), false),
        (expression("tier", "DoesNotExist", &[]), false),
        (
            json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "In", "values": ["back"]}]}),
            false,
        ),
        (Value::Null, false),
    ] {
        let budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
            "spec": {"minAvailable": 1, "selector": selector},
        });
        let (code, made) = post(&client, BUDGETS, &budget).await;
        assert_eq!(code, 201, "{made}");
        let (code, answer) = evict(dry.clone()).await;
        assert_eq!(code, if selects { 501 } else { 201 }, "{selector}: {answer}");
        assert_eq!(delete(&client, &format!("{BUDGETS}/b")).await.0, 200);
    }
    let (code, refused) = evict(json!({"propagationPolicy": "Sometimes"})).await;
    assert_eq!(code, 422, "{refused}");
    let (code, refused) = evict(json!({"dryRun": ["Some"]})).await;
    assert_eq!(code, 422, "{refused}");
    let other = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "q"}});
    assert_eq!(post(&client, &format!("{PODS}/p/eviction"), &other).await.0, 400);
    assert_eq!(post(&client, &format!("{PODS}/p/eviction"), &pod).await.0, 400);
    assert_eq!(get(&client, &format!("{PODS}/p")).await.0, 200);
    assert_eq!(evict(Value::Null).await.0, 201);
    assert_eq!(get(&client, &format!("{PODS}/p")).await.0, 404);
}

/// A store that holds back the responses to lists of config maps while the test wants it.
struct Held {
    store: MemoryStore,
    holds: Arc<AtomicBool>,
    listed: mpsc::UnboundedSender<oneshot::Sender<()>>,
}

#[async_trait]
impl Store for Held {
    async fn get(&self, key: &Key) -> Result<Option<Entry>, StoreError> {
        self.store.get(key).await
    }

    async fn list(&self, range: &Range, page: Page) -> Result<Listing, StoreError> {
        let listing = self.store.list(range, page).await;
        if &*range.resource == "configmaps" && self.holds.load(Ordering::Relaxed) {
            let (go, gone) = oneshot::channel();
            self.listed.send(go).unwrap();
            gone.await.unwrap();
        }
        listing
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
        self.store.watch(range, from).await
    }

    async fn revision(&self) -> Result<Revision, StoreError> {
        self.store.revision().await
    }
}

#[tokio::test(start_paused = true)]
async fn deletion_of_a_collection_spares_an_object_recreated_meanwhile() {
    let (listed, mut lists) = mpsc::unbounded_channel();
    let holds = Arc::new(AtomicBool::new(false));
    let store = Held {
        store: MemoryStore::new(),
        holds: holds.clone(),
        listed,
    };
    let api = ApiServer::builder("test").store(store).build().await.unwrap();
    let client = api.loopback_client();
    for name in ["a", "b", "c"] {
        assert_eq!(post(&client, CONFIG_MAPS, &config_map(name, &json!({}))).await.0, 201);
    }
    holds.store(true, Ordering::Relaxed);
    let deleting = tokio::spawn({
        let client = client.clone();
        async move { delete(&client, CONFIG_MAPS).await }
    });
    let go = lists.recv().await.unwrap();
    holds.store(false, Ordering::Relaxed);
    assert_eq!(delete(&client, &format!("{CONFIG_MAPS}/b")).await.0, 200);
    assert_eq!(
        post(&client, CONFIG_MAPS, &config_map("b", &json!({"new": "yes"})))
            .await
            .0,
        201
    );
    go.send(()).unwrap();
    let (code, deleted) = deleting.await.unwrap();
    assert_eq!(code, 200, "{deleted}");
    let (_, left) = get(&client, CONFIG_MAPS).await;
    let names: Vec<&Value> = left["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["metadata"]["name"])
        .collect();
    assert_eq!(names, ["b"], "{left}");
    assert_eq!(deleted["items"].as_array().map(Vec::len), Some(3), "the list as it was");
}

#[tokio::test(start_paused = true)]
async fn discovery_lists_only_supported_subresources() {
    let server = start().await;
    let client = server.admin();
    let (_, core) = get(&client, "/api/v1").await;
    let resources = core["resources"].as_array().unwrap();
    let verbs = |name: &str| {
        resources
            .iter()
            .find(|it| it["name"] == name)
            .map(|it| it["verbs"].clone())
    };
    let all = json!([
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch"
    ]);
    assert_eq!(verbs("configmaps"), Some(all));
    let without = json!(["create", "delete", "get", "list", "patch", "update", "watch"]);
    assert_eq!(verbs("namespaces"), Some(without.clone()));
    assert_eq!(delete(&client, "/api/v1/namespaces").await.0, 405);
    assert_eq!(verbs("namespaces/status"), Some(json!(["get", "patch", "update"])));
    assert_eq!(verbs("namespaces/finalize"), Some(json!(["update"])));
    assert_eq!(verbs("pods/eviction"), Some(json!(["create"])));
    assert_eq!(verbs("pods/log"), Some(json!(["get"])));
    for name in ["pods/exec", "pods/attach", "pods/portforward"] {
        assert_eq!(verbs(name), Some(json!(["create", "get"])), "{name}");
    }
    for name in ["pods/proxy", "services/proxy", "nodes/proxy"] {
        let all = json!(["create", "delete", "get", "patch", "update"]);
        assert_eq!(verbs(name), Some(all), "{name}");
    }
    assert_eq!(verbs("pods/resize"), None);
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let request = Request::get("/api").header("accept", accept).body(Vec::new()).unwrap();
    let (_, aggregated) = send(&client, request).await;
    let resources = aggregated["items"][0]["versions"][0]["resources"].as_array().unwrap();
    let find = |name: &str| resources.iter().find(|it| it["resource"] == name).unwrap();
    assert_eq!(find("namespaces")["verbs"], without);
    let parts: Vec<&Value> = find("pods")["subresources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["subresource"])
        .collect();
    assert!(
        parts.contains(&&json!("log")) && !parts.contains(&&json!("resize")),
        "{parts:?}"
    );
    // A request for it nonetheless is refused as not implemented.
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    post(&client, PODS, &pod).await;
    assert_eq!(get(&client, &format!("{PODS}/p/resize")).await.0, 501);
}
