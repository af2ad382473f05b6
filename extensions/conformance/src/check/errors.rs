//! How an extension reports errors and forgets them.

use api_meta::{ErrorCode, LastOperationState};

use super::{Checked, first_break};
use crate::episode::Episode;
use crate::rule::Rule;

pub(super) fn check(episode: &Episode) -> Vec<Checked> {
    let checks = [
        (Rule::KnownErrorCodes, codes(episode)),
        (Rule::ErrorKeptUntilSuccess, retained(episode)),
        (Rule::ErrorGoneAfterSuccess, gone(episode)),
    ];
    let found = checks.into_iter();
    found.filter_map(|(rule, outcome)| Some((rule, outcome?))).collect()
}

fn codes(episode: &Episode) -> Option<Result<(), String>> {
    let errors = episode
        .after
        .iter()
        .filter_map(|version| Some((version, version.status.last_error.as_ref()?)));
    first_break(errors.map(|(version, error)| {
        let unknown = error.codes.iter().find(|code| matches!(code, ErrorCode::Other(_)));
        unknown.map_or(Ok(()), |code| {
            Err(format!("{} lastError has the code {code}", version.place()))
        })
    }))
}

/// From the first error on, as long as nothing succeeded.
fn retained(episode: &Episode) -> Option<Result<(), String>> {
    let all = std::iter::once(&episode.before).chain(&episode.after);
    let succeeded = |state: Option<&LastOperationState>| state == Some(&LastOperationState::Succeeded);
    let state = |version: &crate::version::Version| version.last().map(|last| last.state.clone());
    let mut later = all
        .skip_while(|version| version.status.last_error.is_none())
        .take_while(|version| !succeeded(state(version).as_ref()))
        .peekable();
    later.peek()?;
    // With one version alone nothing was tried again.
    let versions: Vec<_> = later.collect();
    let retried = versions
        .iter()
        .skip(1)
        .any(|version| state(version) == Some(LastOperationState::Processing));
    if !retried {
        return None;
    }
    first_break(versions.into_iter().map(|version| match version.status.last_error {
        Some(_) => Ok(()),
        None => Err(format!(
            "{} the status is {:?} and lastError is gone",
            version.place(),
            version.state()
        )),
    }))
}

fn gone(episode: &Episode) -> Option<Result<(), String>> {
    let had_error = episode.before.status.last_error.is_some()
        || episode.after.iter().any(|version| version.status.last_error.is_some());
    if !had_error {
        return None;
    }
    let successes = episode
        .reports()
        .filter(|(_, last)| last.state == LastOperationState::Succeeded);
    first_break(successes.map(|(version, _)| match &version.status.last_error {
        None => Ok(()),
        Some(error) => Err(format!(
            "{} the status is {:?} and lastError is still {:?}",
            version.place(),
            version.state(),
            error.description
        )),
    }))
}
