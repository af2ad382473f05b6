//! Bastions get the seed and the provider of their Shoot, their creator's name, and the Shoot as owner, so that they go with
//! it (gardener/gardener v1.150 plugin/pkg/bastion/validator).

use api_core::operations::Bastion as Object;
use api_core::v1beta1::Shoot;
use api_meta::annotations::CREATED_BY;
use cluster_apiserver::Status;
use cluster_apiserver::fields::{FieldError, FieldErrorKind};
use cluster_apiserver::kind::{Call, Objects, Operation};
use serde_json::{Value, json};

use super::{Plugin, Verdict, writes_object};
use crate::AdmissionPlugin;
use crate::convert::{CORE, decode_stored, is_leaving, text};
use crate::prepare::annotate;

const PATH: &str = "spec.shootRef.name";

/// The plug-in `Bastion`.
pub(crate) struct Bastion;

impl Plugin for Bastion {
    fn name(&self) -> Option<AdmissionPlugin> {
        Some(AdmissionPlugin::Bastion)
    }

    fn admit<'a>(
        &'a self,
        call: Call<'a>,
        object: &'a mut Value,
        _old: Option<&'a Value>,
        objects: &'a dyn Objects,
    ) -> Verdict<'a> {
        Box::pin(async move {
            if !writes_object(&call) {
                return Ok(Vec::new());
            }
            let name = text(object, "/spec/shootRef/name").to_owned();
            if name.is_empty() {
                let error = FieldError::new(PATH, FieldErrorKind::Required, None, "name a Shoot of this namespace");
                return Err(invalid(call.name, error));
            }
            let Some(shoot) = objects.get(CORE, "shoots", call.namespace, &name).await? else {
                // A deletion is finished without the Shoot if that is gone.
                if is_leaving(object) {
                    return Ok(Vec::new());
                }
                let namespace = call.namespace.unwrap_or_default();
                let why = format!("there is no Shoot {namespace}/{name}; create it first");
                return Err(invalid(call.name, FieldError::invalid(PATH, name, why)));
            };
            let typed: Shoot = decode_stored("Shoot", &shoot)?;
            let creates = call.operation == Operation::Create;
            if let Some(why) = unfit(&typed, creates, is_leaving(object)) {
                return Err(invalid(call.name, FieldError::invalid(PATH, name, why)));
            }
            object["spec"]["seedName"] = json!(typed.spec.seed_name);
            object["spec"]["providerType"] = json!(typed.spec.provider.type_);
            if creates {
                annotate(object, CREATED_BY, &call.user.name);
            }
            own(object, &name, text(&shoot, "/metadata/uid"));
            Ok(Vec::new())
        })
    }
}

/// Why the Shoot can have no Bastion.
fn unfit(shoot: &Shoot, creates: bool, leaving: bool) -> Option<&'static str> {
    if creates && shoot.metadata.deletion_timestamp.is_some() {
        return Some("the Shoot is in deletion");
    }
    if shoot.spec.seed_name.as_ref().is_none_or(String::is_empty) {
        return Some("the Shoot is not assigned to a seed yet; wait until it is scheduled");
    }
    let settings = shoot.spec.provider.workers_settings.as_ref();
    let access = settings.and_then(|settings| settings.ssh_access.as_ref());
    let has_access = !api_rules::is_workerless(shoot) && access.is_none_or(|access| access.enabled);
    (!has_access && !leaving).then_some(
        "SSH access to the Shoot's workers is disabled; set spec.provider.workersSettings.sshAccess.enabled of a Shoot with workers",
    )
}

/// Adds the Shoot to the owners, unless it is among them.
fn own(bastion: &mut Value, shoot: &str, uid: &str) {
    let owners = &mut bastion["metadata"]["ownerReferences"];
    if !owners.is_array() {
        *owners = json!([]);
    }
    if let Some(owners) = owners
        .as_array_mut()
        .filter(|owners| !owners.iter().any(|owner| owner["uid"] == uid))
    {
        owners.push(
            json!({"apiVersion": format!("{CORE}/v1beta1"), "kind": "Shoot", "name": shoot, "uid": uid,
            "controller": true, "blockOwnerDeletion": true}),
        );
    }
}

fn invalid(name: &str, error: FieldError) -> Status {
    let group = <Object as api_meta::Kind>::GROUP;
    Status::invalid(group, "Bastion", name, &[error])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::tests::{Fixture, admitted};

    fn shoot(spec: Value, deleted: bool) -> Value {
        let mut shoot = json!({"metadata": {"name": "s", "namespace": "garden-p", "uid": "u"}, "spec": spec});
        if deleted {
            shoot["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        shoot
    }

    fn bound(settings: Value) -> Value {
        json!({"seedName": "seed", "provider": {"type": "p", "workers": [{"name": "w"}], "workersSettings": settings}})
    }

    fn bastion(shoot: &str) -> Value {
        json!({"kind": "Bastion", "metadata": {"name": "b", "namespace": "garden-p"}, "spec": {"shootRef": {"name": shoot}}})
    }

    fn made(shoot: Value, old: Option<&Value>) -> Result<Value, String> {
        let fixture = Fixture::default().with("shoots", shoot);
        admitted(&Bastion, None, bastion("s"), old, &fixture)
    }

    #[test]
    fn a_bastion_gets_seed_provider_creator_and_owner_from_the_server() {
        let made = made(shoot(bound(json!({})), false), None).unwrap();
        assert_eq!(made["spec"]["seedName"], "seed");
        assert_eq!(made["spec"]["providerType"], "p");
        assert_eq!(made["metadata"]["annotations"][CREATED_BY], "alice");
        let fixture = Fixture::default().with("shoots", shoot(bound(json!({})), false));
        let again = admitted(&Bastion, None, made.clone(), Some(&made), &fixture).unwrap();
        assert_eq!(again, made, "the Shoot owns it once");
        assert_eq!(again["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(1));
    }

    #[test]
    fn a_shoot_that_cannot_have_a_bastion_is_refused() {
        let without_pools = json!({"seedName": "seed", "provider": {"type": "p"}});
        for (shoot, old, expected) in [
            (shoot(json!({}), false), false, "not assigned to a seed"),
            (shoot(bound(json!({})), true), false, "in deletion"),
            (
                shoot(bound(json!({"sshAccess": {"enabled": false}})), false),
                false,
                "SSH access",
            ),
            (shoot(without_pools, false), true, "SSH access"),
        ] {
            let before = old.then(|| bastion("s"));
            let refusal = made(shoot, before.as_ref()).expect_err(expected);
            assert!(
                refusal.contains("spec.shootRef.name") && refusal.contains(expected),
                "{refusal}"
            );
        }
        assert!(
            made(shoot(bound(json!({})), true), Some(&bastion("s"))).is_ok(),
            "a Bastion that is there may be changed while its Shoot goes"
        );
        for (name, expected) in [("", "Required"), ("gone", "there is no Shoot garden-p/gone")] {
            let refusal = admitted(&Bastion, None, bastion(name), None, &Fixture::default()).expect_err(expected);
            assert!(refusal.contains(expected), "{refusal}");
        }
    }

    #[test]
    fn a_bastion_in_deletion_needs_no_shoot_and_no_access() {
        let mut leaving = bastion("gone");
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(admitted(&Bastion, None, leaving.clone(), Some(&leaving), &Fixture::default()).is_ok());
        leaving["spec"]["shootRef"]["name"] = json!("s");
        let fixture = Fixture::default().with("shoots", shoot(bound(json!({"sshAccess": {"enabled": false}})), false));
        assert!(admitted(&Bastion, None, leaving.clone(), Some(&leaving), &fixture).is_ok());
    }
}
