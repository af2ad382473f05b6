//! Mirrors.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use base_client::{Injected, Judgement, Verb, apply, delete, inject_faults};
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
async fn a_mirror_shows_what_is_there_and_what_becomes_of_it() {
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
async fn a_mirror_that_lost_its_watch_finds_out_what_it_missed() {
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
        Some(_) => Judgement::Done(()),
        None => Judgement::NotYet("it has not been seen".to_owned()),
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

#[tokio::test(start_paused = true)]
async fn a_mirror_that_may_not_read_says_so_and_is_never_empty_by_mistake() {
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
        .wait_for("maps", Duration::from_secs(5), |_| Judgement::Done(()))
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
async fn a_mirror_that_is_refused_asks_ever_more_rarely_and_sees_it_soon_when_it_is_let_in() {
    for verb in [Verb::List, Verb::Watch] {
        let server = start().await;
        let (client, refused, calls) = refusing(&server, verb);
        let api: Api<ConfigMap> = Api::namespaced(client, "default");
        let cache = Cache::start(api, watcher::Config::default().labels("test=yes"), server.stop.clone());
        tokio::time::sleep(Duration::from_secs(60)).await;
        // After 0.1, 0.2, ... 12.8 s, then every 15 s.
        let asked = calls.load(Ordering::SeqCst);
        assert!((8..=12).contains(&asked), "{verb}: {asked} times in a minute");
        refused.store(false, Ordering::SeqCst);
        server.create("new").await;
        let let_in = Instant::now();
        let (new, seen) = (key("new"), |map: Option<&ConfigMap>| match map {
            Some(_) => Judgement::Done(()),
            None => Judgement::NotYet("it has not been seen".to_owned()),
        });
        cache.wait_until(&new, Duration::from_secs(60), seen).await.unwrap();
        assert!(
            let_in.elapsed() <= Duration::from_secs(15),
            "{verb}: {:?}",
            let_in.elapsed()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_mirror_that_worked_and_is_cut_off_asks_again_at_once() {
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
    // It is let in after 15 s at most, and then all is quiet.
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(cache.error(), None);
    calls.store(0, Ordering::SeqCst);
    server.server.shutdown().await;
    tokio::time::sleep(Duration::from_millis(250)).await;
    // At once, and again after 0.1 s; the pauses from before are forgotten.
    let asked = calls.load(Ordering::SeqCst);
    assert_eq!(asked, 2);
}

/// ConfigMaps as somebody reads them who expects more than there is.
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
async fn a_mirror_is_not_ready_while_one_object_cannot_be_read() {
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
