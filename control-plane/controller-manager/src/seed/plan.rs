//! What the garden returns about a seed. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api_core::v1beta1::{ControllerInstallation, ControllerRegistration, Seed};
use api_meta::conditions::installation::{HEALTHY, INSTALLED, PROGRESSING, VALID};
use api_meta::conditions::seed::{EXTENSIONS_READY, GARDENLET_READY};
use api_meta::names::DEPLOYMENT_TYPE_HELM;
use api_meta::{Condition, ConditionStatus};
use api_rules::{is_responsible, required_types_for_seed};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;

/// A gardenlet that has not renewed its lease for so long is taken to be gone (Gardener's default).
pub(crate) const LEASE_STALE_AFTER: Duration = Duration::from_secs(40);

/// What is known about one seed.
pub(crate) struct Seen {
    pub(crate) seed: Arc<Seed>,
    /// Those of this seed.
    pub(crate) installations: Vec<Arc<ControllerInstallation>>,
    pub(crate) registrations: Vec<ControllerRegistration>,
    /// Type by name of ControllerDeployment.
    pub(crate) deployment_types: BTreeMap<String, String>,
    pub(crate) lease: Option<Arc<Lease>>,
    pub(crate) has_namespace: bool,
}

/// What to write, and when to look again though nothing changes.
#[derive(Debug, PartialEq)]
pub(crate) struct Plan {
    pub(crate) conditions: Vec<Condition>,
    pub(crate) look_again_after: Option<Duration>,
}

pub(crate) fn plan(seen: &Seen, now: Timestamp) -> Plan {
    let (stale, look_again_after) = gardenlet(seen, now);
    Plan {
        conditions: stale.into_iter().chain([extensions(seen, now)]).collect(),
        look_again_after,
    }
}

/// The condition of a gardenlet that is gone, and when to look again for one that is not.
///
/// A seed whose gardenlet has never reported is left alone.
fn gardenlet(seen: &Seen, now: Timestamp) -> (Option<Condition>, Option<Duration>) {
    let known = seen.seed.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let Some(reported) = Condition::find(known, GARDENLET_READY) else {
        return (None, None);
    };
    let renewed = seen
        .lease
        .as_ref()
        .and_then(|lease| lease.spec.as_ref()?.renew_time.as_ref());
    let renewed = renewed.map_or(reported.last_update_time.0, |renewed| renewed.0);
    let age = Duration::try_from(now.duration_since(renewed)).unwrap_or_default();
    if age < LEASE_STALE_AFTER {
        return (None, Some(LEASE_STALE_AFTER - age));
    }
    let message = "Gardenlet stopped posting seed status.";
    (
        Some(Condition::new(
            GARDENLET_READY,
            ConditionStatus::Unknown,
            "SeedStatusUnknown",
            message,
            now,
        )),
        None,
    )
}

/// Whether everything the seed itself needs is installed, and everything installed works.
fn extensions(seen: &Seen, now: Timestamp) -> Condition {
    let missing: Vec<String> = required_types_for_seed(&seen.seed, &seen.registrations)
        .into_iter()
        .filter(|types| {
            !seen.registrations.iter().any(|registration| {
                is_responsible(registration, types) && installations_of(seen, registration).next().is_some()
            })
        })
        .map(|types| format!("{types} has no installation"))
        .collect();
    let staying = seen
        .installations
        .iter()
        .filter(|installation| installation.metadata.deletion_timestamp.is_none());
    let mut bad: BTreeMap<Trouble, Vec<String>> = BTreeMap::new();
    for installation in staying {
        if let Some((trouble, why)) = trouble(installation, is_chart(seen, installation)) {
            bad.entry(trouble)
                .or_default()
                .push(format!("{}: {why}", installation.name_any()));
        }
    }
    if !missing.is_empty() {
        bad.entry(Trouble::Installed).or_default().extend(missing);
    }
    let (status, reason, message) = match bad.into_iter().next() {
        Some((trouble, names)) => (ConditionStatus::False, trouble.reason(), names.join("; ")),
        None => {
            let message = "All extensions installed into the seed cluster are ready and healthy.";
            (ConditionStatus::True, "AllExtensionsReady", message.to_owned())
        }
    };
    Condition::new(EXTENSIONS_READY, status, reason, &message, now)
}

fn installations_of<'a>(
    seen: &'a Seen,
    registration: &'a ControllerRegistration,
) -> impl Iterator<Item = &'a Arc<ControllerInstallation>> {
    seen.installations
        .iter()
        .filter(|installation| installation.spec.registration_ref.name == registration.metadata.name)
}

/// Whether gardenlet installs it from a chart; then it also reports health and progress.
fn is_chart(seen: &Seen, installation: &ControllerInstallation) -> bool {
    let deployment = installation
        .spec
        .deployment_ref
        .as_ref()
        .and_then(|deployment| deployment.name.as_ref());
    deployment
        .and_then(|name| seen.deployment_types.get(name))
        .is_some_and(|type_| type_ == DEPLOYMENT_TYPE_HELM)
}

/// What is wrong, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
    Valid,
    Installed,
    Healthy,
    Progressing,
}

impl Trouble {
    fn reason(self) -> &'static str {
        match self {
            Self::Valid => "NotAllExtensionsValid",
            Self::Installed => "NotAllExtensionsInstalled",
            Self::Healthy => "NotAllExtensionsHealthy",
            Self::Progressing => "SomeExtensionsProgressing",
        }
    }
}

/// The first thing that is wrong with an installation. Only charts must report health and progress: operators of
/// other types report Valid and Installed, as the seed documents require.
fn trouble(installation: &ControllerInstallation, chart: bool) -> Option<(Trouble, String)> {
    let conditions = installation
        .status
        .as_ref()
        .map_or(&[][..], |status| &status.conditions);
    let checks = [
        (Trouble::Valid, VALID, ConditionStatus::True, true),
        (Trouble::Installed, INSTALLED, ConditionStatus::True, true),
        (Trouble::Healthy, HEALTHY, ConditionStatus::True, chart),
        (Trouble::Progressing, PROGRESSING, ConditionStatus::False, chart),
    ];
    checks.into_iter().find_map(
        |(trouble, type_, good, demanded)| match Condition::find(conditions, type_) {
            Some(condition) if condition.status == good => None,
            Some(condition) => Some((trouble, format!("{}: {}", condition.reason, condition.message))),
            // It has no status yet: it is not installed.
            None if demanded => Some((
                trouble.max(Trouble::Installed),
                format!("condition {type_} is not reported yet"),
            )),
            None => None,
        },
    )
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::json;

    use super::*;

    fn object<T: DeserializeOwned>(value: serde_json::Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn now() -> Timestamp {
        Timestamp::from_second(1_000).unwrap()
    }

    fn seen(conditions: serde_json::Value) -> Seen {
        Seen {
            seed: Arc::new(object(
                json!({"metadata": {"name": "north"}, "spec": {"provider": {"type": "local"}}}),
            )),
            installations: vec![Arc::new(object(
                json!({"metadata": {"name": "local-abcde"}, "spec": {"registrationRef": {"name": "local"},
                "deploymentRef": {"name": "d"}}, "status": {"conditions": conditions}}),
            ))],
            registrations: vec![object(json!({"metadata": {"name": "local"}, "spec": {"resources": [
                {"kind": "ControlPlane", "type": "local"}, {"kind": "Infrastructure", "type": "local"}, {"kind": "Worker", "type": "local"}]}}))],
            deployment_types: BTreeMap::from([("d".to_owned(), "builtin".to_owned())]),
            lease: None,
            has_namespace: true,
        }
    }

    fn reason(seen: &Seen) -> String {
        extensions(seen, now()).reason
    }

    #[test]
    fn an_operators_valid_and_installed_are_enough_but_a_chart_must_be_healthy() {
        let mut seen = seen(json!([{"type": "Valid", "status": "True"}, {"type": "Installed", "status": "True"}]));
        assert_eq!(reason(&seen), "AllExtensionsReady");
        seen.deployment_types.insert("d".into(), "helm".into());
        assert_eq!(reason(&seen), "NotAllExtensionsHealthy");
    }

    #[test]
    fn the_worst_trouble_is_named() {
        let cases = [
            (json!([]), "NotAllExtensionsInstalled"),
            (
                json!([{"type": "Valid", "status": "False", "reason": "ConfigInvalid"}]),
                "NotAllExtensionsValid",
            ),
            (
                json!([{"type": "Valid", "status": "True"}, {"type": "Installed", "status": "False"}]),
                "NotAllExtensionsInstalled",
            ),
            (
                json!([{"type": "Valid", "status": "True"}, {"type": "Installed", "status": "True"}, {"type": "Progressing", "status": "True"}]),
                "SomeExtensionsProgressing",
            ),
        ];
        for (conditions, expected) in cases {
            assert_eq!(reason(&seen(conditions.clone())), expected, "{conditions}");
        }
    }

    #[test]
    fn a_seed_without_installations_is_not_ready() {
        let mut seen = seen(json!([]));
        seen.installations.clear();
        let condition = extensions(&seen, now());
        assert_eq!(condition.status, ConditionStatus::False);
        assert!(
            condition.message.contains("ControlPlane/local has no installation"),
            "{}",
            condition.message
        );
    }

    #[test]
    fn a_silent_gardenlet_is_noticed_after_forty_seconds() {
        let mut seen = seen(json!([]));
        assert_eq!(gardenlet(&seen, now()), (None, None), "it has never reported");
        seen.seed = Arc::new(object(json!({"metadata": {"name": "north"}, "status": {"conditions": [
            {"type": "GardenletReady", "status": "True", "lastUpdateTime": "1970-01-01T00:00:01Z"}]}})));
        seen.lease = Some(Arc::new(object(
            json!({"spec": {"renewTime": "1970-01-01T00:16:30.000000Z"}}),
        )));
        assert_eq!(gardenlet(&seen, now()), (None, Some(Duration::from_secs(30))));
        let later = Timestamp::from_second(1_030).unwrap();
        let (condition, again) = gardenlet(&seen, later);
        assert_eq!((condition.unwrap().status, again), (ConditionStatus::Unknown, None));
        seen.lease = None;
        assert!(gardenlet(&seen, now()).0.is_some());
    }
}
