//! Rules of Leases (Kubernetes v1.35 `pkg/apis/coordination/validation`).

use cluster_fields::FieldError;
use serde_json::Value;

pub(crate) fn validate(object: &Value, errors: &mut Vec<FieldError>) {
    let spec = &object["spec"];
    if spec["leaseDurationSeconds"]
        .as_i64()
        .is_some_and(|seconds| seconds <= 0)
    {
        let value = spec["leaseDurationSeconds"].clone();
        errors.push(FieldError::invalid(
            "spec.leaseDurationSeconds",
            value,
            "must be greater than 0",
        ));
    }
    if spec["leaseTransitions"].as_i64().is_some_and(|count| count < 0) {
        let value = spec["leaseTransitions"].clone();
        errors.push(FieldError::invalid(
            "spec.leaseTransitions",
            value,
            "must be greater than or equal to 0",
        ));
    }
}
