//! What an extension leaves alone.

use std::time::Duration;

use api_meta::LastOperationState::{Failed, Succeeded};
use serde_json::json;
use tests_kit::until;

use crate::landscape::{Answering, Seed, state_of};

/// Long enough for anything that would happen by itself.
const A_WHILE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn objects_of_other_types_and_those_waiting_for_their_state_are_left_alone() {
    let (seed, reported) = (Seed::new().await, Answering::new(|_| Ok(())));
    seed.cluster(Succeeded, json!({})).await;
    seed.start(&reported);
    let made = seed.create("other", json!({})).await;
    tokio::time::sleep(A_WHILE).await;
    let now = seed.infrastructures().get("b").await.unwrap();
    assert_eq!(now.metadata.resource_version, made.metadata.resource_version);
    assert!(reported.received().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_object_waiting_for_its_state_resumes_on_request() {
    let (seed, reported) = (Seed::new().await, Answering::new(|_| Ok(())));
    seed.cluster(Succeeded, json!({})).await;
    seed.start(&reported);
    seed.create("example", json!({"gardener.cloud/operation": "wait-for-state"}))
        .await;
    tokio::time::sleep(A_WHILE).await;
    assert!(reported.received().is_empty());
    seed.annotate("gardener.cloud/operation", Some("reconcile")).await;
    until(&seed.infrastructures(), "b", "created", |object| {
        state_of(object) == "Create Succeeded 100"
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_shoot_holds_its_objects_until_it_is_failed_no_more() {
    let (seed, reported) = (Seed::new().await, Answering::new(|_| Ok(())));
    seed.cluster(Failed, json!({})).await;
    seed.start(&reported);
    seed.create("example", json!({})).await;
    tokio::time::sleep(A_WHILE).await;
    assert!(reported.received().is_empty());
    seed.cluster(Succeeded, json!({})).await;
    until(&seed.infrastructures(), "b", "created", |object| {
        state_of(object) == "Create Succeeded 100"
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_object_waits_for_its_cluster() {
    let (seed, reported) = (Seed::new().await, Answering::new(|_| Ok(())));
    seed.start(&reported);
    seed.create("example", json!({})).await;
    tokio::time::sleep(A_WHILE).await;
    assert!(reported.received().is_empty());
    seed.cluster(Succeeded, json!({})).await;
    until(&seed.infrastructures(), "b", "created", |object| {
        state_of(object) == "Create Succeeded 100"
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_extension_sends_no_requests() {
    let (seed, reported) = (Seed::new().await, Answering::new(|_| Ok(())));
    seed.cluster(Succeeded, json!({})).await;
    seed.start(&reported);
    seed.create("example", json!({})).await;
    until(&seed.infrastructures(), "b", "created", |object| {
        state_of(object) == "Create Succeeded 100"
    })
    .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(
        seed.calls().contains(&"get infrastructures".to_owned()),
        "the recorder works"
    );
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(seed.calls(), Vec::<String>::new());
}
