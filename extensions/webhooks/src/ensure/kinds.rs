//! Kinds of other programs that control planes are made of, of which extensions change a few fields. Only their metadata has a type.

use api_meta::kind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::{Map, Value};

/// An etcd of etcd-druid (gardener/etcd-druid api/core/v1alpha1).
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Etcd {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted, such as `storageClass` and `storageCapacity`.
    pub spec: Map<String, Value>,
}

kind!(Etcd, "druid.gardener.cloud", "v1alpha1", "etcds", Namespaced, { metadata, spec } optional {});

/// How resources of pods follow their use (kubernetes/autoscaler vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1).
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct VerticalPodAutoscaler {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted, such as `resourcePolicy`.
    pub spec: Map<String, Value>,
}

kind!(VerticalPodAutoscaler, "autoscaling.k8s.io", "v1", "verticalpodautoscalers", Namespaced, { metadata, spec } optional {});

impl VerticalPodAutoscaler {
    /// Puts a policy in the place of the one for its container, or behind the others. It names the container in `containerName`.
    pub fn ensure_container_policy(&mut self, policy: Value) {
        let resources = self.spec.entry("resourcePolicy").or_insert_with(|| Map::new().into());
        let Some(resources) = resources.as_object_mut() else {
            return;
        };
        let policies = resources
            .entry("containerPolicies")
            .or_insert_with(|| Value::Array(Vec::new()));
        let Some(policies) = policies.as_array_mut() else {
            return;
        };
        let name = &policy["containerName"];
        match policies.iter_mut().find(|known| known["containerName"] == *name) {
            Some(known) => *known = policy,
            None => policies.push(policy),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_policy_takes_the_place_of_the_one_for_its_container() {
        let mut scaler = VerticalPodAutoscaler::default();
        for mode in ["Off", "Auto"] {
            scaler.ensure_container_policy(json!({"containerName": "a", "mode": mode}));
            scaler.ensure_container_policy(json!({"containerName": "b"}));
        }
        let expected = json!([{"containerName": "a", "mode": "Auto"}, {"containerName": "b"}]);
        assert_eq!(scaler.spec["resourcePolicy"]["containerPolicies"], expected);
    }
}
