//! What a Shoot may ask for in Gardener and nobody here brings about yet is refused, so that nothing is promised and then
//! forgotten. Each refusal goes when its feature comes.

use cluster_apiserver::kind::Review;
use cluster_apiserver::schema::FieldError;
use serde_json::Value;

use super::{Plugin, Verdict, writes_object};
use crate::convert::{refuse, text};

/// Refuses features of Shoots that are still to come.
pub(crate) struct NotYet;

impl Plugin for NotYet {
    fn review<'a>(&'a self, review: Review<'a>) -> Verdict<'a> {
        Box::pin(async move {
            if let Some(object) = review.object.filter(|_| writes_object(&review.call)) {
                refuse(text(object, "/kind"), text(object, "/metadata/name"), &asked(object))?;
            }
            Ok(Vec::new())
        })
    }
}

fn asked(shoot: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if shoot.pointer("/spec/hibernation/enabled") == Some(&Value::Bool(true)) {
        errors.push(FieldError::forbidden(
            "spec.hibernation.enabled",
            "clusters cannot be hibernated yet; leave the field out, or delete the Shoot while it is not needed",
        ));
    }
    if shoot
        .pointer("/spec/hibernation/schedules")
        .and_then(Value::as_array)
        .is_some_and(|all| !all.is_empty())
    {
        errors.push(FieldError::forbidden(
            "spec.hibernation.schedules",
            "clusters cannot be hibernated yet; leave the field out",
        ));
    }
    if shoot
        .pointer("/spec/controlPlane/highAvailability")
        .is_some_and(Value::is_object)
    {
        errors.push(FieldError::forbidden(
            "spec.controlPlane.highAvailability",
            "control planes have one replica as yet; leave the field out",
        ));
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::asked;

    #[test]
    fn what_nobody_brings_about_is_refused_by_its_field() {
        let of = |spec| {
            asked(&json!({"spec": spec}))
                .into_iter()
                .map(|error| error.path)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            of(json!({"hibernation": {"enabled": true}})),
            ["spec.hibernation.enabled"]
        );
        assert_eq!(
            of(json!({"controlPlane": {"highAvailability": {"failureTolerance": {"type": "node"}}}})),
            ["spec.controlPlane.highAvailability"]
        );
        assert!(of(json!({"hibernation": {"enabled": false, "schedules": []}, "controlPlane": {}})).is_empty());
    }
}
