//! When a Shoot may be force-deleted: given up although things of it may stay behind
//! (gardener/gardener v1.150 pkg/api/core/validation/shoot.go ValidateForceDeletion).

use api_core::v1beta1::Shoot;
use api_meta::ErrorCode;
use api_meta::annotations::{CONFIRMATION_FORCE_DELETION, is_true};

use crate::{FieldError, Path};

/// Error codes that need an action of the user, so that waiting alone may not help.
const CODES: [ErrorCode; 5] = [
    ErrorCode::InfraUnauthenticated,
    ErrorCode::InfraUnauthorized,
    ErrorCode::InfraDependencies,
    ErrorCode::CleanupClusterResources,
    ErrorCode::ConfigurationProblem,
];

/// What is wrong with a change of the confirmation.
pub fn validate_force_deletion(new: &Shoot, old: &Shoot) -> Option<FieldError> {
    let path = Path::new("metadata.annotations").key(CONFIRMATION_FORCE_DELETION);
    match (confirmed(new), confirmed(old)) {
        (false, true) => Some(path.forbidden("force-deletion annotation cannot be removed once set")),
        (true, false) if new.metadata.deletion_timestamp.is_none() => Some(path.forbidden(
            "force-deletion annotation cannot be set when Shoot deletionTimestamp is nil; delete the Shoot first",
        )),
        (true, false) if !may_be_given_up(old) => {
            let codes: Vec<&str> = CODES.iter().map(ErrorCode::as_str).collect();
            Some(path.forbidden(format!(
                "force-deletion annotation can only be set when the shoot's lastErrors carry one of the codes {}; wait for the deletion to go on",
                codes.join(", ")
            )))
        }
        _ => None,
    }
}

fn confirmed(shoot: &Shoot) -> bool {
    let annotations = shoot.metadata.annotations.as_ref();
    annotations
        .and_then(|all| all.get(CONFIRMATION_FORCE_DELETION))
        .is_some_and(|value| is_true(value))
}

fn may_be_given_up(shoot: &Shoot) -> bool {
    let errors = shoot.status.iter().flat_map(|status| &status.last_errors);
    errors.flat_map(|error| &error.codes).any(|code| CODES.contains(code))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn force_deletion_needs_a_deletion_and_an_external_error() {
        let shoot = |confirmed: bool, leaving: bool, code: &str| -> Shoot {
            let annotations = if confirmed {
                json!({CONFIRMATION_FORCE_DELETION: "true"})
            } else {
                json!({})
            };
            let at = leaving.then_some("2026-01-01T00:00:00Z");
            serde_json::from_value(
                json!({"metadata": {"annotations": annotations, "deletionTimestamp": at}, "spec": {},
                "status": {"lastErrors": [{"description": "d", "codes": [code]}]}}),
            )
            .unwrap()
        };
        let change = |leaving, code| validate_force_deletion(&shoot(true, leaving, code), &shoot(false, leaving, code));
        assert_eq!(change(true, "ERR_INFRA_UNAUTHORIZED"), None);
        assert!(change(false, "ERR_INFRA_UNAUTHORIZED").is_some());
        assert!(change(true, "ERR_INFRA_RATE_LIMITS_EXCEEDED").is_some());
        let (set, unset) = (shoot(true, true, "x"), shoot(false, true, "x"));
        assert_eq!(validate_force_deletion(&set, &set), None);
        assert!(validate_force_deletion(&unset, &set).is_some());
    }
}
