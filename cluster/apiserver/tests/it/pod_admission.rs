//! Admission of pods that depends on another client. The rest is compared with real Kubernetes by tests/conformance.

use std::time::Duration;

use serde_json::{Value, json};

use crate::server::{get, post, start_with};

const PODS: &str = "/api/v1/namespaces/default/pods";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "a", "image": "x"}]}})
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_the_account_of_a_new_namespace() {
    let server = start_with(|builder| builder.pods_as_accounts(true)).await;
    let client = server.admin();
    let made = tokio::spawn({
        let client = client.clone();
        async move { post(&client, PODS, &pod("early")).await }
    });
    // Paused time advances only when no task has anything left to do: the pod waits.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!made.is_finished());
    post(&client, ACCOUNTS, &json!({"metadata": {"name": "default"}})).await;
    let (_, made) = made.await.unwrap();
    assert_eq!(made["spec"]["serviceAccountName"], "default", "{made}");
    let volume = &made["spec"]["volumes"][0];
    assert_eq!(
        volume["projected"]["sources"][0]["serviceAccountToken"]["path"],
        "token"
    );
    assert_eq!(made["spec"]["containers"][0]["volumeMounts"][0]["name"], volume["name"]);
    let (_, again) = get(&client, &format!("{PODS}/early")).await;
    assert_eq!(again, made);
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_its_account_is_refused_after_a_while() {
    let server = start_with(|builder| builder.pods_as_accounts(true)).await;
    let begun = tokio::time::Instant::now();
    let (code, refused) = post(&server.admin(), PODS, &pod("late")).await;
    assert_eq!((code, &refused["reason"]), (403, &json!("Forbidden")), "{refused}");
    assert_eq!(begun.elapsed(), Duration::from_secs(1));
}
