//! What is configured in the API server in front and not applied to the garden's kinds: MutatingAdmissionPolicies. They are
//! looked for once, when the server starts, so that no operator relies on one without a warning.

use kube::Client;
use serde_json::Value;

/// Newest first: an older Kubernetes has the kind in an older version alone, or not at all.
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];

/// Names those that mean one of these groups.
pub(crate) async fn warn(client: &Client, groups: &[String]) {
    for version in VERSIONS {
        let path = format!("/apis/admissionregistration.k8s.io/{version}/mutatingadmissionpolicies");
        let Ok(request) = http::Request::get(path).body(Vec::new()) else {
            return;
        };
        match client.request::<Value>(request).await {
            Ok(list) => {
                let names = concerned(&list, groups);
                if !names.is_empty() {
                    tracing::warn!(
                        "MutatingAdmissionPolicies are not applied to the garden's kinds; these name them: {}",
                        names.join(", ")
                    );
                }
                return;
            }
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return tracing::debug!(%error, "MutatingAdmissionPolicies cannot be listed"),
        }
    }
}

fn concerned(list: &Value, groups: &[String]) -> Vec<String> {
    let means_us = |policy: &&Value| {
        let rules = policy.pointer("/spec/matchConstraints/resourceRules");
        let mut named = rules.and_then(Value::as_array).into_iter().flatten().flat_map(|rule| {
            let named = rule["apiGroups"].as_array();
            named.into_iter().flatten().filter_map(Value::as_str)
        });
        named.any(|group| group == "*" || groups.iter().any(|own| own == group))
    };
    let policies = list["items"].as_array();
    let policies = policies.into_iter().flatten().filter(means_us);
    let names = policies.filter_map(|policy| policy["metadata"]["name"].as_str());
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn policies_for_the_gardens_groups_are_named() {
        let policy = |name: &str, group: &str| json!({"metadata": {"name": name}, "spec": {"matchConstraints": {"resourceRules": [{"apiGroups": [group]}]}}});
        let list = json!({"items": [policy("a", "apps"), policy("b", "core.gardener.cloud"), policy("c", "*")]});
        assert_eq!(concerned(&list, &["core.gardener.cloud".to_owned()]), ["b", "c"]);
        assert!(concerned(&json!({}), &[]).is_empty());
    }
}
