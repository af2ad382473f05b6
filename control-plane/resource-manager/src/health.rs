//! Whether an object runs well, and whether it is being rolled out (gardener/gardener v1.150
//! pkg/utils/kubernetes/health). Pure.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, ReplicationController, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// A kind whose health can be evaluated.
pub(crate) trait HasHealth {
    /// Why it does not run well.
    fn unhealthy(&self) -> Option<String>;

    /// What its roll-out waits for.
    fn rolling_out(&self) -> Option<String> {
        None
    }
}

fn outdated(observed: Option<i64>, generation: Option<i64>) -> Option<String> {
    let (observed, generation) = (observed.unwrap_or(0), generation.unwrap_or(0));
    (observed < generation).then(|| format!("observed generation outdated ({observed}/{generation})"))
}

/// Type, status, reason and message of a condition.
type Reported<'a> = (&'a str, &'a str, Option<&'a str>, Option<&'a str>);

/// Why the condition is not as wanted. A missing one is only as wanted when it may be missing.
fn not_as_wanted(conditions: &[Reported<'_>], type_: &str, wanted: &str, may_be_missing: bool) -> Option<String> {
    let Some((_, status, reason, message)) = conditions.iter().find(|reported| reported.0 == type_) else {
        return (!may_be_missing).then(|| format!("condition \"{type_}\" is missing"));
    };
    let (reason, message) = (reason.unwrap_or_default(), message.unwrap_or_default());
    (*status != wanted).then(|| {
        format!("condition \"{type_}\" has invalid status {status} (expected {wanted}) due to {reason}: {message}")
    })
}

macro_rules! reported {
    ($status:expr) => {
        $status
            .into_iter()
            .flat_map(|status| status.conditions.iter().flatten())
            .map(|c| {
                (
                    c.type_.as_str(),
                    c.status.as_str(),
                    c.reason.as_deref(),
                    c.message.as_deref(),
                )
            })
            .collect::<Vec<Reported<'_>>>()
    };
}

impl HasHealth for Deployment {
    fn unhealthy(&self) -> Option<String> {
        let status = self.status.as_ref();
        let reported = reported!(status);
        outdated(
            status.and_then(|status| status.observed_generation),
            self.metadata.generation,
        )
        .or_else(|| not_as_wanted(&reported, "Available", "True", false))
        .or_else(|| not_as_wanted(&reported, "Progressing", "True", true))
        .or_else(|| not_as_wanted(&reported, "ReplicaFailure", "False", true))
    }

    fn rolling_out(&self) -> Option<String> {
        let status = self.status.clone().unwrap_or_default();
        let outdated = outdated(status.observed_generation, self.metadata.generation);
        let wanted = self.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let updated = status.updated_replicas.unwrap_or(0);
        let surplus = status.replicas.unwrap_or(0) - updated;
        // One that allows all its pods to be missing is available without any: only this condition shows that none
        // runs. It is absent where there is no deadline.
        let reported = reported!(self.status.as_ref());
        let not_over = reported.iter().find(|(type_, status, reason, _)| {
            *type_ == "Progressing" && (*status, *reason) != ("True", Some("NewReplicaSetAvailable"))
        });
        outdated
            .or_else(|| (updated < wanted).then(|| format!("{updated} of {wanted} replica(s) have been updated")))
            .or_else(|| (surplus > 0).then(|| format!("{surplus} old replica(s) are pending termination")))
            .or_else(|| not_over.map(|reported| reported.3.unwrap_or_default().to_owned()))
    }
}

impl HasHealth for StatefulSet {
    fn unhealthy(&self) -> Option<String> {
        let status = self.status.clone().unwrap_or_default();
        let wanted = self.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let ready = status.ready_replicas.unwrap_or(0);
        outdated(status.observed_generation, self.metadata.generation)
            .or_else(|| (ready < wanted).then(|| format!("not enough ready replicas ({ready}/{wanted})")))
    }

    fn rolling_out(&self) -> Option<String> {
        let status = self.status.clone().unwrap_or_default();
        let wanted = self.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let updated = status.updated_replicas.unwrap_or(0);
        outdated(status.observed_generation, self.metadata.generation)
            .or_else(|| (updated < wanted).then(|| format!("{updated} of {wanted} replica(s) have been updated")))
    }
}

impl HasHealth for DaemonSet {
    fn unhealthy(&self) -> Option<String> {
        let status = self.status.clone().unwrap_or_default();
        let (desired, current) = (status.desired_number_scheduled, status.current_number_scheduled);
        let missing = status.number_unavailable.unwrap_or(0);
        let misplaced = status.number_misscheduled;
        let rolled_out = status.updated_number_scheduled.unwrap_or(0) >= desired;
        let allowed = if rolled_out { 0 } else { unavailable_max(self, desired) };
        outdated(status.observed_generation, self.metadata.generation)
            .or_else(|| (current < desired).then(|| format!("not enough scheduled pods ({current}/{desired})")))
            .or_else(|| (misplaced > 0).then(|| format!("misscheduled pods found ({misplaced})")))
            .or_else(|| {
                (missing > allowed).then(|| {
                    format!("too many unavailable pods found ({missing}/{desired}, max unavailable: {allowed})")
                })
            })
    }

    fn rolling_out(&self) -> Option<String> {
        let status = self.status.clone().unwrap_or_default();
        let (desired, updated) = (
            status.desired_number_scheduled,
            status.updated_number_scheduled.unwrap_or(0),
        );
        outdated(status.observed_generation, self.metadata.generation)
            .or_else(|| (updated < desired).then(|| format!("{updated} of {desired} replica(s) have been updated")))
    }
}

/// How many pods of a DaemonSet may be missing while it is rolled out and counts as healthy: what its roll-out takes down
/// at once; none where that is not given, or where others roll it out.
fn unavailable_max(set: &DaemonSet, desired: i32) -> i32 {
    let strategy = set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref());
    let rolling = strategy.filter(|strategy| strategy.type_.as_deref() == Some("RollingUpdate"));
    let given = rolling
        .and_then(|strategy| strategy.rolling_update.as_ref())
        .and_then(|update| update.max_unavailable.as_ref());
    match given {
        None => 0,
        Some(IntOrString::Int(count)) => *count,
        Some(IntOrString::String(text)) => {
            let percent: i32 = text.strip_suffix('%').and_then(|text| text.parse().ok()).unwrap_or(0);
            // Rounded down, unlike by the DaemonSet's controller: upstream is stricter.
            desired.saturating_mul(percent) / 100
        }
    }
}

impl HasHealth for Job {
    fn unhealthy(&self) -> Option<String> {
        let reported = reported!(self.status.as_ref());
        not_as_wanted(&reported, "Failed", "False", true)
    }
}

impl HasHealth for CustomResourceDefinition {
    fn unhealthy(&self) -> Option<String> {
        let reported = reported!(self.status.as_ref());
        not_as_wanted(&reported, "NamesAccepted", "True", false)
            .or_else(|| not_as_wanted(&reported, "Established", "True", false))
            .or_else(|| not_as_wanted(&reported, "Terminating", "False", true))
    }
}

impl HasHealth for ReplicaSet {
    fn unhealthy(&self) -> Option<String> {
        let status = self.status.clone().unwrap_or_default();
        let wanted = self.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        outdated(status.observed_generation, self.metadata.generation)
            .or_else(|| too_few(status.ready_replicas.unwrap_or(0), wanted))
    }
}

impl HasHealth for ReplicationController {
    fn unhealthy(&self) -> Option<String> {
        let status = self.status.clone().unwrap_or_default();
        let wanted = self.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        outdated(status.observed_generation, self.metadata.generation)
            .or_else(|| too_few(status.ready_replicas.unwrap_or(0), wanted))
    }
}

fn too_few(ready: i32, wanted: i32) -> Option<String> {
    (ready < wanted).then(|| format!("not enough ready replicas ({ready}/{wanted})"))
}

impl HasHealth for Pod {
    fn unhealthy(&self) -> Option<String> {
        let phase = self
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref())
            .unwrap_or_default();
        let is_well = matches!(phase, "Running" | "Succeeded");
        (!is_well).then(|| format!("pod is in phase \"{phase}\" (expected Running or Succeeded)"))
    }
}

impl HasHealth for Service {
    fn unhealthy(&self) -> Option<String> {
        let is_balanced = self.spec.as_ref().and_then(|spec| spec.type_.as_deref()) == Some("LoadBalancer");
        let balancer = self.status.as_ref().and_then(|status| status.load_balancer.as_ref());
        let has_address = balancer.is_some_and(|balancer| balancer.ingress.iter().flatten().next().is_some());
        (is_balanced && !has_address).then(|| "its load balancer has no address yet".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn evaluated<K: HasHealth + DeserializeOwned>(object: Value) -> (String, String) {
        let object: K = serde_json::from_value(object).unwrap();
        (
            object.unhealthy().unwrap_or_default(),
            object.rolling_out().unwrap_or_default(),
        )
    }

    fn of(healthy: &str, rolled_out: &str) -> (String, String) {
        (healthy.to_owned(), rolled_out.to_owned())
    }

    #[test]
    fn a_deployment_is_healthy_when_available_and_rolled_out_without_old_pods() {
        let deployment = |status: Value| {
            evaluated::<Deployment>(
                json!({"metadata": {"generation": 2}, "spec": {"replicas": 2, "selector": {}, "template": {}}, "status": status}),
            )
        };
        let available = json!([{"type": "Available", "status": "True"}]);
        assert_eq!(
            deployment(json!({"observedGeneration": 1})),
            of(
                "observed generation outdated (1/2)",
                "observed generation outdated (1/2)"
            )
        );
        assert_eq!(
            deployment(json!({"observedGeneration": 2, "updatedReplicas": 1})),
            of(
                "condition \"Available\" is missing",
                "1 of 2 replica(s) have been updated"
            )
        );
        assert_eq!(
            deployment(json!({"observedGeneration": 2, "updatedReplicas": 2, "replicas": 3, "conditions": available})),
            of("", "1 old replica(s) are pending termination")
        );
        assert_eq!(
            deployment(json!({"observedGeneration": 2, "updatedReplicas": 2, "replicas": 2, "conditions": available})),
            of("", "")
        );
        let progressing = |status: &str, reason: &str| {
            let progressing = json!({"type": "Progressing", "status": status, "reason": reason, "message": "m"});
            let conditions = json!([{"type": "Available", "status": "True"}, progressing]);
            deployment(json!({"observedGeneration": 2, "updatedReplicas": 2, "replicas": 2, "conditions": conditions}))
        };
        assert_eq!(progressing("True", "NewReplicaSetAvailable"), of("", ""));
        assert_eq!(progressing("True", "ReplicaSetUpdated"), of("", "m"));
        let (unhealthy, rolling_out) = progressing("False", "ProgressDeadlineExceeded");
        assert!(
            unhealthy.contains("due to ProgressDeadlineExceeded") && rolling_out == "m",
            "{unhealthy}"
        );
        let failing = json!([{"type": "Available", "status": "True"}, {"type": "ReplicaFailure", "status": "True", "reason": "R", "message": "m"}]);
        assert_eq!(
            deployment(json!({"observedGeneration": 2, "updatedReplicas": 2, "conditions": failing})).0,
            "condition \"ReplicaFailure\" has invalid status True (expected False) due to R: m"
        );
    }

    #[test]
    fn health_of_pods_and_services_follows_phase_and_address() {
        let pod = |phase: &str| evaluated::<Pod>(json!({"status": {"phase": phase}})).0;
        assert_eq!((pod("Running"), pod("Succeeded")), (String::new(), String::new()));
        assert_eq!(
            pod("Failed"),
            "pod is in phase \"Failed\" (expected Running or Succeeded)"
        );
        let service = |type_: &str, ingress: Value| {
            evaluated::<Service>(json!({"spec": {"type": type_}, "status": {"loadBalancer": {"ingress": ingress}}})).0
        };
        assert_eq!(
            service("LoadBalancer", json!([])),
            "its load balancer has no address yet"
        );
        assert_eq!(
            service("ClusterIP", json!([])) + &service("LoadBalancer", json!([{"ip": "10.0.0.1"}])),
            ""
        );
        let set = json!({"metadata": {"generation": 1}, "spec": {"replicas": 2, "selector": {}}, "status": {"observedGeneration": 1, "replicas": 2, "readyReplicas": 1}});
        assert_eq!(
            evaluated::<ReplicaSet>(set.clone()).0,
            "not enough ready replicas (1/2)"
        );
        assert_eq!(
            evaluated::<ReplicationController>(set).0,
            "not enough ready replicas (1/2)"
        );
    }

    #[test]
    fn sets_jobs_and_definitions_have_health_rules_of_their_own() {
        let spec = json!({"selector": {}, "template": {}, "serviceName": "s"});
        assert_eq!(
            evaluated::<StatefulSet>(json!({"spec": spec, "status": {"replicas": 1}})),
            of("not enough ready replicas (0/1)", "0 of 1 replica(s) have been updated")
        );
        let set = |spec: Value, missing: i32, updated: i32| {
            evaluated::<DaemonSet>(json!({"spec": spec, "status": {"desiredNumberScheduled": 10, "currentNumberScheduled": 10, "numberMisscheduled": 0, "numberReady": 0, "numberUnavailable": missing, "updatedNumberScheduled": updated}})).0
        };
        let rolling = |rolling: Value| json!({"selector": {}, "template": {}, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}});
        let (one, percent) = (
            rolling(json!({"maxUnavailable": 1})),
            rolling(json!({"maxUnavailable": "25%"})),
        );
        assert_eq!(
            (set(one.clone(), 1, 9), set(percent.clone(), 2, 9)),
            (String::new(), String::new())
        );
        assert_eq!(
            set(one.clone(), 2, 9),
            "too many unavailable pods found (2/10, max unavailable: 1)"
        );
        assert!(set(percent, 3, 9).contains("max unavailable: 2"));
        assert!(set(one, 1, 10).contains("max unavailable: 0"));
        let manual = json!({"selector": {}, "template": {}, "updateStrategy": {"type": "OnDelete"}});
        for strict in [
            manual,
            spec,
            rolling(json!({})),
            rolling(json!({"maxUnavailable": "some"})),
        ] {
            assert!(set(strict, 1, 9).contains("max unavailable: 0"));
        }
        let job = |conditions: Value| {
            evaluated::<Job>(json!({"spec": {"template": {}}, "status": {"conditions": conditions}}))
        };
        assert_eq!(job(json!([])), of("", ""), "as upstream, it has no roll-out");
        assert_eq!(
            job(json!([{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "m"}])).0,
            "condition \"Failed\" has invalid status True (expected False) due to BackoffLimitExceeded: m"
        );
        assert_eq!(job(json!([{"type": "Complete", "status": "True"}])), of("", ""));
        let definition = json!({"spec": {"group": "g", "names": {"kind": "K", "plural": "ks"}, "scope": "Cluster", "versions": []}, "status": {"conditions": [{"type": "NamesAccepted", "status": "True"}]}});
        assert_eq!(
            evaluated::<CustomResourceDefinition>(definition).0,
            "condition \"Established\" is missing"
        );
    }
}
