//! Whether an extension is installed on a seed and can be used there.

use api_core::v1beta1 as core;
use api_meta::{Condition, ConditionStatus, conditions};
use api_rules::KindType;

/// What keeps a kind and type from being served on a seed; none if nothing does.
#[must_use]
pub fn not_served(
    wanted: &KindType,
    registrations: &[core::ControllerRegistration],
    installations: &[&core::ControllerInstallation],
    seed: &str,
) -> Option<String> {
    let serves = |resource: &core::ControllerResource| wanted.matches(resource) && resource.primary != Some(false);
    let Some(registration) = registrations.iter().find(|one| one.spec.resources.iter().any(serves)) else {
        return Some("not registered".to_owned());
    };
    let installation = installations.iter().find(|one| {
        one.spec.registration_ref.name == registration.metadata.name
            && one.spec.seed_ref.as_ref().and_then(|seed| seed.name.as_deref()) == Some(seed)
            && one.metadata.deletion_timestamp.is_none()
    });
    let Some(installation) = installation else {
        return Some("not installed on the seed".to_owned());
    };
    let known = installation
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    let is =
        |type_: &str, status: &ConditionStatus| known.iter().any(|one| one.type_ == type_ && one.status == *status);
    let because = |what: &str, type_: &str| match Condition::find(known, type_) {
        Some(condition) if !condition.message.is_empty() => Some(format!("{what}: {}", condition.message)),
        _ => Some(what.to_owned()),
    };
    if !is(conditions::installation::VALID, &ConditionStatus::True) {
        return because("installation not valid yet", conditions::installation::VALID);
    }
    if !is(conditions::installation::INSTALLED, &ConditionStatus::True) {
        return because("installation not finished", conditions::installation::INSTALLED);
    }
    // An operator of its own need report only the two above; what it does report must not be bad.
    if is(conditions::installation::HEALTHY, &ConditionStatus::False) {
        return because("installation not healthy", conditions::installation::HEALTHY);
    }
    None
}
