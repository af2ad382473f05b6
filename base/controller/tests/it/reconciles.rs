//! Controllers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use api_meta::Fault;
use base_client::{apply, delete};
use base_controller::{Cache, Controller, EventType, Next, ObjectKey, Recorder};
use base_telemetry::Metrics;
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::Api;
use kube::ResourceExt;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::server::{map, start};

type Log = Arc<Mutex<Vec<(Duration, String)>>>;

fn note(log: &Log, begin: Instant, object: &ConfigMap) -> usize {
    let mut log = log.lock().unwrap();
    let value = object
        .data
        .as_ref()
        .and_then(|data| data.get("value"))
        .cloned()
        .unwrap_or_default();
    log.push((begin.elapsed(), format!("{}={value}", object.name_any())));
    log.len()
}

fn reconciled(log: &Log) -> Vec<String> {
    log.lock().unwrap().iter().map(|(_, what)| what.clone()).collect()
}

async fn a_second() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn objects_are_reconciled_when_seen_and_when_changed_and_not_otherwise() {
    let server = start().await;
    server.create("a").await;
    let (log, begin) = (Log::default(), Instant::now());
    let inner = log.clone();
    let controller = Controller::new("test", server.cache());
    tokio::spawn(controller.run(server.stop.clone(), move |object| {
        note(&inner, begin, &object);
        async { Ok(Next::Change) }
    }));
    a_second().await;
    server.create("b").await;
    a_second().await;
    apply(&server.maps, &map("a", "1"), "t").await.unwrap();
    a_second().await;
    delete(&server.maps, "b").await.unwrap();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(reconciled(&log), ["a=0", "b=0", "a=1"]);
}

#[tokio::test(start_paused = true)]
async fn faults_and_panics_are_retried_by_their_class_and_counted() {
    let server = start().await;
    server.create("a").await;
    let (log, begin, metrics) = (Log::default(), Instant::now(), Metrics::new());
    let inner = log.clone();
    let controller = Controller::new("test", server.cache()).metrics(&metrics);
    tokio::spawn(controller.run(server.stop.clone(), move |object| {
        let turn = note(&inner, begin, &object);
        async move {
            match turn {
                1 | 2 => Err(Fault::dependency("not ready")),
                3 => panic!("oops"),
                4 => Ok(Next::After(Duration::from_secs(7))),
                _ => Ok(Next::Change),
            }
        }
    }));
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let at: Vec<u64> = log.lock().unwrap().iter().map(|(at, _)| at.as_secs()).collect();
    assert_eq!(at, [0, 1, 3, 3 + 120, 3 + 120 + 7]);
    let text = metrics.encode();
    assert!(
        text.contains(r#"orangery_reconciles_total{controller="test"} 5"#),
        "{text}"
    );
    assert!(
        text.contains(r#"orangery_reconcile_faults_total{controller="test",class="bug"} 1"#),
        "{text}"
    );
}

/// Panics over objects with the value "bad".
fn refuse_bad(object: &ConfigMap) {
    let value = object.data.as_ref().and_then(|data| data.get("value"));
    assert_ne!(value.map(String::as_str), Some("bad"));
}

#[tokio::test(start_paused = true)]
async fn a_panic_over_one_object_leaves_the_controller_to_the_others() {
    // Where it panics, and what is reconciled then: "a" is created well, is changed to "bad", and "b" is created.
    type Build = fn(Controller<ConfigMap>, &Cache<ConfigMap>) -> Controller<ConfigMap>;
    let cases: [(Build, &[&str]); 5] = [
        (|controller, _| controller, &["a=0", "a=bad", "b=0"]),
        (
            |controller, _| {
                controller.when(|_, new| {
                    refuse_bad(new);
                    true
                })
            },
            &["a=0", "a=bad", "b=0"],
        ),
        (
            |controller, _| {
                controller.news(|_, new| {
                    refuse_bad(new);
                    true
                })
            },
            &["a=0", "a=bad", "b=0"],
        ),
        (
            |controller, _| {
                controller.only(|object| {
                    refuse_bad(object);
                    true
                })
            },
            &["a=0", "b=0"],
        ),
        (
            |controller, cache| {
                controller.when(|_, _| false).watches(cache, |change| {
                    refuse_bad(&change.object);
                    vec![ObjectKey::of(&*change.object)]
                })
            },
            &["a=0", "b=0"],
        ),
    ];
    for (build, expected) in cases {
        let server = start().await;
        let (log, begin, cache) = (Log::default(), Instant::now(), server.cache());
        cache.ready().await;
        let inner = log.clone();
        let controller = build(Controller::new("test", cache.clone()), &cache);
        tokio::spawn(controller.run(server.stop.clone(), move |object| {
            note(&inner, begin, &object);
            // Before there is a future.
            refuse_bad(&object);
            async { Ok(Next::Change) }
        }));
        a_second().await;
        server.create("a").await;
        a_second().await;
        apply(&server.maps, &map("a", "bad"), "t").await.unwrap();
        a_second().await;
        server.create("b").await;
        a_second().await;
        assert_eq!(reconciled(&log), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn one_object_has_one_reconcile_at_a_time_and_delays_no_other() {
    let server = start().await;
    for name in ["a", "b", "c"] {
        server.create(name).await;
    }
    let (log, begin, gate) = (Log::default(), Instant::now(), Arc::new(Semaphore::new(0)));
    let (inner, held) = (log.clone(), gate.clone());
    let controller = Controller::new("test", server.cache()).concurrency(2);
    tokio::spawn(controller.run(server.stop.clone(), move |object| {
        note(&inner, begin, &object);
        let held = held.clone();
        async move {
            if object.name_any() == "a" {
                held.acquire().await.unwrap().forget();
            }
            Ok(Next::Change)
        }
    }));
    a_second().await;
    assert_eq!(reconciled(&log), ["a=0", "b=0", "c=0"], "b and c did not wait for a");
    for value in ["1", "2"] {
        apply(&server.maps, &map("a", value), "t").await.unwrap();
        a_second().await;
    }
    assert_eq!(reconciled(&log).len(), 3, "a is still at work");
    gate.add_permits(1);
    a_second().await;
    assert_eq!(reconciled(&log)[3..], ["a=2"], "one turn for both changes");
}

#[tokio::test(start_paused = true)]
async fn related_objects_call_for_those_they_concern_but_do_not_defeat_a_backoff() {
    let server = start().await;
    server.create("a").await;
    server.create("related-a").await;
    let cache = server.cache();
    let (log, begin) = (Log::default(), Instant::now());
    let inner = log.clone();
    let controller = Controller::new("test", cache.clone())
        .only(|object: &ConfigMap| !object.name_any().starts_with("related-"))
        .watches(&cache, |change| {
            let name = change.object.name_any();
            let concerned = name
                .strip_prefix("related-")
                .map(|name| ObjectKey::namespaced("default", name));
            concerned.into_iter().collect()
        });
    tokio::spawn(controller.run(server.stop.clone(), move |object| {
        let turn = note(&inner, begin, &object);
        async move {
            if turn == 2 {
                Err(Fault::user("wrong"))
            } else {
                Ok(Next::Change)
            }
        }
    }));
    a_second().await;
    assert_eq!(reconciled(&log).len(), 1);
    apply(&server.maps, &map("related-a", "1"), "t").await.unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(reconciled(&log).len(), 2, "the related change calls at once");
    apply(&server.maps, &map("related-a", "2"), "t").await.unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(reconciled(&log).len(), 2, "it failed: related changes wait a little");
    a_second().await;
    assert_eq!(reconciled(&log).len(), 3, "and not for the whole backoff");
}

#[tokio::test(start_paused = true)]
async fn a_stop_lets_running_reconciles_end_and_cuts_off_those_that_do_not() {
    let server = start().await;
    server.create("quick").await;
    server.create("stuck").await;
    let log = Log::default();
    let (inner, begin) = (log.clone(), Instant::now());
    let controller = Controller::new("test", server.cache());
    let running = tokio::spawn(controller.run(server.stop.clone(), move |object| {
        let log = inner.clone();
        async move {
            match object.name_any().as_str() {
                "quick" => tokio::time::sleep(Duration::from_millis(1500)).await,
                _ => std::future::pending().await,
            }
            note(&log, begin, &object);
            Ok(Next::Change)
        }
    }));
    a_second().await;
    server.stop.cancel();
    running.await.unwrap();
    assert_eq!(reconciled(&log), ["quick=0"]);
    assert!(begin.elapsed() < Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn an_event_that_comes_again_is_counted_up() {
    let server = start().await;
    let object = server.create("a").await;
    let recorder = Recorder::new(server.client.clone(), "test", server.clock.clone());
    for _ in 0..3 {
        recorder.record(&object, EventType::Warning, "Failed", "no").await;
    }
    recorder.record(&object, EventType::Warning, "Failed", "other").await;
    let events: Api<Event> = Api::namespaced(server.client.clone(), "default");
    let mut seen: Vec<(i32, String)> = events
        .list(&Default::default())
        .await
        .unwrap()
        .iter()
        .filter(|event| event.involved_object.name.as_deref() == Some("a"))
        .map(|event| (event.count.unwrap(), event.message.clone().unwrap()))
        .collect();
    seen.sort();
    assert_eq!(seen, [(1, "other".to_owned()), (3, "no".to_owned())]);
}
