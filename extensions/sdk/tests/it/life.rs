//! From creation to deletion.

use std::time::Duration;

use api_meta::{ErrorCode, Fault, LastOperationState::Succeeded};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use tests_kit::{until, until_gone};
use tokio_util::sync::CancellationToken;

use crate::landscape::{Answering, PROVIDER_STATUS, Seed, state_of};

const OPERATION: &str = "gardener.cloud/operation";

#[tokio::test(start_paused = true)]
async fn an_object_is_created_reconciled_and_deleted() {
    let (seed, reported) = (Seed::new().await, Answering::new(|_| Ok(())));
    seed.cluster(Succeeded, json!({})).await;
    seed.start(&reported);
    seed.create("example", json!({OPERATION: "reconcile"})).await;
    let api = seed.infrastructures();
    let object = until(&api, "b", "created", |object| {
        state_of(object) == "Create Succeeded 100"
    })
    .await;
    let status = object.status.clone().unwrap();
    assert_eq!(status.provider_status.unwrap().get(), PROVIDER_STATUS);
    assert_eq!(status.nodes_cidr.as_deref(), Some("10.0.0.0/16"));
    assert_eq!(status.observed_generation, Some(1));
    assert_eq!(
        object.metadata.finalizers.unwrap(),
        ["extensions.gardener.cloud/infrastructure"]
    );
    assert!(!object.metadata.annotations.unwrap_or_default().contains_key(OPERATION));

    seed.annotate(OPERATION, Some("reconcile")).await;
    until(&api, "b", "reconciled", |object| {
        state_of(object) == "Reconcile Succeeded 100"
    })
    .await;
    assert_eq!(reported.received(), ["reconcile 1", "reconcile 1"]);

    api.delete("b", &DeleteParams::default()).await.unwrap();
    until_gone(&api, "b").await;
    assert_eq!(reported.received().last().unwrap(), "delete 2");
}

#[tokio::test(start_paused = true)]
async fn a_request_survives_a_crash_right_after_its_annotation_is_removed() {
    let (mut seed, first, second) = (
        Seed::new().await,
        Answering::new(|_| Ok(())),
        Answering::new(|_| Ok(())),
    );
    seed.cluster(Succeeded, json!({})).await;
    let running = seed.start(&first);
    seed.create("example", json!({})).await;
    let api = seed.infrastructures();
    let object = until(&api, "b", "created", |object| {
        state_of(object) == "Create Succeeded 100"
    })
    .await;
    seed.stop.cancel();
    running.await.unwrap();

    // As it stands between the two writes: the operation is off, the status is still the one before.
    let answered = object.status.unwrap().last_operation.unwrap().last_update_time.0;
    let received = answered.checked_add(Duration::from_secs(2)).unwrap();
    seed.annotate("gardener.cloud/timestamp", Some(&received.to_string()))
        .await;
    seed.stop = CancellationToken::new();
    seed.start(&second);
    until(&api, "b", "reconciled", |object| {
        state_of(object) == "Reconcile Succeeded 100"
    })
    .await;
    assert_eq!(
        (first.received().len(), second.received()),
        (1, vec!["reconcile 1".to_owned()])
    );
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_reported_with_its_code_and_forgotten_after_success() {
    let mut failures = 2;
    let reported = Answering::new(move |_| {
        failures -= 1;
        if failures < 0 {
            Ok(())
        } else {
            Err(Fault::quota("no cores left").code(ErrorCode::InfraQuotaExceeded))
        }
    });
    let seed = Seed::new().await;
    seed.cluster(Succeeded, json!({})).await;
    seed.start(&reported);
    seed.create("example", json!({})).await;
    let api = seed.infrastructures();
    let object = until(&api, "b", "failed", |object| state_of(object) == "Create Error 50").await;
    let error = object.status.unwrap().last_error.unwrap();
    assert_eq!(error.codes, [ErrorCode::InfraQuotaExceeded]);
    assert_eq!(error.description, "Error creating infrastructure: no cores left");
    let object = until(&api, "b", "created", |object| {
        state_of(object) == "Create Succeeded 100"
    })
    .await;
    assert_eq!(object.status.unwrap().last_error, None);
    assert_eq!(reported.received().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_change_ends_a_wait_that_it_makes_pointless() {
    let seed = Seed::new().await;
    let reported = Answering::new(|_| Ok(())).patient();
    seed.cluster(Succeeded, json!({})).await;
    seed.start(&reported);
    seed.create("example", json!({})).await;
    let api = seed.infrastructures();
    until(&api, "b", "begun", |object| state_of(object) == "Create Processing 1").await;
    let patch = json!({"spec": {"providerConfig": {"a": 1}}});
    api.patch("b", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    let object = until(&api, "b", "created", |object| {
        state_of(object) == "Create Succeeded 100"
    })
    .await;
    assert_eq!(object.status.unwrap().observed_generation, Some(2));
    assert_eq!(reported.received(), ["reconcile 1", "reconcile 2"]);
}

#[tokio::test(start_paused = true)]
async fn a_forced_deletion_and_an_unknown_operation_are_distinguished() {
    let (seed, reported) = (Seed::new().await, Answering::new(|_| Ok(())));
    seed.cluster(Succeeded, json!({})).await;
    seed.start(&reported);
    seed.create("example", json!({})).await;
    let api = seed.infrastructures();
    until(&api, "b", "created", |object| {
        state_of(object) == "Create Succeeded 100"
    })
    .await;
    seed.annotate(OPERATION, Some("migrate")).await;
    let object = until(&api, "b", "refused", |object| state_of(object) == "Migrate Error 50").await;
    let description = object.status.unwrap().last_error.unwrap().description;
    assert!(
        description.contains("cannot migrate objects of kind Infrastructure yet"),
        "{description}"
    );
    seed.annotate(OPERATION, None).await;

    seed.cluster(Succeeded, json!({"confirmation.gardener.cloud/force-deletion": "true"}))
        .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    api.delete("b", &DeleteParams::default()).await.unwrap();
    until_gone(&api, "b").await;
    assert_eq!(reported.received().last().unwrap(), "force-delete 2");
}
