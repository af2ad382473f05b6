//! Values of a Shoot that are of the right form and make no sense all the same: versions of pools, times, words, addresses
//! (gardener/gardener v1.150 pkg/api/core/validation/shoot.go). On an update only what is newly wrong counts.

use api_core::v1beta1::{CoreDNSAutoscalingMode, Shoot, ShootSpec, Worker};
use api_meta::GoDuration;

use crate::checks::{is_dns_name, known};
use crate::{FieldError, Path, versions};

/// How many minor versions nodes may be older than their control plane (Kubernetes' version skew policy).
const MINORS_BEHIND_MAX: u64 = 3;

/// Everything of this that is wrong with a shoot.
pub(crate) fn validate_ranges(shoot: &Shoot) -> Vec<FieldError> {
    let (mut errors, path, spec) = (Vec::new(), Path::new("spec"), &shoot.spec);
    for (index, pool) in spec.provider.workers.iter().enumerate() {
        let path = path.child("provider.workers").index(index);
        errors.extend(pool_version(&path.child("kubernetes.version"), pool, spec));
        pool_times(&mut errors, &path.child("machineControllerManagerSettings"), pool);
        if let Some(priority) = pool.priority.filter(|priority| *priority < 0) {
            let words = "must not be negative; take 0 or more, higher is preferred";
            errors.push(path.child("priority").invalid(priority, words));
        }
    }
    let system = spec.system_components.as_ref();
    let scaling = system.and_then(|system| system.core_dns.as_ref()?.autoscaling.as_ref());
    if let Some(mode) = scaling.map(|scaling| &scaling.mode) {
        let path = path.child("systemComponents.coreDNS.autoscaling.mode");
        known(
            &mut errors,
            &path,
            mode.is_known(),
            mode.as_str(),
            CoreDNSAutoscalingMode::KNOWN,
        );
    }
    let alerting = spec
        .monitoring
        .as_ref()
        .and_then(|monitoring| monitoring.alerting.as_ref());
    let receivers = alerting.map_or(&[][..], |alerting| &alerting.email_receivers);
    for (index, receiver) in receivers
        .iter()
        .enumerate()
        .filter(|(_, receiver)| !is_mailbox(receiver))
    {
        let path = path.child("monitoring.alerting.emailReceivers").index(index);
        errors.push(path.invalid(receiver, "must be an e-mail address such as \"someone@example.com\""));
    }
    errors
}

/// Kubelets are never newer than their API server, and not much older.
fn pool_version(path: &Path, pool: &Worker, spec: &ShootSpec) -> Option<FieldError> {
    let text = pool.kubernetes.as_ref()?.version.as_deref()?;
    let above = spec.kubernetes.version.as_deref()?;
    if !(versions::is_full(text) && versions::is_full(above)) {
        return None;
    }
    let (pool, cluster) = (versions::parse(text)?, versions::parse(above)?);
    let oldest = cluster.minor.saturating_sub(MINORS_BEHIND_MAX);
    if pool > cluster {
        Some(path.forbidden(format!(
            "{pool} is newer than the control plane, which has {cluster}; take {cluster}, or upgrade spec.kubernetes.version first"
        )))
    } else if pool.major != cluster.major || pool.minor < oldest {
        Some(path.forbidden(format!(
            "{pool} is more than {MINORS_BEHIND_MAX} minor versions behind the control plane, which has {cluster}; take \
             {}.{oldest} or newer",
            cluster.major
        )))
    } else {
        None
    }
}

fn pool_times(errors: &mut Vec<FieldError>, path: &Path, pool: &Worker) {
    let Some(settings) = &pool.machine_controller_manager else {
        return;
    };
    let times = [
        ("machineDrainTimeout", settings.machine_drain_timeout),
        ("machineHealthTimeout", settings.machine_health_timeout),
        ("machineCreationTimeout", settings.machine_creation_timeout),
        ("inPlaceUpdateTimeout", settings.in_place_update_timeout),
        ("machinePreserveTimeout", settings.machine_preserve_timeout),
    ];
    for (field, time) in times {
        if let Some(time) = time.filter(is_negative) {
            let words = "must not be negative; take a time such as \"10m\"";
            errors.push(path.child(field).invalid(time, words));
        }
    }
    if let Some(retries) = settings.max_evict_retries.filter(|retries| *retries < 0) {
        errors.push(
            path.child("maxEvictRetries")
                .invalid(retries, "must not be negative; take 0 or more"),
        );
    }
}

fn is_negative(time: &GoDuration) -> bool {
    *time < GoDuration::default()
}

/// One part before the `@` and a host name behind it: a typing mistake is found, not every address that does not exist.
fn is_mailbox(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '@' | '<' | '>' | '"' | ',' | ';');
    text.split_once('@')
        .is_some_and(|(local, host)| !local.is_empty() && local.chars().all(plain) && is_dns_name(&host.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::shoot::tests::shoot;
    use crate::shoot_update::validate_shoot_update;

    /// The shoot of the other tests, which has 1.35.1, with this merged into its first pool.
    fn with_pool(fields: Value) -> Shoot {
        let mut all = serde_json::to_value(shoot()).unwrap();
        let pool = all["spec"]["provider"]["workers"][0].as_object_mut().unwrap();
        pool.extend(fields.as_object().unwrap().clone());
        serde_json::from_value(all).unwrap()
    }

    fn messages(shoot: &Shoot) -> Vec<String> {
        validate_ranges(shoot).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_pool_is_not_newer_than_its_control_plane_and_not_much_older() {
        let of = |version: &str| messages(&with_pool(json!({"kubernetes": {"version": version}})));
        for good in ["1.35.1", "1.34.7", "1.32.0", "1.36"] {
            assert!(of(good).is_empty(), "{good}");
        }
        for (bad, message) in [
            (
                "1.36.0",
                "1.36.0 is newer than the control plane, which has 1.35.1; take 1.35.1, or upgrade",
            ),
            ("1.35.2", "1.35.2 is newer than"),
            (
                "1.31.9",
                "more than 3 minor versions behind the control plane, which has 1.35.1; take 1.32 or newer",
            ),
        ] {
            let messages = of(bad).concat();
            assert!(
                messages.starts_with("spec.provider.workers[0].kubernetes.version: Forbidden: "),
                "{messages}"
            );
            assert!(messages.contains(message), "{messages}");
        }
    }

    #[test]
    fn times_numbers_words_and_addresses_that_make_no_sense_are_named() {
        let messages = messages(&with_pool(json!({"priority": -5,
            "machineControllerManager": {"machineDrainTimeout": "-5m", "machineHealthTimeout": "5m", "maxEvictRetries": -1}})));
        assert_eq!(
            messages,
            [
                "spec.provider.workers[0].machineControllerManagerSettings.machineDrainTimeout: Invalid value: \"-5m0s\": must not be \
                 negative; take a time such as \"10m\"",
                "spec.provider.workers[0].machineControllerManagerSettings.maxEvictRetries: Invalid value: -1: must not be negative; \
                 take 0 or more",
                "spec.provider.workers[0].priority: Invalid value: -5: must not be negative; take 0 or more, higher is \
                 preferred",
            ]
        );
        let mut odd = shoot();
        let receivers = ["a.b+c@example.com", "nonsense", "a@b@c", "A <a@b.c>", "@b.c"];
        odd.spec.monitoring = serde_json::from_value(json!({"alerting": {"emailReceivers": receivers}})).unwrap();
        odd.spec.system_components =
            serde_json::from_value(json!({"coreDNS": {"autoscaling": {"mode": "nope"}}})).unwrap();
        let paths: Vec<String> = validate_ranges(&odd).into_iter().map(|error| error.path).collect();
        let receivers = [1, 2, 3, 4].map(|index| format!("spec.monitoring.alerting.emailReceivers[{index}]"));
        assert_eq!(paths[0], "spec.systemComponents.coreDNS.autoscaling.mode");
        assert_eq!(paths[1..], receivers);
    }

    #[test]
    fn a_shoot_that_was_stored_with_such_a_value_can_be_changed() {
        let old = with_pool(json!({"kubernetes": {"version": "1.36.0"}}));
        let mut new = old.clone();
        new.metadata.finalizers = Some(vec!["gardener".to_owned()]);
        assert_eq!(validate_shoot_update(&new, &old), []);
        new.spec.provider.workers[0].priority = Some(-5);
        assert_eq!(validate_shoot_update(&new, &old).len(), 1);
        assert_eq!(crate::validate_shoot(&old).len(), 1);
    }
}
