//! What stands beside a Shoot's status as data: the report of its operation, written with the status and never by itself.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use api_core::v1beta1 as core;
use api_extensions as extensions;
use api_meta::annotations::OPERATION_REPORT;
use api_meta::{
    ErrorCode, FaultClass, LastOperationState, ObjectName, OperationReport, Problem, Retry, Subject, Wait,
    WebhookFailure,
};
use base_client::{Injected, Verb};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tests_kit::until;

use crate::world::{NAMESPACE, World, shoot};
use crate::{state, succeeded};

const WAITING: &str = "Waiting until Shoot infrastructure has been reconciled";

fn report(shoot: &core::Shoot) -> Option<OperationReport> {
    let status = shoot.status.as_ref()?;
    let annotations = shoot.metadata.annotations.as_ref();
    OperationReport::current(annotations, status.observed_generation, status.last_operation.as_ref())
}

/// Ready, and its conditions have been written.
fn is_looked_after(shoot: &core::Shoot) -> bool {
    let conditions = shoot.status.as_ref().map(|status| status.conditions.len());
    succeeded(shoot) && conditions == Some(4)
}

fn has_failed(shoot: &core::Shoot) -> bool {
    state(shoot).is_some_and(|(state, _)| state == LastOperationState::Error)
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_reported_with_task_object_reason_begin_and_later_error() {
    let world = World::start().await;
    world.extensions.silence("Infrastructure");
    world.create_shoot(&shoot()).await;
    let shoots = world.shoots();
    let waits = |shoot: &core::Shoot| report(shoot).is_some_and(|report| !report.waits.is_empty());
    let waiting = until(&shoots, "b", "waiting", waits).await;
    let infrastructure = ObjectName::new("Infrastructure", Some(NAMESPACE), "b");
    let reason = "extension \"moon\" has not picked up the operation \"reconcile\" yet";
    let last = waiting.status.as_ref().unwrap().last_operation.clone().unwrap();
    let reported = report(&waiting).unwrap();
    let [wait] = reported.waits.as_slice() else {
        panic!("{reported:#?}")
    };
    let expected = Wait {
        task: WAITING.to_owned(),
        subject: Subject::Object(infrastructure.clone()),
        reason: reason.to_owned(),
        since: wait.since,
    };
    assert_eq!(*wait, expected);
    let waited = last.last_update_time.0.duration_since(wait.since).as_secs();
    assert!((9..=11).contains(&waited), "reported after ten seconds, not {waited}");
    assert_eq!(
        (reported.running.as_slice(), reported.errors.len()),
        (&[WAITING.to_owned()][..], 0)
    );
    assert_eq!(last.description, reported.progress_sentence(WAITING));

    let failed = until(&shoots, "b", "in error", has_failed).await;
    let reported = report(&failed).unwrap();
    let expected = Problem {
        task: Some(WAITING.to_owned()),
        object: Some(infrastructure),
        text: format!("Infrastructure {NAMESPACE}/b: {reason} (waited 600s)"),
        hint: "look at the extension that works on the named object: it may be down, busy or not installed".to_owned(),
        class: FaultClass::Dependency,
        codes: Vec::new(),
        webhook: None,
    };
    assert_eq!(reported.errors, [expected]);
    let status = failed.status.unwrap();
    assert_eq!(status.last_errors[0].description, reported.errors[0].sentence());
    let last = status.last_operation.unwrap();
    assert_eq!(last.description, reported.failure_sentence());
    let next_try = Retry {
        at: last.last_update_time.0 + Duration::from_secs(1),
        class: FaultClass::Dependency,
    };
    assert_eq!(reported.next_try, Some(next_try));
    assert!(reported.running.is_empty() && reported.waits.is_empty());

    // While it is tried again, the error stands until its task has succeeded.
    let again = |shoot: &core::Shoot| report(shoot).is_some_and(|report| !report.running.is_empty());
    let again = until(&shoots, "b", "tried again", again).await;
    assert_eq!(report(&again).unwrap().errors, reported.errors);
    world.extensions.speak("Infrastructure");
    let ready = until(&shoots, "b", "ready", succeeded).await;
    assert!(
        !ready.annotations().contains_key(OPERATION_REPORT),
        "{:?}",
        ready.metadata
    );
}

#[tokio::test(start_paused = true)]
async fn an_extensions_error_is_reported_whole_and_with_its_codes() {
    let world = World::start().await;
    // The text of a foreign extension is not parsed, whatever it looks like.
    let text = "no room (to do: leave); waiting for Worker a/b: x";
    world.extensions.fail("ControlPlane", text, "ERR_INFRA_QUOTA_EXCEEDED");
    world.create_shoot(&shoot()).await;
    let is_failed = |shoot: &core::Shoot| state(shoot).is_some_and(|(state, _)| state == LastOperationState::Failed);
    let failed = until(&world.shoots(), "b", "failed", is_failed).await;
    let reported = report(&failed).unwrap();
    let [error] = reported.errors.as_slice() else {
        panic!("{reported:#?}")
    };
    assert_eq!(
        error.object,
        Some(ObjectName::new("ControlPlane", Some(NAMESPACE), "b"))
    );
    assert!(error.text.ends_with(text), "{error:#?}");
    assert_eq!(
        error.hint,
        "look at the status of the named object, written by its extension"
    );
    assert_eq!(
        (error.class, error.codes.as_slice()),
        (FaultClass::Quota, &[ErrorCode::InfraQuotaExceeded][..])
    );
    assert_eq!(reported.next_try, None, "given up");
    let clusters: Api<extensions::Cluster> = Api::all(world.seed.admin());
    let cluster = clusters.get(NAMESPACE).await.unwrap();
    let copied = cluster.spec.shoot.value()["metadata"]["annotations"].to_string();
    assert!(!copied.contains(OPERATION_REPORT), "{copied}");
}

#[tokio::test(start_paused = true)]
async fn a_webhook_behind_an_error_is_reported_with_its_configuration_and_service() {
    let world = World::start().await;
    world.guard_infrastructures().await;
    world.create_shoot(&shoot()).await;
    let failed = until(&world.shoots(), "b", "in error", has_failed).await;
    let reported = report(&failed).unwrap();
    let [error] = reported.errors.as_slice() else {
        panic!("{reported:#?}")
    };
    assert_eq!(
        error.object,
        Some(ObjectName::new("Infrastructure", Some(NAMESPACE), "b"))
    );
    let expected = WebhookFailure {
        name: "guard.moon.example".to_owned(),
        has_answered: false,
        configuration: Some("MutatingWebhookConfiguration guard".to_owned()),
        service: Some("extension-moon-abcde/guard".to_owned()),
    };
    assert_eq!(error.webhook.as_ref(), Some(&expected));
}

#[tokio::test(start_paused = true)]
async fn a_creation_writes_the_shoot_no_more_often_than_its_status_changes() {
    let writes: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = writes.clone();
    let world = World::start_with(move |call| {
        let is_write = !matches!(call.verb, Verb::Get | Verb::List | Verb::Watch);
        if is_write && call.resource == "shoots" {
            let part = call.subresource.as_deref().unwrap_or("shoot");
            seen.lock().unwrap().push(format!("{} {part}", call.verb));
        }
        Injected::Pass
    })
    .await;
    world.create_shoot(&shoot()).await;
    until(&world.shoots(), "b", "ready", is_looked_after).await;
    let writes = writes.lock().unwrap().clone();
    let of = |what: &str| writes.iter().filter(|write| *write == what).count();
    // The finalizer, the nodes' network, and the tasks that were requested.
    assert_eq!(of("patch shoot"), SHOOT_WRITES, "{writes:?}");
    assert_eq!(of("patch status"), STATUS_WRITES, "{writes:?}");
    assert_eq!(writes.len(), SHOOT_WRITES + STATUS_WRITES, "{writes:?}");
}

/// As many as without a report.
const SHOOT_WRITES: usize = 3;
/// The same.
const STATUS_WRITES: usize = 40;

#[tokio::test(start_paused = true)]
async fn a_report_written_by_a_person_is_ignored() {
    let world = World::start().await;
    world.create_shoot(&shoot()).await;
    let shoots = world.shoots();
    let before = until(&shoots, "b", "ready", is_looked_after).await;
    let forged = json!({"metadata": {"annotations": {OPERATION_REPORT: "{\"form\": 1}"}}});
    let written = shoots
        .patch("b", &PatchParams::default(), &Patch::Merge(forged))
        .await
        .unwrap();
    assert_eq!(written.metadata.generation, before.metadata.generation);
    assert_eq!(report(&written), None);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let after = shoots.get("b").await.unwrap();
    assert_eq!(after.status, before.status, "nothing is reconciled for it");
}
