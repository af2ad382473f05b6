//! Whether an extension is installed on a seed and can be used there.

use std::fmt;

use api_core::v1beta1 as core;
use api_meta::{Condition, ConditionStatus, conditions};
use api_rules::KindType;

/// What keeps a kind and type from being served on a seed. Prints as a few words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotServed {
    /// No registration has it as primary.
    NotRegistered,
    /// Its registration has no installation on the seed.
    NotInstalled,
    /// Its installation does not report a condition that it needs. With the condition's message, which may be empty.
    Unfinished(Stage, String),
}

/// How far an installation has not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It is not valid.
    Valid,
    /// It is not installed.
    Installed,
    /// It is not healthy.
    Healthy,
}

impl fmt::Display for NotServed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (stage, message) = match self {
            Self::NotRegistered => return f.write_str("not registered"),
            Self::NotInstalled => return f.write_str("not installed on the seed"),
            Self::Unfinished(stage, message) => (stage, message),
        };
        f.write_str(match stage {
            Stage::Valid => "installation not valid yet",
            Stage::Installed => "installation not finished",
            Stage::Healthy => "installation not healthy",
        })?;
        match message.as_str() {
            "" => Ok(()),
            message => write!(f, ": {message}"),
        }
    }
}

/// What keeps a kind and type from being served on a seed; none if nothing does.
#[must_use]
pub fn not_served(
    wanted: &KindType,
    registrations: &[core::ControllerRegistration],
    installations: &[&core::ControllerInstallation],
    seed: &str,
) -> Option<NotServed> {
    let serves = |resource: &core::ControllerResource| wanted.matches(resource) && resource.primary != Some(false);
    let Some(registration) = registrations.iter().find(|one| one.spec.resources.iter().any(serves)) else {
        return Some(NotServed::NotRegistered);
    };
    let installation = installations.iter().find(|one| {
        one.spec.registration_ref.name == registration.metadata.name
            && one.spec.seed_ref.as_ref().and_then(|seed| seed.name.as_deref()) == Some(seed)
            && one.metadata.deletion_timestamp.is_none()
    });
    let Some(installation) = installation else {
        return Some(NotServed::NotInstalled);
    };
    let known = installation
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    let is =
        |type_: &str, status: &ConditionStatus| known.iter().any(|one| one.type_ == type_ && one.status == *status);
    let unfinished = |stage, type_: &str| {
        let message = Condition::find(known, type_).map(|condition| condition.message.clone());
        Some(NotServed::Unfinished(stage, message.unwrap_or_default()))
    };
    if !is(conditions::installation::VALID, &ConditionStatus::True) {
        return unfinished(Stage::Valid, conditions::installation::VALID);
    }
    if !is(conditions::installation::INSTALLED, &ConditionStatus::True) {
        return unfinished(Stage::Installed, conditions::installation::INSTALLED);
    }
    // An operator of its own need report only the two above; what it does report must not be bad.
    if is(conditions::installation::HEALTHY, &ConditionStatus::False) {
        return unfinished(Stage::Healthy, conditions::installation::HEALTHY);
    }
    None
}
