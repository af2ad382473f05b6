//! Bastions: how long they are retained, and what raises their generation. Nothing acts on them yet.

use std::time::Duration;

use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::SHOOTS;
use crate::garden::{Garden, shoot};

const BASTIONS: &str = "/apis/operations.gardener.cloud/v1alpha1/namespaces/garden-p/bastions";
const BASTION: &str = "/apis/operations.gardener.cloud/v1alpha1/namespaces/garden-p/bastions/b";
const STATUS: &str = "/apis/operations.gardener.cloud/v1alpha1/namespaces/garden-p/bastions/b/status";
const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJbMUCLbhL+4yLhFV8RxVUzSSvYbIpvmTcHnGJlPpzXB a@example.com";

async fn garden() -> (Garden, Value) {
    let garden = Garden::with_landscape().await;
    let mut bound = shoot("s");
    bound["spec"]["seedName"] = json!("seed");
    garden.ok(Method::POST, SHOOTS, &bound).await;
    let bastion = json!({"metadata": {"name": "b"}, "spec": {"shootRef": {"name": "s"}, "sshPublicKey": KEY,
        "ingress": [{"ipBlock": {"cidr": "1.2.3.0/24"}}]}});
    let made = garden.ok(Method::POST, BASTIONS, &bastion).await;
    (garden, made)
}

fn time(bastion: &Value, field: &str) -> Timestamp {
    bastion["status"][field].as_str().unwrap().parse().unwrap()
}

async fn annotate(garden: &Garden, key: &str, value: Value) -> Value {
    let patch = json!({"metadata": {"annotations": {key: value}}});
    garden.ok(Method::PATCH, BASTION, &patch).await
}

#[tokio::test(start_paused = true)]
async fn keepalive_moves_the_end_of_a_bastion_and_nothing_else_does() {
    let (garden, made) = garden().await;
    let hour = SignedDuration::from_hours(1);
    let (heartbeat, end) = ("lastHeartbeatTimestamp", "expirationTimestamp");
    assert_eq!(time(&made, end), time(&made, heartbeat) + hour);
    tokio::time::advance(Duration::from_secs(600)).await;
    let labelled = garden
        .ok(Method::PATCH, BASTION, &json!({"metadata": {"labels": {"a": "b"}}}))
        .await;
    assert_eq!(labelled["status"], made["status"]);
    let retained = annotate(&garden, "gardener.cloud/operation", json!("keepalive")).await;
    assert!(time(&retained, heartbeat) >= time(&made, heartbeat) + SignedDuration::from_mins(10));
    assert_eq!(time(&retained, end), time(&retained, heartbeat) + hour);
    assert_eq!(
        retained["metadata"]["annotations"].get("gardener.cloud/operation"),
        None
    );
    assert_eq!(retained["metadata"]["generation"], 1);
}

#[tokio::test(start_paused = true)]
async fn the_server_computes_the_end_that_a_status_has() {
    let (garden, made) = garden().await;
    let forged = json!({"status": {"lastHeartbeatTimestamp": "2020-01-01T00:00:00Z", "expirationTimestamp": "2999-01-01T00:00:00Z"}});
    let written = garden.ok(Method::PATCH, STATUS, &forged).await;
    assert_eq!(written["status"]["expirationTimestamp"], "2020-01-01T01:00:00Z");
    assert_eq!(written["spec"], made["spec"]);
    let ahead = json!({"status": {"lastHeartbeatTimestamp": "2999-01-01T00:00:00Z"}});
    let (code, answer) = garden.call(Method::PATCH, STATUS, &ahead).await;
    assert_eq!(code, 422, "{answer}");
    assert!(
        answer["message"]
            .as_str()
            .unwrap()
            .contains("status.lastHeartbeatTimestamp"),
        "{answer}"
    );
}

#[tokio::test(start_paused = true)]
async fn spec_and_two_annotations_raise_the_generation() {
    let (garden, _) = garden().await;
    let moved = json!({"spec": {"ingress": [{"ipBlock": {"cidr": "4.5.6.0/24"}}]}});
    let generation = |bastion: Value| bastion["metadata"]["generation"].as_i64();
    assert_eq!(generation(garden.ok(Method::PATCH, BASTION, &moved).await), Some(2));
    assert_eq!(generation(annotate(&garden, "a", json!("b")).await), Some(2));
    let force = "confirmation.gardener.cloud/force-deletion";
    assert_eq!(generation(annotate(&garden, force, json!("true")).await), Some(3));
    assert_eq!(generation(annotate(&garden, "a", json!("c")).await), Some(3));
    let operation = "gardener.cloud/operation";
    assert_eq!(
        generation(annotate(&garden, operation, json!("reconcile")).await),
        Some(4)
    );
    assert_eq!(
        generation(annotate(&garden, "a", json!("d")).await),
        Some(5),
        "reconcile is still there"
    );
}
