//! Parts of a project's cloud profile and of Shoots that need verbs of their own (gardener/gardener v1.150
//! plugin/pkg/global/customverbauthorizer). That of Projects stands in `manage_members` and `tolerations`.

use cluster_apiserver::Status;
use cluster_apiserver::kind::Review;
use serde_json::Value;

use super::{Plugin, Verdict, writes_object};
use crate::AdmissionPlugin;
use crate::convert::CORE;

/// Field of the spec, and the verb that its change needs.
const VERBS: [(&str, &str); 3] = [
    ("kubernetes", "modify-spec-kubernetes"),
    ("machineImages", "modify-spec-machineimages"),
    ("providerConfig", "modify-spec-providerconfig"),
];

/// The plug-in `CustomVerbAuthorizer` for NamespacedCloudProfiles.
pub(crate) struct CustomVerbs;

impl Plugin for CustomVerbs {
    fn name(&self) -> Option<AdmissionPlugin> {
        Some(AdmissionPlugin::CustomVerbAuthorizer)
    }

    fn review<'a>(&'a self, review: Review<'a>) -> Verdict<'a> {
        Box::pin(async move {
            let Review { call, objects, .. } = review;
            let Some(profile) = review.object.filter(|_| writes_object(&call)) else {
                return Ok(Vec::new());
            };
            for (field, verb) in VERBS {
                let part = |object: &Value| object["spec"].get(field).filter(|part| !part.is_null()).cloned();
                if part(profile) == review.old.and_then(part) {
                    continue;
                }
                let resource = "namespacedcloudprofiles";
                if !objects
                    .allowed(call.user, verb, CORE, resource, call.namespace, call.name)
                    .await?
                {
                    let why = format!(
                        "spec.{field}: user {:?} is not allowed to {verb}; leave it out, or ask who runs the landscape",
                        call.user.name
                    );
                    return Err(Status::forbidden(CORE, resource, call.name, &why));
                }
            }
            Ok(Vec::new())
        })
    }
}

/// The plug-in `CustomVerbAuthorizer` for Shoots: who gives one a pool for its own control plane.
pub(crate) struct MarkSelfHosted;

impl Plugin for MarkSelfHosted {
    fn name(&self) -> Option<AdmissionPlugin> {
        Some(AdmissionPlugin::CustomVerbAuthorizer)
    }

    fn review<'a>(&'a self, review: Review<'a>) -> Verdict<'a> {
        Box::pin(async move {
            const VERB: &str = "mark-self-hosted";
            let Review { call, objects, .. } = review;
            let Some(shoot) = review.object.filter(|_| writes_object(&call)) else {
                return Ok(Vec::new());
            };
            let hosted = control_plane_pool(shoot);
            if hosted == review.old.and_then(control_plane_pool)
                || objects
                    .allowed(call.user, VERB, CORE, "shoots", call.namespace, call.name)
                    .await?
            {
                return Ok(Vec::new());
            }
            let why = format!(
                "spec.provider.workers: user {:?} is not allowed to {VERB}; leave controlPlane out of the pools",
                call.user.name
            );
            Err(Status::forbidden(CORE, "shoots", call.name, &why))
        })
    }
}

fn control_plane_pool(shoot: &Value) -> Option<&Value> {
    let pools = shoot.pointer("/spec/provider/workers").and_then(Value::as_array);
    let mut pools = pools.into_iter().flatten();
    pools.find(|pool| pool.get("controlPlane").is_some_and(|part| !part.is_null()))
}

#[cfg(test)]
mod tests {
    use cluster_apiserver::kind::Operation;
    use serde_json::json;

    use super::*;
    use crate::admission::tests::{Fixture, review};

    #[test]
    fn a_change_of_a_guarded_part_needs_its_verb() {
        let profile = |spec: Value| json!({"kind": "NamespacedCloudProfile", "metadata": {"name": "p"}, "spec": spec});
        let mut denied = Fixture::default();
        denied.denied.push("namespacedcloudprofiles");
        for field in ["kubernetes", "machineImages", "providerConfig"] {
            let new = profile(json!({ field: {"a": 1} }));
            assert!(review(&CustomVerbs, Operation::Create, Some(&new), None, &Fixture::default()).is_ok());
            let refusal = review(&CustomVerbs, Operation::Create, Some(&new), None, &denied).unwrap_err();
            assert!(refusal.contains(&format!("spec.{field}")), "{refusal}");
            assert!(review(&CustomVerbs, Operation::Update, Some(&new), Some(&new), &denied).is_ok());
        }
        let free = profile(json!({"machineTypes": []}));
        assert!(review(&CustomVerbs, Operation::Create, Some(&free), None, &denied).is_ok());
    }

    #[test]
    fn a_pool_for_the_control_plane_needs_its_verb() {
        let shoot = |pools: Value| json!({"kind": "Shoot", "metadata": {"name": "s"}, "spec": {"provider": {"workers": pools}}});
        let mut denied = Fixture::default();
        denied.denied.push("shoots");
        let (plain, hosted) = (
            shoot(json!([{"name": "a"}])),
            shoot(json!([{"name": "a"}, {"name": "b", "controlPlane": {}}])),
        );
        let allowed = Fixture::default();
        let create = |new: &Value, objects| review(&MarkSelfHosted, Operation::Create, Some(new), None, objects);
        assert!(create(&plain, &denied).is_ok());
        assert!(create(&hosted, &allowed).is_ok());
        assert!(create(&hosted, &denied).unwrap_err().contains("mark-self-hosted"));
        assert!(
            review(
                &MarkSelfHosted,
                Operation::Update,
                Some(&hosted),
                Some(&hosted),
                &denied
            )
            .is_ok()
        );
    }
}
