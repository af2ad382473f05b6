//! What ends the back-off of an object that fails, and what does not.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api_meta::{Fault, FaultClass};
use base_client::delete;
use base_controller::{Cache, Controller, Next, ObjectKey};
use futures::StreamExt;
use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::server::{Server, start};

type Turns = Arc<Mutex<Vec<u64>>>;

fn api(server: &Server) -> Api<ReplicaSet> {
    Api::namespaced(server.client.clone(), "default")
}

async fn create(server: &Server) {
    let set = json!({"metadata": {"name": "a", "finalizers": ["example.org/held"]}, "spec": {
        "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let set = serde_json::from_value(set).unwrap();
    api(server).create(&PostParams::default(), &set).await.unwrap();
}

async fn patch(api: &Api<ReplicaSet>, patch: Value) {
    api.patch("a", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

fn controller(server: &Server) -> Controller<ReplicaSet> {
    let cache = Cache::start(api(server), watcher::Config::default(), server.stop.clone());
    Controller::new("test", cache)
}

/// Fails at every reconcile, after `act` with its number from 1.
fn fail<F: Future<Output = ()> + Send + 'static>(
    server: &Server,
    controller: Controller<ReplicaSet>,
    act: impl Fn(usize) -> F + Send + Sync + 'static,
) -> Turns {
    let turns = Turns::default();
    let (inner, begin) = (turns.clone(), Instant::now());
    tokio::spawn(controller.run(server.stop.clone(), move |_| {
        let mut turns = inner.lock().unwrap();
        turns.push(begin.elapsed().as_secs());
        let acting = act(turns.len());
        async move {
            acting.await;
            Err(Fault::user("wrong"))
        }
    }));
    turns
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn own_labels_and_status_writes_do_not_end_the_back_off() {
    let server = start().await;
    create(&server).await;
    let api = api(&server);
    let turns = fail(&server, controller(&server), move |turn| {
        let api = api.clone();
        async move {
            // Without a back-off there is no end to it: time stands still while a task is running.
            if turn < 20 {
                patch(&api, json!({"metadata": {"labels": {"turn": turn.to_string()}}})).await;
                let status = json!({"status": {"replicas": turn}});
                api.patch_status("a", &PatchParams::default(), &Patch::Merge(status))
                    .await
                    .unwrap();
                // The change is known before the reconcile is over.
                tokio::task::yield_now().await;
            }
        }
    });
    seconds(100).await;
    assert_eq!(*turns.lock().unwrap(), [0, 30, 90]);
}

#[tokio::test(start_paused = true)]
async fn new_request_ends_the_back_off_and_a_new_label_does_not() {
    let server = start().await;
    create(&server).await;
    let marked = |object: &ReplicaSet| object.metadata.labels.as_ref()?.get("marked").cloned();
    let controller = controller(&server).news(move |old, new| marked(old) != marked(new));
    let turns = fail(&server, controller, |_| async {});
    let (api, seen) = (api(&server), || turns.lock().unwrap().len());
    seconds(1).await;
    assert_eq!(seen(), 1);
    let quiet = [
        json!({"metadata": {"labels": {"x": "y"}}}),
        json!({"metadata": {"annotations": {"x": "y"}}}),
        json!({"metadata": {"finalizers": ["example.org/held", "example.org/two"]}}),
    ];
    for change in quiet {
        patch(&api, change).await;
        seconds(1).await;
        assert_eq!(seen(), 1);
    }
    let news = [
        json!({"metadata": {"annotations": {"gardener.cloud/operation": "retry"}}}),
        json!({"spec": {"replicas": 3}}),
        json!({"metadata": {"labels": {"marked": "yes"}}}),
    ];
    for (at, change) in news.into_iter().enumerate() {
        patch(&api, change.clone()).await;
        seconds(1).await;
        assert_eq!(seen(), at + 2, "{change}");
    }
    patch(
        &api,
        json!({"metadata": {"annotations": {"gardener.cloud/operation": null}}}),
    )
    .await;
    seconds(1).await;
    assert_eq!(seen(), 4, "an operation that has been taken up asks for nothing");
    delete(&api, "a").await.unwrap();
    seconds(1).await;
    assert_eq!(seen(), 5);
    patch(&api, json!({"metadata": {"finalizers": ["example.org/held"]}})).await;
    seconds(1).await;
    assert_eq!(seen(), 6, "another finalizer is gone");
}

#[tokio::test(start_paused = true)]
async fn a_label_added_during_a_successful_turn_causes_another() {
    let server = start().await;
    create(&server).await;
    let (log, api) = (Arc::new(Mutex::new(Vec::new())), api(&server));
    let inner = log.clone();
    tokio::spawn(
        controller(&server).run(server.stop.clone(), move |object: Arc<ReplicaSet>| {
            let labels: BTreeMap<String, String> = object.metadata.labels.clone().unwrap_or_default();
            let mut log = inner.lock().unwrap();
            log.push(labels.contains_key("x"));
            let (turn, api) = (log.len(), api.clone());
            async move {
                match turn {
                    1 => Err(Fault::user("wrong")),
                    2 => {
                        patch(&api, json!({"metadata": {"labels": {"x": "y"}}})).await;
                        seconds(1).await;
                        Ok(Next::Change)
                    }
                    _ => Ok(Next::Change),
                }
            }
        }),
    );
    seconds(60).await;
    assert_eq!(*log.lock().unwrap(), [false, false, true]);
}

#[tokio::test(start_paused = true)]
async fn a_status_that_two_turns_have_not_seen_calls_for_one_more() {
    let server = start().await;
    create(&server).await;
    let (log, api) = (Arc::new(Mutex::new(Vec::new())), api(&server));
    let (call, calls) = futures::channel::mpsc::unbounded();
    let inner = log.clone();
    let controller = controller(&server).called_by(calls.boxed());
    tokio::spawn(controller.run(server.stop.clone(), move |object: Arc<ReplicaSet>| {
        let seen = object.status.as_ref().map(|status| status.replicas);
        inner.lock().unwrap().push(seen);
        async { Ok(Next::Change) }
    }));
    seconds(1).await;
    call.unbounded_send(ObjectKey::namespaced("default", "a")).unwrap();
    seconds(1).await;
    for replicas in [1, 2] {
        let status = Patch::Merge(json!({"status": {"replicas": replicas}}));
        api.patch_status("a", &PatchParams::default(), &status).await.unwrap();
        seconds(1).await;
    }
    assert_eq!(*log.lock().unwrap(), [Some(0), Some(0), Some(1)]);
}

#[tokio::test(start_paused = true)]
async fn reconcile_can_read_the_delay_of_its_next_retry() {
    let server = start().await;
    create(&server).await;
    let controller = controller(&server);
    let (retries, delays) = (controller.retries(), Arc::new(Mutex::new(Vec::new())));
    let inner = delays.clone();
    let turns = fail(&server, controller, move |_| {
        let key = ObjectKey::namespaced("default", "a");
        inner
            .lock()
            .unwrap()
            .push(retries.delay(&key, FaultClass::User).as_secs());
        async {}
    });
    seconds(100).await;
    assert_eq!(*delays.lock().unwrap(), [30, 60, 120]);
    assert_eq!(*turns.lock().unwrap(), [0, 30, 90]);
}
