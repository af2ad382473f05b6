//! From what is known to what blocks the Shoot, the nearest to the root first. Pure; what is not known is not guessed.

mod deletion;
mod extension;
mod garden;
pub mod installation;
mod reported;
mod scheduling;
mod seed_side;
mod webhook;

#[cfg(test)]
mod tests;

use std::fmt;

use api_core::v1beta1::ShootStatus;
use api_meta::{ConditionStatus, ErrorCode, LastOperationState, ObjectName, Retry, Seen};
use jiff::Timestamp;
use serde::{Serialize, Serializer};

use crate::facts::{Facts, conditions};

/// The answer to "why?".
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// What it is about.
    #[serde(flatten)]
    pub about: About,
    /// How it stands.
    pub state: State,
    /// Since when it stands so, where that is known.
    pub since: Option<Timestamp>,
    /// When it was looked at.
    pub seen: Timestamp,
    /// What was done last, if anything.
    pub operation: Option<OperationView>,
    /// What blocks it, the nearest to the root first.
    pub blockers: Vec<Blocker>,
    /// What could not be seen, and why.
    pub unknown: Vec<String>,
}

/// What an answer is about; in JSON a field of this name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum About {
    /// A Shoot; in JSON `namespace/name`.
    #[serde(serialize_with = "without_kind")]
    Shoot(ObjectName),
    /// A ControllerInstallation.
    ControllerInstallation(String),
}

fn without_kind<S: Serializer>(object: &ObjectName, serializer: S) -> Result<S::Ok, S::Error> {
    let namespace = object.namespace.as_deref().unwrap_or_default();
    serializer.collect_str(&format_args!("{namespace}/{}", object.name))
}

impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shoot(shoot) => shoot.fmt(f),
            Self::ControllerInstallation(name) => write!(f, "ControllerInstallation {name}"),
        }
    }
}

/// How a Shoot stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It is as its owner wants it, and nothing of it is in trouble.
    Healthy,
    /// It is being worked on, and all that it waits for is at work.
    Working,
    /// Something must happen that does not happen by itself, or has not happened in its time.
    Blocked,
    /// Nothing bad is seen, but not everything could be looked at.
    Unknown,
}

/// The last operation in short.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OperationView {
    /// Its type.
    #[serde(rename = "type")]
    pub type_: String,
    /// Its state.
    pub state: String,
    /// In percent.
    pub progress: i32,
    /// When it was written last.
    pub updated: Timestamp,
    /// Since when the same is tried.
    pub trying_since: Option<Timestamp>,
}

/// One thing that blocks a Shoot.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Blocker {
    /// What kind of trouble it is.
    pub cause: Cause,
    /// What is wrong, in one sentence.
    #[serde(rename = "says")]
    pub message: String,
    /// More of it, an item each.
    pub details: Vec<String>,
    /// The flow's tasks that wait for it, where that is known.
    pub tasks: Vec<String>,
    /// The objects concerned.
    pub objects: Vec<Located>,
    /// Who is expected to act.
    pub who: String,
    /// Who can act on the error: `user`, `quota`, `access`, `dependency`, `transient`, where that is known.
    pub class: Option<&'static str>,
    /// Its error codes.
    pub codes: Vec<ErrorCode>,
    /// Since when, where that is known.
    pub since: Option<Timestamp>,
    /// When it is tried again.
    pub next_try: String,
    /// One thing to do.
    pub to_do: String,
    /// What is typed after that.
    pub command: Option<String>,
}

/// An object and where it is. Prints as `Kind namespace/name`, in a seed with that seed's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Located {
    /// The object.
    #[serde(flatten)]
    pub object: ObjectName,
    /// The cluster that has it.
    #[serde(flatten)]
    pub cluster: Cluster,
}

/// Which cluster; in JSON `cluster`, and in `seed` the name of a seed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "cluster", content = "seed", rename_all = "camelCase")]
pub enum Cluster {
    /// The garden.
    Garden,
    /// The seed of this name.
    Seed(String),
}

impl Located {
    /// An object of the garden.
    #[must_use]
    pub fn in_garden(object: ObjectName) -> Self {
        let cluster = Cluster::Garden;
        Self { object, cluster }
    }

    /// An object of the seed of this name.
    #[must_use]
    pub fn in_seed(object: ObjectName, seed: &str) -> Self {
        let cluster = Cluster::Seed(seed.to_owned());
        Self { object, cluster }
    }

    fn of_garden(kind: &str, name: &str) -> Self {
        Self::in_garden(ObjectName::new(kind, None, name))
    }
}

impl fmt::Display for Located {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cluster {
            Cluster::Garden => self.object.fmt(f),
            Cluster::Seed(seed) => write!(f, "{} in seed {seed}", self.object),
        }
    }
}

/// Kinds of trouble, the nearest to the root first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// An annotation on the Shoot or its Seed holds everything.
    Ignored,
    /// Its deletion is not confirmed.
    DeletionNotConfirmed,
    /// It has no seed.
    NotScheduled,
    /// Its Seed is gone.
    SeedGone,
    /// Nothing has been heard of its seed's gardenlet.
    GardenletSilent,
    /// No registration is responsible for a kind and type.
    NotRegistered,
    /// A registration is not installed on the seed, or does not run well there.
    NotInstalled,
    /// A webhook refuses an object, or does not answer when it is asked.
    WebhookRefused,
    /// An extension reports an error.
    ExtensionError,
    /// An extension does not answer.
    ExtensionSilent,
    /// An extension has answered something else than was asked.
    LyingStatus,
    /// A pod of the control plane does not run.
    PodNotRunning,
    /// A ManagedResource is not applied, or what it applies is not healthy.
    ResourceNotHealthy,
    /// The machines cannot join: their bootstrap token is refused.
    BootstrapTokenMissing,
    /// Nodes are missing or not ready.
    NodesMissing,
    /// A finalizer holds what is to be deleted.
    FinalizerHolds,
    /// Objects of users are left inside the Shoot.
    ObjectsLeft,
    /// The operation has been given up.
    GivenUp,
    /// A task has failed.
    TaskFailed,
    /// The newest generation has not been looked at.
    NotObserved,
    /// A condition does not hold.
    ConditionNotTrue,
    /// It is waited for something of which only the progress report tells.
    Waiting,
    /// Something is being worked on: only time is needed.
    AtWork,
}

/// Explains a Shoot.
#[must_use]
pub fn plan(facts: &Facts) -> Answer {
    let mut blockers = garden::blockers(facts);
    // Whoever is held by an annotation is not worked on: what the seed shows then is no reason.
    let held = blockers.iter().any(|one| one.cause <= Cause::NotScheduled);
    if !held {
        blockers.extend(deletion::blockers(facts));
        blockers.extend(extension::blockers(facts));
        blockers.extend(seed_side::blockers(facts));
        blockers = reported::with_what_is_reported(facts, blockers);
    }
    blockers.sort_by(|one, other| (one.cause, &one.objects).cmp(&(other.cause, &other.objects)));
    let unknown = unknown(facts);
    let state = state(facts, &blockers, &unknown);
    Answer {
        about: About::Shoot(facts.itself()),
        state,
        since: since(facts, state),
        seen: facts.now,
        operation: operation(facts),
        blockers,
        unknown,
    }
}

fn status(facts: &Facts) -> ShootStatus {
    facts.shoot.status.clone().unwrap_or_default()
}

/// Whether what is wanted now has been brought about.
fn has_succeeded(facts: &Facts) -> bool {
    let status = status(facts);
    status.observed_generation == facts.shoot.metadata.generation
        && facts.shoot.metadata.deletion_timestamp.is_none()
        && status
            .last_operation
            .is_some_and(|last| last.state == LastOperationState::Succeeded)
}

/// Whether nothing is tried before a person acts.
fn is_given_up(facts: &Facts) -> bool {
    status(facts)
        .last_operation
        .is_some_and(|last| last.state == LastOperationState::Failed)
}

/// When a failure that is retried is tried again, as gardenlet has written it down.
fn next_try(facts: &Facts) -> String {
    let processing = status(facts)
        .last_operation
        .is_some_and(|last| last.state == LastOperationState::Processing);
    match (is_given_up(facts), processing) {
        (true, _) => "none before you act".to_owned(),
        (false, true) => "now: the operation runs".to_owned(),
        (false, false) => match planned(facts) {
            Some(next) if next.at > facts.now => format!("by itself at {}, or when what it is about changes", next.at),
            Some(_) => "by itself, any moment now".to_owned(),
            None => "by itself; the moment is not recorded".to_owned(),
        },
    }
}

/// The next try that gardenlet has planned.
fn planned(facts: &Facts) -> Option<Retry> {
    facts.report()?.next_try
}

/// What starts a Shoot again that has been given up.
fn retry(facts: &Facts) -> String {
    let metadata = &facts.shoot.metadata;
    format!(
        "kubectl annotate shoot -n {} {} gardener.cloud/operation=retry",
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
    )
}

fn operation(facts: &Facts) -> Option<OperationView> {
    let status = status(facts);
    let last = status.last_operation?;
    Some(OperationView {
        type_: last.type_.to_string(),
        state: last.state.to_string(),
        progress: last.progress,
        updated: last.last_update_time.0,
        trying_since: status.retry_cycle_start_time.map(|time| time.0),
    })
}

fn state(facts: &Facts, blockers: &[Blocker], unknown: &[String]) -> State {
    if blockers.iter().any(|one| one.cause != Cause::AtWork) {
        return State::Blocked;
    }
    match (has_succeeded(facts), blockers.is_empty(), unknown.is_empty()) {
        (true, true, true) => State::Healthy,
        // The garden's word of the Shoot is enough; what the seed has of it would say why, if it were otherwise.
        (true, true, false) if !conditions(&facts.shoot).is_empty() => State::Healthy,
        (true, true, false) => State::Unknown,
        _ => State::Working,
    }
}

fn since(facts: &Facts, state: State) -> Option<Timestamp> {
    let last = status(facts).last_operation.map(|last| last.last_update_time.0);
    let held = conditions(&facts.shoot)
        .iter()
        .filter(|condition| condition.status == ConditionStatus::True)
        .map(|condition| condition.last_transition_time.0);
    match state {
        State::Healthy => held.chain(last).max(),
        _ => status(facts).retry_cycle_start_time.map(|time| time.0),
    }
}

/// What was not seen, a line each.
fn unknown(facts: &Facts) -> Vec<String> {
    let mut all = Vec::new();
    let mut add = |what: &str, why: Option<&str>| all.extend(why.map(|why| format!("{what}: {why}")));
    add("the Seed", facts.seed.unknown());
    add("gardenlet's lease", facts.gardenlet.unknown());
    add("the registrations", facts.registrations.unknown());
    add("the installations", facts.installations.unknown());
    add("what is in the seed", facts.in_seed.unknown());
    if let Seen::Present(seed) = &facts.in_seed {
        add("the extension objects", seed.extensions.unknown());
        add("the control plane", seed.workloads.unknown());
        add("the ManagedResources", seed.resources.unknown());
        add("the machines", seed.machines.unknown());
    }
    all
}
