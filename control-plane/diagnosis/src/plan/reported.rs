//! What gardenlet has reported of the Shoot: it is laid on what was seen, and what nothing seen explains stands by itself.
//! Causes come from the report that stands beside the status as data. Where there is none about the status as it is, an error
//! is what its text says, and nothing more is concluded from it.

use api_meta::conditions::shoot as of_shoot;
use api_meta::{
    Condition, ConditionStatus, ErrorCode, FaultClass, LastError, LastOperationState, ObjectName, Problem, Subject,
    Wait,
};
use base_flow::Name;
use components_hosted::ComponentId;
use control_plane_shoot_flow::{Kind, ShootTask, Single, Step, Verb, Way};
use jiff::Timestamp;

use super::{Blocker, Cause, Located, is_given_up, next_try, planned, retry, status, webhook};
use crate::facts::{Facts, conditions};

/// The kind whose objects make machines.
const WORKER: &str = "Worker";
/// The task id of gardenlet's look at the extensions.
const TASK_EXTENSIONS: &str = "Check required extensions";

/// An error of the status.
#[derive(Clone, Debug)]
pub(super) struct Failed {
    /// All that is known of it.
    pub(super) problem: Problem,
    /// When it was written.
    pub(super) at: Option<Timestamp>,
}

/// The errors of the status: as data, or as the status describes them where there is no data.
pub(super) fn errors(facts: &Facts) -> Vec<Failed> {
    let reported = facts.report().unwrap_or_default().errors;
    let described = status(facts).last_errors;
    let failed = |error: LastError| {
        let known = reported.iter().find(|problem| problem.task == error.task_id).cloned();
        let at = error.last_update_time.as_ref().map(|time| time.0);
        Failed {
            problem: known.unwrap_or_else(|| opaque(error)),
            at,
        }
    };
    described.into_iter().map(failed).collect()
}

fn opaque(error: LastError) -> Problem {
    Problem {
        task: error.task_id,
        object: None,
        text: error.description,
        hint: String::new(),
        class: error.codes.first().map_or(FaultClass::Dependency, ErrorCode::class),
        codes: error.codes,
        webhook: None,
    }
}

/// The names of the tasks that run.
pub(super) fn running(facts: &Facts) -> Vec<String> {
    facts.report().unwrap_or_default().running
}

pub(super) fn with_what_is_reported(facts: &Facts, mut blockers: Vec<Blocker>) -> Vec<Blocker> {
    for error in errors(facts) {
        match blockers.iter_mut().find(|blocker| explains(blocker, &error.problem)) {
            Some(blocker) => lay(facts, blocker, error.problem),
            None => blockers.push(of_error(facts, error)),
        }
    }
    for blocker in &mut blockers {
        if blocker.tasks.is_empty() {
            blocker.tasks = waiting_tasks(facts, blocker);
        }
    }
    drop_symptoms(&mut blockers);
    blockers.extend(of_conditions(facts, &blockers));
    if blockers.is_empty() {
        blockers.extend(not_observed(facts).or_else(|| of_operation(facts)));
    } else if let Some(waits) = waits(facts).filter(|waits| !waits.iter().any(|wait| is_known(&blockers, wait))) {
        blockers.push(of_waits(facts, &waits));
    }
    blockers
}

fn concerns(blocker: &Blocker, object: &ObjectName) -> bool {
    blocker.objects.iter().any(|one| one.object == *object)
}

fn explains(blocker: &Blocker, error: &Problem) -> bool {
    let unserved = matches!(blocker.cause, Cause::NotRegistered | Cause::NotInstalled);
    let named = error.object.as_ref().is_some_and(|object| concerns(blocker, object));
    let task = error.task.as_ref();
    let cleaning = blocker.cause == Cause::ObjectsLeft && task.is_some_and(|task| blocker.tasks.contains(task));
    named || cleaning || unserved && error.task.as_deref() == Some(TASK_EXTENSIONS)
}

fn lay(facts: &Facts, blocker: &mut Blocker, error: Problem) {
    blocker
        .tasks
        .extend(error.task.filter(|task| !blocker.tasks.contains(task)));
    if blocker.codes.is_empty() && !error.codes.is_empty() {
        blocker.class = error.codes.first().map(|code| code.class().as_str());
        blocker.codes = error.codes;
    }
    if blocker.cause == Cause::AtWork {
        // Its time was up once: it is no more a matter of course that it comes about.
        blocker.cause = Cause::Waiting;
        blocker.class = Some(FaultClass::Dependency.as_str());
        blocker.details.push(format!("failed before: {}", error.text));
        blocker.to_do = "look at the log of whoever is to act".to_owned();
    }
    if let Some(failure) = error.webhook.filter(|_| is_silence(blocker.cause)) {
        blocker.cause = Cause::WebhookRefused;
        blocker.message = error.text;
        blocker.who = webhook::who(&failure, facts.webhooks());
        blocker.to_do = webhook::to_do(&failure, facts.webhooks());
    }
    if is_given_up(facts) {
        blocker.next_try = next_try(facts);
        blocker.command = Some(retry(facts));
    }
}

/// Whether a blocker is about a part that has not answered yet: then an error that says more is nearer to the root.
fn is_silence(cause: Cause) -> bool {
    matches!(cause, Cause::ExtensionSilent | Cause::Waiting | Cause::AtWork)
}

fn of_error(facts: &Facts, Failed { problem, at }: Failed) -> Blocker {
    let given_up = is_given_up(facts);
    Blocker {
        tasks: problem.task.into_iter().collect(),
        class: class_of(facts, &problem.codes),
        since: at,
        next_try: next_try(facts),
        to_do: match (&problem.webhook, problem.hint.as_str()) {
            (Some(failure), _) => webhook::to_do(failure, facts.webhooks()),
            (None, "") => "look at gardenlet's log".to_owned(),
            (None, hint) => hint.to_owned(),
        },
        command: given_up.then(|| retry(facts)),
        message: problem.text,
        codes: problem.codes,
        ..match &problem.webhook {
            Some(failure) => Blocker::new(Cause::WebhookRefused, webhook::who(failure, facts.webhooks())),
            None if given_up => Blocker::new(Cause::GivenUp, gardenlet(facts)),
            None => Blocker::new(Cause::TaskFailed, gardenlet(facts)),
        }
    }
}

/// Whose class of error it is; where no code says so, that which decides on the next try.
fn class_of(facts: &Facts, codes: &[ErrorCode]) -> Option<&'static str> {
    let reported = codes.first().map(ErrorCode::class);
    reported
        .or_else(|| planned(facts).map(|next| next.class))
        .map(FaultClass::as_str)
}

fn gardenlet(facts: &Facts) -> String {
    format!("gardenlet of seed {}", facts.seed_name().unwrap_or_default())
}

/// The tasks that wait for the objects, as far as they run.
fn waiting_tasks(facts: &Facts, blocker: &Blocker) -> Vec<String> {
    let running = running(facts);
    let mut found: Vec<String> = Vec::new();
    for Located { object, .. } in &blocker.objects {
        for task in tasks_of(&object.kind, &object.name) {
            if running.iter().any(|one| one == task) && !found.iter().any(|known| known == task) {
                found.push(task.to_owned());
            }
        }
    }
    found
}

/// The names of tasks that wait for an object, on whatever way.
fn tasks_of(kind: &str, name: &str) -> Vec<&'static str> {
    let verbs = [Verb::Wait, Verb::WaitDestroyed];
    let of = |kind: Kind| verbs.map(|verb| Step::Kind(kind, verb)).to_vec();
    let record = |kind: Kind| vec![Step::Kind(kind, Verb::Deploy), Step::Kind(kind, Verb::Destroy)];
    let single = |single: Single| vec![Step::Single(single)];
    let steps = match (kind, name) {
        ("Infrastructure", _) => of(Kind::Infrastructure),
        ("ControlPlane", _) => of(Kind::ControlPlane),
        (WORKER, _) => [single(Single::WaitMachineDeployments), of(Kind::Worker)].concat(),
        ("Machine", _) => vec![Step::Kind(Kind::Worker, Verb::Wait)],
        ("Network", _) => of(Kind::Network),
        ("ContainerRuntime", _) => [of(Kind::ContainerRuntime), single(Single::WaitStaleContainerRuntimes)].concat(),
        ("BackupEntry", _) => single(Single::WaitBackupEntry),
        ("DNSRecord", name) if name.ends_with("internal") => record(Kind::InternalDnsRecord),
        ("DNSRecord", _) => record(Kind::ExternalDnsRecord),
        ("OperatingSystemConfig", _) => [of(Kind::OperatingSystemConfig), single(Single::WaitStaleOsConfigs)].concat(),
        ("Deployment" | "StatefulSet", name) => {
            let named = ComponentId::ALL.iter().filter(|id| id.component().name() == name);
            let waits = named
                .flat_map(|id| verbs.map(|verb| Step::Component(id.leader(), verb)))
                .collect();
            // Scaled to zero one after the other by this one.
            [waits, single(Single::HibernateControlPlane)].concat()
        }
        _ => Vec::new(),
    };
    let ways = [Way::Reconcile, Way::Hibernate, Way::Delete];
    let mut names = Vec::new();
    for step in steps {
        for way in ways {
            let name = ShootTask { way, step }.name();
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// A Worker whose machines have not joined is no trouble of its own.
fn drop_symptoms(blockers: &mut Vec<Blocker>) {
    let nodes = |one: &Blocker| matches!(one.cause, Cause::NodesMissing | Cause::BootstrapTokenMissing);
    let of_worker = |one: &Blocker| {
        let time = matches!(one.cause, Cause::AtWork | Cause::Waiting);
        time && one.objects.iter().any(|one| one.object.kind == WORKER)
    };
    if !blockers.iter().any(nodes) {
        return;
    }
    let Some(at) = blockers.iter().position(of_worker) else {
        return;
    };
    let worker = blockers.remove(at);
    if let Some(machines) = blockers.iter_mut().find(|one| nodes(one)) {
        machines.tasks = worker.tasks;
        machines.objects.splice(0..0, worker.objects);
        machines.who = worker.who;
    }
}

/// Conditions that do not hold, unless what was seen is why.
fn of_conditions(facts: &Facts, blockers: &[Blocker]) -> Vec<Blocker> {
    if facts.shoot.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let is = |causes: &[Cause]| blockers.iter().any(|one| causes.contains(&one.cause));
    let explained = |condition: &Condition| {
        is(&[Cause::GardenletSilent])
            || match condition.type_.as_str() {
                of_shoot::API_SERVER_AVAILABLE | of_shoot::CONTROL_PLANE_HEALTHY => is(&[Cause::PodNotRunning]),
                of_shoot::SYSTEM_COMPONENTS_HEALTHY => is(&[Cause::ResourceNotHealthy, Cause::WebhookRefused]),
                of_shoot::EVERY_NODE_READY => is(&[Cause::NodesMissing, Cause::BootstrapTokenMissing]),
                _ => false,
            }
    };
    conditions(&facts.shoot)
        .iter()
        .filter(|condition| condition.status != ConditionStatus::True && !explained(condition))
        .map(|condition| of_condition(facts, condition))
        .collect()
}

fn of_condition(facts: &Facts, condition: &Condition) -> Blocker {
    let Condition {
        type_,
        status,
        reason,
        message,
        codes,
        ..
    } = condition;
    let nodes = type_ == of_shoot::EVERY_NODE_READY && *status == ConditionStatus::False;
    Blocker {
        message: format!("condition {type_} is {status}: {reason}: {message}"),
        class: codes.first().map(ErrorCode::class).map(FaultClass::as_str),
        codes: codes.clone(),
        since: Some(condition.last_transition_time.0),
        next_try: "evaluated again when what it is about changes".to_owned(),
        to_do: match nodes {
            true => "look at the nodes with a kubeconfig of the Shoot, and at its machines in the seed".to_owned(),
            false => "look at what the message names, in the Shoot's namespace of the seed".to_owned(),
        },
        objects: vec![Located::in_garden(facts.itself())],
        ..Blocker::new(
            if nodes {
                Cause::NodesMissing
            } else {
                Cause::ConditionNotTrue
            },
            gardenlet(facts),
        )
    }
}

fn not_observed(facts: &Facts) -> Option<Blocker> {
    let (wanted, seen) = (facts.shoot.metadata.generation, status(facts).observed_generation);
    // Whoever has no seed is the scheduler's.
    if wanted == seen || facts.seed_name().is_none() {
        return None;
    }
    let number = |generation: Option<i64>| generation.unwrap_or_default();
    let first = seen
        .is_none()
        .then_some(facts.shoot.metadata.creation_timestamp.as_ref());
    Some(Blocker {
        message: match seen {
            Some(_) => format!(
                "generation {} is wanted, and gardenlet has looked at {}",
                number(wanted),
                number(seen)
            ),
            None => "gardenlet has not begun to work on it".to_owned(),
        },
        class: Some(FaultClass::Transient.as_str()),
        since: first.flatten().map(|time| time.0),
        next_try: "as soon as gardenlet has a turn for it".to_owned(),
        to_do: format!("wait; if it lasts, look at the log of the {}", gardenlet(facts)),
        objects: vec![Located::in_garden(facts.itself())],
        ..Blocker::new(Cause::NotObserved, gardenlet(facts))
    })
}

/// What is waited for, if anything has been reported of it.
fn waits(facts: &Facts) -> Option<Vec<Wait>> {
    let waits = facts.report()?.waits;
    (!waits.is_empty()).then_some(waits)
}

fn is_known(blockers: &[Blocker], wait: &Wait) -> bool {
    let Subject::Object(object) = &wait.subject else {
        return false;
    };
    blockers.iter().any(|blocker| concerns(blocker, object))
}

fn of_waits(facts: &Facts, waits: &[Wait]) -> Blocker {
    let messages: Vec<String> = waits
        .iter()
        .map(|wait| format!("{}: {}", wait.subject, wait.reason))
        .collect();
    Blocker {
        message: messages.join("; "),
        class: Some(FaultClass::Dependency.as_str()),
        since: status(facts).last_operation.map(|last| last.last_update_time.0),
        next_try: next_try(facts),
        to_do: "look at the named object in the seed".to_owned(),
        ..Blocker::new(Cause::Waiting, gardenlet(facts))
    }
}

/// The operation itself, where nothing else says what it is about.
fn of_operation(facts: &Facts) -> Option<Blocker> {
    let last = status(facts).last_operation?;
    if let Some(waits) = waits(facts) {
        return Some(of_waits(facts, &waits));
    }
    let (cause, to_do) = match last.state {
        LastOperationState::Succeeded => return None,
        LastOperationState::Failed => (Cause::GivenUp, "clear what the text names"),
        LastOperationState::Error => (Cause::TaskFailed, "look at gardenlet's log"),
        _ => (Cause::AtWork, "nothing: it is at work"),
    };
    Some(Blocker {
        // What is known as data says it without when it is tried again, which is a line of its own.
        message: match facts.report().map(|report| report.errors_sentence()) {
            Some(errors) if !errors.is_empty() => errors,
            _ => last.description.clone(),
        },
        class: class_of(facts, &[]),
        since: Some(last.last_update_time.0),
        next_try: next_try(facts),
        to_do: to_do.to_owned(),
        command: is_given_up(facts).then(|| retry(facts)),
        ..Blocker::new(cause, gardenlet(facts))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_etcds_are_waited_for_by_the_same_tasks() {
        let tasks = tasks_of("StatefulSet", "etcd-events");
        assert_eq!(tasks, tasks_of("StatefulSet", "etcd-main"));
        assert!(tasks.contains(&"Waiting until main and event ETCDs have been reconciled"));
    }
}
