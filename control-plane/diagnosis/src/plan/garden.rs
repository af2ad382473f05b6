//! What the garden alone tells: annotations that hold a Shoot, its seed, and that seed's gardenlet.

use std::time::Duration;

use api_meta::{Condition, ConditionStatus, FaultClass, Seen, annotations, conditions::seed::GARDENLET_READY};
use kube::ResourceExt;

use super::{Blocker, Cause, Located, scheduling::not_scheduled, status};
use crate::facts::Facts;

/// A gardenlet that has not renewed its lease for so long is taken to be gone (Gardener's default).
const LEASE_STALE_AFTER: Duration = Duration::from_secs(40);

pub(super) fn blockers(facts: &Facts) -> Vec<Blocker> {
    let found = [ignored(facts), not_confirmed(facts), placement(facts)];
    found.into_iter().flatten().collect()
}

fn is_true(annotations: Option<&std::collections::BTreeMap<String, String>>, key: &str) -> bool {
    annotations
        .and_then(|all| all.get(key))
        .is_some_and(|value| value == "true")
}

fn ignored(facts: &Facts) -> Option<Blocker> {
    let seed = facts.seed.present();
    let stopped =
        seed.is_some_and(|seed| is_true(seed.metadata.annotations.as_ref(), annotations::SEED_EMERGENCY_STOP));
    let (object, key, message) = if is_true(facts.shoot.metadata.annotations.as_ref(), annotations::SHOOT_IGNORE) {
        let message = "the Shoot is to be left alone";
        (Located::in_garden(facts.itself()), annotations::SHOOT_IGNORE, message)
    } else if let (true, Some(seed)) = (stopped, seed) {
        let message = "an operator has stopped all reconciliations of the seed";
        (
            Located::of_garden("Seed", &seed.name_any()),
            annotations::SEED_EMERGENCY_STOP,
            message,
        )
    } else {
        return None;
    };
    Some(Blocker {
        message: message.to_owned(),
        class: Some(FaultClass::User.as_str()),
        next_try: "at once when the annotation is gone".to_owned(),
        to_do: format!("take the annotation {key} from the {object}"),
        objects: vec![object],
        ..Blocker::new(Cause::Ignored, "whoever has set the annotation".to_owned())
    })
}

fn not_confirmed(facts: &Facts) -> Option<Blocker> {
    let deleted_at = facts.shoot.metadata.deletion_timestamp.as_ref()?;
    let confirmed = is_true(
        facts.shoot.metadata.annotations.as_ref(),
        annotations::CONFIRMATION_DELETION,
    );
    // What was never worked on is let go without a word.
    if confirmed || status(facts).uid.is_empty() {
        return None;
    }
    let key = annotations::CONFIRMATION_DELETION;
    Some(Blocker {
        message: format!("its deletion was requested and is not confirmed: annotation {key} is not \"true\""),
        class: Some(FaultClass::User.as_str()),
        since: Some(deleted_at.0),
        next_try: "at once when the annotation is there".to_owned(),
        to_do: format!("set the annotation {key} to \"true\", if the cluster is really to go"),
        objects: vec![Located::in_garden(facts.itself())],
        ..Blocker::new(Cause::DeletionNotConfirmed, "the Shoot's owner".to_owned())
    })
}

fn placement(facts: &Facts) -> Option<Blocker> {
    let Some(name) = facts.seed_name() else {
        return (facts.shoot.metadata.deletion_timestamp.is_none()).then(|| not_scheduled(facts));
    };
    if facts.seed.is_absent() {
        return Some(Blocker {
            message: format!("its Seed {name} does not exist"),
            class: Some(FaultClass::Dependency.as_str()),
            next_try: "when the Seed is there".to_owned(),
            to_do: format!("create the Seed {name} again, by starting its gardenlet"),
            objects: vec![Located::of_garden("Seed", name)],
            ..Blocker::new(Cause::SeedGone, "the seed's operator".to_owned())
        });
    }
    silent(facts, name)
}

fn silent(facts: &Facts, name: &str) -> Option<Blocker> {
    let known = facts.seed.present().and_then(|seed| seed.status.as_ref());
    let condition = known.and_then(|status| Condition::find(&status.conditions, GARDENLET_READY));
    let age = |at| Duration::try_from(facts.now.duration_since(at)).unwrap_or_default();
    let (message, since) = match (&facts.gardenlet, condition) {
        (Seen::Present(at), _) if age(*at) >= LEASE_STALE_AFTER => {
            let seconds = age(*at).as_secs();
            (
                format!("the gardenlet of seed {name} has not renewed its lease for {seconds} s"),
                Some(*at),
            )
        }
        (_, Some(one)) if one.status != ConditionStatus::True => {
            let condition = format!("{}: {}", one.reason, one.message);
            let since = one.last_transition_time.0;
            (
                format!("the gardenlet of seed {name} is not ready: {condition}"),
                Some(since),
            )
        }
        (Seen::Absent, None) => (format!("no gardenlet has ever reported for seed {name}"), None),
        _ => return None,
    };
    Some(Blocker {
        message,
        class: Some(FaultClass::Dependency.as_str()),
        since,
        next_try: "as soon as gardenlet runs again".to_owned(),
        to_do: format!("start the gardenlet of seed {name}, or look at its log"),
        objects: vec![Located::of_garden("Seed", name)],
        ..Blocker::new(Cause::GardenletSilent, format!("gardenlet of seed {name}"))
    })
}

impl Blocker {
    /// One of which only kind and doer are known.
    pub(super) fn new(cause: Cause, who: String) -> Self {
        Self {
            cause,
            who,
            message: String::new(),
            details: Vec::new(),
            tasks: Vec::new(),
            objects: Vec::new(),
            class: None,
            codes: Vec::new(),
            since: None,
            next_try: String::new(),
            to_do: String::new(),
            command: None,
        }
    }
}
