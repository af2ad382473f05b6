//! Extension objects that are not as they should be, and whether a controller is there that acts on them.

mod controller;
mod unserved;

use std::time::Duration;

use api_meta::{ErrorCode, FaultClass, LastOperationState, LastOperationType, finalizers};
use api_rules::KindType;
use control_plane_readiness::{Deletion, Readiness, deletion, readiness};
use jiff::Timestamp;

use super::{Blocker, Cause, has_succeeded, is_given_up, next_try, webhook};
use crate::facts::{ExtensionFact, Facts, InSeed};
use controller::{Controls, controls};
use unserved::{of_unserved, unserved};

pub(super) use controller::sentence;

/// An extension that has been asked gets this long before its silence is worth a word, as in gardenlet's progress.
const WORTH_A_WORD: Duration = Duration::from_secs(10);
/// How many objects one blocker names; a Shoot has about a dozen.
const OBJECTS_MAX: usize = 12;

pub(super) fn blockers(facts: &Facts) -> Vec<Blocker> {
    let seed = facts.in_seed.present();
    let objects = seed
        .and_then(|seed| seed.extensions.present())
        .map_or(&[][..], Vec::as_slice);
    let troubled: Vec<(&ExtensionFact, Trouble)> = objects
        .iter()
        .filter_map(|object| Some((object, trouble(facts, object)?)))
        .collect();
    let unserved = unserved(facts, &troubled);
    let mut all = of_unserved(facts, &unserved, &troubled);
    for (object, trouble) in &troubled {
        let answered = matches!(trouble, Trouble::Failing { .. });
        if (answered || !unserved.contains_key(&kind_type(object)))
            && let Some(seed) = seed
        {
            add(&mut all, of_object(facts, seed, object, trouble));
        }
    }
    all
}

fn kind_type(object: &ExtensionFact) -> KindType {
    KindType::new(&object.id.kind, &object.reported.type_)
}

/// What gardenlet would say of an object.
enum Trouble {
    Failing {
        text: String,
        hint: String,
        codes: Vec<ErrorCode>,
    },
    NotYet(String),
}

fn trouble(facts: &Facts, object: &ExtensionFact) -> Option<Trouble> {
    if object.deleting.is_some() {
        return Some(match deletion(&object.reported) {
            Deletion::Failing { text, hint, codes } => Trouble::Failing { text, hint, codes },
            Deletion::NotYet { text, .. } => Trouble::NotYet(text),
        });
    }
    match readiness(&object.reported, None) {
        Readiness::Ready => None,
        Readiness::Failing { text, hint, codes } => Some(Trouble::Failing { text, hint, codes }),
        // After the first success no step waits for it.
        Readiness::NotYet(_) if has_succeeded(facts) => None,
        Readiness::NotYet(why) => Some(Trouble::NotYet(why)),
    }
}

/// When what an object has not brought about was requested.
fn request_time(object: &ExtensionFact) -> Option<Timestamp> {
    let stamp = || object.reported.timestamp.as_ref()?.parse().ok();
    object.deleting.or_else(stamp).or(object.created)
}

fn of_object(facts: &Facts, seed: &InSeed, object: &ExtensionFact, trouble: &Trouble) -> Blocker {
    let type_ = &object.reported.type_;
    let controls = controls(facts, seed, object);
    let blocker = Blocker {
        objects: vec![facts.in_its_seed(object.id.clone())],
        who: match &controls {
            Some(controls) => format!("extension {type_:?}, {}", controls.names),
            None => format!("extension {type_:?}"),
        },
        ..Blocker::new(Cause::AtWork, String::new())
    };
    match trouble {
        Trouble::Failing { text, hint, codes } => Blocker {
            since: error_time(object),
            next_try: next_of_error(facts, codes),
            ..of_error(blocker, text, hint, codes)
        },
        Trouble::NotYet(why) => of_silence(facts, object, why, controls.as_ref(), blocker),
    }
}

/// What the extension says, with the thing to do that it names, else with what its class of error asks for.
fn of_error(blocker: Blocker, text: &str, hint: &str, codes: &[ErrorCode]) -> Blocker {
    let class = codes.first().map_or(FaultClass::Dependency, ErrorCode::class);
    let usual = match class {
        FaultClass::User => "correct what the error names, in the Shoot",
        FaultClass::Quota => "raise the limit that the error names, or use less",
        FaultClass::Access => "correct the credentials, or grant what the error names",
        _ => "clear what the error names, or look at the extension's log",
    };
    Blocker {
        cause: Cause::ExtensionError,
        message: text.to_owned(),
        class: Some(class.as_str()),
        codes: codes.to_vec(),
        to_do: if hint.is_empty() { usual } else { hint }.to_owned(),
        ..blocker
    }
}

fn error_time(object: &ExtensionFact) -> Option<Timestamp> {
    let error = object.reported.last_error.as_ref();
    let time = error.and_then(|error| error.last_update_time.as_ref());
    let last = object.reported.last_operation.as_ref();
    time.or(last.map(|last| &last.last_update_time)).map(|time| time.0)
}

fn next_of_error(facts: &Facts, codes: &[ErrorCode]) -> String {
    match is_given_up(facts) || codes.iter().all(ErrorCode::retryable) {
        true => next_try(facts),
        // gardenlet ends the operation as soon as it has read this.
        false => "none before you act".to_owned(),
    }
}

fn of_silence(
    facts: &Facts,
    object: &ExtensionFact,
    why: &str,
    controls: Option<&Controls>,
    blocker: Blocker,
) -> Blocker {
    let reported = &object.reported;
    let blocker = Blocker {
        message: why.to_owned(),
        since: request_time(object),
        class: Some(FaultClass::Dependency.as_str()),
        next_try: "at once when the object's status changes".to_owned(),
        ..blocker
    };
    if object.deleting.is_some()
        && let Some(held) = held(object, &blocker)
    {
        return held;
    }
    let last = reported.last_operation.as_ref();
    let state = last.map(|last| last.state.clone());
    let dead = controls.is_some_and(|controls| controls.runs == Some(false));
    let unanswered = reported.unanswered_since().is_some();
    let processing = state == Some(LastOperationState::Processing) && !unanswered;
    if let (true, Some(error)) = (processing && !dead, reported.error()) {
        let message = format!("{why}; its try before failed: {}", error.text);
        return Blocker {
            since: error_time(object),
            next_try: "now: the extension tries again".to_owned(),
            ..of_error(blocker, &message, error.hint, error.codes)
        };
    }
    let waited = request_time(object).map(|at| Duration::try_from(facts.now.duration_since(at)).unwrap_or_default());
    if !dead && (processing || waited.is_some_and(|waited| waited < WORTH_A_WORD)) {
        let text = last.filter(|_| processing).map(|last| last.description.clone());
        return Blocker {
            cause: Cause::AtWork,
            message: text.filter(|text| !text.is_empty()).unwrap_or_else(|| why.to_owned()),
            class: None,
            to_do: "nothing: it is at work".to_owned(),
            ..blocker
        };
    }
    if let Some(refused) = refused(facts, object, &blocker) {
        return refused;
    }
    let late = reported.operation.is_some() || unanswered;
    if has_ended(state.as_ref()) && !late && object.deleting.is_none() {
        return Blocker {
            cause: Cause::LyingStatus,
            details: controls.iter().map(|controls| controls.standing.clone()).collect(),
            to_do: "report it to the extension's authors; restarting its pod may make it look again".to_owned(),
            ..blocker
        };
    }
    if let Some(blocked) = blocked(facts, object, controls, &blocker) {
        return blocked;
    }
    Blocker {
        cause: Cause::ExtensionSilent,
        details: controls.iter().map(|controls| controls.standing.clone()).collect(),
        to_do: controls.map_or_else(
            || format!("look at what serves the extension {:?} in the seed", reported.type_),
            |controls| controls.to_do.clone(),
        ),
        ..blocker
    }
}

fn has_ended(state: Option<&LastOperationState>) -> bool {
    matches!(
        state,
        Some(LastOperationState::Succeeded | LastOperationState::Error | LastOperationState::Failed)
    )
}

/// What is not picked up because a webhook refuses what has to be written for it, as far as an event says so.
fn refused(facts: &Facts, object: &ExtensionFact, blocker: &Blocker) -> Option<Blocker> {
    let refusals = facts.in_seed.present()?.refusals.present()?;
    let of_object = refusals.iter().filter(|one| one.object == object.id);
    let last = of_object
        .filter(|one| request_time(object).is_none_or(|requested_at| one.at.is_none_or(|at| at >= requested_at)))
        .max_by_key(|one| one.at)?;
    Some(Blocker {
        cause: Cause::WebhookRefused,
        message: last.message.clone(),
        who: webhook::who(&last.webhook, facts.webhooks()),
        since: last.at.or(blocker.since),
        to_do: webhook::to_do(&last.webhook, facts.webhooks()),
        ..blocker.clone()
    })
}

/// What a live extension cannot answer, because every write of the object ends at a webhook that nothing serves.
fn blocked(facts: &Facts, object: &ExtensionFact, controls: Option<&Controls>, blocker: &Blocker) -> Option<Blocker> {
    let controls = controls.filter(|controls| controls.is_alive)?;
    let labels = &facts.in_seed.present()?.labels;
    let mut all = facts.webhooks().iter();
    let webhook = all.find(|one| one.blocks(&object.id.kind, labels, &object.labels))?;
    Some(Blocker {
        cause: Cause::WebhookRefused,
        message: format!(
            "{}; every update of {} objects fails, because no endpoint is ready behind webhook {}",
            blocker.message, object.id.kind, webhook.name
        ),
        who: webhook.title(),
        details: vec![controls.standing.clone()],
        to_do: webhook.to_do(),
        ..blocker.clone()
    })
}

/// A deletion that is not the extension's to end, or of which it says that it has ended.
fn held(object: &ExtensionFact, blocker: &Blocker) -> Option<Blocker> {
    let foreign = object
        .finalizers
        .iter()
        .all(|one| !one.starts_with(finalizers::EXTENSION_PREFIX));
    let last = object.reported.last_operation.as_ref();
    let done =
        last.is_some_and(|last| last.type_ == LastOperationType::Delete && last.state == LastOperationState::Succeeded);
    if object.finalizers.is_empty() || !foreign && !done {
        return None;
    }
    let names = object.finalizers.join(", ");
    let (message, who) = match foreign {
        true => (
            format!("it is to be deleted, and finalizers of others hold it: {names}"),
            format!("the owner of the finalizer {names}"),
        ),
        false => (format!("{}: {names}", blocker.message), blocker.who.clone()),
    };
    Some(Blocker {
        cause: Cause::FinalizerHolds,
        message,
        who,
        next_try: "at once when the object is gone".to_owned(),
        to_do: "look at whoever has set the finalizer; take it away only if its owner is gone for good".to_owned(),
        ..blocker.clone()
    })
}

/// What has the same reason is one blocker.
fn add(all: &mut Vec<Blocker>, fresh: Blocker) {
    let same = |one: &&mut Blocker| {
        let mergeable = matches!(one.cause, Cause::ExtensionSilent | Cause::AtWork);
        mergeable && one.cause == fresh.cause && one.who == fresh.who && one.message == fresh.message
    };
    let Some(present) = all.iter_mut().find(same) else {
        all.push(fresh);
        return;
    };
    if present.objects.len() < OBJECTS_MAX {
        present.objects.extend(fresh.objects);
    }
    present.since = [present.since, fresh.since].into_iter().flatten().min();
}
