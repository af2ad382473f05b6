//! What status and events of a Shoot report while no operation runs for it.

use std::time::Duration;

use api_core::v1beta1 as core;
use api_meta::{FaultClass, LastOperation, LastOperationState, Retry};
use base_client::{WaitState, delete};
use base_controller::Cache;
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Event, Secret};
use kube::api::{DeleteParams, Patch, PatchParams, WatchEvent, WatchParams};
use kube::runtime::watcher;
use serde_json::{Value, json};
use tests_kit::{until, until_gone};
use tokio_util::sync::CancellationToken;

use crate::world::{World, shoot};
use crate::{errors, state, succeeded};

async fn patch(world: &World, patch: &Value) {
    let patch = Patch::Merge(patch);
    world
        .shoots()
        .patch("b", &PatchParams::default(), &patch)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_generation_that_fails_before_it_begins_has_been_observed() {
    let world = World::start().await;
    world.create_shoot(&shoot()).await;
    let shoots = world.shoots();
    let before = until(&shoots, "b", "ready", succeeded).await;
    delete(&world.garden_namespace::<Secret>(), "cloud").await.unwrap();
    patch(&world, &json!({"spec": {"purpose": "testing"}})).await;
    // The first state that a watch shows of it: the success of the generation before must not stand beside it.
    let version = before.metadata.resource_version.as_deref().unwrap();
    let changes = shoots.watch(&WatchParams::default(), version).await.unwrap();
    let observed = changes.filter_map(async |change| match change.unwrap() {
        WatchEvent::Modified(shoot) => {
            let observed = shoot.status.as_ref().and_then(|status| status.observed_generation);
            let is_new = shoot.metadata.generation > before.metadata.generation;
            (is_new && observed == shoot.metadata.generation).then_some(shoot)
        }
        _ => None,
    });
    let failed = std::pin::pin!(observed).next().await.unwrap();
    let reported = state(&failed).map(|(state, _)| state);
    assert_eq!(reported, Some(LastOperationState::Failed), "{failed:?}");
    assert!(
        errors(&failed).starts_with("Read the shoot's surroundings: "),
        "{failed:?}"
    );
    let status = failed.status.unwrap();
    assert!(status.retry_cycle_start_time.is_some());
}

#[tokio::test(start_paused = true)]
async fn an_event_reports_why_an_ignored_shoots_deletion_waits() {
    let world = World::start().await;
    world.create_shoot(&shoot()).await;
    let shoots = world.shoots();
    let before = until(&shoots, "b", "ready", succeeded).await;
    patch(
        &world,
        &json!({"metadata": {"annotations": {"shoot.gardener.cloud/ignore": "true"}}}),
    )
    .await;
    shoots.delete("b", &DeleteParams::default()).await.unwrap();
    let stop = CancellationToken::new();
    let events: Cache<Event> = Cache::start(world.garden_namespace(), watcher::Config::default(), stop.clone());
    let reported = |events: &Cache<Event>| {
        let all = events.list();
        match all
            .iter()
            .find(|event| event.reason.as_deref() == Some("DeletionWaits"))
        {
            Some(event) => WaitState::Done(event.message.clone().unwrap_or_default()),
            None => WaitState::NotYet("no event".to_owned()),
        }
    };
    let reported = events
        .wait_for("event", Duration::from_secs(60), reported)
        .await
        .unwrap();
    stop.cancel();
    assert_eq!(
        reported,
        "deletion waits: annotation shoot.gardener.cloud/ignore=true; remove it to go on"
    );
    let operation = |shoot: &core::Shoot| shoot.status.as_ref().and_then(|status| status.last_operation.clone());
    let ignored = shoots.get("b").await.unwrap();
    assert_eq!(
        operation(&ignored),
        operation(&before),
        "whoever is ignored is left alone"
    );
    patch(
        &world,
        &json!({"metadata": {"annotations": {"shoot.gardener.cloud/ignore": null}}}),
    )
    .await;
    until_gone(&shoots, "b").await;
}

#[tokio::test(start_paused = true)]
async fn an_error_names_the_next_try_and_is_retried_then() {
    let world = World::start().await;
    world
        .extensions
        .fail("ControlPlane", "no room", "ERR_CLEANUP_CLUSTER_RESOURCES");
    world.create_shoot(&shoot()).await;
    let shoots = world.shoots();
    let last = |shoot: &core::Shoot| -> Option<LastOperation> {
        let last = shoot.status.as_ref()?.last_operation.clone()?;
        (last.state == LastOperationState::Error).then_some(last)
    };
    let mut times = Vec::new();
    for _ in 0..3 {
        let after = times.last().map(|last: &LastOperation| last.last_update_time.0);
        let failed = until(&shoots, "b", "failed once more", |shoot| {
            last(shoot).is_some_and(|last| Some(last.last_update_time.0) > after)
        })
        .await;
        times.extend(last(&failed));
    }
    for (last, seconds) in times.iter().zip([1, 2, 4]) {
        let at = last.last_update_time.0 + Duration::from_secs(seconds);
        let class = FaultClass::Dependency;
        let end = format!("no room{}", Retry { at, class });
        assert!(last.description.ends_with(&end), "{}", last.description);
    }
    world.extensions.speak("ControlPlane");
    until(&shoots, "b", "ready", succeeded).await;
}

#[tokio::test(start_paused = true)]
async fn a_refusing_webhook_of_the_seed_is_named_with_its_installation() {
    let world = World::start().await;
    world.guard_infrastructures().await;
    world.create_shoot(&shoot()).await;
    let is_reported = |shoot: &core::Shoot| errors(shoot).contains("guard.moon.example");
    let reported = errors(&until(&world.shoots(), "b", "reported", is_reported).await);
    for part in [
        "webhook guard.moon.example of MutatingWebhookConfiguration guard",
        "served by Service extension-moon-abcde/guard",
        "installed by ControllerInstallation moon-abcde",
        "service \"guard\" not found",
        "(to do: let a pod behind Service extension-moon-abcde/guard become ready",
    ] {
        assert!(reported.contains(part), "{part:?} is missing in {reported}");
    }
}
