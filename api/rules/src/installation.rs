//! Rules of ControllerInstallations (gardener/gardener v1.150 pkg/api/core/validation/controllerinstallation.go).

use api_core::v1beta1::ControllerInstallation;
use api_meta::ObjectReference;

use crate::checks::frozen;
use crate::{FieldError, Path};

/// Everything that is wrong with an installation by itself.
pub fn validate_controller_installation(installation: &ControllerInstallation) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = &installation.spec;
    if spec.registration_ref.name.as_deref().unwrap_or_default().is_empty() {
        errors.push(Path::new("spec.registrationRef.name").required("field is required"));
    }
    match (&spec.seed_ref, &spec.shoot_ref) {
        (None, None) => {
            errors.push(Path::new("spec.seedRef").forbidden("either seedRef or shootRef must be set; name a seed"));
        }
        (Some(seed), _) if named(Some(seed)).is_empty() => {
            errors.push(Path::new("spec.seedRef.name").required("field is required"));
        }
        _ => {}
    }
    errors
}

fn named(reference: Option<&ObjectReference>) -> &str {
    reference
        .and_then(|reference| reference.name.as_deref())
        .unwrap_or_default()
}

/// Everything that is wrong with a change: names of references stay, their resource versions may move.
pub fn validate_controller_installation_update(
    new: &ControllerInstallation,
    old: &ControllerInstallation,
) -> Vec<FieldError> {
    let mut errors = validate_controller_installation(new);
    errors.extend(frozen("controller installation", new.spec != old.spec, &new.metadata));
    let names = |object: &ControllerInstallation| {
        let spec = &object.spec;
        [
            (
                "spec.registrationRef.name",
                named(Some(&spec.registration_ref)).to_owned(),
            ),
            ("spec.seedRef.name", named(spec.seed_ref.as_ref()).to_owned()),
            ("spec.shootRef.name", named(spec.shoot_ref.as_ref()).to_owned()),
        ]
    };
    for ((path, new), (_, old)) in names(new).iter().zip(&names(old)) {
        errors.extend(Path::new(path).immutable(new, old));
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn installation(spec: serde_json::Value) -> ControllerInstallation {
        serde_json::from_value(json!({"spec": spec})).unwrap()
    }

    #[test]
    fn references_are_required_and_only_their_versions_move() {
        let empty = validate_controller_installation(&installation(json!({})));
        assert_eq!(
            empty.iter().map(|e| e.path.as_str()).collect::<Vec<_>>(),
            ["spec.registrationRef.name", "spec.seedRef"]
        );
        let old =
            installation(json!({"registrationRef": {"name": "r", "resourceVersion": "1"}, "seedRef": {"name": "s"}}));
        let moved =
            installation(json!({"registrationRef": {"name": "r", "resourceVersion": "2"}, "seedRef": {"name": "s"}}));
        assert_eq!(validate_controller_installation_update(&moved, &old), []);
        let other = installation(json!({"registrationRef": {"name": "r"}, "seedRef": {"name": "t"}}));
        let found = validate_controller_installation_update(&other, &old);
        assert_eq!(
            found[0].to_string(),
            "spec.seedRef.name: Invalid value: \"t\": field is immutable; keep \"s\""
        );
    }
}
