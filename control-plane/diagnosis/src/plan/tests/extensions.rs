//! Extension objects, and whoever acts on them.

use super::*;

#[test]
fn a_silent_extension_is_named_with_its_installation_and_state_of_its_pod() {
    let running = "Waiting until Shoot infrastructure has been reconciled";
    let dns = ExtensionFact {
        id: named("DNSRecord", "s-internal"),
        ..object("DNSRecord", requested)
    };
    let mut silent = with(
        |shoot| self::running(shoot, running, Vec::new()),
        vec![object("Infrastructure", requested), dns],
    );
    let blocker = only(&silent, Cause::ExtensionSilent);
    assert_mentions(
        &blocker,
        &[
            "\"moon\"",
            "registration provider-moon, installation provider-moon-abcde",
            "provider-moon-x runs",
        ],
    );
    assert_eq!(
        objects(&blocker),
        [
            "Infrastructure shoot--dev--s/s in seed seed",
            "DNSRecord shoot--dev--s/s-internal in seed seed"
        ]
    );
    assert_eq!(
        (blocker.tasks.join("; "), blocker.since),
        (running.to_owned(), Some(at(BEFORE)))
    );

    let controller = &mut in_seed(&mut silent).controllers[0];
    controller.workloads = Seen::Present(vec![workload("e", "provider-moon", &[])]);
    controller.heartbeat = Seen::Present(at(BEFORE));
    assert_mentions(
        &only(&silent, Cause::ExtensionSilent),
        &["wants 0 pods; its last heartbeat is 300 s old"],
    );
    let controller = &mut in_seed(&mut silent).controllers[0];
    let crashing = Some(("CrashLoopBackOff", "no config"));
    controller.workloads = Seen::Present(vec![workload("e", "provider-moon", &[crashing])]);
    assert_mentions(
        &only(&silent, Cause::ExtensionSilent),
        &["Pod e/provider-moon-x: CrashLoopBackOff: no config"],
    );
    in_seed(&mut silent).controllers[0].workloads = Seen::Unknown("forbidden".to_owned());
    assert_mentions(&only(&silent, Cause::ExtensionSilent), &["cannot be seen: forbidden"]);
}

#[test]
fn an_extension_requested_just_now_is_at_work_if_it_runs() {
    let moment = |reported: &mut Reported| {
        requested(reported);
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
    assert_mentions(&blocker, &["no more cores"]);
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
    assert_mentions(&blocker, &["its try before failed: no more cores"]);
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
        vec![object("Infrastructure", requested)],
    );
    assert_eq!(causes(&plan(&failed)), [Cause::ExtensionSilent, Cause::TaskFailed]);
}

#[test]
fn a_success_of_another_generation_is_a_lie() {
    let lie = |reported: &mut Reported| {
        reported.last_operation = operation("Reconcile", "Succeeded");
        reported.observed_generation = 7;
    };
    let lying = with(|_| {}, vec![object("ControlPlane", lie)]);
    assert_mentions(
        &only(&lying, Cause::LyingStatus),
        &["reports success of generation 7, not of 1", "authors"],
    );
}
