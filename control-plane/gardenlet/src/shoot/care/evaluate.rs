//! The conditions and constraints that follow from what was seen of a shoot. Pure.

use std::time::Duration;

use api_meta::{Condition, ConditionStatus, ErrorCode, conditions};
use components_hosted::{API_SERVER, ComponentId, HostedCluster, existing};
use jiff::Timestamp;

use super::extensions;
use super::observe::{Managed, Seen};
use super::threshold::{Course, Finding, Verdict};
use crate::config::CareSettings;
use crate::shoot::task::shoot_system;

/// How a shoot is, and how long until that may be otherwise although nothing changes.
pub(super) struct Evaluation {
    pub(super) conditions: Vec<Condition>,
    pub(super) constraints: Vec<Condition>,
    pub(super) look_after: Option<Duration>,
}

/// Pause before what could not be seen is looked at again: a restarted API server is back by then, and a shoot that
/// stays out of reach needs few requests.
pub(super) const UNSEEN_PAUSE: Duration = Duration::from_secs(30);

/// The conditions of a cluster that is to run.
pub(super) fn evaluate(seen: &Seen, course: &Course<'_>, settings: &CareSettings) -> Evaluation {
    use conditions::shoot as type_;
    let found = [
        (type_::API_SERVER_AVAILABLE, Some(api_server(seen))),
        (type_::CONTROL_PLANE_HEALTHY, Some(control_plane(seen))),
        (type_::OBSERVABILITY_COMPONENTS_HEALTHY, observability(seen)),
        (type_::SYSTEM_COMPONENTS_HEALTHY, Some(system_components(seen))),
        (type_::EVERY_NODE_READY, nodes(seen)),
    ];
    let condition = |(type_, own): (&'static str, Option<Finding>)| {
        let reported = extensions::trouble(&seen.reports, type_, settings.stale_after, course.now);
        Some(course.condition(type_, worse(own?, reported), settings.threshold(type_)))
    };
    let webhooks = constraint(seen);
    let constraint = |type_| course.condition(type_, webhooks.clone(), None);
    let mut evaluated = Evaluation {
        conditions: found.into_iter().filter_map(condition).collect(),
        constraints: CONSTRAINTS.map(constraint).into(),
        look_after: None,
    };
    let all = || evaluated.conditions.iter().chain(&evaluated.constraints);
    let unseen = all()
        .any(|one| one.status == ConditionStatus::Unknown)
        .then_some(UNSEEN_PAUSE);
    let ripe = all().filter_map(|one| course.ripe_after(one, settings.threshold(&one.type_)));
    // Nothing calls when a heartbeat ends.
    let silent = settings.stale_after.filter(|_| !seen.reports.is_empty());
    evaluated.look_after = ripe.chain(unseen).chain(silent).min();
    evaluated
}

/// The conditions of a cluster that is hibernated, hibernating or waking up: nothing of it is checked, and all are True
/// (gardener/gardener v1.150 pkg/gardenlet/controller/shoot/care/health.go `shootHibernatedConditions`).
pub(super) fn hibernated(workerless: bool, now: Timestamp) -> Evaluation {
    let every_node = (!workerless).then_some(conditions::shoot::EVERY_NODE_READY);
    let types = [
        conditions::shoot::API_SERVER_AVAILABLE,
        conditions::shoot::CONTROL_PLANE_HEALTHY,
        conditions::shoot::SYSTEM_COMPONENTS_HEALTHY,
    ];
    let not_checked = |type_| {
        let message = "Shoot cluster has been hibernated.";
        Condition::new(type_, ConditionStatus::True, "ConditionNotChecked", message, now)
    };
    let constraint = |type_| {
        let message = "Shoot cluster has been hibernated.";
        Condition::new(type_, ConditionStatus::True, "ConstraintNotChecked", message, now)
    };
    Evaluation {
        conditions: types.into_iter().chain(every_node).map(not_checked).collect(),
        constraints: CONSTRAINTS.map(constraint).into(),
        look_after: None,
    }
}

/// The constraints that are evaluated here, both by the webhooks in the shoot.
const CONSTRAINTS: [&str; 2] = [
    conditions::shoot::HIBERNATION_POSSIBLE,
    conditions::shoot::MAINTENANCE_PRECONDITIONS_SATISFIED,
];

/// Whether its users' webhooks let it wake up again.
fn constraint(seen: &Seen) -> Finding {
    if !matches!(seen.workloads.get(API_SERVER), Some(None)) {
        let message = "Shoot control plane is not running at the moment.";
        return Finding::new(Verdict::Failing, "ConstraintNotChecked", message);
    }
    match &seen.inside.webhooks {
        Err(why) => Finding::new(Verdict::Unseen, conditions::reason::CHECK_ERROR, why),
        Ok(None) => {
            let message = "All webhooks are properly configured.";
            Finding::new(Verdict::Healthy, "NoProblematicWebhooks", message)
        }
        Ok(Some((reason, why))) => {
            let mut finding = Finding::new(Verdict::Failing, reason, why);
            finding.codes = vec![ErrorCode::ProblematicWebhook];
            finding
        }
    }
}

/// What was seen and what is reported, as one finding: both messages if both fail.
fn worse(own: Finding, reported: Option<Finding>) -> Finding {
    let Some(reported) = reported else { return own };
    let rank = |finding: &Finding| match finding.verdict {
        Verdict::Healthy => 0,
        Verdict::Progressing => 1,
        Verdict::Unseen => 2,
        Verdict::Failing => 3,
    };
    match (own.verdict, reported.verdict) {
        (Verdict::Failing, Verdict::Failing) => Finding {
            message: format!("{}; {}", own.message, reported.message),
            codes: reported.codes,
            ..own
        },
        _ if rank(&own) >= rank(&reported) => own,
        _ => reported,
    }
}

fn api_server(seen: &Seen) -> Finding {
    match seen.workloads.get(API_SERVER) {
        Some(None) => Finding::new(Verdict::Healthy, "DeploymentAvailable", "The API server is available."),
        Some(Some(why)) => Finding::new(Verdict::Failing, "DeploymentUnavailable", why),
        None => Finding::new(Verdict::Failing, "DeploymentMissing", "There is no API server."),
    }
}

fn control_plane(seen: &Seen) -> Finding {
    of_trouble(
        &control_plane_trouble(seen),
        ["ControlPlaneRunning", "All control plane components are healthy."],
        "ControlPlaneUnhealthy",
    )
}

/// Only what extensions report: there is no monitoring of our own.
fn observability(seen: &Seen) -> Option<Finding> {
    let type_ = conditions::shoot::OBSERVABILITY_COMPONENTS_HEALTHY;
    let reported = seen.reports.iter().any(|report| report.condition.type_ == type_);
    let healthy = "All observability components are healthy.";
    reported.then(|| Finding::new(Verdict::Healthy, "ObservabilityComponentsRunning", healthy))
}

fn system_components(seen: &Seen) -> Finding {
    // A shoot whose pools may be empty has nodes only when there is something to run; the agent of the tunnel waits for one.
    let without_nodes = seen.nodes_min == 0 && matches!(&seen.inside.nodes, Some(Ok(nodes)) if nodes.is_empty());
    let agent = shoot_system::name(control_plane_shoot_flow::Managed::VpnShoot);
    let counted = seen
        .resources
        .iter()
        .filter(|one| !(without_nodes && one.name == agent));
    let troubles: Vec<String> = trouble_of(counted, false).collect();
    of_trouble(
        &troubles,
        ["SystemComponentsRunning", "All system components are healthy."],
        "SystemComponentsUnhealthy",
    )
}

fn of_trouble(trouble: &[String], [reason, message]: [&str; 2], unhealthy: &str) -> Finding {
    match trouble {
        [] => Finding::new(Verdict::Healthy, reason, message),
        trouble => Finding::new(Verdict::Failing, unhealthy, &trouble.join("; ")),
    }
}

fn nodes(seen: &Seen) -> Option<Finding> {
    let nodes = match seen.inside.nodes.as_ref()? {
        Ok(nodes) => nodes,
        Err(why) => return Some(Finding::new(Verdict::Unseen, conditions::reason::CHECK_ERROR, why)),
    };
    let unready = nodes.iter().filter(|(_, ready)| !ready);
    let unready: Vec<&str> = unready.map(|(name, _)| name.as_str()).collect();
    if !unready.is_empty() {
        let message = format!("Nodes not ready: {}.", unready.join(", "));
        return Some(Finding::new(Verdict::Failing, "NodeUnhealthy", &message));
    }
    if (nodes.len() as i64) < i64::from(seen.nodes_min) {
        let message = format!("{} nodes of at least {}.", nodes.len(), seen.nodes_min);
        return Some(Finding::new(Verdict::Failing, "MissingNodes", &message));
    }
    Some(Finding::new(Verdict::Healthy, "EveryNodeReady", "All nodes are ready."))
}

fn control_plane_trouble(seen: &Seen) -> Vec<String> {
    let cluster = HostedCluster {
        workerless: seen.workerless,
        node_access: seen.node_access,
        ..HostedCluster::default()
    };
    let counts = |component: &&'static dyn components_hosted::Component| {
        let type_ = conditions::shoot::CONTROL_PLANE_HEALTHY;
        component.conditions().contains(&type_)
    };
    let of_components = existing(&cluster)
        .map(ComponentId::component)
        .filter(counts)
        .filter_map(|component| {
            let (kind, name) = (component.workload().kind().name(), component.name());
            match seen.workloads.get(name) {
                Some(None) => None,
                Some(Some(why)) => Some(format!("{kind} {name}: {why}")),
                None => Some(format!("{kind} {name} is missing")),
            }
        });
    of_components.chain(trouble_of(&seen.resources, true)).collect()
}

/// Trouble of those that count for the control plane, or of the others.
fn trouble_of<'a>(
    resources: impl IntoIterator<Item = &'a Managed>,
    is_control_plane: bool,
) -> impl Iterator<Item = String> {
    let of = resources
        .into_iter()
        .filter(move |one| one.is_control_plane == is_control_plane);
    of.filter_map(|one| Some(format!("ManagedResource {}: {}", one.name, one.trouble.as_ref()?)))
}

#[cfg(test)]
mod tests {
    use api_extensions::ExtensionKind;
    use api_meta::LastOperation;
    use api_meta::LastOperationState;
    use components_hosted::NodeAccess;

    use super::super::extensions::{Heartbeat, Report};
    use super::super::observe::Inside;
    use super::*;

    fn healthy() -> Seen {
        Seen {
            nodes_min: 1,
            workloads: ComponentId::ALL
                .iter()
                .map(|id| (id.component().name().to_owned(), None))
                .collect(),
            workerless: false,
            node_access: NodeAccess::Tunnel,
            reports: Vec::new(),
            resources: Vec::new(),
            inside: Inside {
                nodes: Some(Ok(vec![("n".into(), true)])),
                webhooks: Ok(None),
            },
        }
    }

    /// Long after a reconciliation that succeeded, with nothing known before.
    fn evaluated(seen: &Seen) -> Evaluation {
        let last = LastOperation {
            state: LastOperationState::Succeeded,
            ..LastOperation::default()
        };
        let course = Course {
            known: &[],
            last_operation: Some(&last),
            last_errors: &[],
            now: Timestamp::from_second(1_000_000).unwrap(),
        };
        evaluate(seen, &course, &CareSettings::default())
    }

    fn statuses(seen: &Seen) -> Vec<String> {
        let all = evaluated(seen).conditions;
        all.iter().map(|one| format!("{}={}", one.type_, one.status)).collect()
    }

    #[test]
    fn a_healthy_shoot_has_four_true_conditions_and_a_workerless_one_three() {
        assert_eq!(
            statuses(&healthy()),
            [
                "APIServerAvailable=True",
                "ControlPlaneHealthy=True",
                "SystemComponentsHealthy=True",
                "EveryNodeReady=True"
            ]
        );
        let mut workerless = healthy();
        (workerless.workerless, workerless.inside.nodes) = (true, None);
        workerless.workloads.remove("kube-scheduler");
        assert_eq!(statuses(&workerless).len(), 3);
        assert!(statuses(&workerless).iter().all(|one| one.ends_with("True")));
    }

    #[test]
    fn a_hibernated_shoot_has_the_conditions_of_an_awake_one_unchecked() {
        let types = |all: &[Condition]| all.iter().map(|one| one.type_.clone()).collect::<Vec<_>>();
        let asleep = hibernated(false, Timestamp::UNIX_EPOCH).conditions;
        assert!(
            asleep
                .iter()
                .all(|one| one.reason == "ConditionNotChecked" && one.status == ConditionStatus::True)
        );
        assert_eq!(types(&asleep), types(&evaluated(&healthy()).conditions));
        assert_eq!(hibernated(true, Timestamp::UNIX_EPOCH).conditions.len(), 3);
    }

    #[test]
    fn trouble_is_reported_in_the_condition_it_belongs_to() {
        let mut seen = healthy();
        seen.workloads
            .insert(API_SERVER.into(), Some("0 of 1 pods are available".into()));
        let managed = |name: &str, is_control_plane| Managed {
            name: name.into(),
            is_control_plane,
            trouble: Some("ApplyFailed: x".into()),
        };
        seen.resources = vec![managed("system", false), managed("controllers", true)];
        seen.inside.nodes = Some(Ok(vec![("n".into(), false), ("m".into(), true)]));
        let all = evaluated(&seen).conditions;
        assert_eq!(
            all.iter().map(|one| one.message.as_str()).collect::<Vec<_>>(),
            [
                "0 of 1 pods are available",
                "Deployment kube-apiserver: 0 of 1 pods are available; ManagedResource controllers: ApplyFailed: x",
                "ManagedResource system: ApplyFailed: x",
                "Nodes not ready: n.",
            ]
        );
        seen.inside.nodes = Some(Err("connection refused".into()));
        assert!(
            statuses(&seen).contains(&"EveryNodeReady=Unknown".to_owned()),
            "unseen is not unready"
        );
        assert_eq!(
            evaluated(&seen).look_after,
            Some(UNSEEN_PAUSE),
            "nothing else would call"
        );
        seen.inside.nodes = Some(Ok(Vec::new()));
        assert_eq!(evaluated(&seen).look_after, None);
        assert!(statuses(&seen).contains(&"EveryNodeReady=False".to_owned()));
    }

    #[test]
    fn constraints_follow_the_webhooks_of_a_shoot_whose_api_server_runs() {
        let constraints = |seen: &Seen| {
            let all = evaluated(seen).constraints;
            let [one, other] = all.as_slice() else {
                panic!("{all:?}")
            };
            assert_eq!((&one.status, &one.reason), (&other.status, &other.reason));
            (
                one.type_.clone(),
                one.status.clone(),
                one.reason.clone(),
                one.codes.clone(),
            )
        };
        let of = |status, reason: &str, codes: &[ErrorCode]| {
            let type_ = "HibernationPossible".to_owned();
            (type_, status, reason.to_owned(), codes.to_vec())
        };
        let mut seen = healthy();
        assert_eq!(
            constraints(&seen),
            of(ConditionStatus::True, "NoProblematicWebhooks", &[])
        );
        seen.inside.webhooks = Ok(Some(("ProblematicWebhooks", "w".to_owned())));
        let code = [ErrorCode::ProblematicWebhook];
        assert_eq!(
            constraints(&seen),
            of(ConditionStatus::False, "ProblematicWebhooks", &code)
        );
        seen.inside.webhooks = Err("connection refused".to_owned());
        assert_eq!(
            constraints(&seen),
            of(ConditionStatus::Unknown, "ConditionCheckError", &[])
        );
        assert_eq!(evaluated(&seen).look_after, Some(UNSEEN_PAUSE));
        seen.workloads.remove(API_SERVER);
        assert_eq!(
            constraints(&seen),
            of(ConditionStatus::False, "ConstraintNotChecked", &[])
        );
    }

    #[test]
    fn a_report_of_an_extension_counts_beside_what_is_seen() {
        let report = |type_: &str, status| Report {
            kind: ExtensionKind::Network,
            place: "a/b".into(),
            condition: Condition::new(type_, status, "R", "no route", Timestamp::UNIX_EPOCH),
            heartbeat: Heartbeat::Elsewhere,
        };
        let mut seen = healthy();
        seen.reports = vec![
            report("SystemComponentsHealthy", ConditionStatus::False),
            report("ObservabilityComponentsHealthy", ConditionStatus::True),
        ];
        let all = evaluated(&seen);
        assert_eq!(
            all.conditions
                .iter()
                .map(|one| one.status.to_string())
                .collect::<Vec<_>>(),
            ["True", "True", "True", "False", "True"]
        );
        let system = &all.conditions[3];
        let text = "Network extension (a/b) reports failing health check: no route";
        assert_eq!(
            (system.reason.as_str(), system.message.as_str()),
            ("NetworkUnhealthyReport", text)
        );
        assert_eq!(
            all.look_after,
            CareSettings::default().stale_after,
            "a heartbeat may end"
        );
        seen.resources = vec![Managed {
            name: "system".into(),
            is_control_plane: false,
            trouble: Some("x".into()),
        }];
        let system = evaluated(&seen).conditions.remove(3);
        assert_eq!(system.message, format!("ManagedResource system: x; {text}"));
    }
}
