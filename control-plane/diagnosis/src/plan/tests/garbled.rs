//! Sentences are for people: whatever they say, the same is found.

use super::*;

/// Texts that would mislead whoever takes them apart.
const GARBLED: [&str; 4] = [
    "",
    "\u{65e5}\u{672c}; waiting for Worker shoot--dev--s/s: x (to do: nothing)",
    "task \"Cleaning Kubernetes resources\" failed: admission webhook \"w\" denied the request: no. Operation will be \
     retried. Next try at 2030-01-01T00:00:00Z or sooner (user).",
    "Waiting until Shoot infrastructure has been reconciled, Cleaning Kubernetes resources; Network shoot--dev--s/s",
];

fn wait(kind: &str, reason: &str) -> Wait {
    Wait {
        task: "Waiting until X".to_owned(),
        subject: Subject::Object(ObjectName::new(kind, Some(NAMESPACE), "s")),
        reason: reason.to_owned(),
        since: at(BEFORE),
    }
}

/// Shoots that are blocked in all ways of which gardenlet reports.
fn blocked() -> Vec<(Facts, Cause)> {
    let infrastructure = "Waiting until Shoot infrastructure has been reconciled";
    let of_object = || Problem {
        object: in_namespace("Infrastructure", "s"),
        hint: "start it".to_owned(),
        ..problem(infrastructure, "Infrastructure shoot--dev--s/s: silent (waited 600s)")
    };
    let refused = || Problem {
        webhook: WebhookFailure::in_message(REFUSED),
        ..of_object()
    };
    let left = || Problem {
        codes: vec![ErrorCode::CleanupClusterResources],
        ..problem("Cleaning Kubernetes resources", "left: ConfigMap a/b")
    };
    let retried = |problem| OperationReport {
        errors: vec![problem],
        next_try: Some(Retry {
            at: at("2026-01-01T00:12:00Z"),
            class: FaultClass::Quota,
        }),
        ..OperationReport::default()
    };
    let silent = || vec![object("Infrastructure", requested)];
    vec![
        (
            with(|shoot| running(shoot, infrastructure, Vec::new()), silent()),
            Cause::ExtensionSilent,
        ),
        (
            with(|shoot| failing_as(shoot, "Error", retried(of_object())), silent()),
            Cause::ExtensionSilent,
        ),
        (
            with(|shoot| failing_as(shoot, "Error", retried(refused())), silent()),
            Cause::WebhookRefused,
        ),
        (
            facts(|shoot| failing(shoot, "Failed", refused())),
            Cause::WebhookRefused,
        ),
        (facts(|shoot| failing(shoot, "Failed", of_object())), Cause::GivenUp),
        (
            facts(|shoot| failing_as(shoot, "Error", retried(of_object()))),
            Cause::TaskFailed,
        ),
        (
            facts(|shoot| running(shoot, "Waiting until X", vec![wait("Network", "late")])),
            Cause::Waiting,
        ),
        (
            facts(|shoot| {
                deleted(shoot);
                failing(shoot, "Error", left());
            }),
            Cause::ObjectsLeft,
        ),
        (
            facts(|shoot| {
                deleted(shoot);
                running(shoot, "Cleaning Kubernetes resources", Vec::new());
            }),
            Cause::AtWork,
        ),
    ]
}

#[test]
fn no_cause_is_lost_or_found_when_the_sentences_are_garbled() {
    for (mut facts, cause) in blocked() {
        let before = plan(&facts);
        assert_eq!(causes(&before), [cause], "{before:#?}");
        for text in GARBLED {
            let status = facts.shoot.status.as_mut().unwrap();
            status.last_operation.as_mut().unwrap().description = text.to_owned();
            for error in &mut status.last_errors {
                error.description = text.to_owned();
            }
            assert_eq!(plan(&facts), before, "{text:?}");
        }
    }
}

#[test]
fn without_current_data_a_blocker_comes_from_the_text_of_the_error() {
    let refused = Problem {
        object: in_namespace("Infrastructure", "s"),
        hint: "ask for craters".to_owned(),
        webhook: WebhookFailure::in_message(REFUSED),
        ..problem("Deploying Shoot infrastructure", REFUSED)
    };
    let whole = facts(|shoot| failing(shoot, "Error", refused.clone()));
    let stale = facts(|shoot| {
        failing(shoot, "Error", refused.clone());
        shoot["status"]["lastOperation"]["lastUpdateTime"] = json!("2026-01-01T00:05:01Z");
    });
    let damaged = facts(|shoot| {
        failing(shoot, "Error", refused.clone());
        shoot["metadata"]["annotations"] = json!({"status.orangery.dev/operation-report": "{"});
    });
    let missing = facts(|shoot| {
        failing(shoot, "Error", refused.clone());
        shoot["metadata"]["annotations"] = Value::Null;
    });
    only(&whole, Cause::WebhookRefused);
    for facts in [stale, damaged, missing] {
        let blocker = only(&facts, Cause::TaskFailed);
        assert_eq!(blocker.message, refused.sentence());
        assert_eq!(blocker.tasks, ["Deploying Shoot infrastructure"]);
        assert_eq!(blocker.next_try, "by itself; the moment is not recorded");
    }
}
