//! What runs in the seed for a Shoot.

use super::*;

#[test]
fn a_pod_of_the_control_plane_reports_why_it_does_not_run() {
    let mut facts = facts(|shoot| {
        settled(shoot);
        shoot["status"]["conditions"] = json!([condition("ControlPlaneHealthy", "False")]);
    });
    let image = Some(("ImageNotInCatalogue", "image \"a:1\" is not in the catalogue"));
    in_seed(&mut facts).workloads = Seen::Present(vec![workload(NAMESPACE, "kube-scheduler", &[image])]);
    let blocker = only(&facts, Cause::PodNotRunning);
    assert_mentions(
        &blocker,
        &[
            "0 of 1 pods",
            "ImageNotInCatalogue: image \"a:1\"",
            "Pod shoot--dev--s/kube-scheduler-x",
        ],
    );
    assert_eq!(blocker.since, Some(at(BEFORE)));
    in_seed(&mut facts).workloads = Seen::Unknown("forbidden".to_owned());
    assert_mentions(
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
fn a_managed_resource_reports_what_is_not_applied_and_explains_the_condition() {
    let mut facts = facts(|shoot| {
        settled(shoot);
        shoot["status"]["conditions"] = json!([condition("SystemComponentsHealthy", "False")]);
    });
    in_seed(&mut facts).resources = Seen::Present(vec![Resource {
        object: named("ManagedResource", "system"),
        class: None,
        trouble: "ApplyFailed: Deployment x: forbidden".to_owned(),
        webhook: None,
        since: Some(at(BEFORE)),
        deleting: None,
    }]);
    let blocker = only(&facts, Cause::ResourceNotHealthy);
    assert_mentions(
        &blocker,
        &[
            "ApplyFailed: Deployment x: forbidden",
            "ManagedResource shoot--dev--s/system",
        ],
    );
}

#[test]
fn resources_of_class_seed_are_applied_by_the_seeds_resource_manager() {
    let mut facts = facts(settled);
    let resource = |class: Option<&str>| Resource {
        object: named("ManagedResource", "webhooks"),
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
fn machines_that_have_not_joined_stand_for_their_worker() {
    let working = |reported: &mut Reported| reported.last_operation = operation("Create", "Processing");
    let mut facts = with(
        |shoot| running(shoot, "Waiting until worker pools have been reconciled", Vec::new()),
        vec![object("Worker", working)],
    );
    let machine = |report: &str| Machine {
        object: named("Machine", "m-1"),
        report: report.to_owned(),
        is_refused: false,
        since: Some(at(BEFORE)),
    };
    in_seed(&mut facts).machines = Seen::Present(vec![machine("its node does not exist")]);
    let blocker = only(&facts, Cause::NodesMissing);
    assert_mentions(
        &blocker,
        &["Machine m-1: its node does not exist", "Worker shoot--dev--s/s"],
    );
    assert_eq!(blocker.tasks, ["Waiting until worker pools have been reconciled"]);
    in_seed(&mut facts).machines = Seen::Present(vec![Machine {
        is_refused: true,
        ..machine("no")
    }]);
    assert_mentions(
        &only(&facts, Cause::BootstrapTokenMissing),
        &["refuses their bootstrap token", "operation=reconcile"],
    );

    let mut unready = self::facts(|shoot| {
        settled(shoot);
        shoot["status"]["conditions"] = json!([condition("EveryNodeReady", "False")]);
    });
    assert_mentions(&only(&unready, Cause::NodesMissing), &["EveryNodeReady is False"]);
    in_seed(&mut unready).machines = Seen::Present(vec![machine("its node does not exist")]);
    assert_mentions(&only(&unready, Cause::NodesMissing), &["Machine m-1"]);
}
