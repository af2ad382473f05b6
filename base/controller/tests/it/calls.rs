//! What base/client promises of its reads, writes, waits and layers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use api_meta::{FaultClass, Seen};
use base_client::{
    Injected, Outcome, Verb, WaitState, Waited, add_finalizer, apply, delete_and_wait, inject_faults, observe,
    patch_changed, record, remove_finalizer, wait_until,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use tokio::time::Instant;

use crate::server::{map, start};

#[tokio::test(start_paused = true)]
async fn an_outdated_patch_is_refused_and_an_empty_one_is_not_sent() {
    let server = start().await;
    let first = server.create("m").await;
    assert!(
        patch_changed(&server.maps, &first, &first.clone())
            .await
            .unwrap()
            .is_none()
    );
    let mut changed = first.clone();
    changed.data.get_or_insert_default().insert("value".into(), "1".into());
    patch_changed(&server.maps, &first, &changed).await.unwrap().unwrap();
    let fault = patch_changed(&server.maps, &first, &changed).await.unwrap_err();
    assert_eq!(fault.class, FaultClass::Transient, "{fault}");
}

#[tokio::test(start_paused = true)]
async fn finalizers_come_and_go_whatever_others_write_meanwhile() {
    let server = start().await;
    let old = server.create("m").await;
    apply(&server.maps, &map("m", "1"), "other").await.unwrap();
    let held = add_finalizer(&server.maps, old.clone(), "example.org/a").await.unwrap();
    add_finalizer(&server.maps, old, "example.org/b").await.unwrap();
    let freed = remove_finalizer(&server.maps, held, "example.org/a")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(freed.metadata.finalizers.unwrap(), ["example.org/b"]);
    assert_eq!(freed.data.unwrap()["value"], "1", "the other's write stays");
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_the_change_and_else_with_its_last_reason() {
    let server = start().await;
    let value = |map: Option<&ConfigMap>| match map.and_then(|map| map.data.as_ref()?.get("value")) {
        Some(value) if value == "1" => WaitState::Done(value.clone()),
        Some(value) => WaitState::NotYet(format!("the value is {value}")),
        None => WaitState::NotYet("it does not exist".to_owned()),
    };
    let timeout = Duration::from_secs(60);
    let begin = Instant::now();
    let waited = wait_until(&server.maps, "m", timeout, value).await.unwrap_err();
    assert_eq!(
        waited.to_string(),
        "timed out after 60s waiting for ConfigMap m: it does not exist"
    );
    assert_eq!(begin.elapsed(), timeout);
    server.create("m").await;
    let waiting = tokio::spawn({
        let maps = server.maps.clone();
        async move { wait_until(&maps, "m", timeout, value).await }
    });
    tokio::time::sleep(Duration::from_secs(5)).await;
    apply(&server.maps, &map("m", "1"), "other").await.unwrap();
    let begin = Instant::now();
    assert_eq!(waiting.await.unwrap().unwrap(), "1");
    assert!(
        begin.elapsed() < Duration::from_millis(10),
        "it was woken, it did not poll"
    );
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_a_finalizer_holds_back_names_it() {
    let server = start().await;
    let object = server.create("m").await;
    let held = add_finalizer(&server.maps, object, "example.org/a").await.unwrap();
    let waited = delete_and_wait(&server.maps, "m", Duration::from_secs(30))
        .await
        .unwrap_err();
    assert!(matches!(waited, Waited::TimedOut { .. }));
    assert!(
        waited.to_string().ends_with("it still has finalizers [example.org/a]"),
        "{waited}"
    );
    let deleting = tokio::spawn({
        let maps = server.maps.clone();
        async move { delete_and_wait(&maps, "m", Duration::from_secs(30)).await }
    });
    remove_finalizer(&server.maps, held, "example.org/a").await.unwrap();
    deleting.await.unwrap().unwrap();
    delete_and_wait(&server.maps, "m", Duration::from_secs(30))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn injected_faults_are_seen_as_what_they_stand_for_and_calls_are_recorded() {
    let server = start().await;
    server.create("m").await;
    let faults = Arc::new(Mutex::new(vec![
        Injected::DropAfter,
        Injected::DropBefore,
        Injected::Answer(403),
    ]));
    let decide = faults.clone();
    let client = inject_faults(server.client.clone(), move |call| match call.resource.as_str() {
        "configmaps" => decide.lock().unwrap().pop().unwrap_or(Injected::Pass),
        _ => Injected::Pass,
    });
    let records = Arc::new(Mutex::new(Vec::new()));
    let sink = records.clone();
    let client = record(client, "tester", server.clock.clone(), move |call| {
        sink.lock().unwrap().push(call)
    });
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");

    let why = observe(&maps, "m").await.unknown().unwrap().to_owned();
    assert_eq!(why, "read ConfigMap default/m: answered by an injected fault");
    let fault = base_client::get(&maps, "m").await.unwrap_err();
    assert_eq!(fault.class, FaultClass::Dependency);
    assert!(fault.to_string().contains("no answer: connection reset"), "{fault}");
    let fault = apply(&maps, &map("m", "7"), "tester").await.unwrap_err();
    assert_eq!(fault.class, FaultClass::Dependency);
    let Seen::Present(now) = observe(&maps, "m").await else {
        panic!("it is there")
    };
    assert_eq!(now.data.unwrap()["value"], "7", "the connection broke after the effect");

    let records = records.lock().unwrap();
    let verbs_and_success: Vec<(Verb, bool)> = records
        .iter()
        .map(|record| (record.call.verb, matches!(record.outcome, Outcome::Answered(200))))
        .collect();
    assert_eq!(
        verbs_and_success,
        [
            (Verb::Get, false),
            (Verb::Get, false),
            (Verb::Patch, false),
            (Verb::Get, true)
        ]
    );
    assert!(
        records
            .iter()
            .all(|record| record.who == "tester" && record.call.name.as_deref() == Some("m"))
    );
}
