//! What belongs to other writers, and whether it is still there.

use api_meta::{Condition, LastOperation, annotations};

use super::Checked;
use crate::episode::{Episode, RequestKind};
use crate::rule::Rule;
use crate::version::Version;

/// Label, annotation and finalizer that the kit puts on objects as another writer would.
pub(crate) const MARK: &str = "conformance.orangery.dev/of-another-writer";
/// Condition that it writes.
pub(crate) const CONDITION: &str = "OfAnotherWriter";
/// Label with a number that the kit counts up while an operation is under way; the message of its condition is another.
pub(crate) const COUNTER: &str = "conformance.orangery.dev/counter";

pub(super) fn check(episode: &Episode) -> Vec<Checked> {
    let mut all = vec![
        (Rule::SpecUntouched, spec(episode)),
        (Rule::MetadataOfOthersKept, metadata(episode)),
    ];
    if let Some(condition) = Condition::find(&episode.before.status.conditions, CONDITION) {
        all.push((Rule::ConditionsOfOthersKept, conditions(episode, condition)));
    }
    all
}

fn spec(episode: &Episode) -> Result<(), String> {
    let changed = episode.after.iter().find(|version| version.spec != episode.before.spec);
    changed.map_or(Ok(()), |version| {
        Err(format!(
            "{} the spec is {}, and gardenlet wrote {}",
            version.place(),
            version.spec,
            episode.before.spec
        ))
    })
}

fn metadata(episode: &Episode) -> Result<(), String> {
    let before = &episode.before;
    let missing = |version: &Version| {
        let labels = (&before.metadata.labels, &version.metadata.labels);
        let (had, has) = (labels.0.iter().flatten(), labels.1.clone().unwrap_or_default());
        let label = had.into_iter().find(|(key, _)| !has.contains_key(*key));
        if let Some((key, _)) = label {
            return Some(format!("label {key}"));
        }
        let marks = [MARK, annotations::TIMESTAMP].into_iter();
        let mut marks = marks.filter(|key| before.annotation(key).is_some());
        if let Some(key) = marks.find(|key| version.annotation(key) != before.annotation(key)) {
            return Some(format!("annotation {key} as it was"));
        }
        let holds = |version: &Version| version.metadata.finalizers.iter().flatten().any(|name| name == MARK);
        // After a migration nothing is expected to hold an object: Gardener's reconcilers remove all finalizers.
        (episode.kind != RequestKind::Migrate && holds(before) && !holds(version)).then(|| format!("finalizer {MARK}"))
    };
    let found = episode
        .after
        .iter()
        .find_map(|version| Some((version, missing(version)?)));
    found.map_or(Ok(()), |(version, what)| {
        Err(format!("{} there is no {what}", version.place()))
    })
}

fn conditions(episode: &Episode, condition: &Condition) -> Result<(), String> {
    let broken = episode.after.iter().find_map(|version| {
        let now = Condition::find(&version.status.conditions, CONDITION);
        match now {
            None => Some(format!("{} condition {CONDITION} is gone", version.place())),
            // While the kit counts in the message, another rule looks at it.
            Some(now) if now.status != condition.status || now.reason != condition.reason => Some(format!(
                "{} condition {CONDITION} is {} with reason {:?}, and was {} with reason {:?}",
                version.place(),
                now.status,
                now.reason,
                condition.status,
                condition.reason
            )),
            Some(_) => None,
        }
    });
    broken.map_or(Ok(()), Err)
}

/// Whether the numbers of the kit only ever rise while it and the extension write the same object.
pub(crate) fn contended(episode: &Episode) -> Result<(), String> {
    let of_label = |version: &Version| -> Option<u64> { version.metadata.labels.as_ref()?.get(COUNTER)?.parse().ok() };
    let of_condition = |version: &Version| -> Option<u64> {
        Condition::find(&version.status.conditions, CONDITION)?
            .message
            .parse()
            .ok()
    };
    rising(episode, &format!("label {COUNTER}"), of_label)?;
    rising(episode, &format!("the message of condition {CONDITION}"), of_condition)
}

fn rising(episode: &Episode, what: &str, number: impl Fn(&Version) -> Option<u64>) -> Result<(), String> {
    let mut reached = None;
    for version in &episode.after {
        let now = number(version);
        if now < reached {
            let now = now.map_or_else(|| "gone".to_owned(), |now| now.to_string());
            let reached = reached.unwrap_or_default();
            return Err(format!(
                "{} {what} is {now}, and another writer had written {reached}",
                version.place()
            ));
        }
        reached = now;
    }
    Ok(())
}

/// What is not to change while an object is left alone: everything that an extension reports, and its finalizers.
pub(crate) fn untouched(before: &Version, after: &[Version]) -> Result<(), String> {
    fn operation(version: &Version) -> Option<&LastOperation> {
        version.last()
    }
    let broken = after.iter().find_map(|version| {
        let what = if operation(version) != operation(before) {
            format!("the status is {:?}, and was {:?}", version.state(), before.state())
        } else if version.status.last_error != before.status.last_error {
            "lastError has changed".to_owned()
        } else if version.observed() != before.observed() {
            format!(
                "observedGeneration is {}, and was {}",
                version.observed(),
                before.observed()
            )
        } else if version.status.state != before.status.state {
            "state has changed".to_owned()
        } else if version.finalizers() != before.finalizers() {
            format!(
                "the finalizers are {:?}, and were {:?}",
                version.finalizers(),
                before.finalizers()
            )
        } else {
            return None;
        };
        Some(format!("{} {what}", version.place()))
    });
    broken.map_or(Ok(()), Err)
}
