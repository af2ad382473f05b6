//! One test per cause: from facts to what is said of them.

mod garbled;
mod installation;
mod next_try;

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

fn in_namespace(kind: &str, name: &str) -> Option<ObjectName> {
    Some(ObjectName::new(kind, Some(NAMESPACE), name))
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
        kind: "Deployment".to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
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
        seeds: Seen::Present(vec!["seed".to_owned()]),
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
        kind: kind.to_owned(),
        name: format!("{NAMESPACE}/s"),
        reported,
        ..ExtensionFact::default()
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

fn asked(reported: &mut Reported) {
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
        ("says", &blocker.says),
        ("who", &blocker.who),
        ("next", &blocker.next_try),
        ("do", &blocker.to_do),
    ] {
        assert!(!text.is_empty(), "{field} of {blocker:#?}");
    }
    blocker
}

#[track_caller]
fn says(blocker: &Blocker, parts: &[&str]) {
    let whole = format!("{blocker:?}").replace('\\', "");
    for part in parts {
        assert!(whole.contains(part), "{part:?} is missing in {blocker:#?}");
    }
}

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
fn a_shoot_that_fits_no_seed_names_each_seed_with_its_whole_reason() {
    let told =
        "Failed to schedule Shoot: 0 of 2 seeds fit: far is in region \"x\"; it is far; near is full: 2 of 2 shoots";
    let mut facts = facts(|shoot| {
        shoot["spec"]["seedName"] = Value::Null;
        shoot["status"] = json!({"lastOperation": {"type": "Create", "state": "Pending", "description": told, "lastUpdateTime": BEFORE}});
    });
    facts.seed = Seen::Absent;
    facts.seeds = Seen::Present(["far", "near"].map(str::to_owned).into());
    let blocker = only(&facts, Cause::NotScheduled);
    assert_eq!(
        blocker.details,
        ["far is in region \"x\"; it is far", "near is full: 2 of 2 shoots"]
    );
    assert_eq!((blocker.since, blocker.class), (Some(at(BEFORE)), Some("dependency")));

    facts.shoot.status = None;
    facts.shoot.spec.scheduler_name = Some("mine".to_owned());
    says(
        &only(&facts, Cause::NotScheduled),
        &["has not said anything", "scheduler \"mine\""],
    );
}

#[test]
fn a_gardenlet_without_a_beat_stands_before_what_it_has_left_undone() {
    let mut silent = facts(|shoot| shoot["status"]["observedGeneration"] = json!(1));
    silent.gardenlet = Seen::Present(at(BEFORE));
    let blocker = only(&silent, Cause::GardenletSilent);
    says(&blocker, &["has not renewed its lease for 300 s", "Seed seed"]);
    assert_eq!(blocker.since, Some(at(BEFORE)));

    silent.seed = Seen::Absent;
    says(&only(&silent, Cause::SeedGone), &["its Seed seed does not exist"]);
    silent.seed = Seen::Unknown("no answer".to_owned());
    silent.gardenlet = Seen::Unknown("no answer".to_owned());
    assert_eq!(
        causes(&plan(&silent)),
        [Cause::NotObserved],
        "what is unknown is not gone"
    );
}

#[test]
fn an_annotation_that_holds_the_shoot_is_named_and_nothing_else() {
    let mut ignored = with(
        |shoot| shoot["metadata"]["annotations"] = json!({"shoot.gardener.cloud/ignore": "true"}),
        vec![object("Infrastructure", asked)],
    );
    says(
        &only(&ignored, Cause::Ignored),
        &["shoot.gardener.cloud/ignore", "garden-dev/s"],
    );
    ignored.shoot.metadata.annotations = None;
    if let Seen::Present(seed) = &mut ignored.seed {
        let key = "shoot.gardener.cloud/emergency-stop-reconciliations".to_owned();
        seed.metadata.annotations = Some([(key, "true".to_owned())].into());
    }
    says(&only(&ignored, Cause::Ignored), &["emergency-stop", "Seed seed"]);
}

#[test]
fn an_extension_that_does_not_answer_is_named_with_its_installation_and_whether_its_pod_runs() {
    let running = "Waiting until Shoot infrastructure has been reconciled";
    let dns = ExtensionFact {
        name: format!("{NAMESPACE}/s-internal"),
        ..object("DNSRecord", asked)
    };
    let mut silent = with(
        |shoot| self::running(shoot, running, Vec::new()),
        vec![object("Infrastructure", asked), dns],
    );
    let blocker = only(&silent, Cause::ExtensionSilent);
    says(
        &blocker,
        &[
            "\"moon\"",
            "registration provider-moon, installation provider-moon-abcde",
            "provider-moon-x runs",
        ],
    );
    assert_eq!(
        blocker.objects,
        ["Infrastructure shoot--dev--s/s", "DNSRecord shoot--dev--s/s-internal"]
    );
    assert_eq!(
        (blocker.tasks.join("; "), blocker.since),
        (running.to_owned(), Some(at(BEFORE)))
    );

    let controller = &mut in_seed(&mut silent).controllers[0];
    controller.workloads = Seen::Present(vec![workload("e", "provider-moon", &[])]);
    controller.heartbeat = Seen::Present(at(BEFORE));
    says(
        &only(&silent, Cause::ExtensionSilent),
        &["wants 0 pods; its last heartbeat is 300 s old"],
    );
    let controller = &mut in_seed(&mut silent).controllers[0];
    let crashing = Some(("CrashLoopBackOff", "no config"));
    controller.workloads = Seen::Present(vec![workload("e", "provider-moon", &[crashing])]);
    says(
        &only(&silent, Cause::ExtensionSilent),
        &["Pod e/provider-moon-x: CrashLoopBackOff: no config"],
    );
    in_seed(&mut silent).controllers[0].workloads = Seen::Unknown("forbidden".to_owned());
    says(&only(&silent, Cause::ExtensionSilent), &["cannot be seen: forbidden"]);
}

#[test]
fn who_was_asked_a_moment_ago_is_at_work_unless_it_does_not_run() {
    let moment = |reported: &mut Reported| {
        asked(reported);
        reported.timestamp = Some("2026-01-01T00:09:58Z".to_owned());
    };
    let mut young = with(|_| {}, vec![object("Infrastructure", moment)]);
    only(&young, Cause::AtWork);
    assert_eq!(plan(&young).state, State::Working);
    let controller = &mut in_seed(&mut young).controllers[0];
    controller.workloads = Seen::Present(Vec::new());
    controller.heartbeat = Seen::Absent;
    only(&young, Cause::ExtensionSilent);
    assert_eq!(plan(&young).state, State::Blocked);
}

#[test]
fn an_error_of_an_extension_has_its_code_its_class_and_its_task() {
    let quota = |reported: &mut Reported| {
        reported.last_operation = operation("Create", "Error");
        reported.last_error = error("no more cores", "ERR_INFRA_QUOTA_EXCEEDED");
    };
    let text = format!("Infrastructure {NAMESPACE}/s: extension \"moon\" reports: no more cores");
    let problem = Problem {
        object: in_namespace("Infrastructure", "s"),
        hint: "look".to_owned(),
        codes: vec![ErrorCode::InfraQuotaExceeded],
        ..problem("Waiting until I", &text)
    };
    let failed = with(
        |shoot| failing(shoot, "Failed", problem),
        vec![object("Infrastructure", quota)],
    );
    let blocker = only(&failed, Cause::ExtensionError);
    says(&blocker, &["no more cores"]);
    assert_eq!(
        (blocker.class, blocker.tasks.join("; ").as_str()),
        (Some("quota"), "Waiting until I")
    );
    assert_eq!(blocker.codes, [ErrorCode::InfraQuotaExceeded]);
    assert_eq!(blocker.next_try, "none before you act");
    assert_eq!(
        blocker.command.as_deref(),
        Some("kubectl annotate shoot -n garden-dev s gardener.cloud/operation=retry")
    );

    let again = |reported: &mut Reported| {
        quota(reported);
        reported.last_operation = operation("Create", "Processing");
    };
    let blocker = only(
        &with(|_| {}, vec![object("Infrastructure", again)]),
        Cause::ExtensionError,
    );
    says(&blocker, &["its try before failed: no more cores"]);
    assert_eq!(blocker.next_try, "now: the extension tries again");
}

#[test]
fn an_error_of_a_shoot_whose_name_begins_alike_is_another_ones() {
    let text = format!("Infrastructure {NAMESPACE}/s-2: extension \"moon\" reports: no");
    let problem = Problem {
        object: in_namespace("Infrastructure", "s-2"),
        ..problem("Other", &text)
    };
    let failed = with(
        |shoot| failing(shoot, "Error", problem),
        vec![object("Infrastructure", asked)],
    );
    assert_eq!(causes(&plan(&failed)), [Cause::ExtensionSilent, Cause::TaskFailed]);
}

#[test]
fn a_type_whose_registration_is_gone_stands_with_all_its_objects() {
    let mut gone = with(
        |shoot| {
            shoot["spec"]["networking"]["type"] = json!("extra");
            let problem = problem("Check required extensions", "missing: Network/extra (not registered)");
            failing(shoot, "Error", problem);
        },
        vec![ExtensionFact {
            reported: Reported {
                type_: "Extra".to_owned(),
                ..object("Network", asked).reported
            },
            ..object("Network", asked)
        }],
    );
    let blocker = only(&gone, Cause::NotRegistered);
    says(
        &blocker,
        &[
            "no ControllerRegistration is responsible for Network/extra",
            "Network shoot--dev--s/s",
        ],
    );
    assert_eq!(blocker.tasks, ["Check required extensions"]);
    gone.registrations = Seen::Unknown("forbidden".to_owned());
    let answer = plan(&gone);
    assert!(
        !causes(&answer).contains(&Cause::NotRegistered),
        "an unread list is not an empty one"
    );
    assert_eq!(answer.unknown, ["the registrations: forbidden"]);
}

#[test]
fn an_error_stands_beside_the_installation_that_has_gone_bad_since() {
    let wrong = |reported: &mut Reported| {
        reported.last_operation = operation("Create", "Error");
        reported.last_error = error("no such zone", "ERR_CONFIGURATION_PROBLEM");
    };
    let mut facts = with(|_| {}, vec![object("Infrastructure", wrong), object("Network", asked)]);
    let mut unwell = installation();
    unwell.status.as_mut().unwrap().conditions[1].status = ConditionStatus::False;
    facts.installations = Seen::Present(vec![unwell]);
    let answer = plan(&facts);
    assert_eq!(causes(&answer), [Cause::NotInstalled, Cause::ExtensionError]);
    let [installation, error] = answer.blockers.as_slice() else {
        panic!("{answer:#?}")
    };
    assert_eq!(
        installation.objects,
        ["ControllerInstallation provider-moon-abcde", "Network shoot--dev--s/s"]
    );
    assert_eq!(installation.since, Some(at("2026-01-01T00:07:00Z")));
    assert_eq!((error.class, installation.codes.len()), (Some("user"), 0));
}

#[test]
fn an_installation_that_does_not_run_well_is_told_in_its_own_words() {
    let mut facts = facts(|_| {});
    let mut unwell = installation();
    let healthy = serde_json::from_value(condition("Healthy", "False")).unwrap();
    unwell.status.as_mut().unwrap().conditions.push(healthy);
    facts.installations = Seen::Present(vec![unwell]);
    says(
        &only(&facts, Cause::NotInstalled),
        &[
            "needed for ControlPlane/moon",
            "provider-moon cannot be used",
            "installation not healthy: m",
            "ControllerInstallation provider-moon-abcde",
        ],
    );
    facts.installations = Seen::Present(Vec::new());
    says(&only(&facts, Cause::NotInstalled), &["not installed on the seed"]);
}

#[test]
fn an_installation_that_nobody_has_taken_up_has_no_pods_to_look_at() {
    let mut facts = facts(|_| {});
    let mut untouched = installation();
    untouched.status = None;
    facts.installations = Seen::Present(vec![untouched]);
    let blocker = only(&facts, Cause::NotInstalled);
    says(
        &blocker,
        &["wait a minute; if it lasts, look at the log of the gardenlet of seed seed"],
    );
    let command = blocker.command.as_deref();
    assert_eq!(command, Some("orangery why controllerinstallation provider-moon-abcde"));
    let mut abandoned = condition("Valid", "Unknown");
    abandoned["reason"] = json!("NoOperator");
    let mut served_by_none = installation();
    served_by_none.status = serde_json::from_value(json!({"conditions": [abandoned]})).unwrap();
    facts.installations = Seen::Present(vec![served_by_none]);
    says(&only(&facts, Cause::NotInstalled), &["start the operator of that type"]);
}

const REFUSED: &str = "update Infrastructure: admission webhook \"guard.moon.example\" denied the request: no craters";

#[test]
fn a_webhook_that_refuses_what_an_extension_has_to_write_is_named_instead_of_silence() {
    let mut facts = with(|_| {}, vec![object("Infrastructure", asked)]);
    assert_eq!(causes(&plan(&facts)), [Cause::ExtensionSilent]);
    let refusal = |at_: &str| Refusal {
        object: ObjectName::new("Infrastructure", Some(NAMESPACE), "s"),
        webhook: WebhookFailure::in_message(REFUSED).unwrap(),
        message: REFUSED.to_owned(),
        at: Some(at(at_)),
    };
    in_seed(&mut facts).refusals = Seen::Present(vec![refusal("2026-01-01T00:06:00Z")]);
    let blocker = only(&facts, Cause::WebhookRefused);
    says(
        &blocker,
        &["no craters", "correct what webhook guard.moon.example objects to"],
    );
    assert_eq!(blocker.who, "webhook guard.moon.example");
    in_seed(&mut facts).refusals = Seen::Present(vec![refusal("2026-01-01T00:01:00Z")]);
    assert_eq!(
        causes(&plan(&facts)),
        [Cause::ExtensionSilent],
        "that was before it was asked"
    );
}

#[test]
fn a_webhook_that_refuses_gardenlet_is_named_with_the_task() {
    let task = "Deploying Shoot infrastructure";
    let problem = Problem {
        webhook: WebhookFailure::in_message(REFUSED),
        ..problem(task, REFUSED)
    };
    let facts = facts(|shoot| failing(shoot, "Error", problem));
    let blocker = only(&facts, Cause::WebhookRefused);
    says(&blocker, &["no craters", task, "webhook guard.moon.example"]);
}

/// A webhook of the installation that is asked about all objects of extensions, and that nothing serves.
fn unserved_webhook() -> Webhook {
    let rule = json!({
        "apiGroups": ["extensions.gardener.cloud"], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["*"],
    });
    Webhook {
        name: "guard.moon.example".to_owned(),
        configuration: "MutatingWebhookConfiguration moon".to_owned(),
        service: Some("extension-provider-moon-abcde/moon".to_owned()),
        owner: Some("ControllerInstallation provider-moon-abcde".to_owned()),
        is_served: Some(false),
        fails_closed: true,
        rules: vec![serde_json::from_value(rule).unwrap()],
        ..Webhook::default()
    }
}

const UNSERVED: [&str; 4] = [
    "webhook guard.moon.example of MutatingWebhookConfiguration moon",
    "Service extension-provider-moon-abcde/moon",
    "installed by ControllerInstallation provider-moon-abcde",
    "let a pod behind Service extension-provider-moon-abcde/moon become ready",
];

#[test]
fn webhook_that_does_not_answer_is_named_with_configuration_service_and_installation() {
    let text = "update Infrastructure: Internal error occurred: failed calling webhook \"guard.moon.example\": failed to \
                call webhook: Post \"https://moon.extension-provider-moon-abcde.svc:443/?timeout=10s\": no endpoints \
                available for service \"moon\"";
    let problem = Problem {
        webhook: WebhookFailure::in_message(text),
        ..problem("Deploying Shoot infrastructure", text)
    };
    let mut facts = facts(|shoot| failing(shoot, "Error", problem));
    in_seed(&mut facts).webhooks = Seen::Present(vec![unserved_webhook()]);
    let blocker = only(&facts, Cause::WebhookRefused);
    says(&blocker, &UNSERVED);
}

#[test]
fn live_extension_whose_writes_end_at_a_webhook_without_endpoints_is_not_called_silent() {
    let mut facts = with(|_| {}, vec![object("Infrastructure", asked)]);
    in_seed(&mut facts).webhooks = Seen::Present(vec![unserved_webhook()]);
    let blocker = only(&facts, Cause::WebhookRefused);
    says(&blocker, &UNSERVED);
    says(&blocker, &["every update of Infrastructure objects fails"]);
    let served = Webhook {
        is_served: Some(true),
        ..unserved_webhook()
    };
    in_seed(&mut facts).webhooks = Seen::Present(vec![served]);
    assert_eq!(causes(&plan(&facts)), [Cause::ExtensionSilent]);
    // One that does not run is to be started first.
    in_seed(&mut facts).webhooks = Seen::Present(vec![unserved_webhook()]);
    in_seed(&mut facts).controllers[0].heartbeat = Seen::Absent;
    assert_eq!(causes(&plan(&facts)), [Cause::ExtensionSilent]);
}

#[test]
fn resources_of_class_seed_are_applied_by_the_seeds_resource_manager() {
    let mut facts = facts(settled);
    let resource = |class: Option<&str>| Resource {
        name: format!("{NAMESPACE}/webhooks"),
        class: class.map(str::to_owned),
        trouble: "ApplyFailed: forbidden".to_owned(),
        webhook: None,
        since: Some(at(BEFORE)),
        deleting: None,
    };
    for (class, who) in [
        (Some("seed"), "of the seed"),
        (None, "of the Shoot"),
        (Some("x"), "of class \"x\""),
    ] {
        in_seed(&mut facts).resources = Seen::Present(vec![resource(class)]);
        let blocker = only(&facts, Cause::ResourceNotHealthy);
        assert!(blocker.who.ends_with(who), "{}", blocker.who);
    }
}

#[test]
fn a_success_of_another_generation_is_a_lie() {
    let lie = |reported: &mut Reported| {
        reported.last_operation = operation("Reconcile", "Succeeded");
        reported.observed_generation = 7;
    };
    let lying = with(|_| {}, vec![object("ControlPlane", lie)]);
    says(
        &only(&lying, Cause::LyingStatus),
        &["reports success of generation 7, not of 1", "authors"],
    );
}

#[test]
fn a_generation_nobody_has_looked_at_is_told_with_both_numbers() {
    let facts = facts(|shoot| {
        settled(shoot);
        shoot["status"]["observedGeneration"] = json!(1);
    });
    says(
        &only(&facts, Cause::NotObserved),
        &["generation 2 is wanted", "looked at 1"],
    );
}

#[test]
fn a_pod_of_the_control_plane_says_why_it_does_not_run() {
    let mut facts = facts(|shoot| {
        settled(shoot);
        shoot["status"]["conditions"] = json!([condition("ControlPlaneHealthy", "False")]);
    });
    let image = Some(("ImageNotInCatalogue", "image \"a:1\" is not in the catalogue"));
    in_seed(&mut facts).workloads = Seen::Present(vec![workload(NAMESPACE, "kube-scheduler", &[image])]);
    let blocker = only(&facts, Cause::PodNotRunning);
    says(
        &blocker,
        &[
            "0 of 1 pods",
            "ImageNotInCatalogue: image \"a:1\"",
            "Pod shoot--dev--s/kube-scheduler-x",
        ],
    );
    assert_eq!(blocker.since, Some(at(BEFORE)));
    in_seed(&mut facts).workloads = Seen::Unknown("forbidden".to_owned());
    says(
        &only(&facts, Cause::ConditionNotTrue),
        &["ControlPlaneHealthy is False: R: m"],
    );
}

#[test]
fn a_pod_on_its_way_is_no_trouble_for_its_first_seconds() {
    let mut facts = facts(|_| {});
    let mut on_its_way = workload(NAMESPACE, "etcd-main", &[Some(("ContainerCreating", ""))]);
    on_its_way.pods[0].since = Some(at("2026-01-01T00:09:57Z"));
    in_seed(&mut facts).workloads = Seen::Present(vec![on_its_way.clone()]);
    only(&facts, Cause::AtWork);
    on_its_way.pods[0].since = Some(at(BEFORE));
    in_seed(&mut facts).workloads = Seen::Present(vec![on_its_way]);
    only(&facts, Cause::PodNotRunning);
}

#[test]
fn a_managed_resource_says_what_is_not_applied_and_explains_the_condition() {
    let mut facts = facts(|shoot| {
        settled(shoot);
        shoot["status"]["conditions"] = json!([condition("SystemComponentsHealthy", "False")]);
    });
    in_seed(&mut facts).resources = Seen::Present(vec![Resource {
        name: format!("{NAMESPACE}/system"),
        class: None,
        trouble: "ApplyFailed: Deployment x: forbidden".to_owned(),
        webhook: None,
        since: Some(at(BEFORE)),
        deleting: None,
    }]);
    let blocker = only(&facts, Cause::ResourceNotHealthy);
    says(
        &blocker,
        &[
            "ApplyFailed: Deployment x: forbidden",
            "ManagedResource shoot--dev--s/system",
        ],
    );
}

#[test]
fn machines_that_have_not_joined_stand_for_their_worker() {
    let working = |reported: &mut Reported| reported.last_operation = operation("Create", "Processing");
    let mut facts = with(
        |shoot| running(shoot, "Waiting until worker pools have been reconciled", Vec::new()),
        vec![object("Worker", working)],
    );
    let machine = |told: &str| Machine {
        name: "m-1".to_owned(),
        told: told.to_owned(),
        since: Some(at(BEFORE)),
    };
    in_seed(&mut facts).machines = Seen::Present(vec![machine("its node does not exist")]);
    let blocker = only(&facts, Cause::NodesMissing);
    says(
        &blocker,
        &["Machine m-1: its node does not exist", "Worker shoot--dev--s/s"],
    );
    assert_eq!(blocker.tasks, ["Waiting until worker pools have been reconciled"]);
    in_seed(&mut facts).machines =
        Seen::Present(vec![machine("bootstrap token was refused by https://a: Unauthorized")]);
    says(
        &only(&facts, Cause::BootstrapTokenMissing),
        &["refuses their bootstrap token", "operation=reconcile"],
    );

    let mut unready = self::facts(|shoot| {
        settled(shoot);
        shoot["status"]["conditions"] = json!([condition("EveryNodeReady", "False")]);
    });
    says(&only(&unready, Cause::NodesMissing), &["EveryNodeReady is False"]);
    in_seed(&mut unready).machines = Seen::Present(vec![machine("its node does not exist")]);
    says(&only(&unready, Cause::NodesMissing), &["Machine m-1"]);
}

#[test]
fn a_deletion_says_what_holds_it() {
    let unconfirmed = facts(|shoot| {
        deleted(shoot);
        shoot["metadata"]["annotations"] = Value::Null;
    });
    says(
        &only(&unconfirmed, Cause::DeletionNotConfirmed),
        &["confirmation.gardener.cloud/deletion"],
    );

    let foreign = facts(|shoot| {
        deleted(shoot);
        shoot["metadata"]["finalizers"] = json!(["example.com/mine"]);
        shoot["status"]["lastOperation"]["state"] = json!("Succeeded");
    });
    says(&only(&foreign, Cause::FinalizerHolds), &["example.com/mine"]);

    let left = facts(|shoot| {
        deleted(shoot);
        let text = "objects in the shoot are still there: ConfigMap a/b";
        let problem = Problem {
            hint: "look".to_owned(),
            codes: vec![ErrorCode::CleanupClusterResources],
            ..problem("Cleaning Kubernetes resources", text)
        };
        failing(shoot, "Error", problem);
    });
    let blocker = only(&left, Cause::ObjectsLeft);
    says(&blocker, &["ConfigMap a/b"]);
    assert_eq!(blocker.tasks, ["Cleaning Kubernetes resources"]);

    let going = ExtensionFact {
        deleting: Some(at(BEFORE)),
        finalizers: vec!["example.com/mine".to_owned()],
        ..object("Worker", |reported| {
            reported.last_operation = operation("Reconcile", "Succeeded")
        })
    };
    let held = with(deleted, vec![going.clone()]);
    says(
        &only(&held, Cause::FinalizerHolds),
        &["finalizers of others hold it: example.com/mine"],
    );
    let own = ExtensionFact {
        finalizers: vec!["extensions.gardener.cloud/worker".to_owned()],
        ..going
    };
    says(
        &only(&with(deleted, vec![own.clone()]), Cause::ExtensionSilent),
        &["has not deleted it yet"],
    );
    let mut lying = own;
    lying.reported.last_operation = operation("Delete", "Succeeded");
    says(
        &only(&with(deleted, vec![lying]), Cause::FinalizerHolds),
        &["still holds it by a finalizer"],
    );
}

#[test]
fn an_operation_that_was_given_up_says_how_to_start_it_again() {
    let problem = Problem {
        hint: "name another zone".to_owned(),
        codes: vec![ErrorCode::ConfigurationProblem],
        ..problem("T", "task failed: the zone is gone")
    };
    let facts = facts(|shoot| failing(shoot, "Failed", problem));
    let blocker = only(&facts, Cause::GivenUp);
    assert_eq!(
        (blocker.class, blocker.to_do.as_str()),
        (Some("user"), "name another zone")
    );
    assert_eq!(blocker.next_try, "none before you act");
    says(&blocker, &["operation=retry", "the zone is gone"]);
}

#[test]
fn without_the_seed_the_garden_still_tells_what_is_waited_for() {
    let wait = Wait {
        task: "Waiting until X".to_owned(),
        subject: Subject::Object(ObjectName::new("Infrastructure", Some("a"), "b")),
        reason: "not picked up".to_owned(),
        since: at(BEFORE),
    };
    let mut blind = facts(|shoot| running(shoot, "Waiting until X", vec![wait]));
    blind.in_seed = Seen::Unknown("cannot read seed.kubeconfig".to_owned());
    says(&only(&blind, Cause::Waiting), &["Infrastructure a/b: not picked up"]);
    assert_eq!(
        plan(&blind).unknown,
        ["what is in the seed: cannot read seed.kubeconfig"]
    );
    blind.shoot = shoot(settled);
    assert_eq!(plan(&blind).state, State::Healthy);
}

#[test]
fn an_answer_serialises_with_the_names_of_its_causes() {
    let answer = plan(&with(|_| {}, vec![object("Infrastructure", asked)]));
    let value = serde_json::to_value(&answer).unwrap();
    assert_eq!(value["state"], "blocked");
    assert_eq!(value["blockers"][0]["cause"], "extension-silent");
    assert_eq!(
        value["blockers"][0]["nextTry"],
        "at once when the object's status changes"
    );
    assert_eq!(value["seen"], NOW);
    let _: Time = serde_json::from_value(value["blockers"][0]["since"].clone()).unwrap();
}
