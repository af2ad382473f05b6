//! One test per cause: from facts to what is said of them. Here are the facts that they begin with.

mod extensions;
mod garbled;
mod garden;
mod installation;
mod next_try;
mod scheduling;
mod seed_side;
mod unserved;
mod webhooks;

use std::collections::BTreeMap;

use api_core::v1beta1::{ControllerInstallation, ControllerRegistration, Shoot};
use api_meta::{
    FaultClass, LastError, LastOperation, ObjectName, OperationReport, Problem, Subject, Wait, WebhookFailure,
};
use control_plane_readiness::{Reported, Webhook};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::*;
use crate::facts::{Controller, ExtensionFact, InSeed, Machine, PodFact, Refusal, Resource, Workload};

const NOW: &str = "2026-01-01T00:10:00Z";
const BEFORE: &str = "2026-01-01T00:05:00Z";
const NAMESPACE: &str = "shoot--dev--s";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn shoot(change: impl FnOnce(&mut Value)) -> Shoot {
    let mut shoot = json!({
        "metadata": {"name": "s", "namespace": "garden-dev", "generation": 2, "creationTimestamp": BEFORE, "finalizers": ["gardener"]},
        "spec": {
            "region": "r", "seedName": "seed", "networking": {"type": "moon"},
            "provider": {"type": "moon", "workers": [{"name": "a", "minimum": 1, "maximum": 1, "machine": {"type": "m", "image": {"name": "moon"}}}]},
        },
        "status": {
            "observedGeneration": 2, "uid": "u", "technicalID": NAMESPACE, "seedName": "seed",
            "lastOperation": {"type": "Create", "state": "Processing", "progress": 30, "description": "Deploying", "lastUpdateTime": BEFORE},
        },
    });
    change(&mut shoot);
    serde_json::from_value(shoot).unwrap()
}

/// Brought about, with conditions that hold.
fn settled(shoot: &mut Value) {
    shoot["status"]["lastOperation"]["state"] = json!("Succeeded");
    shoot["status"]["lastOperation"]["progress"] = json!(100);
    shoot["status"]["conditions"] = json!([
        condition("APIServerAvailable", "True"),
        condition("EveryNodeReady", "True")
    ]);
}

fn condition(type_: &str, status: &str) -> Value {
    json!({"type": type_, "status": status, "lastTransitionTime": "2026-01-01T00:07:00Z", "lastUpdateTime": NOW, "reason": "R", "message": "m"})
}

/// An error of a task, of which no more is known than its text.
fn problem(task: &str, text: &str) -> Problem {
    Problem {
        task: Some(task.to_owned()),
        object: None,
        text: text.to_owned(),
        hint: String::new(),
        class: FaultClass::Dependency,
        codes: Vec::new(),
        webhook: None,
    }
}

fn named(kind: &str, name: &str) -> ObjectName {
    ObjectName::new(kind, Some(NAMESPACE), name)
}

fn in_namespace(kind: &str, name: &str) -> Option<ObjectName> {
    Some(named(kind, name))
}

/// Writes a failure as gardenlet does: the sentences, and the data that they are made from.
fn failing(shoot: &mut Value, state: &str, problem: Problem) {
    let report = OperationReport {
        errors: vec![problem],
        ..OperationReport::default()
    };
    failing_as(shoot, state, report);
}

fn failing_as(shoot: &mut Value, state: &str, report: OperationReport) {
    shoot["status"]["lastOperation"]["state"] = json!(state);
    shoot["status"]["lastOperation"]["description"] = json!(report.failure_sentence());
    let described = |problem: &Problem| json!({"taskID": problem.task, "description": problem.sentence(), "codes": problem.codes, "lastUpdateTime": BEFORE});
    shoot["status"]["lastErrors"] = report.errors.iter().map(described).collect();
    put(shoot, report);
}

/// Writes how far a run is as gardenlet does.
fn running(shoot: &mut Value, task: &str, waits: Vec<Wait>) {
    let report = OperationReport {
        running: vec![task.to_owned()],
        waits,
        ..OperationReport::default()
    };
    shoot["status"]["lastOperation"]["description"] = json!(report.progress_sentence(task));
    put(shoot, report);
}

fn put(shoot: &mut Value, report: OperationReport) {
    let mut typed: Shoot = serde_json::from_value(shoot.clone()).unwrap();
    let status = typed.status.unwrap();
    let annotations = &mut typed.metadata.annotations;
    report.put(annotations, status.observed_generation, status.last_operation.as_ref());
    shoot["metadata"]["annotations"] = json!(annotations);
}

fn registration() -> ControllerRegistration {
    let kinds = [
        "Infrastructure",
        "ControlPlane",
        "Worker",
        "Network",
        "OperatingSystemConfig",
        "DNSRecord",
    ];
    let resources: Vec<Value> = kinds.iter().map(|kind| json!({"kind": kind, "type": "moon"})).collect();
    serde_json::from_value(json!({"metadata": {"name": "provider-moon"}, "spec": {"resources": resources}})).unwrap()
}

fn installation() -> ControllerInstallation {
    serde_json::from_value(json!({
        "metadata": {"name": "provider-moon-abcde"},
        "spec": {"registrationRef": {"name": "provider-moon"}, "seedRef": {"name": "seed"}},
        "status": {"conditions": [condition("Valid", "True"), condition("Installed", "True")]},
    }))
    .unwrap()
}

fn workload(namespace: &str, name: &str, pods: &[Option<(&str, &str)>]) -> Workload {
    let bad = pods.iter().filter(|trouble| trouble.is_some()).count();
    Workload {
        object: ObjectName::new("Deployment", Some(namespace), name),
        wanted: pods.len().try_into().unwrap(),
        trouble: (bad > 0).then(|| format!("0 of {} pods are available", pods.len())),
        pods: pods
            .iter()
            .map(|trouble| PodFact {
                name: format!("{name}-x"),
                trouble: trouble.map(|(reason, message)| (reason.to_owned(), message.to_owned())),
                since: Some(at(BEFORE)),
            })
            .collect(),
    }
}

fn facts(change: impl FnOnce(&mut Value)) -> Facts {
    let seed = json!({
        "metadata": {"name": "seed"},
        "spec": {"provider": {"type": "moon", "region": "r"}},
        "status": {"conditions": [condition("GardenletReady", "True")]},
    });
    Facts {
        now: at(NOW),
        shoot: shoot(change),
        seed: Seen::Present(serde_json::from_value(seed).unwrap()),
        gardenlet: Seen::Present(at("2026-01-01T00:09:50Z")),
        registrations: Seen::Present(vec![registration()]),
        installations: Seen::Present(vec![installation()]),
        in_seed: Seen::Present(InSeed {
            extensions: Seen::Present(Vec::new()),
            workloads: Seen::Present(Vec::new()),
            resources: Seen::Present(Vec::new()),
            machines: Seen::Present(Vec::new()),
            refusals: Seen::Present(Vec::new()),
            webhooks: Seen::Present(Vec::new()),
            labels: BTreeMap::new(),
            controllers: vec![Controller {
                installation: "provider-moon-abcde".to_owned(),
                namespace: "extension-provider-moon-abcde".to_owned(),
                workloads: Seen::Present(vec![workload(
                    "extension-provider-moon-abcde",
                    "provider-moon",
                    &[None],
                )]),
                heartbeat: Seen::Present(at("2026-01-01T00:09:45Z")),
            }],
        }),
    }
}

fn in_seed(facts: &mut Facts) -> &mut InSeed {
    match &mut facts.in_seed {
        Seen::Present(seed) => seed,
        other => panic!("{other:?}"),
    }
}

/// An object that was asked for five minutes ago.
fn object(kind: &str, change: impl FnOnce(&mut Reported)) -> ExtensionFact {
    let mut reported = Reported {
        type_: "moon".to_owned(),
        generation: 1,
        observed_generation: 1,
        operation: None,
        timestamp: Some(BEFORE.to_owned()),
        last_operation: None,
        last_error: None,
        hint: String::new(),
    };
    change(&mut reported);
    ExtensionFact {
        id: named(kind, "s"),
        reported,
        deleting: None,
        finalizers: Vec::new(),
        created: None,
        labels: BTreeMap::new(),
    }
}

fn operation(type_: &str, state: &str) -> Option<LastOperation> {
    let value = json!({"type": type_, "state": state, "progress": 50, "description": "Reconciling it", "lastUpdateTime": "2026-01-01T00:06:00Z"});
    Some(serde_json::from_value(value).unwrap())
}

fn error(text: &str, code: &str) -> Option<LastError> {
    let value = json!({"description": text, "codes": [code], "lastUpdateTime": "2026-01-01T00:06:00Z"});
    Some(serde_json::from_value(value).unwrap())
}

fn requested(reported: &mut Reported) {
    reported.operation = Some("reconcile".to_owned());
}

fn deleted(shoot: &mut Value) {
    shoot["metadata"]["deletionTimestamp"] = json!(BEFORE);
    shoot["metadata"]["annotations"] = json!({"confirmation.gardener.cloud/deletion": "true"});
    shoot["status"]["lastOperation"]["type"] = json!("Delete");
}

fn with(change: impl FnOnce(&mut Value), objects: Vec<ExtensionFact>) -> Facts {
    let mut facts = facts(change);
    in_seed(&mut facts).extensions = Seen::Present(objects);
    facts
}

fn causes(answer: &Answer) -> Vec<Cause> {
    answer.blockers.iter().map(|blocker| blocker.cause).collect()
}

/// The only blocker.
fn only(facts: &Facts, cause: Cause) -> Blocker {
    let mut answer = plan(facts);
    assert_eq!(causes(&answer), [cause], "{answer:#?}");
    let blocker = answer.blockers.remove(0);
    for (field, text) in [
        ("message", &blocker.message),
        ("who", &blocker.who),
        ("next", &blocker.next_try),
        ("do", &blocker.to_do),
    ] {
        assert!(!text.is_empty(), "{field} of {blocker:#?}");
    }
    blocker
}

/// As they are printed.
fn objects(blocker: &Blocker) -> Vec<String> {
    blocker.objects.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn assert_mentions(blocker: &Blocker, parts: &[&str]) {
    let whole = format!("{blocker:?} {}", objects(blocker).join(", ")).replace('\\', "");
    for part in parts {
        assert!(whole.contains(part), "{part:?} is missing in {blocker:#?}");
    }
}

const REFUSED: &str = "update Infrastructure: admission webhook \"guard.moon.example\" denied the request: no craters";

#[test]
fn a_healthy_shoot_is_healthy_since_its_last_condition_came_true() {
    let answer = plan(&facts(settled));
    assert_eq!(
        (answer.state, answer.blockers.len()),
        (State::Healthy, 0),
        "{answer:#?}"
    );
    assert_eq!(answer.since, Some(at("2026-01-01T00:07:00Z")));
}

#[test]
fn an_answer_serialises_with_the_names_of_its_causes() {
    let answer = plan(&with(|_| {}, vec![object("Infrastructure", requested)]));
    let value = serde_json::to_value(&answer).unwrap();
    assert_eq!(value["state"], "blocked");
    assert_eq!(value["blockers"][0]["cause"], "extension-silent");
    assert_eq!(
        value["blockers"][0]["nextTry"],
        "at once when the object's status changes"
    );
    assert_eq!(value["seen"], NOW);
    assert_eq!(value["shoot"], "garden-dev/s");
    let object = json!({
        "kind": "Infrastructure", "namespace": NAMESPACE, "name": "s", "cluster": "seed", "seed": "seed",
    });
    assert_eq!(value["blockers"][0]["objects"], json!([object]));
    let _: Time = serde_json::from_value(value["blockers"][0]["since"].clone()).unwrap();
}
