//! Extensions with false statuses: a status of another generation, operation or time is no answer, and what is wrong
//! with it stands where the shoot's owner looks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api_core::v1beta1 as core;
use api_meta::LastOperationState;
use base_client::{Injected, Verb};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tests_kit::{until, until_gone};

use crate::extensions_there::{Lie, Seen};
use crate::world::{NAMESPACE, World, shoot};
use crate::{errors, state, succeeded};

const TASK: &str = "Waiting until shoot control plane has been reconciled";
/// Nearly as long as a ControlPlane may take.
const NEARLY_TIMEOUT: Duration = Duration::from_secs(160);

/// A status as it should be but for what `change` does to it.
fn status(seen: &Seen, state: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut status = json!({
        "observedGeneration": seen.generation, "lastError": null,
        "lastOperation": {"type": "Reconcile", "state": state, "progress": 100, "description": "d", "lastUpdateTime": seen.now},
    });
    change(&mut status);
    status
}

fn error() -> Value {
    json!({"description": "of another time", "codes": ["ERR_INFRA_UNAUTHORIZED"], "lastUpdateTime": "2020-01-01T00:00:00Z"})
}

/// The extension reports a false status of its ControlPlane until time is up; `shown` is the shoot's report of it,
/// after the object and the extension.
async fn check(lie: impl Fn(&Seen) -> Value + Send + Sync + 'static, shown: &str) {
    let message = reported(lie, shown).await;
    assert!(message.contains("(waited 180s)"), "{message}");
}

/// Returns the shoot's report of a false status in the end.
async fn reported(lie: impl Fn(&Seen) -> Value + Send + Sync + 'static, shown: &str) -> String {
    let world = World::start().await;
    let lie: Lie = Arc::new(lie);
    world.extensions.lie("ControlPlane", &lie);
    world.create_shoot(&shoot()).await;
    let (shoots, shown) = (
        world.shoots(),
        format!("ControlPlane {NAMESPACE}/b: extension \"moon\" {shown}"),
    );
    let waits = |shoot: &core::Shoot| {
        let last = shoot.status.as_ref().and_then(|status| status.last_operation.as_ref());
        last.is_some_and(|last| {
            last.state == LastOperationState::Processing && last.description.contains(&format!("waiting for {shown}"))
        })
    };
    until(&shoots, "b", &format!("waiting for {shown}"), waits).await;
    tokio::time::sleep(NEARLY_TIMEOUT).await;
    let ended = |shoot: &core::Shoot| state(shoot).is_some_and(|(state, _)| state == LastOperationState::Error);
    let shoot = until(&shoots, "b", "in error", ended).await;
    let message = errors(&shoot);
    assert!(
        message.starts_with(&format!("{TASK}: {shown}")) && message.contains("(to do: "),
        "{message}"
    );
    let codes = shoot.status.unwrap().last_errors.remove(0).codes;
    assert!(codes.is_empty(), "no code of another time: {codes:?}");
    world.extensions.speak("ControlPlane");
    let shoot = until(&shoots, "b", "ready once the report is true", succeeded).await;
    assert_eq!(errors(&shoot), "");
    message
}

#[tokio::test(start_paused = true)]
async fn nothing_is_no_answer() {
    check(|_| Value::Null, "did not record a last operation yet").await;
    let only_generation = |seen: &Seen| json!({"observedGeneration": seen.generation});
    check(only_generation, "did not record a last operation yet").await;
}

#[tokio::test(start_paused = true)]
async fn a_success_of_another_generation_is_no_answer() {
    for (observed, shown) in [
        (json!(0), "reports success of generation 0, not of 1"),
        (json!(9), "reports success of generation 9, not of 1"),
        (Value::Null, "reports success of generation 0, not of 1"),
    ] {
        let lie = move |seen: &Seen| {
            status(seen, "Succeeded", |status| {
                status["observedGeneration"] = observed.clone();
            })
        };
        check(lie, shown).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_success_of_another_operation_or_time_is_no_answer() {
    let of_operation = |seen: &Seen| {
        status(seen, "Succeeded", |status| {
            status["lastOperation"]["type"] = json!("Migrate")
        })
    };
    check(
        of_operation,
        "reports success of operation Migrate, not of what was requested",
    )
    .await;
    let of_time = |seen: &Seen| {
        status(seen, "Succeeded", |status| {
            status["lastOperation"]["lastUpdateTime"] = json!("2020-01-01T00:00:00Z");
        })
    };
    check(of_time, "has not reconciled yet what was requested at ").await;
}

#[tokio::test(start_paused = true)]
async fn an_error_of_another_generation_operation_or_attempt_is_none_of_this_one() {
    let of_generation = |seen: &Seen| {
        status(seen, "Error", |status| {
            status["observedGeneration"] = json!(9);
            status["lastError"] = error();
        })
    };
    check(of_generation, "reports an error of generation 9, not of 1").await;
    let of_operation = |seen: &Seen| {
        status(seen, "Failed", |status| {
            status["lastOperation"]["type"] = json!("Delete");
            status["lastError"] = error();
        })
    };
    check(
        of_operation,
        "reports an error of operation Delete, not of what was requested",
    )
    .await;
    let of_attempt = |seen: &Seen| status(seen, "Processing", |status| status["lastError"] = error());
    check(of_attempt, "is in state Processing, not yet Succeeded").await;
}

#[tokio::test(start_paused = true)]
async fn an_error_without_a_text_is_reported_with_the_operations_text() {
    let wordless = |seen: &Seen| status(seen, "Error", |_| {});
    let message = reported(wordless, "is in state Error and did not record a last error: d").await;
    assert!(!message.contains("waited"), "an answer needs no waiting out: {message}");
}

#[tokio::test(start_paused = true)]
async fn an_old_error_beside_a_success_is_forgiven() {
    let world = World::start().await;
    let lie: Lie = Arc::new(|seen| status(seen, "Succeeded", |status| status["lastError"] = error()));
    world.extensions.lie("ControlPlane", &lie);
    world.create_shoot(&shoot()).await;
    until(&world.shoots(), "b", "ready", succeeded).await;
}

#[tokio::test(start_paused = true)]
async fn a_conflicting_object_is_named_and_written_once_conflicts_end() {
    let quarrel = Arc::new(AtomicBool::new(true));
    let goes_on = quarrel.clone();
    let world = World::start_with(move |call| {
        let write = call.verb == Verb::Patch && call.resource == "controlplanes";
        if write && goes_on.load(Ordering::Relaxed) {
            Injected::Answer(409)
        } else {
            Injected::Pass
        }
    })
    .await;
    world.create_shoot(&shoot()).await;
    let shoots = world.shoots();
    tokio::time::sleep(NEARLY_TIMEOUT).await;
    let ended = |shoot: &core::Shoot| state(shoot).is_some_and(|(state, _)| state == LastOperationState::Error);
    let message = errors(&until(&shoots, "b", "in error", ended).await);
    let task = "Deploying shoot control plane components";
    assert!(
        message.starts_with(&format!("{task}: apply ControlPlane {NAMESPACE}/b: ")),
        "{message}"
    );
    quarrel.store(false, Ordering::Relaxed);
    until(&shoots, "b", "ready once the quarrel is over", succeeded).await;
}

#[tokio::test(start_paused = true)]
async fn a_final_deletion_error_is_reported_before_the_timeout() {
    let world = World::start().await;
    world.create_shoot(&shoot()).await;
    let shoots = world.shoots();
    until(&shoots, "b", "ready", succeeded).await;
    world
        .extensions
        .fail("Infrastructure", "it is not ours any more", "ERR_CONFIGURATION_PROBLEM");
    let begun = world.seed.clock.now();
    shoots.delete("b", &DeleteParams::default()).await.unwrap();
    let ended = |shoot: &core::Shoot| state(shoot).is_some_and(|(state, _)| state == LastOperationState::Failed);
    let failed = until(&shoots, "b", "failed", ended).await;
    let took = world.seed.clock.since(begun);
    assert!(
        took < Duration::from_secs(90),
        "an infrastructure may take 10 minutes: {took:?}"
    );
    let message = errors(&failed);
    assert!(
        message.starts_with(&format!(
            "Waiting until shoot infrastructure has been deleted: Infrastructure {NAMESPACE}/b: extension \"moon\" failed \
             to delete it: it is not ours any more"
        )),
        "{message}"
    );
    world.extensions.speak("Infrastructure");
    let retry = json!({"metadata": {"annotations": {"gardener.cloud/operation": "retry"}}});
    shoots
        .patch("b", &PatchParams::default(), &Patch::Merge(retry))
        .await
        .unwrap();
    until_gone(&shoots, "b").await;
}
