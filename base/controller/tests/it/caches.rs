//! Caches.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use base_client::{Injected, Verb, WaitState, apply, delete, inject_faults};
use base_controller::{Cache, ObjectKey};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::{NamespaceResourceScope, ObjectMeta};
use kube::runtime::watcher;
use kube::{Api, Resource};
use tokio::time::Instant;

use crate::server::{map, start};

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

#[tokio::test(start_paused = true)]
async fn a_cache_has_all_objects_and_reports_their_changes() {
    let server = start().await;
    server.create("b").await;
    let cache = server.cache();
    assert!(!cache.is_ready(), "nothing has been read yet");
    cache.ready().await;
    let mut changes = cache.subscribe();
    server.create("a").await;
    let made = changes.next().await;
    assert_eq!((made.old.is_none(), made.deleted), (true, false));
    let names: Vec<String> = cache
        .list_in("default")
        .iter()
        .map(|map| map.metadata.name.clone().unwrap())
        .collect();
    assert_eq!(names, ["a", "b"]);
    apply(&server.maps, &map("a", "1"), "t").await.unwrap();
    let changed = changes.next().await;
    assert_eq!(changed.old.unwrap().data.as_ref().unwrap()["value"], "0");
    delete(&server.maps, "a").await.unwrap();
    assert!(changes.next().await.deleted);
    assert!(cache.get(&key("a")).is_none() && cache.list_in("other").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_lost_its_watch_finds_out_what_it_missed() {
    let server = start().await;
    server.create("gone").await;
    let cut = Arc::new(AtomicBool::new(true));
    let is_cut = cut.clone();
    let client = inject_faults(server.client.clone(), move |call| match call.verb {
        Verb::Watch if is_cut.load(Ordering::SeqCst) => Injected::Answer(410),
        _ => Injected::Pass,
    });
    let api: Api<ConfigMap> = Api::namespaced(client, "default");
    let cache = Cache::start(api, watcher::Config::default().labels("test=yes"), server.stop.clone());
    cache.ready().await;
    assert!(cache.get(&key("gone")).is_some());
    let mut changes = cache.subscribe();
    delete(&server.maps, "gone").await.unwrap();
    server.create("new").await;
    cut.store(false, Ordering::SeqCst);
    let new = key("new");
    let waited = cache.wait_until(&new, Duration::from_secs(60), |map| match map {
        Some(_) => WaitState::Done(()),
        None => WaitState::NotYet("it has not been seen".to_owned()),
    });
    waited.await.unwrap();
    let mut missed = Vec::new();
    for _ in 0..2 {
        let change = changes.next().await;
        missed.push((change.object.metadata.name.clone().unwrap(), change.deleted));
    }
    missed.sort();
    assert_eq!(missed, [("gone".to_owned(), true), ("new".to_owned(), false)]);
}

fn value(map: &ConfigMap) -> Option<String> {
    map.data.as_ref()?.get("value").cloned()
}

#[tokio::test(start_paused = true)]
async fn index_made_before_and_after_the_first_list_shows_the_same() {
    let server = start().await;
    server.create("b").await;
    server.create("a").await;
    let cache = server.cache();
    let before = cache.index(value);
    cache.ready().await;
    let after = cache.index(value);
    let mut changes = cache.subscribe();
    assert_eq!(before.keys("0"), [key("a"), key("b")]);
    assert_eq!(after.keys("0"), [key("a"), key("b")]);
    apply(&server.maps, &map("a", "1"), "t").await.unwrap();
    changes.next().await;
    for index in [&before, &after] {
        // Subscribers are notified of a change when the index shows it.
        assert_eq!((index.keys("0"), index.keys("1")), (vec![key("b")], vec![key("a")]));
        assert_eq!(index.get("1").map(|map| value(&map)), Some(Some("1".to_owned())));
    }
    drop(after);
    delete(&server.maps, "a").await.unwrap();
    assert!(changes.next().await.deleted);
    assert!(!before.contains("1") && before.counts().len() == 1);
}

#[tokio::test(start_paused = true)]
async fn relist_updates_the_index_of_what_came_changed_and_went_meanwhile() {
    let server = start().await;
    for name in ["changes", "goes", "stays"] {
        server.create(name).await;
    }
    let cut = Arc::new(AtomicBool::new(true));
    let is_cut = cut.clone();
    let client = inject_faults(server.client.clone(), move |call| match call.verb {
        Verb::Watch if is_cut.load(Ordering::SeqCst) => Injected::Answer(410),
        _ => Injected::Pass,
    });
    let api: Api<ConfigMap> = Api::namespaced(client, "default");
    let cache = Cache::start(api, watcher::Config::default().labels("test=yes"), server.stop.clone());
    let index = cache.index(value);
    cache.ready().await;
    assert_eq!(index.keys("0"), [key("changes"), key("goes"), key("stays")]);
    let mut changes = cache.subscribe_to(&key("goes"));
    delete(&server.maps, "goes").await.unwrap();
    apply(&server.maps, &map("changes", "1"), "t").await.unwrap();
    server.create("comes").await;
    cut.store(false, Ordering::SeqCst);
    assert!(changes.next().await.deleted);
    // What is gone is noticed at the end of the list, after what has come and changed.
    assert_eq!(index.keys("0"), [key("comes"), key("stays")]);
    assert_eq!(index.keys("1"), [key("changes")]);
}

#[tokio::test(start_paused = true)]
async fn wait_for_one_object_does_not_look_at_changes_of_others() {
    let server = start().await;
    let cache = server.cache();
    cache.ready().await;
    let looks = Arc::new(AtomicUsize::new(0));
    let (counter, waiting, awaited) = (looks.clone(), cache.clone(), key("awaited"));
    let wait = tokio::spawn(async move {
        let check = |map: Option<&ConfigMap>| {
            counter.fetch_add(1, Ordering::SeqCst);
            match map {
                Some(_) => WaitState::Done(()),
                None => WaitState::NotYet("it has not been seen".to_owned()),
            }
        };
        waiting.wait_until(&awaited, Duration::from_secs(60), check).await
    });
    let mut changes = cache.subscribe();
    for number in 0..20 {
        server.create(&format!("other-{number}")).await;
        changes.next().await;
    }
    server.create("awaited").await;
    wait.await.unwrap().unwrap();
    assert_eq!(looks.load(Ordering::SeqCst), 2, "at the beginning and at the end");
}

#[tokio::test(start_paused = true)]
async fn wait_in_a_namespace_ends_with_a_change_in_it() {
    let server = start().await;
    let cache = server.cache();
    let check = |cache: &Cache<ConfigMap>| match cache.list_in("default").len() {
        2 => WaitState::Done(()),
        there => WaitState::NotYet(format!("{there} of 2")),
    };
    let (waited, ()) = tokio::join!(
        cache.wait_in("default", "two maps", Duration::from_secs(60), check),
        async {
            server.create("a").await;
            server.create("b").await;
        }
    );
    waited.unwrap();
    let late = cache.wait_in("other", "two maps", Duration::from_secs(5), |_| {
        WaitState::<()>::NotYet("none is there".to_owned())
    });
    assert!(late.await.unwrap_err().to_string().contains("none is there"));
}

#[tokio::test(start_paused = true)]
async fn cache_without_permission_reports_the_error_and_is_not_ready() {
    let server = start().await;
    let client = inject_faults(server.client.clone(), |_| Injected::Answer(403));
    let api: Api<ConfigMap> = Api::namespaced(client, "default");
    let cache = Cache::start(api, watcher::Config::default(), server.stop.clone());
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(!cache.is_ready());
    assert_eq!(
        cache.error().unwrap(),
        "watch configmaps: answered by an injected fault"
    );
    let waited = cache
        .wait_for("maps", Duration::from_secs(5), |_| WaitState::Done(()))
        .await;
    assert!(
        waited
            .unwrap_err()
            .to_string()
            .contains("answered by an injected fault")
    );
}

/// Calls of a watch or of a list that are refused, and those that were made while they were.
fn refusing(server: &crate::server::Server, verb: Verb) -> (kube::Client, Arc<AtomicBool>, Arc<AtomicUsize>) {
    let (refused, calls) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
    let (is_refused, counter) = (refused.clone(), calls.clone());
    let client = inject_faults(server.client.clone(), move |call| {
        if !is_refused.load(Ordering::SeqCst) || call.verb != verb {
            return Injected::Pass;
        }
        counter.fetch_add(1, Ordering::SeqCst);
        Injected::Answer(403)
    });
    (client, refused, calls)
}

#[tokio::test(start_paused = true)]
async fn refused_cache_backs_off_and_notices_soon_when_it_is_admitted() {
    for verb in [Verb::List, Verb::Watch] {
        let server = start().await;
        let (client, refused, calls) = refusing(&server, verb);
        let api: Api<ConfigMap> = Api::namespaced(client, "default");
        let cache = Cache::start(api, watcher::Config::default().labels("test=yes"), server.stop.clone());
        tokio::time::sleep(Duration::from_secs(60)).await;
        // After 0.1, 0.2, ... 12.8 s, then every 15 s.
        let requests = calls.load(Ordering::SeqCst);
        assert!((8..=12).contains(&requests), "{verb}: {requests} times in a minute");
        refused.store(false, Ordering::SeqCst);
        server.create("new").await;
        let admitted = Instant::now();
        let (new, seen) = (key("new"), |map: Option<&ConfigMap>| match map {
            Some(_) => WaitState::Done(()),
            None => WaitState::NotYet("it has not been seen".to_owned()),
        });
        cache.wait_until(&new, Duration::from_secs(60), seen).await.unwrap();
        assert!(
            admitted.elapsed() <= Duration::from_secs(15),
            "{verb}: {:?}",
            admitted.elapsed()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn cache_that_worked_and_is_cut_off_reconnects_at_once() {
    let server = start().await;
    let (client, refused, _) = refusing(&server, Verb::Watch);
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let client = inject_faults(client, move |_| {
        counter.fetch_add(1, Ordering::SeqCst);
        Injected::Pass
    });
    let api: Api<ConfigMap> = Api::namespaced(client, "default");
    let cache = Cache::start(api, watcher::Config::default(), server.stop.clone());
    tokio::time::sleep(Duration::from_secs(40)).await;
    refused.store(false, Ordering::SeqCst);
    // It is admitted after 15 s at most, and then all is quiet.
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(cache.error(), None);
    calls.store(0, Ordering::SeqCst);
    server.server.shutdown().await;
    tokio::time::sleep(Duration::from_millis(250)).await;
    // At once, and again after 0.1 s; the pauses from before are forgotten.
    let requests = calls.load(Ordering::SeqCst);
    assert_eq!(requests, 2);
}

/// ConfigMaps as read by a client that expects more than there is.
#[derive(Clone, Debug, serde::Deserialize)]
struct Demanding {
    metadata: ObjectMeta,
    #[expect(dead_code, reason = "it is never there")]
    demanded: String,
}

impl Resource for Demanding {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;
    fn kind((): &()) -> Cow<'_, str> {
        "ConfigMap".into()
    }
    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }
    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }
    fn plural((): &()) -> Cow<'_, str> {
        "configmaps".into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[tokio::test(start_paused = true)]
async fn a_cache_is_not_ready_while_one_object_cannot_be_read() {
    let server = start().await;
    server.create("a").await;
    let api: Api<Demanding> = Api::namespaced(server.client.clone(), "default");
    let config = watcher::Config::default().labels("test=yes");
    let cache = Cache::start(api, config, server.stop.clone());
    // Several attempts long.
    let early = tokio::time::timeout(Duration::from_secs(10), cache.ready()).await;
    assert!(early.is_err() && !cache.is_ready());
    assert!(cache.error().unwrap().contains("demanded"), "{:?}", cache.error());
    delete(&server.maps, "a").await.unwrap();
    cache.ready().await;
}
