//! Defaults of Services (Kubernetes v1.35 `pkg/apis/core/v1/defaults.go`). Addresses and node ports are allocated by the API
//! server, not here.

use serde_json::{Value, json};

use crate::json::fields::{elements, elements_mut, set_default, text};

pub(crate) fn default(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else {
        return;
    };
    set_default(spec, "sessionAffinity", "None");
    match text(spec, "sessionAffinity") {
        "ClientIP" if spec.pointer("/sessionAffinityConfig/clientIP/timeoutSeconds").is_none() => {
            spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": 10800}});
        }
        "None" => {
            spec.as_object_mut()
                .and_then(|spec| spec.remove("sessionAffinityConfig"));
        }
        _ => {}
    }
    set_default(spec, "type", "ClusterIP");
    for port in elements_mut(spec, "ports") {
        set_default(port, "protocol", "TCP");
        // One that is missing is zero to Go, and is refused as that.
        let number = port["port"].as_i64().unwrap_or_default();
        let is_unset = |target: &Value| target.is_null() || target == 0 || target == "";
        if port.is_object() && port.get("targetPort").is_none_or(is_unset) {
            port["targetPort"] = number.into();
        }
    }
    let kind = text(spec, "type").to_owned();
    if is_externally_accessible(spec) {
        set_default(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
        set_default(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        set_default(spec, "allocateLoadBalancerNodePorts", true);
    }
}

/// Whether a Service with this specification may have traffic from outside (`pkg/api/service/util.go`, ExternallyAccessible).
pub(crate) fn is_externally_accessible(spec: &Value) -> bool {
    match text(spec, "type") {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => elements(spec, "externalIPs").next().is_some(),
        _ => false,
    }
}
