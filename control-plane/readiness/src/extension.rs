//! When an extension has fulfilled its request: a plain function over what it reported. Rules of
//! gardener/gardener v1.150 `pkg/utils/kubernetes/health/extensions.go`, with one difference on purpose: an error left
//! over from an earlier attempt does not count while the extension works on the present one.

use api_extensions::ExtensionObject;
use api_meta::conditions::ACTION_REQUIRED;
use api_meta::{
    Condition, ConditionStatus, ErrorCode, LastError, LastOperation, LastOperationState, LastOperationType,
    annotations, without_hint,
};
use jiff::Timestamp;
use kube::ResourceExt;

/// What is looked at.
#[derive(Clone, Debug, Default)]
pub struct Reported {
    /// The extension's type.
    pub type_: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `status.observedGeneration`.
    pub observed_generation: i64,
    /// Annotation `gardener.cloud/operation`.
    pub operation: Option<String>,
    /// Annotation `gardener.cloud/timestamp`.
    pub timestamp: Option<String>,
    /// `status.lastOperation`.
    pub last_operation: Option<LastOperation>,
    /// `status.lastError`.
    pub last_error: Option<LastError>,
    /// The thing to do that goes with the last error: condition `ActionRequired`, which extensions have that are written with
    /// our SDK. Of others nothing is known but the text of their error, which is not taken apart.
    pub hint: String,
}

/// The last error of an extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedError<'a> {
    /// Its words, without the thing to do where that is known apart.
    pub text: &'a str,
    /// The thing to do; empty where none is known.
    pub hint: &'a str,
    /// Its codes.
    pub codes: &'a [ErrorCode],
}

impl Reported {
    /// The last error, whatever it is about.
    #[must_use]
    pub fn error(&self) -> Option<ReportedError<'_>> {
        let LastError { description, codes, .. } = self.last_error.as_ref()?;
        // A hint that is not the one in the text belongs to another error.
        let (text, hint) = match without_hint(description, &self.hint) {
            Some(text) => (text, self.hint.as_str()),
            None => (description.as_str(), ""),
        };
        Some(ReportedError { text, hint, codes })
    }

    /// When the present request was made, if the last operation was reported before it.
    #[must_use]
    pub fn unanswered_since(&self) -> Option<Timestamp> {
        let requested: Timestamp = self.timestamp.as_deref()?.parse().ok()?;
        let reported = self.last_operation.as_ref()?.last_update_time.0;
        // Extensions write whole seconds.
        (reported.as_second() < requested.as_second()).then_some(requested)
    }
}

/// What follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Done.
    Ready,
    /// Not yet, because of this.
    NotYet(String),
    /// The extension reports an error of the present attempt.
    Failing {
        /// Its words.
        text: String,
        /// Its own thing to do; empty where none is known.
        hint: String,
        /// Its codes.
        codes: Vec<ErrorCode>,
    },
}

/// What an object reports about its last operation.
#[must_use]
pub fn reported<K: ExtensionObject>(object: &K) -> Reported {
    let annotation = |key: &str| object.annotations().get(key).cloned();
    let status = object.status();
    Reported {
        type_: object.type_().to_owned(),
        generation: object.meta().generation.unwrap_or_default(),
        observed_generation: status
            .as_ref()
            .and_then(|status| status.observed_generation)
            .unwrap_or_default(),
        operation: annotation(annotations::OPERATION),
        timestamp: annotation(annotations::TIMESTAMP),
        last_operation: status.as_ref().and_then(|status| status.last_operation.cloned()),
        last_error: status.as_ref().and_then(|status| status.last_error.cloned()),
        hint: status
            .as_ref()
            .and_then(|status| Condition::find(status.conditions, ACTION_REQUIRED))
            .filter(|condition| condition.status == ConditionStatus::True)
            .map(|condition| condition.message.clone())
            .unwrap_or_default(),
    }
}

/// Evaluates readiness. `request` is the timestamp annotation of the present request: an older one means that what we
/// look at is old.
#[must_use]
pub fn readiness(reported: &Reported, request: Option<&str>) -> Readiness {
    let Reported {
        type_,
        generation,
        observed_generation,
        operation,
        timestamp,
        last_operation,
        ..
    } = reported;
    let not_yet = |text: String| Readiness::NotYet(text);
    if request.is_some() && timestamp.as_deref() != request {
        return not_yet("the request of this reconcile is not visible yet".to_owned());
    }
    if let Some(operation) = operation {
        return not_yet(format!(
            "extension {type_:?} has not picked up the operation {operation:?} yet"
        ));
    }
    let Some(last) = last_operation else {
        return not_yet(format!("extension {type_:?} did not record a last operation yet"));
    };
    if let Some(requested) = reported.unanswered_since() {
        return not_yet(format!(
            "extension {type_:?} has not reconciled yet what was requested at {requested}"
        ));
    }
    let LastOperation { state, type_: done, .. } = last;
    let ended = match state {
        LastOperationState::Succeeded => "success",
        LastOperationState::Error | LastOperationState::Failed => "an error",
        state => {
            return not_yet(format!("extension {type_:?} is in state {state}, not yet Succeeded"));
        }
    };
    if observed_generation != generation {
        return not_yet(format!(
            "extension {type_:?} reports {ended} of generation {observed_generation}, not of {generation}"
        ));
    }
    if matches!(
        done,
        LastOperationType::Delete | LastOperationType::Migrate | LastOperationType::LiveMigrate
    ) {
        return not_yet(format!(
            "extension {type_:?} reports {ended} of operation {done}, not of what was requested"
        ));
    }
    match (state, reported.error()) {
        (LastOperationState::Succeeded, _) => Readiness::Ready,
        (_, Some(error)) => Readiness::Failing {
            text: format!("extension {type_:?} reports: {}", error.text),
            hint: error.hint.to_owned(),
            codes: error.codes.to_vec(),
        },
        (state, None) => Readiness::Failing {
            text: format!(
                "extension {type_:?} is in state {state} and did not record a last error: {}",
                last.description
            ),
            hint: String::new(),
            codes: Vec::new(),
        },
    }
}

/// What an extension reports of a deletion that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// Not yet.
    NotYet {
        /// Why not.
        text: String,
        /// The extension's own thing to do; empty where none is known.
        hint: String,
    },
    /// The extension reports an error of the deletion.
    Failing {
        /// Its words.
        text: String,
        /// Its own thing to do; empty where none is known.
        hint: String,
        /// Its codes.
        codes: Vec<ErrorCode>,
    },
}

/// Evaluates an object that still exists although its deletion was requested. An error of another operation means
/// nothing about it, and neither does one of the deletion while the extension tries again.
#[must_use]
pub fn deletion(reported: &Reported) -> Deletion {
    let Reported {
        type_, last_operation, ..
    } = reported;
    let not_yet = |text: String, hint: &str| Deletion::NotYet {
        text,
        hint: hint.to_owned(),
    };
    let idle = || not_yet(format!("extension {type_:?} has not deleted it yet"), "");
    let Some(last) = last_operation
        .as_ref()
        .filter(|last| last.type_ == LastOperationType::Delete)
    else {
        return idle();
    };
    let failing = |text: &str, hint: &str, codes: &[ErrorCode]| Deletion::Failing {
        text: format!("extension {type_:?} failed to delete it: {text}"),
        hint: hint.to_owned(),
        codes: codes.to_vec(),
    };
    match (&last.state, reported.error()) {
        (LastOperationState::Error | LastOperationState::Failed, Some(error)) => {
            failing(error.text, error.hint, error.codes)
        }
        (LastOperationState::Error | LastOperationState::Failed, None) => failing(&last.description, "", &[]),
        (LastOperationState::Succeeded, _) => not_yet(
            format!("extension {type_:?} reports success of its deletion and still holds it by a finalizer"),
            "",
        ),
        (LastOperationState::Processing, Some(error)) => not_yet(
            format!("extension {type_:?} is deleting it once more, after: {}", error.text),
            error.hint,
        ),
        _ => idle(),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    const REQUESTED_AT: &str = "2026-01-01T00:00:10.7Z";

    fn report(state: LastOperationState, error: Option<&str>, at: &str) -> Reported {
        Reported {
            type_: "moon".into(),
            generation: 3,
            observed_generation: 3,
            operation: None,
            timestamp: Some(REQUESTED_AT.into()),
            last_operation: Some(LastOperation {
                state,
                type_: LastOperationType::Reconcile,
                last_update_time: Time(at.parse().unwrap()),
                ..LastOperation::default()
            }),
            last_error: error.map(|text| LastError {
                description: text.into(),
                codes: vec![ErrorCode::InfraQuotaExceeded],
                ..LastError::default()
            }),
            hint: String::new(),
        }
    }

    fn why(reported: &Reported) -> String {
        match readiness(reported, Some(REQUESTED_AT)) {
            Readiness::NotYet(why) => why,
            other => format!("{other:?}"),
        }
    }

    /// Later than the request, within its second: extensions write whole seconds.
    const AT: &str = "2026-01-01T00:00:10Z";

    #[test]
    fn ready_needs_success_of_this_generation_and_of_this_request() {
        let good = report(LastOperationState::Succeeded, None, AT);
        assert_eq!(readiness(&good, Some(REQUESTED_AT)), Readiness::Ready);
        assert!(
            why(&Reported {
                observed_generation: 2,
                ..good.clone()
            })
            .ends_with("success of generation 2, not of 3")
        );
        assert!(
            why(&Reported {
                operation: Some("reconcile".into()),
                ..good.clone()
            })
            .contains("not picked up")
        );
        assert!(
            why(&Reported {
                last_operation: None,
                ..good.clone()
            })
            .ends_with("\"moon\" did not record a last operation yet")
        );
        assert!(
            why(&Reported {
                timestamp: Some("2025-01-01T00:00:00Z".into()),
                ..good.clone()
            })
            .contains("not visible")
        );
        assert!(
            why(&report(LastOperationState::Succeeded, None, "2026-01-01T00:00:09Z")).contains("has not reconciled")
        );
    }

    #[test]
    fn an_error_counts_only_if_it_belongs_to_this_attempt() {
        let failing = report(LastOperationState::Error, Some("quota"), AT);
        assert!(
            matches!(readiness(&failing, Some(REQUESTED_AT)), Readiness::Failing { text, codes, .. }
            if text.contains("quota") && codes == [ErrorCode::InfraQuotaExceeded])
        );
        let working_again = report(LastOperationState::Processing, Some("quota"), AT);
        assert!(why(&working_again).contains("state Processing"));
        let old = Reported {
            observed_generation: 2,
            ..failing
        };
        assert!(why(&old).ends_with("an error of generation 2, not of 3"));
    }
    #[test]
    fn an_error_without_words_is_an_error_with_those_of_the_operation() {
        let mut silent = report(LastOperationState::Failed, None, AT);
        silent.last_operation.as_mut().unwrap().description = "no address".into();
        let text = "extension \"moon\" is in state Failed and did not record a last error: no address".to_owned();
        assert_eq!(
            readiness(&silent, Some(REQUESTED_AT)),
            Readiness::Failing {
                text,
                hint: String::new(),
                codes: Vec::new()
            }
        );
    }

    #[test]
    fn the_hint_of_an_extension_comes_from_its_condition_never_its_text() {
        let words = "no cores (to do: ask for more)";
        let mut failing = report(LastOperationState::Error, Some(words), AT);
        let printed = |reported: &Reported| match readiness(reported, Some(REQUESTED_AT)) {
            Readiness::Failing { text, hint, .. } => (text, hint),
            other => panic!("{other:?}"),
        };
        let whole = (format!("extension \"moon\" reports: {words}"), String::new());
        assert_eq!(printed(&failing), whole, "a foreign extension's words are its own");
        failing.hint = "ask for more".into();
        let apart = ("extension \"moon\" reports: no cores".into(), "ask for more".into());
        assert_eq!(printed(&failing), apart);
        failing.hint = "ask for less".into();
        assert_eq!(printed(&failing), whole, "a condition about another error");
    }

    #[test]
    fn a_report_of_another_operation_is_no_answer() {
        for (state, ended) in [
            (LastOperationState::Succeeded, "success"),
            (LastOperationState::Error, "an error"),
        ] {
            for type_ in [LastOperationType::Delete, LastOperationType::Migrate] {
                let mut other = report(state.clone(), Some("quota"), AT);
                other.last_operation.as_mut().unwrap().type_ = type_.clone();
                let wanted = format!("{ended} of operation {type_}, not of what was requested");
                assert!(why(&other).ends_with(&wanted), "{}", why(&other));
            }
        }
    }

    #[test]
    fn a_deletion_fails_only_by_an_error_of_its_own_that_stands() {
        let of = |type_: LastOperationType, state, error| {
            let mut reported = report(state, error, AT);
            reported.last_operation.as_mut().unwrap().type_ = type_;
            match deletion(&reported) {
                Deletion::NotYet { text, .. } => text,
                Deletion::Failing { text, codes, .. } => format!("{text} {codes:?}"),
            }
        };
        let (delete, error) = (LastOperationType::Delete, LastOperationState::Error);
        assert_eq!(
            of(delete.clone(), error.clone(), Some("in use")),
            "extension \"moon\" failed to delete it: in use [InfraQuotaExceeded]"
        );
        assert_eq!(
            of(LastOperationType::Reconcile, error, Some("in use")),
            "extension \"moon\" has not deleted it yet"
        );
        assert_eq!(
            of(delete.clone(), LastOperationState::Processing, Some("in use")),
            "extension \"moon\" is deleting it once more, after: in use"
        );
        assert_eq!(
            of(delete, LastOperationState::Succeeded, None),
            "extension \"moon\" reports success of its deletion and still holds it by a finalizer"
        );
    }
}
