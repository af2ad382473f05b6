//! Rules of PriorityClasses (Kubernetes v1.35 `pkg/apis/scheduling/validation`).

use cluster_fields::FieldError;
use serde_json::Value;

use crate::json::fields::text;
use crate::rules::checks::immutable;

/// The largest priority that is not the system's own.
const USER_PRIORITY_MAX: i64 = 1_000_000_000;
/// Priority classes that exist from the start, with their priorities.
pub const SYSTEM_PRIORITIES: [(&str, i64); 2] = [
    ("system-node-critical", 2 * USER_PRIORITY_MAX + 1000),
    ("system-cluster-critical", 2 * USER_PRIORITY_MAX),
];

pub(crate) fn validate(object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let name = text(&object["metadata"], "name");
    let value = object["value"].as_i64().unwrap_or_default();
    if name.starts_with("system-") {
        let known = SYSTEM_PRIORITIES.iter().find(|(known, _)| *known == name);
        let why = match known {
            None => format!("{name} is not a known system priority class"),
            Some((_, wanted)) if *wanted != value => format!("value of {name} PriorityClass must be {wanted}"),
            Some(_) if object["globalDefault"] == true => {
                format!("globalDefault of {name} PriorityClass must be false")
            }
            Some(_) => String::new(),
        };
        if !why.is_empty() {
            let words =
                format!("priority class names with 'system-' prefix are reserved for system use only. error: {why}");
            errors.push(FieldError::forbidden("metadata.name", words));
        }
    } else if value > USER_PRIORITY_MAX {
        let words = format!("maximum allowed value of a user defined priority is {USER_PRIORITY_MAX}");
        errors.push(FieldError::forbidden("value", words));
    }
    let policy = text(object, "preemptionPolicy");
    if !matches!(policy, "PreemptLowerPriority" | "Never") {
        let allowed = ["PreemptLowerPriority", "Never"];
        errors.push(FieldError::not_supported("preemptionPolicy", policy, &allowed));
    }
    if old.is_some_and(|old| old["value"].as_i64().unwrap_or_default() != value) {
        errors.push(FieldError::forbidden("value", "may not be changed in an update."));
    }
    immutable(object, old, &["preemptionPolicy"], errors);
}
