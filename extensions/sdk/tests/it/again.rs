//! Operations that are not finished and are called again.

use std::time::Duration;

use api_extensions::Infrastructure;
use api_meta::Fault;
use api_meta::LastOperationState::Succeeded;
use base_client::apply;
use base_controller::Cache;
use extensions_sdk::Registration;
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::runtime::watcher::Config;
use serde_json::json;
use tests_kit::{until, until_gone};
use tokio::time::Instant;

use crate::landscape::{NAMESPACE, Seed, state_of};
use crate::script::Script;

const PAUSE: Duration = Duration::from_secs(30);

fn shows(object: &Infrastructure) -> String {
    let last = object.status.as_ref().and_then(|status| status.last_operation.as_ref());
    last.map_or_else(String::new, |last| {
        format!("{} {}: {}", last.type_, last.state, last.description)
    })
}

#[tokio::test(start_paused = true)]
async fn an_unfinished_operation_shows_its_reason_and_is_called_again() {
    let seed = Seed::new().await;
    seed.cluster(Succeeded, json!({})).await;
    let script = Script::default()
        .reconcile(|_, _| async { Err(Fault::dependency("the network is not there").hint("wait")) })
        .reconcile(|context, _| async move { Err(context.again(PAUSE, "the gateway is pending").doing("make it")) })
        .reconcile(|context, _| async move { Err(context.again(PAUSE, "the gateway is pending").doing("make it")) });
    script.run(&seed);
    seed.create("example", json!({})).await;
    let api = seed.infrastructures();
    until(&api, "b", "failed", |object| state_of(object) == "Create Error 50").await;
    let waiting = "Create Processing: make it: the gateway is pending";
    let object = until(&api, "b", "waiting", |object| shows(object) == waiting).await;
    let began = Instant::now();
    let status = object.status.unwrap();
    assert_eq!(status.last_error, None, "that of the attempt before has gone");
    assert!(status.conditions.is_empty() && status.observed_generation == Some(1));
    assert_eq!(script.calls(), 2);

    tokio::time::sleep(PAUSE + Duration::from_secs(1)).await;
    let now = api.get("b").await.unwrap();
    assert_eq!(script.calls(), 3);
    assert_eq!(
        now.metadata.resource_version, object.metadata.resource_version,
        "nothing new, nothing written"
    );

    until(&api, "b", "created", |object| {
        state_of(object) == "Create Succeeded 100"
    })
    .await;
    assert_eq!(script.calls(), 4);
    assert!(began.elapsed() >= 2 * PAUSE, "{:?}", began.elapsed());
    let events: Api<Event> = Api::namespaced(seed.client.clone(), NAMESPACE);
    let events = events.list(&ListParams::default()).await.unwrap().items;
    let errors: Vec<Option<i32>> = events.iter().map(|event| event.count).collect();
    assert_eq!(errors, [Some(1)], "that of the first attempt alone");
}

#[tokio::test(start_paused = true)]
async fn a_change_or_request_ends_the_pause_but_own_writes_do_not() {
    const LONG: Duration = Duration::from_secs(3600);
    let seed = Seed::new().await;
    seed.cluster(Succeeded, json!({})).await;
    let again = |script: Script| script.reconcile(|context, _| async move { Err(context.again(LONG, "pending")) });
    let script = again(again(again(Script::default())));
    script.run(&seed);
    // The annotation and the finalizer are own writes, which call for the object.
    seed.create("example", json!({"gardener.cloud/operation": "reconcile"}))
        .await;
    let api = seed.infrastructures();
    until(&api, "b", "waiting", |object| shows(object).ends_with("pending")).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(script.calls(), 1);

    let patch = Patch::Merge(json!({"spec": {"providerConfig": {"a": 1}}}));
    api.patch("b", &PatchParams::default(), &patch).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(script.calls(), 2);

    seed.annotate("gardener.cloud/operation", Some("reconcile")).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(script.calls(), 3);

    api.delete("b", &DeleteParams::default()).await.unwrap();
    until_gone(&api, "b").await;
    assert_eq!(script.received().last().unwrap(), "delete");
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_awaited_object_resumes_the_operation_with_carried_values() {
    const LONG: Duration = Duration::from_secs(3600);
    let seed = Seed::new().await;
    seed.cluster(Succeeded, json!({})).await;
    let maps: Cache<ConfigMap> = Cache::start(Api::all(seed.client.clone()), Config::default(), seed.stop.clone());
    let script = Script::default()
        .reconcile(|_, _| async { Err(Fault::dependency("the network is not there").hint("wait")) })
        .reconcile(|context, _| async move {
            assert_eq!(context.carried::<u8>(), None);
            Err(context.again_with(LONG, "machines join", 1_u8))
        })
        .reconcile(|context, _| async move {
            assert_eq!(context.carried(), Some(&1_u8));
            Err(context.again_with(LONG, "machines join", 2_u8))
        })
        .reconcile(|context, _| async move {
            assert_eq!(context.carried(), Some(&2_u8));
            Ok(Default::default())
        });
    script.start(seed.extension(), Registration::of_type("Example").resumed_by(&maps));
    seed.create("example", json!({})).await;
    let api = seed.infrastructures();
    until(&api, "b", "waiting", |object| shows(object).ends_with("machines join")).await;
    let touch = async |value: &str, calls: usize| {
        let map = json!({"metadata": {"name": "m"}, "data": {"a": value}});
        let map: ConfigMap = serde_json::from_value(map).unwrap();
        apply(&Api::namespaced(seed.client.clone(), NAMESPACE), &map, "test")
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(script.calls(), calls, "after {value}");
    };
    touch("first", 3).await;
    let object = api.get("b").await.unwrap();
    let error = object.status.and_then(|status| status.last_error);
    assert!(
        error.is_some(),
        "that of the attempt before stays, as in a wait in place"
    );
    touch("second", 4).await;
    until(&api, "b", "created", |object| {
        state_of(object) == "Create Succeeded 100"
    })
    .await;
    touch("third", 4).await;
}

#[tokio::test(start_paused = true)]
async fn what_an_operation_has_left_is_not_there_for_another_request() {
    const LONG: Duration = Duration::from_secs(3600);
    let seed = Seed::new().await;
    seed.cluster(Succeeded, json!({})).await;
    let script = Script::default()
        .reconcile(|context, _| async move { Err(context.again_with(LONG, "pending", 1_u8)) })
        .reconcile(|context, _| async move {
            assert_eq!(context.carried::<u8>(), None);
            Ok(Default::default())
        });
    script.run(&seed);
    seed.create("example", json!({})).await;
    let api = seed.infrastructures();
    until(&api, "b", "waiting", |object| shows(object).ends_with("pending")).await;
    seed.annotate("gardener.cloud/operation", Some("reconcile")).await;
    until(&api, "b", "done", |object| state_of(object).ends_with("Succeeded 100")).await;
    assert_eq!(script.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn carried_values_survive_a_transient_fault_but_no_other_fault() {
    let seed = Seed::new().await;
    seed.cluster(Succeeded, json!({})).await;
    let script = Script::default()
        .reconcile(|context, _| async move { Err(context.again_with(Duration::ZERO, "pending", 1_u8)) })
        .reconcile(|_, _| async { Err(Fault::transient("the API server is busy")) })
        .reconcile(|context, _| async move {
            assert_eq!(context.carried(), Some(&1_u8));
            Err(Fault::transient("the API server is busy"))
        })
        .reconcile(|context, _| async move {
            assert_eq!(context.carried(), Some(&1_u8));
            Err(Fault::dependency("the network is not there").hint("wait"))
        })
        .reconcile(|context, _| async move {
            assert_eq!(context.carried::<u8>(), None);
            Ok(Default::default())
        });
    script.run(&seed);
    seed.create("example", json!({})).await;
    until(&seed.infrastructures(), "b", "created", |object| {
        state_of(object) == "Create Succeeded 100"
    })
    .await;
    assert_eq!(script.calls(), 5);
}

#[tokio::test(start_paused = true)]
async fn an_unfinished_deletion_is_called_again_and_holds_the_object() {
    let seed = Seed::new().await;
    seed.cluster(Succeeded, json!({})).await;
    let script =
        Script::default().delete(|context, _| async move { Err(context.again(Duration::ZERO, "machines are going")) });
    script.run(&seed);
    seed.create("example", json!({})).await;
    let api = seed.infrastructures();
    until(&api, "b", "created", |object| {
        state_of(object) == "Create Succeeded 100"
    })
    .await;
    api.delete("b", &DeleteParams::default()).await.unwrap();
    until(&api, "b", "waiting", |object| {
        shows(object) == "Delete Processing: machines are going"
    })
    .await;
    until_gone(&api, "b").await;
    assert_eq!(script.received(), ["reconcile", "delete", "delete"]);
}
