//! Rules of PodDisruptionBudgets (Kubernetes v1.35 `pkg/apis/policy/validation`).

use cluster_fields::{FieldError, FieldPath};
use serde_json::Value;

use crate::json::fields::text;
use crate::messages::internal_types;
use crate::rules::checks::label_selector;

const NO_PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";

/// All errors of a defaulted object.
pub(crate) fn validate(object: &Value, errors: &mut Vec<FieldError>) {
    let (root, spec) = (FieldPath::Root, &object["spec"]);
    let path = root.field("spec");
    if spec.get("minAvailable").is_some() && spec.get("maxUnavailable").is_some() {
        let words = "minAvailable and maxUnavailable cannot be both set";
        let error = FieldError::invalid(path, spec.clone(), words);
        errors.push(error.shown_as(internal_types::line("PodDisruptionBudgetSpec", spec)));
    }
    for name in ["minAvailable", "maxUnavailable"] {
        number_or_percent(spec.get(name), &path.field(name), errors);
    }
    label_selector(&spec["selector"], &path.field("selector"), errors);
    let policy = text(spec, "unhealthyPodEvictionPolicy");
    let policies = ["AlwaysAllow", "IfHealthyBudget"];
    if spec.get("unhealthyPodEvictionPolicy").is_some() && !policies.contains(&policy) {
        let at = path.field("unhealthyPodEvictionPolicy");
        errors.push(FieldError::not_supported(at, policy, &policies));
    }
}

/// How many of something, as a number or as a part of all (`pkg/apis/apps/validation`).
fn number_or_percent(value: Option<&Value>, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    match value {
        Some(Value::String(text)) => {
            let digits = text.strip_suffix('%').filter(|digits| !digits.is_empty());
            match digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit())) {
                None => errors.push(FieldError::invalid(path, text.as_str(), NO_PERCENT)),
                Some(digits) if digits.parse::<u32>().is_ok_and(|part| part <= 100) => {}
                Some(_) => errors.push(FieldError::invalid(
                    path,
                    text.as_str(),
                    "must not be greater than 100%",
                )),
            }
        }
        Some(Value::Number(number)) if number.as_i64().is_some_and(|number| number < 0) => {
            let words = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(path, number.as_i64(), words));
        }
        _ => {}
    }
}
