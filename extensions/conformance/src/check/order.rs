//! The order in which an extension writes annotation, finalizer and status.

use std::time::Duration;

use api_meta::annotations::operation;
use api_meta::{LastOperation, LastOperationState, LastOperationType};
use jiff::SignedDuration;

use super::{Checked, first_break};
use crate::episode::{Episode, RequestKind};
use crate::options::PATIENCE;
use crate::rule::Rule;
use crate::version::Version;

pub(super) fn check(episode: &Episode) -> Vec<Checked> {
    let checks = [
        (Rule::ReconcileAnnotationRemovedFirst, reconcile_annotation(episode)),
        (Rule::MigrateAnnotationRemovedLast, migrate_annotation(episode)),
        (Rule::RestoreAnnotationRemovedLast, restore_annotation(episode)),
        (Rule::FinalizerBeforeProcessing, finalizer(episode)),
        (Rule::ProcessingBeforeResult, processing(episode)),
        (Rule::OperationType, type_(episode)),
        (Rule::ObservedGenerationWithResult, observed_generation(episode)),
        (Rule::ProgressInBounds, progress(episode)),
        (Rule::DescriptionPresent, description(episode)),
        (Rule::AnswerNotOlderThanRequest, answer(episode)),
    ];
    let found = checks.into_iter();
    found.filter_map(|(rule, outcome)| Some((rule, outcome?))).collect()
}

fn is_result(last: &LastOperation) -> bool {
    matches!(
        last.state,
        LastOperationState::Succeeded | LastOperationState::Error | LastOperationState::Failed
    )
}

fn reconcile_annotation(episode: &Episode) -> Option<Result<(), String>> {
    if !episode.kind.is_annotated() {
        return None;
    }
    let (first, _) = episode.first_report()?;
    Some(match first.operation() {
        Some(operation::RECONCILE) => Err(format!(
            "{} the status is {:?} and the annotation gardener.cloud/operation is still \"reconcile\"",
            first.place(),
            first.state()
        )),
        _ => Ok(()),
    })
}

/// The first version after the request that does not have its annotation any more.
fn without_annotation<'a>(episode: &'a Episode, value: &str) -> Option<(usize, &'a Version)> {
    let mut all = episode.after.iter().enumerate();
    all.find(|(_, version)| version.operation() != Some(value))
}

fn migrate_annotation(episode: &Episode) -> Option<Result<(), String>> {
    if episode.kind != RequestKind::Migrate {
        return None;
    }
    let (_, version) = without_annotation(episode, operation::MIGRATE)?;
    Some(match version.succeeded(&LastOperationType::Migrate) {
        true => Ok(()),
        false => Err(format!(
            "{} the annotation is gone and the status is {:?}, not yet Migrate Succeeded",
            version.place(),
            version.state()
        )),
    })
}

/// Gardener's own reconcilers remove it right before or right after they report the success.
fn restore_annotation(episode: &Episode) -> Option<Result<(), String>> {
    if episode.kind != RequestKind::Restore {
        return None;
    }
    let (at, version) = without_annotation(episode, operation::RESTORE)?;
    if version.succeeded(&LastOperationType::Restore) {
        return Some(Ok(()));
    }
    let later = &episode.after[at..];
    let success = later
        .iter()
        .find(|version| version.succeeded(&LastOperationType::Restore));
    let soon = SignedDuration::try_from(ANSWER_MAX).unwrap_or(SignedDuration::MAX);
    let is_soon = success.is_some_and(|success| success.seen.duration_since(version.seen) <= soon);
    let was_working = version
        .last()
        .is_some_and(|last| last.type_ == LastOperationType::Restore);
    Some(if is_soon && was_working {
        Ok(())
    } else {
        Err(format!(
            "{} the annotation is gone and the status is {:?}, long before the restore ended",
            version.place(),
            version.state()
        ))
    })
}

/// The next write of an extension follows within this.
const ANSWER_MAX: Duration = PATIENCE;

fn finalizer(episode: &Episode) -> Option<Result<(), String>> {
    if !matches!(episode.kind, RequestKind::Create | RequestKind::Restore) {
        return None;
    }
    let (first, _) = episode.first_report()?;
    Some(match first.finalizers().as_slice() {
        [] => Err(format!(
            "{} the status is {:?} and the object has no finalizer of an extension",
            first.place(),
            first.state()
        )),
        _ => Ok(()),
    })
}

fn processing(episode: &Episode) -> Option<Result<(), String>> {
    let Some((first, last)) = episode.first_report() else {
        // An object that is released without a word.
        let released = episode.kind == RequestKind::Delete && episode.newest().finalizers().is_empty();
        return released.then(|| Err("the finalizer was removed and no Delete was reported".to_owned()));
    };
    Some(match last.state {
        LastOperationState::Processing => Ok(()),
        // It belongs to an attempt that was under way.
        _ if episode.kind == RequestKind::Correction && is_under_way(&episode.before) => Ok(()),
        _ => Err(format!("{} the first report is {:?}", first.place(), first.state())),
    })
}

fn is_under_way(version: &Version) -> bool {
    version
        .last()
        .is_some_and(|last| last.state == LastOperationState::Processing)
}

fn type_(episode: &Episode) -> Option<Result<(), String>> {
    let expected = episode.kind.type_();
    first_break(episode.reports().map(|(version, last)| match last.type_ == expected {
        true => Ok(()),
        false => Err(format!(
            "{} the status is {:?}, expected {expected}",
            version.place(),
            version.state()
        )),
    }))
}

/// gardenlet compares it for reconcile and restore only. When nothing but the spec is corrected, an attempt at the spec before
/// may be under way, and ends with the generation that it began with.
fn observed_generation(episode: &Episode) -> Option<Result<(), String>> {
    if matches!(episode.kind, RequestKind::Delete | RequestKind::Migrate) {
        return None;
    }
    let mut known = episode.before.observed();
    let looks = episode.reports().map(move |(version, last)| {
        let (observed, generation) = (version.observed(), version.generation());
        let may_be_old = episode.kind == RequestKind::Correction && (known..=generation).contains(&observed);
        let expected = if is_result(last) { generation } else { known };
        let fits = observed == expected || is_result(last) && may_be_old;
        known = observed;
        match fits {
            true => Ok(()),
            false => Err(format!(
                "{} the status is {:?} with observedGeneration {observed}, expected {expected} (generation {generation})",
                version.place(),
                version.state()
            )),
        }
    });
    first_break(looks)
}

fn progress(episode: &Episode) -> Option<Result<(), String>> {
    let mut reached = 0;
    let looks = episode.reports().map(|(version, last)| {
        let done = last.state == LastOperationState::Succeeded;
        let in_bounds = (0..=100).contains(&last.progress) && (last.progress == 100) == done;
        let falls = episode.is_calm && last.state == LastOperationState::Processing && last.progress < reached;
        reached = match last.state {
            LastOperationState::Processing => last.progress,
            _ => 0,
        };
        match (in_bounds, falls) {
            (true, false) => Ok(()),
            (true, true) => Err(format!(
                "{} the status is {:?}, and it was further before",
                version.place(),
                version.state()
            )),
            (false, _) => Err(format!("{} the status is {:?}", version.place(), version.state())),
        }
    });
    first_break(looks)
}

fn description(episode: &Episode) -> Option<Result<(), String>> {
    first_break(episode.reports().map(|(version, last)| {
        let error = version.status.last_error.as_ref();
        let empty = match (last.description.trim(), error) {
            ("", _) => "lastOperation.description",
            (_, Some(error)) if error.description.trim().is_empty() => "lastError.description",
            _ => return Ok(()),
        };
        Err(format!(
            "{} the status is {:?} and {empty} is empty",
            version.place(),
            version.state()
        ))
    }))
}

fn answer(episode: &Episode) -> Option<Result<(), String>> {
    if matches!(
        episode.kind,
        RequestKind::Delete | RequestKind::Migrate | RequestKind::Correction
    ) {
        return None;
    }
    let requested = episode.requested;
    let version = episode.newest();
    let last = version
        .last()
        .filter(|last| is_result(last) && episode.first_report().is_some())?;
    let answered = last.last_update_time.0;
    Some(match answered.as_second() >= requested.as_second() {
        true => Ok(()),
        false => Err(format!(
            "{} the status is {:?} with lastUpdateTime {answered}, requested at {requested}",
            version.place(),
            version.state()
        )),
    })
}

#[cfg(test)]
mod tests {
    use api_extensions::DefaultStatus;
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    /// A version with a report of a Reconcile.
    fn version(generation: i64, observed: i64, state: LastOperationState, progress: i32) -> Version {
        Version {
            seen: Timestamp::UNIX_EPOCH,
            metadata: ObjectMeta {
                generation: Some(generation),
                ..ObjectMeta::default()
            },
            spec: serde_json::Value::Null,
            status: DefaultStatus {
                observed_generation: Some(observed),
                last_operation: Some(LastOperation {
                    type_: LastOperationType::Reconcile,
                    state,
                    progress,
                    ..LastOperation::default()
                }),
                ..DefaultStatus::default()
            },
        }
    }

    fn episode(kind: RequestKind, before: Version, after: Vec<Version>) -> Episode {
        Episode {
            kind,
            requested: Timestamp::UNIX_EPOCH,
            before,
            after,
            is_whole: true,
            is_calm: true,
        }
    }

    use LastOperationState::{Error, Processing, Succeeded};

    #[test]
    fn an_attempt_that_a_correction_meets_ends_with_the_generation_it_began_with() {
        let under_way = version(4, 3, Processing, 1);
        let after = vec![
            version(4, 3, Error, 50),
            version(4, 3, Processing, 1),
            version(4, 4, Succeeded, 100),
        ];
        let corrected = episode(RequestKind::Correction, under_way.clone(), after.clone());
        assert_eq!(observed_generation(&corrected), Some(Ok(())));
        assert_eq!(processing(&corrected), Some(Ok(())));
        let reconciled = episode(RequestKind::Reconcile, under_way, after);
        assert!(observed_generation(&reconciled).unwrap().is_err());
        assert!(processing(&reconciled).unwrap().is_err());
    }

    #[test]
    fn a_correction_does_not_excuse_a_generation_that_never_was() {
        for observed in [2, 5] {
            let after = vec![version(4, observed, Error, 50)];
            let corrected = episode(RequestKind::Correction, version(4, 3, Processing, 1), after);
            assert!(observed_generation(&corrected).unwrap().is_err(), "{observed}");
        }
        let early = vec![version(4, 4, Processing, 1)];
        let corrected = episode(RequestKind::Correction, version(4, 3, Error, 50), early);
        assert!(observed_generation(&corrected).unwrap().is_err());
    }
}
