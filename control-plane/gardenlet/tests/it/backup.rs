//! Buckets and entries for backups: what their extension does comes back into the garden's objects, what is lost in the
//! seed is brought back, and what is another's is left alone.

use std::time::Duration;

use api_core::v1beta1 as core;
use api_extensions as extensions;
use api_meta::{ErrorCode, LastOperation, LastOperationState as State, LastOperationType as Type, names};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use std::sync::Arc;
use tests_kit::{until, until_gone};

use crate::extensions_there::Lie;
use crate::world::{GARDEN_NAMESPACE, World, shoot};

/// Longer than one turn of a controller and its pause after a failure.
const SEVERAL_TURNS: Duration = Duration::from_secs(300);

fn buckets(world: &World) -> Api<core::BackupBucket> {
    Api::all(world.garden.admin())
}

fn entries(world: &World) -> Api<core::BackupEntry> {
    world.garden_namespace()
}

fn seed_buckets(world: &World) -> Api<extensions::BackupBucket> {
    Api::all(world.seed.admin())
}

fn seed_entries(world: &World) -> Api<extensions::BackupEntry> {
    Api::all(world.seed.admin())
}

async fn create_bucket(world: &World) {
    world
        .create(json!({
            "apiVersion": "core.gardener.cloud/v1beta1", "kind": "BackupBucket", "metadata": {"name": "pail"},
            "spec": {"provider": {"type": "moon", "region": "far"}, "seedName": "south", "providerConfig": {"deep": 1},
                "credentialsRef": {"apiVersion": "v1", "kind": "Secret", "name": "dns", "namespace": "garden"}},
        }))
        .await;
}

/// A Shoot without a controller; returns the name of its entry.
async fn create_owner(world: &World) -> String {
    let mut owner = shoot();
    owner["metadata"]["name"] = json!("drop");
    owner["spec"].as_object_mut().unwrap().remove("seedName");
    world.create_shoot(&owner).await;
    let status = Patch::Merge(json!({"status": {"technicalID": "shoot--a--drop"}}));
    let owner = world
        .shoots()
        .patch_status("drop", &PatchParams::default(), &status)
        .await;
    names::backup_entry("shoot--a--drop", &owner.unwrap().uid().unwrap())
}

async fn create_entry_named(world: &World, name: &str) {
    world
        .create(json!({
            "apiVersion": "core.gardener.cloud/v1beta1", "kind": "BackupEntry",
            "metadata": {"name": name, "namespace": GARDEN_NAMESPACE},
            "spec": {"bucketName": "pail", "seedName": "south"},
        }))
        .await;
}

/// The entry of a Shoot, and its name.
async fn create_entry(world: &World) -> String {
    let name = create_owner(world).await;
    create_entry_named(world, &name).await;
    name
}

fn ended(last: Option<&LastOperation>, type_: &Type, state: &State) -> bool {
    last.is_some_and(|last| last.type_ == *type_ && last.state == *state)
}

async fn bucket_until(world: &World, type_: Type, state: State) -> core::BackupBucketStatus {
    let what = format!("{type_} {state}");
    let is = |bucket: &core::BackupBucket| {
        let status = bucket.status.as_ref();
        ended(status.and_then(|status| status.last_operation.as_ref()), &type_, &state)
    };
    until(&buckets(world), "pail", &what, is).await.status.unwrap()
}

async fn entry_until(world: &World, name: &str, type_: Type, state: State) -> core::BackupEntryStatus {
    let what = format!("{type_} {state}");
    let is = |entry: &core::BackupEntry| {
        let status = entry.status.as_ref();
        ended(status.and_then(|status| status.last_operation.as_ref()), &type_, &state)
    };
    until(&entries(world), name, &what, is).await.status.unwrap()
}

async fn has_secret(world: &World, name: &str) -> bool {
    let secrets: Api<Secret> = Api::namespaced(world.seed.admin(), "garden");
    secrets.get_opt(name).await.unwrap().is_some()
}

#[tokio::test(start_paused = true)]
async fn a_bucket_and_an_entry_come_up_and_go_with_their_secrets() {
    let world = World::start().await;
    create_bucket(&world).await;
    let drop = create_entry(&world).await;
    let bucket = bucket_until(&world, Type::Create, State::Succeeded).await;
    assert_eq!(bucket.provider_status.unwrap().get(), r#"{"pail":1}"#);
    assert_eq!((bucket.observed_generation, bucket.last_error), (Some(1), None));
    let entry = entry_until(&world, &drop, Type::Create, State::Succeeded).await;
    assert_eq!(entry.seed_name.as_deref(), Some("south"));
    let requested = seed_buckets(&world).get("pail").await.unwrap().spec;
    assert_eq!(
        (
            requested.type_.as_str(),
            requested.region.as_str(),
            requested.provider_config.unwrap().get()
        ),
        ("moon", "far", r#"{"deep":1}"#)
    );
    let requested = seed_entries(&world).get(&drop).await.unwrap().spec;
    assert_eq!(requested.bucket_name, "pail");
    assert_eq!(requested.backup_bucket_provider_status.unwrap().get(), r#"{"pail":1}"#);
    assert_eq!(
        requested.secret_ref.name.as_deref(),
        Some(format!("entry-{drop}").as_str())
    );
    for secret in ["bucket-pail", &format!("entry-{drop}")] {
        assert!(has_secret(&world, secret).await, "{secret}");
    }

    buckets(&world).delete("pail", &DeleteParams::default()).await.unwrap();
    let waiting = bucket_until(&world, Type::Delete, State::Processing).await;
    assert_eq!(
        waiting.last_operation.unwrap().description,
        format!("waiting for BackupEntry {GARDEN_NAMESPACE}/{drop}, which lies in it and goes with its Shoot")
    );
    tokio::time::sleep(SEVERAL_TURNS).await;
    assert!(
        seed_buckets(&world)
            .get("pail")
            .await
            .unwrap()
            .metadata
            .deletion_timestamp
            .is_none(),
        "an entry uses it"
    );
    entries(&world).delete(&drop, &DeleteParams::default()).await.unwrap();
    until_gone(&entries(&world), &drop).await;
    until_gone(&buckets(&world), "pail").await;
    assert!(seed_entries(&world).get_opt(&drop).await.unwrap().is_none());
    assert!(seed_buckets(&world).get_opt("pail").await.unwrap().is_none());
    for secret in ["bucket-pail", &format!("entry-{drop}")] {
        assert!(!has_secret(&world, secret).await, "{secret}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_stays_in_the_garden_with_its_code_until_success() {
    let world = World::start().await;
    world
        .extensions
        .fail("BackupBucket", "no more pails", "ERR_INFRA_RATE_LIMITS_EXCEEDED");
    create_bucket(&world).await;
    let drop = create_entry(&world).await;
    let error = bucket_until(&world, Type::Create, State::Error)
        .await
        .last_error
        .unwrap();
    assert_eq!(error.codes, [ErrorCode::InfraRateLimitsExceeded]);
    assert!(
        error
            .description
            .starts_with("BackupBucket pail: extension \"moon\" reports: no more pails"),
        "{}",
        error.description
    );
    let waiting = entry_until(&world, &drop, Type::Create, State::Error)
        .await
        .last_error
        .unwrap();
    assert!(
        waiting.description.starts_with("BackupBucket pail is not ready yet"),
        "{}",
        waiting.description
    );
    assert!(
        seed_entries(&world).get_opt(&drop).await.unwrap().is_none(),
        "nothing to put it into"
    );

    world
        .extensions
        .fail("BackupEntry", "not mine", "ERR_INFRA_UNAUTHORIZED");
    world.extensions.speak("BackupBucket");
    let bucket = bucket_until(&world, Type::Create, State::Succeeded).await;
    assert_eq!(bucket.last_error, None);
    let reported = |entry: &core::BackupEntry| {
        let error = entry.status.as_ref().and_then(|status| status.last_error.as_ref());
        error.is_some_and(|error| error.codes == [ErrorCode::InfraUnauthorized])
    };
    let entry = until(&entries(&world), &drop, "refused", reported).await;
    let error = entry.status.unwrap().last_error.unwrap();
    assert!(
        error
            .description
            .starts_with(&format!("BackupEntry {drop}: extension \"moon\" reports: not mine")),
        "{}",
        error.description
    );
    // The cause is repaired, and the extension reports success.
    world.extensions.speak("BackupEntry");
    let note = json!({"metadata": {"annotations": {"note": "try again"}}});
    entries(&world)
        .patch(&drop, &PatchParams::default(), &Patch::Merge(note))
        .await
        .unwrap();
    let entry = entry_until(&world, &drop, Type::Create, State::Succeeded).await;
    assert_eq!(entry.last_error, None);
}

#[tokio::test(start_paused = true)]
async fn a_success_without_a_status_is_no_success() {
    let world = World::start().await;
    let nothing: Lie = Arc::new(|_| Value::Null);
    world.extensions.lie("BackupBucket", &nothing);
    create_bucket(&world).await;
    let error = bucket_until(&world, Type::Create, State::Error)
        .await
        .last_error
        .unwrap();
    assert!(
        error
            .description
            .starts_with("BackupBucket pail: extension \"moon\" did not record a last operation yet (waited 30s)"),
        "{}",
        error.description
    );
    world.extensions.speak("BackupBucket");
    world.extensions.lie("BackupEntry", &nothing);
    let drop = create_entry(&world).await;
    bucket_until(&world, Type::Create, State::Succeeded).await;
    let reported = |entry: &core::BackupEntry| {
        let error = entry.status.as_ref().and_then(|status| status.last_error.as_ref());
        error.is_some_and(|error| error.description.contains("did not record a last operation yet"))
    };
    until(&entries(&world), &drop, "reported", reported).await;
    world.extensions.speak("BackupEntry");
    entry_until(&world, &drop, Type::Create, State::Succeeded).await;
}

#[tokio::test(start_paused = true)]
async fn a_failing_deletion_reports_why_and_completes_later() {
    let world = World::start().await;
    create_bucket(&world).await;
    let drop = create_entry(&world).await;
    entry_until(&world, &drop, Type::Create, State::Succeeded).await;
    for kind in ["BackupBucket", "BackupEntry"] {
        world.extensions.fail(kind, "it leaks", "ERR_INFRA_DEPENDENCIES");
    }
    entries(&world).delete(&drop, &DeleteParams::default()).await.unwrap();
    buckets(&world).delete("pail", &DeleteParams::default()).await.unwrap();
    let entry = entry_until(&world, &drop, Type::Delete, State::Error).await;
    let error = entry.last_error.unwrap();
    assert_eq!(error.codes, [ErrorCode::InfraDependencies]);
    let message = "extension \"moon\" failed to delete it: it leaks";
    assert!(
        error.description.starts_with(&format!("BackupEntry {drop}: {message}")),
        "{}",
        error.description
    );
    world.extensions.speak("BackupEntry");
    until_gone(&entries(&world), &drop).await;
    let error = bucket_until(&world, Type::Delete, State::Error)
        .await
        .last_error
        .unwrap();
    assert_eq!(error.codes, [ErrorCode::InfraDependencies]);
    assert!(
        error.description.starts_with(&format!("BackupBucket pail: {message}")),
        "{}",
        error.description
    );
    world.extensions.speak("BackupBucket");
    until_gone(&buckets(&world), "pail").await;
}

#[tokio::test(start_paused = true)]
async fn what_is_taken_away_or_changed_in_the_seed_comes_back() {
    let world = World::start().await;
    create_bucket(&world).await;
    let drop = create_entry(&world).await;
    entry_until(&world, &drop, Type::Create, State::Succeeded).await;
    let (lost, lost_bucket) = (
        seed_entries(&world).get(&drop).await.unwrap(),
        seed_buckets(&world).get("pail").await.unwrap(),
    );
    let confirmed =
        Patch::Merge(json!({"metadata": {"annotations": {"confirmation.gardener.cloud/deletion": "true"}}}));
    let parameters = PatchParams::default();
    seed_entries(&world)
        .patch(&drop, &parameters, &confirmed)
        .await
        .unwrap();
    seed_entries(&world)
        .delete(&drop, &DeleteParams::default())
        .await
        .unwrap();
    let done = |last: Option<&LastOperation>| last.is_some_and(|last| last.state == State::Succeeded);
    let back = |entry: &extensions::BackupEntry| {
        entry.uid() != lost.uid() && done(entry.status.as_ref().and_then(|status| status.last_operation.as_ref()))
    };
    until(&seed_entries(&world), &drop, "back", back).await;

    let otherwise = Patch::Merge(json!({"spec": {"providerConfig": {"deep": 2}}}));
    let changed = seed_buckets(&world)
        .patch("pail", &parameters, &otherwise)
        .await
        .unwrap();
    assert_ne!(changed.spec, lost_bucket.spec);
    let mended = |bucket: &extensions::BackupBucket| bucket.spec == lost_bucket.spec;
    until(&seed_buckets(&world), "pail", "as it was", mended).await;
}

#[tokio::test(start_paused = true)]
async fn an_entry_in_the_seed_that_is_anothers_is_neither_changed_nor_deleted() {
    let world = World::start().await;
    create_bucket(&world).await;
    bucket_until(&world, Type::Create, State::Succeeded).await;
    let drop = create_owner(&world).await;
    let theirs = json!({"metadata": {"name": drop, "annotations":
        {"backup.orangery.dev/owner-namespace": "garden-b", "backup.orangery.dev/owner-uid": "7"}},
        "spec": {"type": "moon", "region": "far", "bucketName": "pail", "secretRef": {"name": "s", "namespace": "garden"}}});
    let theirs: extensions::BackupEntry = serde_json::from_value(theirs).unwrap();
    let theirs = seed_entries(&world)
        .create(&PostParams::default(), &theirs)
        .await
        .unwrap();
    create_entry_named(&world, &drop).await;
    let reported = |entry: &core::BackupEntry| {
        let error = entry.status.as_ref().and_then(|status| status.last_error.as_ref());
        error.is_some_and(|error| error.description.contains("belongs to BackupEntry garden-b/"))
    };
    until(&entries(&world), &drop, "reported", reported).await;

    entries(&world).delete(&drop, &DeleteParams::default()).await.unwrap();
    until_gone(&entries(&world), &drop).await;
    let left = seed_entries(&world).get(&drop).await.unwrap();
    assert_eq!(left.metadata.deletion_timestamp, None);
    assert_eq!(left.spec, theirs.spec);
    assert_eq!(left.annotations(), theirs.annotations());
}
