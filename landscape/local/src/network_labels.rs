//! Which label a pod of a seed lacks, where its namespace has no policy that says it: resource-manager makes policies of a
//! Service only once a pod asks for them.

use api_meta::annotations::network as annotations;
use api_meta::labels::network as labels;
use cluster_node::Suggestion;
use control_plane_resource_manager::network_policy_label;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

/// For the pod network of a seed.
pub(super) fn suggestion() -> Suggestion {
    std::sync::Arc::new(suggest)
}

fn suggest(service: &Service, port: u16, namespace: &str) -> Option<String> {
    let spec = service.spec.as_ref()?;
    spec.selector.as_ref()?;
    let mut ports = spec.ports.iter().flatten();
    let port = ports.find(|known| known.port == i32::from(port))?;
    let target = match port.target_port.clone().unwrap_or(IntOrString::Int(port.port)) {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(name) => name,
    };
    let protocol = port.protocol.as_deref().unwrap_or("TCP");
    let (name, own) = (service.name_any(), service.namespace().unwrap_or_default());
    let notes = service.annotations();
    if namespace == own {
        let label = network_policy_label(None, &name, protocol, &target);
        return Some(format!("the pod lacks the label {label}: {}", labels::ALLOWED));
    }
    if !notes.contains_key(annotations::NAMESPACE_SELECTORS) {
        let annotation = annotations::NAMESPACE_SELECTORS;
        return Some(format!(
            "the Service {own}/{name} lacks the annotation {annotation}, which names other namespaces"
        ));
    }
    let alias = notes
        .get(annotations::POD_LABEL_SELECTOR_NAMESPACE_ALIAS)
        .unwrap_or(&own);
    let label = network_policy_label(Some(alias), &name, protocol, &target);
    Some(format!("the pod lacks the label {label}: {}", labels::ALLOWED))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn service(annotations: Value) -> Service {
        serde_json::from_value(json!({
            "metadata": {"name": "kube-apiserver", "namespace": "shoot--a", "annotations": annotations},
            "spec": {"selector": {"app": "kubernetes"}, "ports": [{"port": 443, "targetPort": 6443}]},
        }))
        .unwrap()
    }

    #[test]
    fn neighbours_lack_the_services_label_and_others_that_of_its_alias() {
        let plain = service(json!({}));
        assert_eq!(
            suggest(&plain, 443, "shoot--a").unwrap(),
            "the pod lacks the label networking.resources.gardener.cloud/to-kube-apiserver-tcp-6443: allowed"
        );
        assert_eq!(
            suggest(&plain, 443, "extension-x").unwrap(),
            "the Service shoot--a/kube-apiserver lacks the annotation networking.resources.gardener.cloud/namespace-selectors, \
             which names other namespaces"
        );
        let open = service(json!({annotations::NAMESPACE_SELECTORS: "[{}]",
            annotations::POD_LABEL_SELECTOR_NAMESPACE_ALIAS: "all-shoots"}));
        assert_eq!(
            suggest(&open, 443, "extension-x").unwrap(),
            "the pod lacks the label networking.resources.gardener.cloud/to-all-shoots-kube-apiserver-tcp-6443: allowed"
        );
        assert_eq!(suggest(&open, 80, "extension-x"), None);
    }
}
