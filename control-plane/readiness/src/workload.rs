//! What Deployments and StatefulSets have alike: how many pods they want, how many there are, whether these are as they
//! were written last.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use kube::Resource;
use serde::de::DeserializeOwned;

/// A kind that runs pods of one sort.
pub trait Replicated:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug + Send + Sync + 'static
{
    /// How many pods are wanted.
    fn wanted(&self) -> i32;
    /// How many pods there are, whatever their state.
    fn pods(&self) -> i32;
    /// The generation that its controller has seen; 0 before the first.
    fn seen(&self) -> i64;
    /// How many pods are as it was written last, and how many can be used, with the word for that.
    fn progress(&self) -> (i32, i32, &'static str);
}

impl Replicated for Deployment {
    fn wanted(&self) -> i32 {
        self.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
    }

    fn pods(&self) -> i32 {
        let status = self.status.as_ref();
        status.and_then(|status| status.replicas).unwrap_or_default()
    }

    fn seen(&self) -> i64 {
        let status = self.status.as_ref();
        status.and_then(|status| status.observed_generation).unwrap_or_default()
    }

    fn progress(&self) -> (i32, i32, &'static str) {
        let status = self.status.clone().unwrap_or_default();
        (
            status.updated_replicas.unwrap_or_default(),
            status.available_replicas.unwrap_or_default(),
            "available",
        )
    }
}

impl Replicated for StatefulSet {
    fn wanted(&self) -> i32 {
        self.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
    }

    fn pods(&self) -> i32 {
        self.status.as_ref().map(|status| status.replicas).unwrap_or_default()
    }

    fn seen(&self) -> i64 {
        let status = self.status.as_ref();
        status.and_then(|status| status.observed_generation).unwrap_or_default()
    }

    fn progress(&self) -> (i32, i32, &'static str) {
        let status = self.status.clone().unwrap_or_default();
        (
            status.updated_replicas.unwrap_or_default(),
            status.ready_replicas.unwrap_or_default(),
            "ready",
        )
    }
}

/// Why a workload does not run in its present form, which is at least `generation`; `None`: it does.
#[must_use]
pub fn not_rolled_out(workload: &impl Replicated, generation: i64) -> Option<String> {
    let present = workload.meta().generation.unwrap_or_default();
    if present < generation || workload.seen() < present {
        return Some("its newest form has not been seen yet".to_owned());
    }
    let (wanted, all) = (workload.wanted(), workload.pods());
    let (updated, usable, word) = workload.progress();
    if updated < wanted || usable < wanted {
        return Some(format!(
            "{usable} of {wanted} pods are {word}, {updated} in the newest form"
        ));
    }
    (all > updated).then(|| format!("{} pods of an older form are still there", all - updated))
}

/// Why a Deployment does not run as it is written.
#[must_use]
pub fn deployment_not_rolled_out(deployment: &Deployment) -> Option<String> {
    not_rolled_out(deployment, 0)
}

/// The same for a StatefulSet.
#[must_use]
pub fn set_not_rolled_out(set: &StatefulSet) -> Option<String> {
    not_rolled_out(set, 0)
}

/// Why a workload that was scaled to zero in `generation` has not come to rest; `None`: it has.
#[must_use]
pub fn not_at_zero(workload: &impl Replicated, generation: i64) -> Option<String> {
    if workload.seen() < generation {
        return Some("its controller has not seen the new scale yet".to_owned());
    }
    match workload.pods() {
        0 => None,
        pods => Some(format!("{pods} of its pods are still there")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(replicas: i32, generation: i64, status: serde_json::Value) -> Deployment {
        serde_json::from_value(json!({
            "metadata": {"generation": generation},
            "spec": {"replicas": replicas, "selector": {}, "template": {}},
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn pods_of_an_older_form_keep_a_workload_from_being_rolled_out() {
        let rolled = json!({"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1});
        assert_eq!(not_rolled_out(&deployment(1, 2, rolled.clone()), 2), None);
        assert!(
            not_rolled_out(&deployment(1, 2, rolled), 3).is_some(),
            "the cache is behind"
        );
        let old = json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 1, "availableReplicas": 1});
        let why = not_rolled_out(&deployment(1, 2, old), 2).unwrap();
        assert_eq!(why, "1 pods of an older form are still there");
        let asleep = json!({"observedGeneration": 2});
        assert_eq!(not_rolled_out(&deployment(0, 2, asleep), 2), None);
    }

    #[test]
    fn a_workload_is_at_zero_once_observed_and_without_pods() {
        let before = json!({"observedGeneration": 1, "replicas": 0});
        assert!(not_at_zero(&deployment(0, 2, before), 2).is_some());
        let going = json!({"observedGeneration": 2, "replicas": 1});
        assert!(not_at_zero(&deployment(0, 2, going), 2).is_some());
        let gone = json!({"observedGeneration": 2});
        assert_eq!(not_at_zero(&deployment(0, 2, gone), 2), None);
    }
}
