//! Objects as an earlier version stored them: they read as they would be stored now, and can be changed.

use cluster_store::{Key, MemoryStore, Object, Store};
use serde_json::{Value, json};

use crate::server::{DEPLOYMENTS, delete, get, merge, start_with};

const SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn template() -> Value {
    json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [
        {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1000m", "memory": "1024Mi"}}},
    ]}})
}

/// As it was stored by a server that wrote quantities as they came and left empty fields out.
async fn stored(store: &MemoryStore, resource: &str, kind: &str, version: &str, spec: Value) {
    let object = json!({
        "apiVersion": version, "kind": kind, "spec": spec,
        "metadata": {"name": "old", "namespace": "default", "uid": kind, "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.org/held"]},
    });
    let key = Key::new(resource, Some("default"), "old");
    store.create(key, Object::from_value(object).unwrap()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn objects_stored_by_an_earlier_version_can_change_and_read_as_unchanged() {
    let store = MemoryStore::new();
    let selector = json!({"matchLabels": {"a": "b"}});
    let claim = json!({"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}});
    let set = json!({"selector": selector, "replicas": 1, "template": template(), "volumeClaimTemplates": [claim]});
    stored(&store, "apps/statefulsets", "StatefulSet", "apps/v1", set).await;
    let deployment = json!({"selector": selector, "replicas": 1, "template": template()});
    stored(&store, "apps/deployments", "Deployment", "apps/v1", deployment).await;
    stored(&store, "pods", "Pod", "v1", template()["spec"].clone()).await;
    let server = start_with(|builder| builder.store(store.clone())).await;
    let client = server.admin();
    for path in [SETS, DEPLOYMENTS, PODS].map(|path| format!("{path}/old")) {
        let (_, before) = get(&client, &path).await;
        assert!(!before.to_string().contains("1000m"), "{before}");
        let (code, after) = merge(&client, &path, &json!({"metadata": {"labels": {"x": "y"}}})).await;
        assert_eq!(code, 200, "{path}: {after}");
        assert_eq!(after["spec"], before["spec"], "{path}");
        assert_eq!(after["metadata"]["generation"], 1, "{path}");
        let (code, gone) = merge(&client, &path, &json!({"metadata": {"finalizers": null}})).await;
        assert_eq!(code, 200, "{path}: {gone}");
        assert_eq!(delete(&client, &path).await.0, 200, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_mark_of_the_stored_format_is_written_once() {
    let store = MemoryStore::new();
    start_with(|builder| builder.store(store.clone())).await;
    let between = store.revision().await.unwrap();
    start_with(|builder| builder.store(store.clone())).await;
    let mark = store.get(&Key::new("orangery.dev/forms", None, "builtin")).await;
    assert!(
        mark.unwrap().unwrap().revision <= between,
        "the second server leaves the mark alone"
    );
}
