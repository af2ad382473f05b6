//! A secondary extension beside provider-local: what it may write into an extension object, and who learns of it.

use api_core::v1beta1::Shoot;
use api_extensions::Infrastructure;
use api_meta::Condition;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tests_scenarios::{NAME, NAMESPACE, TECHNICAL_ID, World, wait};

const SECONDARY: &str = "system:serviceaccount:extension-watcher:watcher";

/// Merges a status into the Infrastructure as the secondary extension's service account.
async fn write(seed: &Client, status: &Value) -> Result<Value, kube::Error> {
    let path =
        format!("/apis/extensions.gardener.cloud/v1alpha1/namespaces/{TECHNICAL_ID}/infrastructures/{NAME}/status");
    let request = http::Request::patch(path)
        .header("Impersonate-User", SECONDARY)
        .header("Content-Type", "application/merge-patch+json")
        .body(serde_json::to_vec(&json!({"status": status})).unwrap())
        .unwrap();
    seed.request(request).await
}

/// Namespace and account of the secondary extension, which may do everything by its roles.
async fn install_secondary(seed: &Client) {
    let params = PostParams::default();
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": "extension-watcher"}})).unwrap();
    Api::all(seed.clone()).create(&params, &namespace).await.unwrap();
    let account: ServiceAccount = serde_json::from_value(json!({"metadata": {"name": "watcher"}})).unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(seed.clone(), "extension-watcher");
    accounts.create(&params, &account).await.unwrap();
    let binding = json!({
        "metadata": {"name": "watcher"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "watcher", "namespace": "extension-watcher"}],
    });
    let binding: ClusterRoleBinding = serde_json::from_value(binding).unwrap();
    Api::all(seed.clone()).create(&params, &binding).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_secondary_extension_writes_conditions_and_nothing_that_is_its_primarys() {
    let world = World::with_example_shoot().await;
    install_secondary(&world.seed).await;
    let writers: Api<ConfigMap> = Api::namespaced(world.seed.clone(), "garden");
    let writers = writers.get("extension-status-writers").await.unwrap();
    let primary = writers.data.unwrap()["Infrastructure.local"].clone();
    assert!(primary.starts_with("extension-provider-local-"), "{primary}");

    let infrastructures: Api<Infrastructure> = Api::namespaced(world.seed.clone(), TECHNICAL_ID);
    let before = infrastructures.get(NAME).await.unwrap();
    for (field, value) in [
        ("lastError", json!({"description": "d"})),
        ("lastOperation", Value::Null),
        ("observedGeneration", json!(99)),
        ("providerStatus", json!({"mine": true})),
        ("state", json!({"mine": true})),
    ] {
        let error = write(&world.seed, &json!({field: value}))
            .await
            .unwrap_err()
            .to_string();
        let expected = format!(
            "{SECONDARY} may not write status.{field} of Infrastructure {TECHNICAL_ID}/{NAME} of type local: service accounts of \
             namespace {primary} may"
        );
        assert!(error.contains(&expected), "{error}");
    }
    let after = infrastructures.get(NAME).await.unwrap();
    assert_eq!(after.resource_version(), before.resource_version());

    let condition = json!({"type": "SystemComponentsHealthy", "status": "False", "reason": "R", "message": "no route",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "lastUpdateTime": "2026-01-01T00:00:00Z"});
    write(&world.seed, &json!({"conditions": [condition]})).await.unwrap();
    let shoots: Api<Shoot> = world.shoots(NAMESPACE);
    let message = wait(&shoots, NAME, |shoot| {
        let found = Condition::find(&shoot?.status.as_ref()?.conditions, "SystemComponentsHealthy")?;
        (found.reason == "InfrastructureUnhealthyReport").then(|| found.message.clone())
    })
    .await;
    assert!(message.ends_with("reports failing health check: no route"), "{message}");
}
