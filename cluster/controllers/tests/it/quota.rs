//! What quotas limit is counted by the API server, and corrected when something is deleted.

use k8s_openapi::api::core::v1::{ResourceQuota, Secret};
use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use tests_kit::until;

use crate::cluster::start;

fn used(quota: &ResourceQuota, name: &str) -> Option<String> {
    let used = quota.status.as_ref()?.used.as_ref()?;
    used.get(name).map(|quantity| quantity.0.clone())
}

#[tokio::test(start_paused = true)]
async fn a_deletion_makes_room_in_the_quota() {
    let cluster = start().await;
    let (quotas, secrets) = (cluster.api::<ResourceQuota>(), cluster.api::<Secret>());
    let secret = |name: &str| -> Secret { serde_json::from_value(json!({"metadata": {"name": name}})).unwrap() };
    secrets.create(&PostParams::default(), &secret("before")).await.unwrap();
    let hard = json!({"secrets": "2", "count/roles.rbac.authorization.k8s.io": "1", "limits.cpu": "3"});
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": hard}});
    cluster.create::<ResourceQuota>(quota).await;
    let counted = until(&quotas, "q", "counted", |quota| {
        used(quota, "secrets").as_deref() == Some("1")
    })
    .await;
    assert_eq!(
        used(&counted, "count/roles.rbac.authorization.k8s.io").as_deref(),
        Some("0")
    );
    assert_eq!(used(&counted, "limits.cpu"), None, "it is not counted");
    secrets.create(&PostParams::default(), &secret("a")).await.unwrap();
    let refused = secrets.create(&PostParams::default(), &secret("b")).await.unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("exceeded quota: q, requested: secrets=1, used: secrets=2, limited: secrets=2"),
        "{refused}"
    );
    secrets.delete("before", &DeleteParams::default()).await.unwrap();
    until(&quotas, "q", "counted again", |quota| {
        used(quota, "secrets").as_deref() == Some("1")
    })
    .await;
    secrets.create(&PostParams::default(), &secret("b")).await.unwrap();
    let listed = secrets.list(&kube::api::ListParams::default()).await.unwrap();
    assert_eq!(listed.items.len(), 2);
}
