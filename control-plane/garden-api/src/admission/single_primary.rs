//! Exactly one registration controls a kind and type primarily
//! (gardener/gardener v1.150 plugin/pkg/controllerregistration/resources, without its holes). What competed before is not
//! validated again: no update could correct it then.

use api_core::v1beta1::ControllerRegistration;
use cluster_apiserver::Status;
use cluster_apiserver::kind::Review;

use super::{Plugin, Verdict, registrations, writes_object};
use crate::AdmissionPlugin;
use crate::convert::{CORE, decode_stored};

/// The plug-in `ControllerRegistrationResources`.
pub(crate) struct SinglePrimary;

impl Plugin for SinglePrimary {
    fn name(&self) -> Option<AdmissionPlugin> {
        Some(AdmissionPlugin::ControllerRegistrationResources)
    }

    fn review<'a>(&'a self, review: Review<'a>) -> Verdict<'a> {
        Box::pin(async move {
            let Some(object) = review.object.filter(|_| writes_object(&review.call)) else {
                return Ok(Vec::new());
            };
            let registration: ControllerRegistration = decode_stored("ControllerRegistration", object)?;
            let others = registrations(review.objects).await?;
            let before = match review.old {
                Some(old) => api_rules::competing_primaries(&decode_stored("ControllerRegistration", old)?, &others),
                None => Vec::new(),
            };
            let competing = api_rules::competing_primaries(&registration, &others);
            match competing
                .iter()
                .find(|error| !before.iter().any(|before| before.detail == error.detail))
            {
                None => Ok(Vec::new()),
                Some(error) => {
                    let name = registration.metadata.name.as_deref().unwrap_or_default();
                    let why = format!("{error}; set primary: false here, or delete the other registration");
                    Err(Status::forbidden(CORE, "controllerregistrations", name, &why))
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use cluster_apiserver::kind::Operation;
    use serde_json::{Value, json};

    use super::*;
    use crate::admission::tests::{Fixture, review};

    fn registration(name: &str, types: &[(&str, bool)]) -> Value {
        let resources: Vec<Value> = types
            .iter()
            .map(|(type_, primary)| json!({"kind": "Worker", "type": type_, "primary": primary}))
            .collect();
        json!({"metadata": {"name": name}, "spec": {"resources": resources}})
    }

    #[test]
    fn a_second_primary_is_refused_whatever_its_position_and_case() {
        let fixture = Fixture::default().with(
            "controllerregistrations",
            registration("first", &[("a", true), ("b", true), ("c", true)]),
        );
        for type_ in ["a", "b", "C"] {
            let second = registration("second", &[(type_, true)]);
            let refusal = review(&SinglePrimary, Operation::Create, Some(&second), None, &fixture).expect_err(type_);
            assert!(
                refusal.contains("already exists that controls resource Worker/"),
                "{refusal}"
            );
            assert!(refusal.contains("first"), "{refusal}");
        }
        let secondary = registration("second", &[("a", false), ("d", true)]);
        assert!(review(&SinglePrimary, Operation::Create, Some(&secondary), None, &fixture).is_ok());
        let itself = registration("first", &[("a", true)]);
        assert!(
            review(
                &SinglePrimary,
                Operation::Update,
                Some(&itself),
                Some(&itself),
                &fixture
            )
            .is_ok()
        );
    }

    #[test]
    fn registrations_that_compete_already_can_be_changed_but_not_compete_for_more() {
        let fixture = Fixture::default()
            .with(
                "controllerregistrations",
                registration("first", &[("a", true), ("b", true)]),
            )
            .with("controllerregistrations", registration("second", &[("a", true)]));
        let old = registration("second", &[("a", true)]);
        let changed = |new: &Value| review(&SinglePrimary, Operation::Update, Some(new), Some(&old), &fixture);
        let mut held = old.clone();
        held["metadata"]["finalizers"] = json!(["core.gardener.cloud/controllerregistration"]);
        assert!(changed(&held).is_ok());
        assert!(changed(&registration("second", &[("x", true), ("a", true)])).is_ok());
        let refusal = changed(&registration("second", &[("a", true), ("b", true)])).expect_err("one more");
        assert!(refusal.contains("Worker/b"), "{refusal}");
    }
}
