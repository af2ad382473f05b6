//! What extensions report of a shoot: the conditions on its extension objects, of every kind, and whether who reports them
//! is alive (gardener/gardener v1.150 pkg/gardenlet/controller/shoot/care/health.go `retrieveExtensions`,
//! pkg/utils/kubernetes/health/checker/checker.go `CheckExtensionCondition`).

use std::time::Duration;

use api_extensions::ExtensionKind;
use api_meta::conditions::shoot as of_shoot;
use api_meta::names::HEARTBEAT_LEASE;
use api_meta::{Condition, ConditionStatus};
use api_rules::KindType;
use base_controller::ObjectKey;
use jiff::Timestamp;

use super::threshold::{Finding, Verdict};
use crate::context::Context;
use crate::extension_status::{Means, is_of_seed, means, namespaces, primary_of};

/// A condition that an extension reports.
#[derive(Clone, Debug)]
pub(super) struct Report {
    /// Kind of the extension object.
    pub(super) kind: ExtensionKind,
    /// "namespace/name" of the extension object.
    pub(super) place: String,
    pub(super) condition: Condition,
    pub(super) heartbeat: Heartbeat,
}

/// What is known of the heartbeat of an extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heartbeat {
    /// Renewed last at this time.
    At(Timestamp),
    /// It is installed here, and has none.
    Missing,
    /// Another operator installed it: where its heartbeat would be is not known.
    Elsewhere,
}

/// The conditions of extension objects that count for a condition of their shoot; others are their own affair.
const OF_SHOOTS: [&str; 4] = [
    of_shoot::CONTROL_PLANE_HEALTHY,
    of_shoot::OBSERVABILITY_COMPONENTS_HEALTHY,
    of_shoot::SYSTEM_COMPONENTS_HEALTHY,
    of_shoot::EVERY_NODE_READY,
];

/// What the extension objects of a shoot report.
pub(super) fn reports(context: &Context, namespace: &str) -> Vec<Report> {
    let mut found = Vec::new();
    context.seed_caches.extension_objects.each(Some(namespace), |object| {
        let conditions = object.status.map_or(&[][..], |status| status.conditions);
        let concerned = || conditions.iter().filter(|one| OF_SHOOTS.contains(&one.type_.as_str()));
        if concerned().next().is_none() {
            return;
        }
        let heartbeat = heartbeat(context, &KindType::new(object.kind, object.type_));
        let report = |condition: &Condition| Report {
            kind: object.kind,
            place: object.full_name(),
            condition: condition.clone(),
            heartbeat,
        };
        found.extend(concerned().map(report));
    });
    found
}

/// The heartbeat of the primary extension of a kind and type.
fn heartbeat(context: &Context, wanted: &KindType) -> Heartbeat {
    let garden = &context.garden_caches;
    let mut installations = garden.installations.list();
    installations.retain(|one| is_of_seed(one, context.config.seed_name()));
    let Some(primary) = primary_of(&garden.registrations.list(), &installations, wanted) else {
        return Heartbeat::Elsewhere;
    };
    let means = means(context, &primary);
    let namespaces = namespaces(&primary, means);
    let renewed = namespaces.iter().find_map(|namespace| {
        let key = ObjectKey::namespaced(namespace, HEARTBEAT_LEASE);
        let lease = context.seed_caches.heartbeats.get(&key)?;
        Some(lease.spec.as_ref()?.renew_time.as_ref()?.0)
    });
    let is_there = |namespace: &String| {
        let known = &context.seed_caches.extension_namespaces;
        known.get(&ObjectKey::cluster(namespace)).is_some()
    };
    match renewed {
        Some(at) => Heartbeat::At(at),
        None if means == Means::Chart && namespaces.iter().any(is_there) => Heartbeat::Missing,
        // An operator need not have its extensions renew one.
        None => Heartbeat::Elsewhere,
    }
}

/// What is wrong by these reports, in the condition `type_` of the shoot: the first that fails, else the first that is
/// outdated, else the first that progresses.
pub(super) fn trouble(
    reports: &[Report],
    type_: &str,
    stale_after: Option<Duration>,
    now: Timestamp,
) -> Option<Finding> {
    let concerned: Vec<&Report> = reports.iter().filter(|one| one.condition.type_ == type_).collect();
    let of = |evaluate: &dyn Fn(&Report) -> Option<Finding>| concerned.iter().find_map(|report| evaluate(report));
    of(&|report| failing(report, stale_after, now))
        .or_else(|| of(&|report| outdated(report, stale_after, now)))
        .or_else(|| of(&progressing))
}

/// Whether it is unknown if what it reports still holds.
fn is_outdated(report: &Report, stale_after: Option<Duration>, now: Timestamp) -> bool {
    let Some(threshold) = stale_after else { return false };
    match report.heartbeat {
        Heartbeat::At(at) => Duration::try_from(now.duration_since(at)).unwrap_or_default() > threshold,
        Heartbeat::Missing => true,
        Heartbeat::Elsewhere => false,
    }
}

fn outdated(report: &Report, stale_after: Option<Duration>, now: Timestamp) -> Option<Finding> {
    if !is_outdated(report, stale_after, now) {
        return None;
    }
    let Report { kind, place, .. } = report;
    let last = match report.heartbeat {
        Heartbeat::At(at) => format!("its last heartbeat was at {at:.0}"),
        _ => format!("it renews no Lease {HEARTBEAT_LEASE} in its namespace"),
    };
    let message = format!("{kind} extension ({place}) reports an outdated health status: {last}.");
    let reason = format!("{kind}OutdatedHealthCheckReport");
    Some(Finding::new(Verdict::Unseen, &reason, &message))
}

fn failing(report: &Report, stale_after: Option<Duration>, now: Timestamp) -> Option<Finding> {
    let bad = matches!(
        report.condition.status,
        ConditionStatus::False | ConditionStatus::Unknown
    );
    if !bad || is_outdated(report, stale_after, now) {
        return None;
    }
    let Report {
        kind, place, condition, ..
    } = report;
    let message = format!(
        "{kind} extension ({place}) reports failing health check: {}",
        condition.message
    );
    let mut finding = Finding::new(Verdict::Failing, &format!("{kind}UnhealthyReport"), &message);
    finding.codes.clone_from(&condition.codes);
    Some(finding)
}

fn progressing(report: &Report) -> Option<Finding> {
    let Report { kind, condition, .. } = report;
    if condition.status != ConditionStatus::Progressing {
        return None;
    }
    let reason = format!("{kind}{}", condition.reason);
    let mut finding = Finding::new(Verdict::Progressing, &reason, &condition.message);
    finding.codes.clone_from(&condition.codes);
    Some(finding)
}

#[cfg(test)]
mod tests {
    use api_meta::ErrorCode;

    use super::*;

    const TYPE: &str = "EveryNodeReady";
    const STALE: Option<Duration> = Some(Duration::from_secs(300));

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn report(kind: ExtensionKind, type_: &str, status: ConditionStatus, heartbeat: Heartbeat) -> Report {
        let mut condition = Condition::new(type_, status, "Busy", "m", at(0));
        condition.codes = vec![ErrorCode::InfraQuotaExceeded];
        Report {
            kind,
            place: "a/b".to_owned(),
            condition,
            heartbeat,
        }
    }

    fn found(reports: &[Report]) -> Option<(Verdict, String)> {
        trouble(reports, TYPE, STALE, at(1000)).map(|finding| (finding.verdict, finding.reason))
    }

    #[test]
    fn the_worst_report_of_a_condition_decides() {
        use ConditionStatus::{False, Progressing, True, Unknown};
        let alive = Heartbeat::At(at(900));
        let healthy = report(ExtensionKind::Worker, TYPE, True, alive);
        let other = report(ExtensionKind::Network, "SystemComponentsHealthy", False, alive);
        assert_eq!(found(&[healthy.clone(), other]), None);
        let moving = report(ExtensionKind::Infrastructure, TYPE, Progressing, alive);
        let progresses = Some((Verdict::Progressing, "InfrastructureBusy".to_owned()));
        assert_eq!(found(&[healthy, moving.clone()]), progresses);
        let stale = report(ExtensionKind::Network, TYPE, True, Heartbeat::At(at(699)));
        let unseen = Some((Verdict::Unseen, "NetworkOutdatedHealthCheckReport".to_owned()));
        assert_eq!(found(&[moving.clone(), stale.clone()]), unseen);
        let bad = report(ExtensionKind::Worker, TYPE, Unknown, alive);
        let finding = trouble(&[moving, stale, bad], TYPE, STALE, at(1000)).unwrap();
        assert_eq!(
            (finding.verdict, finding.reason.as_str()),
            (Verdict::Failing, "WorkerUnhealthyReport")
        );
        assert_eq!(
            finding.message,
            "Worker extension (a/b) reports failing health check: m"
        );
        assert_eq!(finding.codes, [ErrorCode::InfraQuotaExceeded]);
    }

    #[test]
    fn a_report_is_outdated_without_a_heartbeat_where_one_is_expected() {
        let healthy = |heartbeat| report(ExtensionKind::Worker, TYPE, ConditionStatus::True, heartbeat);
        assert_eq!(found(&[healthy(Heartbeat::At(at(700)))]), None);
        assert_eq!(found(&[healthy(Heartbeat::Elsewhere)]), None);
        let finding = trouble(&[healthy(Heartbeat::Missing)], TYPE, STALE, at(1000)).unwrap();
        assert_eq!(finding.verdict, Verdict::Unseen);
        assert!(finding.message.contains(HEARTBEAT_LEASE), "{}", finding.message);
        assert_eq!(trouble(&[healthy(Heartbeat::Missing)], TYPE, None, at(1000)), None);
    }
}
