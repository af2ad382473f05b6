//! One request and everything that happened until it was answered: what the checks look at. It only holds.

use api_meta::{LastOperation, LastOperationState, LastOperationType, annotations::operation};
use jiff::Timestamp;

use crate::record::Entry;
use crate::version::Version;

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// Reconcile an object that is new.
    Create,
    /// Reconcile an object that has succeeded.
    Reconcile,
    /// Nothing but a spec that is right again.
    Correction,
    /// A spec that has to be refused.
    Refusal,
    Delete,
    Migrate,
    Restore,
}

impl RequestKind {
    /// The type that `lastOperation` is expected to have.
    pub(crate) fn type_(self) -> LastOperationType {
        match self {
            Self::Create => LastOperationType::Create,
            Self::Reconcile | Self::Correction | Self::Refusal => LastOperationType::Reconcile,
            Self::Delete => LastOperationType::Delete,
            Self::Migrate => LastOperationType::Migrate,
            Self::Restore => LastOperationType::Restore,
        }
    }

    /// Whether the request carried the annotation `reconcile`.
    pub(crate) fn is_annotated(self) -> bool {
        matches!(self, Self::Create | Self::Reconcile | Self::Refusal)
    }
}

/// A request and its answer.
#[derive(Clone, Debug)]
pub(crate) struct Episode {
    pub(crate) kind: RequestKind,
    /// The time that the request carries.
    pub(crate) requested: Timestamp,
    /// The object as it was requested.
    pub(crate) before: Version,
    /// Every version after it.
    pub(crate) after: Vec<Version>,
    /// Whether no version is missing.
    pub(crate) is_whole: bool,
    /// Whether the extension was left to work in peace: neither killed nor outrun by another writer.
    pub(crate) is_calm: bool,
}

impl Episode {
    /// The newest version.
    pub(crate) fn newest(&self) -> &Version {
        self.after.last().unwrap_or(&self.before)
    }

    /// Versions in which `lastOperation` is another than in the one before.
    pub(crate) fn reports(&self) -> impl Iterator<Item = (&Version, &LastOperation)> {
        let earlier = std::iter::once(&self.before).chain(&self.after);
        let pairs = earlier.zip(&self.after);
        pairs.filter_map(|(earlier, version)| {
            let last = version.last().filter(|_| version.last() != earlier.last())?;
            Some((version, last))
        })
    }

    /// The first version that reports work on the request.
    pub(crate) fn first_report(&self) -> Option<(&Version, &LastOperation)> {
        self.reports().next()
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Succeeded,
    /// With an error that no retry helps against, or that is what was waited for.
    Failed,
    /// The object is gone, or released.
    Gone,
}

/// How the request that the first entry carries ended, if it did.
pub(crate) fn end(entries: &[Entry], kind: RequestKind) -> Option<End> {
    let before = entries.first()?.version()?;
    let Some(newest) = entries.last()?.version() else {
        return Some(End::Gone);
    };
    if kind == RequestKind::Delete && newest.is_deleting() && newest.finalizers().is_empty() {
        return Some(End::Gone);
    }
    // Times have whole seconds, so that the result may look as the one before; something was reported in between.
    let reported = entries
        .iter()
        .filter_map(Entry::version)
        .any(|one| one.last() != before.last());
    let last = newest.last().filter(|_| reported)?;
    // An extension may try again at once.
    let refused = |version: &Version| {
        let state = version.last().map(|last| &last.state);
        let is_error = matches!(state, Some(LastOperationState::Error | LastOperationState::Failed));
        is_error && version.status.last_error.is_some()
    };
    if kind == RequestKind::Refusal && entries.iter().skip(1).filter_map(Entry::version).any(refused) {
        return Some(End::Failed);
    }
    match last.state {
        LastOperationState::Succeeded if kind == RequestKind::Delete => None,
        LastOperationState::Succeeded if kind == RequestKind::Correction => {
            (newest.observed() == newest.generation()).then_some(End::Succeeded)
        }
        LastOperationState::Succeeded => Some(End::Succeeded),
        LastOperationState::Error | LastOperationState::Failed => {
            let codes = newest.status.last_error.iter().flat_map(|error| &error.codes);
            let is_final = codes.into_iter().any(|code| !code.retryable());
            (is_final && kind != RequestKind::Correction).then_some(End::Failed)
        }
        _ => None,
    }
}

/// Whether what follows the result is done too: annotation and finalizer.
pub(crate) fn is_tidy(entries: &[Entry], kind: RequestKind) -> bool {
    let Some(newest) = entries.last().and_then(Entry::version) else {
        return true;
    };
    match kind {
        RequestKind::Migrate => newest.operation().is_none() && newest.finalizers().is_empty(),
        RequestKind::Delete => newest.finalizers().is_empty(),
        _ => !matches!(newest.operation(), Some(operation::RECONCILE | operation::RESTORE)),
    }
}
