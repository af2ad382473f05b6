//! One test per step of an installation that can fail.

use api_core::v1beta1::ControllerDeployment;

use super::super::About;
use super::super::installation::plan;
use super::*;
use crate::facts::{InstallationFacts, Installed};

/// A chart that is installed and runs.
fn facts(conditions: &[(&str, &str, &str)]) -> InstallationFacts {
    let of = |(type_, status, reason): &(&str, &str, &str)| {
        let mut one = condition(type_, status);
        one["reason"] = json!(reason);
        one
    };
    let mut moon = installation();
    let conditions: Vec<Value> = conditions.iter().map(of).collect();
    moon.status = serde_json::from_value(json!({"conditions": conditions})).unwrap();
    let chart: ControllerDeployment =
        serde_json::from_value(json!({"metadata": {"name": "moon"}, "type": "helm", "providerConfig": {}})).unwrap();
    let namespace = "extension-provider-moon-abcde";
    InstallationFacts {
        now: at(NOW),
        installation: moon,
        deployment: Seen::Present(chart),
        in_seed: Seen::Present(Installed {
            resource: Seen::Absent,
            resource_manager: Seen::Present(workload("garden", "gardener-resource-manager", &[None])),
            controller: Controller {
                installation: "provider-moon-abcde".to_owned(),
                namespace: namespace.to_owned(),
                workloads: Seen::Present(vec![workload(namespace, "provider-moon", &[None])]),
                heartbeat: Seen::Absent,
            },
            webhooks: Seen::Present(Vec::new()),
        }),
    }
}

const VALID: (&str, &str, &str) = ("Valid", "True", "RegistrationValid");
const PENDING: (&str, &str, &str) = ("Installed", "False", "InstallationPending");
const INSTALLED: (&str, &str, &str) = ("Installed", "True", "InstallationSuccessful");
const UNWELL: (&str, &str, &str) = ("Healthy", "False", "ControllerNotHealthy");

fn installed(facts: &mut InstallationFacts) -> &mut Installed {
    match &mut facts.in_seed {
        Seen::Present(seed) => seed,
        other => panic!("{other:?}"),
    }
}

fn only(facts: &InstallationFacts, cause: Cause) -> Blocker {
    let mut answer = plan(facts);
    assert_eq!(causes(&answer), [cause], "{answer:#?}");
    assert_eq!(answer.state, State::Blocked);
    answer.blockers.remove(0)
}

#[test]
fn an_installation_without_trouble_is_healthy() {
    let answer = plan(&facts(&[VALID, INSTALLED, ("Healthy", "True", "ControllerHealthy")]));
    assert_eq!((answer.state, answer.blockers), (State::Healthy, Vec::new()));
    assert_eq!(
        answer.about,
        About::ControllerInstallation("provider-moon-abcde".to_owned())
    );
    let rolling = ("Progressing", "True", "ControllerNotRolledOut");
    assert_eq!(plan(&facts(&[VALID, INSTALLED, rolling])).state, State::Working);
}

#[test]
fn each_reason_before_the_seed_has_one_thing_to_do() {
    for (status, reason, to_do) in [
        ("False", "NoDeployment", "name a ControllerDeployment"),
        (
            "False",
            "ControllerDeploymentNotFound",
            "create the ControllerDeployment",
        ),
        ("Unknown", "NoOperator", "start the operator"),
        ("False", "ChartCannotBeRendered", "orangery chart lint"),
        ("False", "OCIChartCannotBePulled", "the registry"),
    ] {
        let blocker = only(&facts(&[("Valid", status, reason), PENDING]), Cause::NotInstalled);
        assert_mentions(&blocker, &[reason, to_do, "ControllerInstallation provider-moon-abcde"]);
    }
    assert_mentions(
        &only(&facts(&[]), Cause::NotInstalled),
        &["condition Valid of it is not reported yet"],
    );
}

#[test]
fn objects_that_are_not_applied_are_reported_with_who_refuses_them() {
    let mut facts = facts(&[VALID, PENDING]);
    installed(&mut facts).resource = Seen::Present(Resource {
        object: ObjectName::new("ManagedResource", Some("garden"), "provider-moon-abcde"),
        class: Some("seed".to_owned()),
        trouble: "ApplyFailed: Deployment moon: forbidden".to_owned(),
        webhook: None,
        since: Some(at(BEFORE)),
        deleting: None,
    });
    let blocker = only(&facts, Cause::ResourceNotHealthy);
    assert_mentions(
        &blocker,
        &["Deployment moon: forbidden", "gardener-resource-manager of the seed"],
    );
    if let Seen::Present(resource) = &mut installed(&mut facts).resource {
        resource.trouble = format!("ApplyFailed: {REFUSED}");
        resource.webhook = WebhookFailure::in_message(&resource.trouble);
    }
    assert_mentions(
        &only(&facts, Cause::WebhookRefused),
        &["no craters", "webhook guard.moon.example"],
    );
}

#[test]
fn a_resource_manager_that_is_gone_is_named() {
    let mut facts = facts(&[VALID, PENDING]);
    installed(&mut facts).resource_manager = Seen::Absent;
    assert_mentions(
        &only(&facts, Cause::NotInstalled),
        &[
            "garden/gardener-resource-manager does not exist",
            "bring the seed's gardener-resource-manager back",
        ],
    );
}

#[test]
fn a_program_that_does_not_run_is_reported_with_its_reason() {
    let mut facts = facts(&[VALID, INSTALLED, UNWELL]);
    for (reason, to_do) in [
        ("ImageNotInCatalogue", "set replicas to 0"),
        (
            "CrashLoopBackOff",
            "log of Pod extension-provider-moon-abcde/provider-moon-x",
        ),
    ] {
        let pod = workload(
            "extension-provider-moon-abcde",
            "provider-moon",
            &[Some((reason, "why"))],
        );
        installed(&mut facts).controller.workloads = Seen::Present(vec![pod]);
        let blocker = only(&facts, Cause::PodNotRunning);
        assert_mentions(&blocker, &[reason, to_do]);
    }
    facts.in_seed = Seen::Unknown("no kubeconfig".to_owned());
    let answer = plan(&facts);
    assert_eq!(causes(&answer), [Cause::NotInstalled]);
    assert_eq!(answer.unknown, ["what is in the seed: no kubeconfig"]);
}

#[test]
fn a_program_that_cannot_run_blocks_a_rollout_that_counts_as_healthy() {
    let well = ("Healthy", "True", "ControllerHealthy");
    let rolling = ("Progressing", "True", "ControllerNotRolledOut");
    let mut facts = facts(&[VALID, INSTALLED, well, rolling]);
    let namespace = "extension-provider-moon-abcde";
    let mut runs = |reason| {
        let pod = workload(namespace, "provider-moon", &[Some((reason, "why"))]);
        installed(&mut facts).controller.workloads = Seen::Present(vec![pod]);
        plan(&facts)
    };
    assert_eq!(runs("ContainerCreating").state, State::Working);
    let answer = runs("ImageNotInCatalogue");
    assert_eq!(causes(&answer), [Cause::PodNotRunning], "{answer:#?}");
    assert_mentions(&answer.blockers[0], &["ImageNotInCatalogue", "set replicas to 0"]);
}

#[test]
fn what_holds_an_installation_that_is_to_go_is_named() {
    let mut facts = facts(&[VALID, INSTALLED]);
    let metadata = &mut facts.installation.metadata;
    metadata.deletion_timestamp = Some(Time(at(BEFORE)));
    metadata.finalizers = Some(vec!["orangery.dev/mine".to_owned()]);
    assert_mentions(&only(&facts, Cause::FinalizerHolds), &["orangery.dev/mine"]);
}

/// Writes what gardenlet reports beside the conditions.
fn reported(facts: &mut InstallationFacts, report: OperationReport) {
    let conditions = &facts.installation.status.as_ref().unwrap().conditions;
    let annotations = &mut facts.installation.metadata.annotations;
    report.put_beside_conditions(annotations, conditions, &api_meta::conditions::installation::REPORTED);
}

fn waiting_for(object: ObjectName) -> OperationReport {
    OperationReport {
        waits: vec![Wait {
            task: String::new(),
            subject: Subject::Object(object),
            reason: "pending".to_owned(),
            since: at(BEFORE),
        }],
        ..OperationReport::default()
    }
}

#[test]
fn the_awaited_object_is_the_reports_whatever_the_message_names() {
    let of = |message: &str, report: Option<OperationReport>| {
        let mut facts = facts(&[VALID, PENDING]);
        facts.in_seed = Seen::Unknown("no kubeconfig".to_owned());
        facts.installation.status.as_mut().unwrap().conditions[1].message = message.to_owned();
        if let Some(report) = report {
            reported(&mut facts, report);
        }
        only(&facts, Cause::NotInstalled)
    };
    let resource = ObjectName::new("ManagedResource", Some("garden"), "provider-moon-abcde");
    let blocker = of("\u{65e5}", Some(waiting_for(resource)));
    assert_eq!(blocker.who, "gardener-resource-manager of the seed");
    assert_eq!(
        objects(&blocker),
        [
            "ControllerInstallation provider-moon-abcde",
            "ManagedResource garden/provider-moon-abcde in seed seed"
        ]
    );
    let namespace = ObjectName::new("Namespace", None, "extension-provider-moon-abcde");
    let blocker = of("ManagedResource", Some(waiting_for(namespace)));
    assert_mentions(&blocker, &["finalizers of Namespace extension-provider-moon-abcde"]);
    let blocker = of("ManagedResource garden/provider-moon-abcde", None);
    assert_mentions(
        &blocker,
        &["look at its pods in namespace extension-provider-moon-abcde"],
    );
}

#[test]
fn an_installation_that_has_failed_reports_its_own_thing_to_do_once() {
    let mut facts = facts(&[VALID, ("Installed", "False", "InstallationFailed")]);
    let failed = Problem {
        hint: "grant it".to_owned(),
        ..problem("T", "apply Secret garden/x: forbidden")
    };
    facts.installation.status.as_mut().unwrap().conditions[1].message = failed.sentence();
    let report = OperationReport {
        errors: vec![failed],
        ..OperationReport::default()
    };
    reported(&mut facts, report);
    let blocker = only(&facts, Cause::NotInstalled);
    assert_eq!(
        blocker.message,
        "condition Installed is False: InstallationFailed: apply Secret garden/x: forbidden"
    );
    assert_eq!(blocker.to_do, "grant it");
    // Conditions that have changed since are not those that the report is about.
    let conditions = &mut facts.installation.status.as_mut().unwrap().conditions;
    conditions[1].last_update_time = Time(at("2026-01-01T00:11:00Z"));
    assert_mentions(&only(&facts, Cause::NotInstalled), &["look at its pods"]);
}
