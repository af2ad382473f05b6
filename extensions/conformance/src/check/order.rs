//! The order in which an extension writes annotation, finalizer and status.

use std::time::Duration;

use api_meta::annotations::operation;
use api_meta::{LastOperation, LastOperationState, LastOperationType};
use jiff::SignedDuration;

use super::{Checked, first_break};
use crate::episode::{Asked, Episode};
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
    if !episode.asked.is_annotated() {
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
    if episode.asked != Asked::Migrate {
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
    if episode.asked != Asked::Restore {
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
    if !matches!(episode.asked, Asked::Create | Asked::Restore) {
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
        let released = episode.asked == Asked::Delete && episode.newest().finalizers().is_empty();
        return released.then(|| Err("the finalizer was removed and no Delete was reported".to_owned()));
    };
    Some(match last.state {
        LastOperationState::Processing => Ok(()),
        _ => Err(format!("{} the first report is {:?}", first.place(), first.state())),
    })
}

fn type_(episode: &Episode) -> Option<Result<(), String>> {
    let expected = episode.asked.type_();
    first_break(episode.reports().map(|(version, last)| match last.type_ == expected {
        true => Ok(()),
        false => Err(format!(
            "{} the status is {:?}, expected {expected}",
            version.place(),
            version.state()
        )),
    }))
}

/// gardenlet compares it for reconcile and restore only.
fn observed_generation(episode: &Episode) -> Option<Result<(), String>> {
    if matches!(episode.asked, Asked::Delete | Asked::Migrate) {
        return None;
    }
    let mut known = episode.before.observed();
    let looks = episode.reports().map(move |(version, last)| {
        let (observed, generation) = (version.observed(), version.generation());
        let expected = if is_result(last) { generation } else { known };
        known = observed;
        match observed == expected {
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
    if matches!(episode.asked, Asked::Delete | Asked::Migrate | Asked::Correction) {
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
