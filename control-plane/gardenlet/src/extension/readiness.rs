//! When an extension has done what it was asked: a plain function over what it reported. Rules of
//! gardener/gardener v1.150 `pkg/utils/kubernetes/health/extensions.go`, with one difference on purpose: an error left
//! over from an earlier attempt does not count while the extension works on the present one.

use api_meta::{ErrorCode, LastError, LastOperation, LastOperationState};
use jiff::Timestamp;

/// What is looked at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reported {
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
}

/// What follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// Done.
    Ready,
    /// Not yet, because of this.
    NotYet(String),
    /// The extension reports an error of the present attempt.
    Failing {
        /// Its words.
        text: String,
        /// Its codes.
        codes: Vec<ErrorCode>,
    },
}

/// Judges. `asked` is the timestamp annotation of the present request: an older one means that what we look at is old.
#[must_use]
pub(crate) fn readiness(reported: &Reported, asked: Option<&str>) -> Readiness {
    let Reported {
        type_,
        generation,
        observed_generation,
        operation,
        timestamp,
        last_operation,
        last_error,
    } = reported;
    let not_yet = |text: String| Readiness::NotYet(text);
    if asked.is_some() && timestamp.as_deref() != asked {
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
    if let Some(requested) = timestamp.as_deref().and_then(|text| text.parse::<Timestamp>().ok())
        && last.last_update_time.0.as_second() < requested.as_second()
    {
        return not_yet(format!(
            "extension {type_:?} has not reconciled yet what was requested at {requested}"
        ));
    }
    let current = observed_generation == generation;
    match (&last.state, last_error) {
        (LastOperationState::Error | LastOperationState::Failed, Some(error)) if current => Readiness::Failing {
            text: format!("extension {type_:?} reports: {}", error.description),
            codes: error.codes.clone(),
        },
        (LastOperationState::Succeeded, _) if current => Readiness::Ready,
        (LastOperationState::Succeeded, _) => not_yet(format!(
            "extension {type_:?} has observed generation {observed_generation} of {generation}"
        )),
        (state, _) => not_yet(format!("extension {type_:?} is in state {state}, not yet Succeeded")),
    }
}

#[cfg(test)]
mod tests {
    use api_meta::LastOperationType;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    const ASKED: &str = "2026-01-01T00:00:10.7Z";

    fn report(state: LastOperationState, error: Option<&str>, at: &str) -> Reported {
        Reported {
            type_: "moon".into(),
            generation: 3,
            observed_generation: 3,
            operation: None,
            timestamp: Some(ASKED.into()),
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
        }
    }

    fn why(reported: &Reported) -> String {
        match readiness(reported, Some(ASKED)) {
            Readiness::NotYet(why) => why,
            other => format!("{other:?}"),
        }
    }

    /// Later than the request, within its second: extensions write whole seconds.
    const AT: &str = "2026-01-01T00:00:10Z";

    #[test]
    fn ready_needs_success_of_this_generation_and_of_this_request() {
        let good = report(LastOperationState::Succeeded, None, AT);
        assert_eq!(readiness(&good, Some(ASKED)), Readiness::Ready);
        assert!(
            why(&Reported {
                observed_generation: 2,
                ..good.clone()
            })
            .contains("generation 2 of 3")
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
            matches!(readiness(&failing, Some(ASKED)), Readiness::Failing { text, codes }
            if text.contains("quota") && codes == [ErrorCode::InfraQuotaExceeded])
        );
        let working_again = report(LastOperationState::Processing, Some("quota"), AT);
        assert!(why(&working_again).contains("state Processing"));
        let old = Reported {
            observed_generation: 2,
            ..failing
        };
        assert!(why(&old).contains("state Error"));
    }
}
