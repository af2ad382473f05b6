//! From what is known of a ControllerInstallation to the step that fails: its registration, its chart, its objects, its
//! program. Pure; reasons of conditions are those of gardenlet and of the controller-manager.

use api_core::v1beta1::ControllerInstallation;
use api_meta::conditions::installation::{HEALTHY, INSTALLED, PROGRESSING, REPORTED, VALID};
use api_meta::names::{DEPLOYMENT_TYPE_HELM, extension_namespace};
use api_meta::{Condition, ConditionStatus, FaultClass, ObjectName, OperationReport, Seen, Subject};
use control_plane_readiness::Webhook;
use kube::ResourceExt;

use super::extension::sentence;
use super::seed_side::who_applies;
use super::{About, Answer, Blocker, Cause, Located, State, webhook};
use crate::facts::{InstallationFacts, Installed, Resource, Workload};

/// Reasons of pods that are on their way.
const STARTING: [&str; 3] = ["ContainerCreating", "PodInitializing", "ContainersNotReady"];

/// Explains a ControllerInstallation.
#[must_use]
pub fn plan(facts: &InstallationFacts) -> Answer {
    let mut blockers: Vec<Blocker> = blocker(facts).into_iter().collect();
    blockers.extend(held(facts));
    let unknown = unknown(facts);
    let conditions = conditions(&facts.installation);
    let progressing =
        Condition::find(conditions, PROGRESSING).is_some_and(|progressing| progressing.status == ConditionStatus::True);
    let state = match (blockers.is_empty(), progressing) {
        (false, _) => State::Blocked,
        (true, true) => State::Working,
        (true, false) => State::Healthy,
    };
    let changed = conditions
        .iter()
        .map(|condition| condition.last_transition_time.0)
        .max();
    Answer {
        about: About::ControllerInstallation(facts.installation.name_any()),
        state,
        since: changed.filter(|_| state == State::Healthy),
        seen: facts.now,
        operation: None,
        blockers,
        unknown,
    }
}

fn conditions(installation: &ControllerInstallation) -> &[Condition] {
    installation
        .status
        .as_ref()
        .map_or(&[][..], |status| &status.conditions)
}

/// The first step that its conditions say fails, in the order in which it is installed.
pub(super) fn of_conditions(installation: &ControllerInstallation) -> Option<Blocker> {
    let conditions = conditions(installation);
    let name = installation.name_any();
    let seed = installation
        .spec
        .seed_ref
        .as_ref()
        .and_then(|seed| seed.name.as_deref());
    let gardenlet = format!("gardenlet of seed {}", seed.unwrap_or_default());
    let bad = |type_: &str| Condition::find(conditions, type_).filter(|one| one.status != ConditionStatus::True);
    let found = bad(VALID).or_else(|| bad(INSTALLED)).or_else(|| bad(HEALTHY));
    let Some(condition) = found else {
        let silent = [VALID, INSTALLED]
            .into_iter()
            .find(|type_| Condition::find(conditions, type_).is_none())?;
        return Some(Blocker {
            message: format!("condition {silent} of it is not reported yet"),
            next_try: "as soon as whoever installs it has a turn for it".to_owned(),
            to_do: format!("wait a minute; if it lasts, look at the log of the {gardenlet}, or of its operator"),
            ..of_installation(&name, format!("the {gardenlet}, or the operator of its type"))
        });
    };
    let report = report(installation).unwrap_or_default();
    let (who, to_do) = what_to_do(condition, &report, &name, gardenlet);
    // What is known as data says it without the thing to do, which is a line of its own.
    let message = report.errors.first().map_or(&condition.message, |error| &error.text);
    let concerned = awaited(&report).or(report.errors.first().and_then(|error| error.object.as_ref()));
    let concerned = concerned.map(|object| Located::in_seed(object.clone(), seed.unwrap_or_default()));
    let blocker = of_installation(&name, who);
    Some(Blocker {
        message: format!(
            "condition {} is {}: {}",
            condition.type_,
            condition.status,
            sentence(&condition.reason, message)
        ),
        since: Some(condition.last_transition_time.0),
        to_do,
        objects: blocker.objects.into_iter().chain(concerned).collect(),
        ..blocker
    })
}

/// What gardenlet has reported of the conditions as data; nothing where there is no report about them as they are.
fn report(installation: &ControllerInstallation) -> Option<OperationReport> {
    let annotations = installation.metadata.annotations.as_ref();
    OperationReport::about_conditions(annotations, conditions(installation), &REPORTED)
}

/// The object of the seed that is waited for.
fn awaited(report: &OperationReport) -> Option<&ObjectName> {
    report.waits.iter().find_map(|wait| match &wait.subject {
        Subject::Object(object) => Some(object),
        Subject::Objects(_) => None,
    })
}

fn of_installation(name: &str, who: String) -> Blocker {
    Blocker {
        objects: vec![Located::of_garden("ControllerInstallation", name)],
        class: Some(FaultClass::Dependency.as_str()),
        next_try: "at once when what it is about changes".to_owned(),
        ..Blocker::new(Cause::NotInstalled, who)
    }
}

/// Who is to act on a condition, and one thing to do.
fn what_to_do(condition: &Condition, report: &OperationReport, name: &str, gardenlet: String) -> (String, String) {
    let registrar = || "whoever registers extensions".to_owned();
    match condition.reason.as_str() {
        "RegistrationNotFound" => (registrar(), "create the ControllerRegistration again".to_owned()),
        "ControllerDeploymentNotFound" | "ControllerDeploymentGone" => {
            (registrar(), "create the ControllerDeployment that is named".to_owned())
        }
        "NoDeployment" => (
            registrar(),
            "name a ControllerDeployment in spec.deployment.deploymentRefs of the ControllerRegistration".to_owned(),
        ),
        "NoOperator" => (
            "the operator of its type".to_owned(),
            "start the operator of that type, or give the ControllerDeployment the type \"helm\" and a chart"
                .to_owned(),
        ),
        "OCIChartCannotBePulled" => (
            "the registry of its chart".to_owned(),
            "fix what the message names: the registry, or in the ControllerDeployment's helm.ociRepository the \
             reference, its pull secret or its authority"
                .to_owned(),
        ),
        "ChartInformationInvalid" | "RenderingHelmValuesFailed" | "ChartCannotBeRendered" => (
            registrar(),
            "correct chart or values in the ControllerDeployment; `orangery chart lint` shows the same before"
                .to_owned(),
        ),
        "SeedNotFound" => (
            "whoever operates the garden".to_owned(),
            "create the Seed again".to_owned(),
        ),
        "RegistrationReadError" | "SeedReadError" => (gardenlet.clone(), format!("look at the log of the {gardenlet}")),
        _ => as_reported(report).unwrap_or_else(|| {
            let pods = format!(
                "look at its pods in namespace {} of the seed",
                extension_namespace(name)
            );
            ("whoever installs extensions on the seed".to_owned(), pods)
        }),
    }
}

/// The same, of what is reported as data: the object that is waited for, or the error's own hint.
fn as_reported(report: &OperationReport) -> Option<(String, String)> {
    if let Some(object) = awaited(report) {
        return Some(match object.kind.as_str() {
            "ManagedResource" => (
                who_applies(Some("seed")),
                format!("look at {object} in the seed: its conditions name the object"),
            ),
            _ => (
                format!("whoever holds {object}"),
                format!("look at the status and the finalizers of {object} in the seed"),
            ),
        });
    }
    let error = report.errors.first()?;
    match (&error.webhook, error.hint.as_str()) {
        (Some(failure), _) => Some((webhook::who(failure, &[]), webhook::to_do(failure, &[]))),
        (None, "") => None,
        (None, hint) => Some(("whoever installs extensions on the seed".to_owned(), hint.to_owned())),
    }
}

/// What fails, with what the seed shows of it.
fn blocker(facts: &InstallationFacts) -> Option<Blocker> {
    let Some(blocker) = of_conditions(&facts.installation) else {
        return of_rollout(facts);
    };
    let conditions = conditions(&facts.installation);
    let is_true = |type_| Condition::find(conditions, type_).is_some_and(|one| one.status == ConditionStatus::True);
    let chart = facts
        .deployment
        .present()
        .is_none_or(|one| one.type_ == DEPLOYMENT_TYPE_HELM);
    let Some(seed) = facts.in_seed.present().filter(|_| is_true(VALID)) else {
        return Some(blocker);
    };
    let seed = (facts.seed_name(), seed);
    let of_objects = || of_objects(seed, &blocker).filter(|_| chart && !is_true(INSTALLED));
    Some(of_objects().or_else(|| of_program(seed, &blocker)).unwrap_or(blocker))
}

/// What keeps the chart's objects from being applied.
fn of_objects(seed: (&str, &Installed), blocker: &Blocker) -> Option<Blocker> {
    let (home, seed) = seed;
    if let Seen::Present(resource) = &seed.resource {
        return Some(of_resource(
            home,
            resource,
            blocker,
            seed.webhooks.present().map_or(&[], Vec::as_slice),
        ));
    }
    let manager = match &seed.resource_manager {
        Seen::Present(manager) => manager.trouble.as_ref().map(|_| not_running(manager))?,
        Seen::Absent => "Deployment garden/gardener-resource-manager does not exist".to_owned(),
        Seen::Unknown(_) => return None,
    };
    Some(Blocker {
        details: vec![manager],
        to_do: "bring the seed's gardener-resource-manager back: it applies what charts hold".to_owned(),
        ..blocker.clone()
    })
}

fn of_resource(home: &str, resource: &Resource, blocker: &Blocker, webhooks: &[Webhook]) -> Blocker {
    let object = Located::in_seed(resource.object.clone(), home);
    let mut objects = blocker.objects.clone();
    if !objects.contains(&object) {
        objects.push(object);
    }
    let blocker = Blocker {
        message: resource.trouble.clone(),
        objects,
        since: resource.since.or(blocker.since),
        next_try: "by gardener-resource-manager; the moment is not recorded".to_owned(),
        ..blocker.clone()
    };
    match &resource.webhook {
        Some(failure) => Blocker {
            cause: Cause::WebhookRefused,
            who: webhook::who(failure, webhooks),
            to_do: webhook::to_do(failure, webhooks),
            ..blocker
        },
        None => Blocker {
            cause: Cause::ResourceNotHealthy,
            who: who_applies(resource.class.as_deref()),
            to_do: format!(
                "fix what {} names: its conditions in the seed name the object",
                resource.object
            ),
            ..blocker
        },
    }
}

/// What keeps the program of a healthy installation from being rolled out: its pods may all be missing where its Deployment
/// allows that. Pods that are starting keep nothing.
fn of_rollout(facts: &InstallationFacts) -> Option<Blocker> {
    let progressing = Condition::find(conditions(&facts.installation), PROGRESSING);
    let progressing = progressing.filter(|one| one.status == ConditionStatus::True)?;
    let seed = facts.in_seed.present()?;
    let workloads = seed.controller.workloads.present()?;
    let is_stuck = |one: &Workload| {
        let mut troubles = one.pods.iter().filter_map(|pod| pod.trouble.as_ref());
        one.trouble.is_some() && troubles.any(|(reason, _)| !STARTING.contains(&reason.as_str()))
    };
    let blocker = Blocker {
        since: Some(progressing.last_transition_time.0),
        ..of_installation(&facts.installation.name_any(), String::new())
    };
    workloads
        .iter()
        .find(|one| is_stuck(one))
        .map(|one| of_workload(facts.seed_name(), one, &blocker))
}

/// What keeps its program from running.
fn of_program((home, seed): (&str, &Installed), blocker: &Blocker) -> Option<Blocker> {
    let workloads = seed.controller.workloads.present()?;
    let workload = workloads.iter().find(|one| one.trouble.is_some())?;
    Some(of_workload(home, workload, blocker))
}

fn of_workload(home: &str, workload: &Workload, blocker: &Blocker) -> Blocker {
    let pod = workload.pods.iter().find_map(|pod| Some((pod, pod.trouble.as_ref()?)));
    let concerned = std::iter::once(workload.object.clone())
        .chain(pod.map(|(pod, _)| workload.pod(pod)))
        .map(|object| Located::in_seed(object, home));
    let to_do = match pod {
        Some((_, (reason, _))) if reason == "ImageNotInCatalogue" => {
            "map the image to a program with `orangery up --images FILE` (an event of the Pod shows the lines), or start the \
             extension as a process of its own with its ServiceAccount and let the values in its ControllerDeployment set \
             replicas to 0"
                .to_owned()
        }
        Some((pod, _)) => format!("look at the events and the log of {}", workload.pod(pod)),
        None => format!("look at the events of {} in the seed", workload.object),
    };
    Blocker {
        cause: Cause::PodNotRunning,
        message: not_running(workload),
        objects: blocker.objects.iter().cloned().chain(concerned).collect(),
        who: "the extension's program".to_owned(),
        since: pod.and_then(|(pod, _)| pod.since).or(blocker.since),
        next_try: "at once when the pod runs".to_owned(),
        to_do,
        ..blocker.clone()
    }
}

fn not_running(workload: &Workload) -> String {
    let pod = workload.pods.iter().find_map(|pod| pod.trouble.as_ref());
    let why = match pod {
        Some((reason, message)) => sentence(reason, message),
        None => workload.trouble.clone().unwrap_or_default(),
    };
    format!("{} does not run: {why}", workload.object)
}

/// Who holds it that is to go, where no condition says what it waits for.
fn held(facts: &InstallationFacts) -> Option<Blocker> {
    let metadata = &facts.installation.metadata;
    let deleting = metadata.deletion_timestamp.as_ref()?;
    let names = metadata.finalizers.as_ref()?.join(", ");
    let name = facts.installation.name_any();
    Some(Blocker {
        cause: Cause::FinalizerHolds,
        message: format!("it is to be deleted, and finalizers hold it: {names}"),
        since: Some(deleting.0),
        next_try: "at once when what it has installed is gone".to_owned(),
        to_do: format!(
            "look at what is left in namespace {} of the seed",
            extension_namespace(&name)
        ),
        ..of_installation(&name, format!("the owner of the finalizer {names}"))
    })
}

fn unknown(facts: &InstallationFacts) -> Vec<String> {
    let mut all = Vec::new();
    let mut add = |what: &str, why: Option<&str>| all.extend(why.map(|why| format!("{what}: {why}")));
    add("the ControllerDeployment", facts.deployment.unknown());
    add("what is in the seed", facts.in_seed.unknown());
    if let Seen::Present(seed) = &facts.in_seed {
        add("the ManagedResource", seed.resource.unknown());
        add("the seed's resource-manager", seed.resource_manager.unknown());
        add("the pods", seed.controller.workloads.unknown());
    }
    all
}
