//! What the Shoot's own status tells: it is laid on what was seen, and what nothing seen explains stands by itself.

use api_meta::conditions::shoot as of_shoot;
use api_meta::{Condition, ConditionStatus, ErrorCode, Fault, FaultClass, LastError, LastOperationState, Retry};
use base_flow::Name;
use components_hosted::ComponentId;
use control_plane_shoot_flow::{Kind, ShootTask, Single, Step, Verb, Way};

use super::webhook::Webhook;
use super::{Blocker, Cause, is_given_up, next_try, planned, retry, status};
use crate::why::facts::{Facts, conditions};

/// The task id of gardenlet's look at the extensions.
const TASK_EXTENSIONS: &str = "Check required extensions";
/// What gardenlet puts before what it waits for, behind the running tasks.
const WAITING: &str = "; waiting for ";

pub(super) fn with_what_is_told(facts: &Facts, mut blockers: Vec<Blocker>) -> Vec<Blocker> {
    for error in &status(facts).last_errors {
        match blockers.iter_mut().find(|blocker| explains(blocker, error)) {
            Some(blocker) => lay(facts, blocker, error),
            None => blockers.push(of_error(facts, error)),
        }
    }
    for blocker in &mut blockers {
        if blocker.tasks.is_empty() {
            blocker.tasks = running_tasks(facts, blocker);
        }
    }
    drop_symptoms(&mut blockers);
    blockers.extend(of_conditions(facts, &blockers));
    if blockers.is_empty() {
        blockers.extend(not_observed(facts).or_else(|| of_operation(facts)));
    } else if let Some(waiting) = waiting(facts).filter(|told| !blockers.iter().any(|one| is_told(one, told))) {
        blockers.push(of_waiting(facts, waiting));
    }
    blockers
}

fn explains(blocker: &Blocker, error: &LastError) -> bool {
    let unserved = matches!(blocker.cause, Cause::NotRegistered | Cause::NotInstalled);
    let named = blocker.objects.iter().any(|object| names(&error.description, object));
    let task = error.task_id.as_ref();
    let cleaning = blocker.cause == Cause::ObjectsLeft && task.is_some_and(|task| blocker.tasks.contains(task));
    named || cleaning || unserved && error.task_id.as_deref() == Some(TASK_EXTENSIONS)
}

/// Whether a text names an object, and not one whose name only begins alike.
fn names(text: &str, object: &str) -> bool {
    text.match_indices(object).any(|(at, _)| {
        let next = text[at + object.len()..].chars().next();
        next.is_none_or(|next| !next.is_ascii_alphanumeric() && next != '-' && next != '.')
    })
}

fn lay(facts: &Facts, blocker: &mut Blocker, error: &LastError) {
    if let Some(task) = error.task_id.as_ref().filter(|task| !blocker.tasks.contains(task)) {
        blocker.tasks.push(task.clone());
    }
    if blocker.codes.is_empty() && !error.codes.is_empty() {
        blocker.codes.clone_from(&error.codes);
        blocker.class = error.codes.first().map(|code| code.class().as_str());
    }
    if blocker.cause == Cause::AtWork {
        // Its time was up once: it is no more a matter of course that it comes about.
        blocker.cause = Cause::Waiting;
        blocker.class = Some(FaultClass::Dependency.as_str());
        blocker
            .details
            .push(format!("failed before: {}", Fault::untold(&error.description).0));
        blocker.to_do = "look at the log of whoever is to act".to_owned();
    }
    if let Some(webhook) = Webhook::in_text(&error.description).filter(|_| is_silence(blocker.cause)) {
        blocker.cause = Cause::WebhookRefused;
        blocker.says = Fault::untold(&error.description).0.to_owned();
        blocker.who = webhook.who(facts.webhooks());
        blocker.to_do = webhook.to_do(facts.webhooks());
    }
    if is_given_up(facts) {
        blocker.next_try = next_try(facts);
        blocker.command = Some(retry(facts));
    }
}

/// Whether a blocker is about somebody who has not answered yet: then an error that says more is nearer to the root.
fn is_silence(cause: Cause) -> bool {
    matches!(cause, Cause::ExtensionSilent | Cause::Waiting | Cause::AtWork)
}

fn of_error(facts: &Facts, error: &LastError) -> Blocker {
    let (says, hint) = Fault::untold(&error.description);
    let webhook = Webhook::in_text(says);
    let of_webhook = webhook.as_ref().map(|webhook| webhook.to_do(facts.webhooks()));
    let hint = of_webhook.unwrap_or_else(|| hint.unwrap_or("look at gardenlet's log").to_owned());
    let given_up = is_given_up(facts);
    Blocker {
        says: says.to_owned(),
        tasks: error.task_id.iter().cloned().collect(),
        class: class_of(facts, &error.codes),
        codes: error.codes.clone(),
        since: error.last_update_time.as_ref().map(|time| time.0),
        next_try: next_try(facts),
        to_do: hint,
        command: given_up.then(|| retry(facts)),
        ..match webhook {
            Some(webhook) => Blocker::new(Cause::WebhookRefused, webhook.who(facts.webhooks())),
            None if given_up => Blocker::new(Cause::GivenUp, gardenlet(facts)),
            None => Blocker::new(Cause::TaskFailed, gardenlet(facts)),
        }
    }
}

/// Whose class of error it is; where no code says so, that which decides on the next try.
fn class_of(facts: &Facts, codes: &[ErrorCode]) -> Option<&'static str> {
    let told = codes.first().map(ErrorCode::class);
    told.or_else(|| planned(facts).map(|next| next.class))
        .map(FaultClass::as_str)
}

fn gardenlet(facts: &Facts) -> String {
    format!("gardenlet of seed {}", facts.seed_name().unwrap_or_default())
}

/// The tasks that wait for the objects, as far as they run.
fn running_tasks(facts: &Facts, blocker: &Blocker) -> Vec<String> {
    let last = status(facts).last_operation;
    let Some(last) = last.filter(|last| last.state == LastOperationState::Processing) else {
        return Vec::new();
    };
    let running = last.description.split(WAITING).next().unwrap_or_default();
    let mut found = Vec::new();
    for object in &blocker.objects {
        let (kind, name) = object.split_once(' ').unwrap_or((object, ""));
        let name = name.rsplit('/').next().unwrap_or_default();
        for task in tasks_of(kind, name) {
            if running.contains(task) && !found.iter().any(|known| known == task) {
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
        ("Worker", _) => [single(Single::WaitMachineDeployments), of(Kind::Worker)].concat(),
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
                .flat_map(|id| verbs.map(|verb| Step::Component(*id, verb)))
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
        time && one.objects.iter().any(|object| object.starts_with("Worker "))
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
        says: format!("condition {type_} is {status}: {reason}: {message}"),
        class: codes.first().map(ErrorCode::class).map(FaultClass::as_str),
        codes: codes.clone(),
        since: Some(condition.last_transition_time.0),
        next_try: "judged anew when what it is about changes".to_owned(),
        to_do: match nodes {
            true => "look at the nodes with a kubeconfig of the Shoot, and at its machines in the seed".to_owned(),
            false => "look at what the message names, in the Shoot's namespace of the seed".to_owned(),
        },
        objects: vec![format!("Shoot {}", facts.title())],
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
        says: match seen {
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
        objects: vec![format!("Shoot {}", facts.title())],
        ..Blocker::new(Cause::NotObserved, gardenlet(facts))
    })
}

/// What is waited for, in gardenlet's words.
fn waiting(facts: &Facts) -> Option<String> {
    let last = status(facts).last_operation?;
    let processing = last.state == LastOperationState::Processing;
    let (_, told) = last.description.split_once(WAITING).filter(|_| processing)?;
    Some(told.to_owned())
}

fn is_told(blocker: &Blocker, told: &str) -> bool {
    blocker.objects.iter().any(|object| names(told, object))
}

fn of_waiting(facts: &Facts, told: String) -> Blocker {
    Blocker {
        says: told,
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
    if let Some(told) = waiting(facts) {
        return Some(of_waiting(facts, told));
    }
    let (cause, to_do) = match last.state {
        LastOperationState::Succeeded => return None,
        LastOperationState::Failed => (Cause::GivenUp, "clear what the text names"),
        LastOperationState::Error => (Cause::TaskFailed, "look at gardenlet's log"),
        _ => (Cause::AtWork, "nothing: it is at work"),
    };
    Some(Blocker {
        says: Retry::strip(&last.description).to_owned(),
        class: class_of(facts, &[]),
        since: Some(last.last_update_time.0),
        next_try: next_try(facts),
        to_do: to_do.to_owned(),
        command: is_given_up(facts).then(|| retry(facts)),
        ..Blocker::new(cause, gardenlet(facts))
    })
}
