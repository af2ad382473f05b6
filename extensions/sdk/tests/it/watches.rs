//! Settled objects are reconciled when something else changes that their extension watches.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use api_extensions::Infrastructure;
use api_meta::LastOperationState::{Failed, Succeeded};
use api_meta::{Condition, Fault};
use async_trait::async_trait;
use base_client::{Injected, Verb};
use base_controller::ObjectKey;
use extensions_sdk::{Changed, Context, Observer, Registration};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use serde_json::json;
use tests_kit::{until, until_gone};
use tokio_util::sync::CancellationToken;

use crate::landscape::{NAMESPACE, Seed, state_of};
use crate::script::Script;

const CHECKSUM: &str = "status.orangery.dev/secret-checksum";
const OPERATION: &str = "gardener.cloud/operation";
/// Long enough for anything that would happen by itself.
const A_WHILE: Duration = Duration::from_secs(60);

fn secrets(seed: &Seed) -> Api<Secret> {
    Api::namespaced(seed.client.clone(), NAMESPACE)
}

/// Writes the Secret that objects of the tests refer to.
async fn write_secret(seed: &Seed, password: &str, label: &str) {
    let mut secret = Secret::default();
    secret.metadata.name = Some("cloudprovider".to_owned());
    secret.metadata.labels = Some(BTreeMap::from([("label".to_owned(), label.to_owned())]));
    let password = ByteString(password.as_bytes().to_vec());
    secret.data = Some(BTreeMap::from([("password".to_owned(), password)]));
    base_client::apply(&secrets(seed), &secret, "gardenlet").await.unwrap();
}

fn by_secret() -> Registration<Infrastructure> {
    Registration::of_type("example").watches_secret_ref()
}

/// Calls that come in a while.
async fn calls_after_a_while(script: &Script) -> usize {
    tokio::time::sleep(A_WHILE).await;
    script.calls()
}

#[tokio::test(start_paused = true)]
async fn other_credentials_reconcile_a_settled_object_and_other_labels_do_not() {
    let mut seed = Seed::new().await;
    seed.cluster(Succeeded, json!({})).await;
    write_secret(&seed, "a", "1").await;
    let script = Script::default();
    let running = script.start(seed.extension(), by_secret());
    seed.create("example", json!({})).await;
    let api = seed.infrastructures();
    let recorded = |object: &Infrastructure| object.annotations().contains_key(CHECKSUM);
    let object = until(&api, "b", "created", recorded).await;
    assert_eq!(state_of(&object), "Create Succeeded 100");
    assert_eq!(
        calls_after_a_while(&script).await,
        1,
        "what it writes itself is no change"
    );

    write_secret(&seed, "a", "2").await;
    assert_eq!(calls_after_a_while(&script).await, 1);
    write_secret(&seed, "b", "2").await;
    assert_eq!(calls_after_a_while(&script).await, 2);
    let object = api.get("b").await.unwrap();
    assert_eq!(state_of(&object), "Reconcile Succeeded 100");

    // Nothing changes while it is away, and then the password does.
    seed.stop.cancel();
    running.await.unwrap();
    for (password, expected) in [("b", 2), ("c", 3), ("c", 3)] {
        write_secret(&seed, password, "3").await;
        seed.stop = CancellationToken::new();
        let running = script.start(seed.extension(), by_secret());
        assert_eq!(calls_after_a_while(&script).await, expected, "{password}");
        seed.stop.cancel();
        running.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn credentials_that_appear_end_the_back_off_of_what_lacks_them() {
    let seed = Seed::new().await;
    seed.cluster(Succeeded, json!({})).await;
    let fails = || Script::default().reconcile(|_, _| async { Err(Fault::user("no credentials")) });
    let script = fails();
    script.start(seed.extension(), by_secret());
    seed.create("example", json!({})).await;
    let api = seed.infrastructures();
    until(&api, "b", "failed", |object| state_of(object) == "Create Error 50").await;
    write_secret(&seed, "a", "1").await;
    // A user fault is tried again after 30 s.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(state_of(&api.get("b").await.unwrap()), "Create Succeeded 100");
}

#[tokio::test(start_paused = true)]
async fn new_credentials_do_not_wake_waiting_migrated_or_failed_shoots_objects() {
    let seed = Seed::new().await;
    seed.cluster(Succeeded, json!({})).await;
    write_secret(&seed, "a", "1").await;
    let script = Script::default();
    script.start(seed.extension(), by_secret());
    seed.create("example", json!({})).await;
    let api = seed.infrastructures();
    until(&api, "b", "created", |object| {
        state_of(object) == "Create Succeeded 100"
    })
    .await;

    seed.annotate(OPERATION, Some("wait-for-state")).await;
    write_secret(&seed, "b", "1").await;
    assert_eq!(calls_after_a_while(&script).await, 1);

    seed.annotate(OPERATION, None).await;
    seed.cluster(Failed, json!({})).await;
    write_secret(&seed, "c", "1").await;
    let before = calls_after_a_while(&script).await;
    seed.cluster(Succeeded, json!({})).await;
    assert_eq!(
        calls_after_a_while(&script).await,
        before + 1,
        "it is done once the shoot goes on"
    );

    seed.annotate(OPERATION, Some("migrate")).await;
    until(&api, "b", "migrated", |object| object.finalizers().is_empty()).await;
    let before = script.calls();
    write_secret(&seed, "d", "1").await;
    assert_eq!(calls_after_a_while(&script).await, before);
}

#[tokio::test(start_paused = true)]
async fn other_credentials_retry_a_failing_deletion_and_nothing_else() {
    let seed = Seed::new().await;
    seed.cluster(Succeeded, json!({})).await;
    write_secret(&seed, "a", "1").await;
    let script = Script::default().delete(|_, _| async { Err(Fault::user("the password is wrong")) });
    script.start(seed.extension(), by_secret());
    seed.create("example", json!({})).await;
    let api = seed.infrastructures();
    until(&api, "b", "created", |object| {
        state_of(object) == "Create Succeeded 100"
    })
    .await;
    api.delete("b", &DeleteParams::default()).await.unwrap();
    until(&api, "b", "failed", |object| state_of(object) == "Delete Error 50").await;
    write_secret(&seed, "b", "1").await;
    until_gone(&api, "b").await;
    assert_eq!(script.received(), ["reconcile", "delete", "delete"]);
}

/// A ConfigMap in the namespace is about the object `b`.
fn by_maps() -> Registration<Infrastructure> {
    let map = |change: &Changed<ConfigMap>| match change.object.name_any().as_str() {
        "about-b" => vec![ObjectKey::namespaced(NAMESPACE, "b")],
        _ => vec![ObjectKey::namespaced(NAMESPACE, "no-such-object")],
    };
    Registration::of_type("example").watches(watcher::Config::default(), map)
}

async fn create_map(seed: &Seed, name: &str) {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    let maps: Api<ConfigMap> = Api::namespaced(seed.client.clone(), NAMESPACE);
    maps.create(&PostParams::default(), &map).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_watched_change_survives_a_turn_that_does_not_come_to_its_operation() {
    let seed = Seed::new().await;
    seed.cluster(Succeeded, json!({})).await;
    let broken = Arc::new(AtomicBool::new(false));
    let breaks = broken.clone();
    let extension = seed.extension_with(move |call| {
        let reads = call.verb == Verb::Get && call.resource == "infrastructures";
        match reads && breaks.swap(false, Ordering::Relaxed) {
            true => Injected::Answer(503),
            false => Injected::Pass,
        }
    });
    let script = Script::default();
    script.start(extension, by_maps());
    seed.create("example", json!({})).await;
    until(&seed.infrastructures(), "b", "created", |object| {
        state_of(object) == "Create Succeeded 100"
    })
    .await;
    create_map(&seed, "about-another").await;
    assert_eq!(calls_after_a_while(&script).await, 1);

    broken.store(true, Ordering::Relaxed);
    create_map(&seed, "about-b").await;
    assert_eq!(calls_after_a_while(&script).await, 2);
    assert!(!broken.load(Ordering::Relaxed), "a call has failed");
}

#[tokio::test(start_paused = true)]
async fn a_start_reconciles_what_is_watched_once() {
    let mut seed = Seed::new().await;
    seed.cluster(Succeeded, json!({})).await;
    let script = Script::default();
    let running = script.start(seed.extension(), by_maps());
    seed.create("example", json!({})).await;
    create_map(&seed, "about-b").await;
    assert_eq!(calls_after_a_while(&script).await, 2);
    seed.stop.cancel();
    running.await.unwrap();
    seed.stop = CancellationToken::new();
    script.start(seed.extension(), by_maps());
    assert_eq!(calls_after_a_while(&script).await, 3);
}

/// Counts its looks.
struct Counts(Arc<AtomicUsize>);

#[async_trait]
impl Observer<Infrastructure> for Counts {
    async fn observe(&self, context: &Context, _: &Infrastructure) -> Result<Vec<Condition>, Fault> {
        match self.0.fetch_add(1, Ordering::Relaxed) {
            0 => Err(context.again(A_WHILE / 2, "not yet")),
            _ => Ok(Vec::new()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_is_called_again_on_request_and_when_a_watched_object_changes() {
    let seed = Seed::new().await;
    seed.cluster(Succeeded, json!({})).await;
    let looks = Arc::new(AtomicUsize::new(0));
    let extension = seed.extension().secondary(by_maps(), Arc::new(Counts(looks.clone())));
    tokio::spawn(extension.run());
    seed.create("example", json!({})).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(looks.load(Ordering::Relaxed), 2);
    create_map(&seed, "about-b").await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(looks.load(Ordering::Relaxed), 3);
    let patch = Patch::Merge(json!({"data": {"a": "b"}}));
    let maps: Api<ConfigMap> = Api::namespaced(seed.client.clone(), NAMESPACE);
    maps.patch("about-b", &PatchParams::default(), &patch).await.unwrap();
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(looks.load(Ordering::Relaxed), 4);
}
