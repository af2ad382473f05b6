//! Defaults of HorizontalPodAutoscalers (Kubernetes v1.35 `pkg/apis/autoscaling/v2/defaults.go`).

use serde_json::{Value, json};

use crate::json::fields::{child, elements, set_default, set_default_of_pointer};

pub(crate) fn default(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else {
        return;
    };
    set_default(spec, "minReplicas", 1);
    if elements(spec, "metrics").next().is_none() {
        let target = json!({"type": "Utilization", "averageUtilization": 80});
        spec["metrics"] = json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]);
    }
    let Some(behavior) = spec.get_mut("behavior").filter(|behavior| behavior.is_object()) else {
        return;
    };
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    for (name, policies) in [("scaleUp", json!([pods, percent])), ("scaleDown", json!([percent]))] {
        let Some(rules) = child(behavior, name).filter(|rules| rules.is_object()) else {
            continue;
        };
        if name == "scaleUp" {
            set_default(rules, "stabilizationWindowSeconds", 0);
        }
        set_default_of_pointer(rules, "policies", policies);
        set_default_of_pointer(rules, "selectPolicy", "Max");
    }
}
