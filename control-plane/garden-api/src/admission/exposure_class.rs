//! A new Shoot gets the seed selector and the tolerations of its exposure class (gardener/gardener v1.150
//! plugin/pkg/shoot/exposureclass).

use api_core::v1beta1::{ExposureClass as Class, Shoot};
use cluster_apiserver::Status;
use cluster_apiserver::kind::{Call, Objects};
use serde_json::Value;

use super::{Plugin, Verdict, writes_object};
use crate::AdmissionPlugin;
use crate::convert::{CORE, decode, decode_stored, encode_over, field_errors, forbid, text};

/// The plug-in `ShootExposureClass`.
pub(crate) struct ExposureClass;

impl Plugin for ExposureClass {
    fn name(&self) -> Option<AdmissionPlugin> {
        Some(AdmissionPlugin::ShootExposureClass)
    }

    fn admit<'a>(
        &'a self,
        call: Call<'a>,
        object: &'a mut Value,
        old: Option<&'a Value>,
        objects: &'a dyn Objects,
    ) -> Verdict<'a> {
        Box::pin(async move {
            let name = text(object, "/spec/exposureClassName");
            if !writes_object(&call) || old.is_some() || name.is_empty() {
                return Ok(Vec::new());
            }
            let Some(class) = objects.get(CORE, "exposureclasses", None, name).await? else {
                let why = format!("spec.exposureClassName: there is no ExposureClass {name:?}; name one that exists");
                return Err(Status::forbidden(CORE, "shoots", call.name, &why));
            };
            let class: Class = decode_stored("ExposureClass", &class)?;
            // An object that cannot be read is refused by validation, which names the field.
            if let (Some(scheduling), Ok(mut shoot)) = (class.scheduling, decode::<Shoot>(object)) {
                if let Err(errors) = api_rules::unite_with_exposure_class(&mut shoot.spec, &scheduling) {
                    forbid(CORE, "shoots", call.name, &field_errors(errors))?;
                }
                encode_over(&shoot, object);
            }
            Ok(Vec::new())
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::admission::tests::{Fixture, admitted};

    fn shoot(label: &str) -> Value {
        json!({"kind": "Shoot", "metadata": {"name": "s", "namespace": "garden-p"},
            "spec": {"exposureClassName": "inner", "seedSelector": {"matchLabels": {"l": label}}}})
    }

    fn classes() -> Fixture {
        let scheduling = json!({"seedSelector": {"matchLabels": {"l": "1", "m": "2"}}, "tolerations": [{"key": "k"}]});
        let class = json!({"metadata": {"name": "inner"}, "handler": "inner", "scheduling": scheduling});
        Fixture::default().with("exposureclasses", class)
    }

    #[test]
    fn a_new_shoot_is_scheduled_as_its_class_wants_it() {
        let made = admitted(&ExposureClass, None, shoot("1"), None, &classes()).unwrap();
        assert_eq!(made["spec"]["seedSelector"]["matchLabels"], json!({"l": "1", "m": "2"}));
        assert_eq!(made["spec"]["tolerations"], json!([{"key": "k"}]));
        let changed = admitted(&ExposureClass, None, shoot("1"), Some(&shoot("1")), &classes()).unwrap();
        assert_eq!(changed, shoot("1"), "an update takes nothing from the class");
    }

    #[test]
    fn a_class_that_is_missing_or_contradicts_the_shoot_is_refused() {
        let refusal = admitted(&ExposureClass, None, shoot("1"), None, &Fixture::default()).expect_err("missing");
        assert!(refusal.contains("there is no ExposureClass \"inner\""), "{refusal}");
        let refusal = admitted(&ExposureClass, None, shoot("9"), None, &classes()).expect_err("contradiction");
        assert!(refusal.contains("spec.seedSelector.matchLabels[l]"), "{refusal}");
    }
}
