//! The Extensions of the seed itself: objects of class `seed` in its namespace `garden`, for those that the Seed names and
//! those that registrations enable for seeds (gardener/gardener v1.150 pkg/gardenlet/controller/seed/seed). Pure: the seed
//! controller reads and writes.

use std::collections::BTreeSet;

use api_core::v1beta1::{ControllerRegistration, Seed};
use api_extensions::{Extension, ExtensionClass, ExtensionSpec};
use api_meta::{LastOperation, LastOperationState, names, with_hint};
use api_rules::extensions_of_seed;
use control_plane_readiness::{Readiness, readiness, reported};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::ResourceExt;

use crate::outcome::create_or_reconcile;

/// What is to be done about them.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Plan {
    /// Requested from their extensions.
    pub request: Vec<Extension>,
    /// Names of those that nothing wants any more.
    pub delete: Vec<String>,
    /// What keeps the seed from having what it wants.
    pub waits_for: Vec<String>,
    /// Whether an extension reports an error.
    pub is_failing: bool,
}

/// Whether an Extension is the seed's own.
pub(crate) fn is_of_seed(extension: &Extension) -> bool {
    extension.namespace().as_deref() == Some(names::GARDEN_NAMESPACE)
        && extension.spec.class == Some(ExtensionClass::Seed)
}

/// Plans. An Extension that is as wanted is requested once: its extension tries again by itself.
pub(crate) fn plan(seed: &Seed, registrations: &[ControllerRegistration], present: &[Extension]) -> Plan {
    let wanted: Vec<Extension> = extensions_of_seed(seed, registrations)
        .into_iter()
        .map(|extension| Extension {
            metadata: ObjectMeta {
                // The type may be written with capitals where names may not.
                name: Some(extension.type_.to_lowercase()),
                namespace: Some(names::GARDEN_NAMESPACE.to_owned()),
                ..ObjectMeta::default()
            },
            spec: ExtensionSpec {
                type_: extension.type_,
                class: Some(ExtensionClass::Seed),
                provider_config: extension.provider_config,
            },
            status: None,
        })
        .collect();
    let names: BTreeSet<String> = wanted.iter().map(ResourceExt::name_any).collect();
    let mut plan = Plan::default();
    for stale in present
        .iter()
        .filter(|extension| !names.contains(&extension.name_any()))
    {
        plan.waits_for.push(format!("the deletion of {}", title(stale)));
        if stale.metadata.deletion_timestamp.is_none() {
            plan.delete.push(stale.name_any());
        }
    }
    for wanted in wanted {
        let found = present
            .iter()
            .find(|extension| extension.name_any() == wanted.name_any());
        match found {
            Some(found) if found.metadata.deletion_timestamp.is_some() => {
                plan.waits_for.push(format!("the deletion of the old {}", title(found)));
            }
            Some(found) if found.spec == wanted.spec => plan.evaluate(found),
            _ => {
                plan.waits_for
                    .push(format!("{}: it has just been requested", title(&wanted)));
                plan.request.push(wanted);
            }
        }
    }
    plan
}

impl Plan {
    fn evaluate(&mut self, found: &Extension) {
        let why = match readiness(&reported(found), None) {
            Readiness::Ready => return,
            Readiness::NotYet(why) => why,
            Readiness::Failing { text, hint, .. } => {
                self.is_failing = true;
                with_hint(&text, &hint)
            }
        };
        self.waits_for.push(format!("{}: {why}", title(found)));
    }

    /// The Seed's last operation; that which is known if there is no news.
    pub(crate) fn last_operation(&self, known: Option<&LastOperation>, now: Timestamp) -> LastOperation {
        let (state, progress, description) = if self.waits_for.is_empty() {
            let description = "Seed cluster has been successfully reconciled.".to_owned();
            (LastOperationState::Succeeded, 100, description)
        } else {
            let state = match self.is_failing {
                true => LastOperationState::Error,
                false => LastOperationState::Processing,
            };
            (state, 50, format!("Waiting for {}", self.waits_for.join("; ")))
        };
        let is_known = |known: &&LastOperation| known.state == state && known.description == description;
        known.filter(is_known).cloned().unwrap_or_else(|| LastOperation {
            description,
            last_update_time: Time(now),
            progress,
            state,
            type_: create_or_reconcile(known),
        })
    }
}

fn title(extension: &Extension) -> String {
    format!("Extension {}/{}", names::GARDEN_NAMESPACE, extension.name_any())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn seed(extensions: &Value) -> Seed {
        serde_json::from_value(json!({"metadata": {"name": "s"}, "spec": {"extensions": extensions}})).unwrap()
    }

    fn registration(type_: &str, enabled: &Value) -> ControllerRegistration {
        let resource = json!({"kind": "Extension", "type": type_, "primary": true, "autoEnable": enabled});
        serde_json::from_value(json!({"metadata": {"name": type_}, "spec": {"resources": [resource]}})).unwrap()
    }

    fn done(extension: &Extension, state: &str) -> Extension {
        let status = json!({"observedGeneration": 1, "lastOperation": {"state": state, "type": "Create",
            "lastUpdateTime": "2026-01-01T00:00:00Z", "progress": 100, "description": "d"},
            "lastError": {"description": "no quota"}});
        let mut extension = extension.clone();
        extension.metadata.generation = Some(1);
        extension.status = serde_json::from_value(status).unwrap();
        extension
    }

    fn names_of(extensions: &[Extension]) -> Vec<String> {
        extensions.iter().map(ResourceExt::name_any).collect()
    }

    #[test]
    fn a_seed_has_extensions_it_names_or_enabled_for_seeds_unless_disabled() {
        let registrations = [
            registration("auto", &json!(["seed"])),
            registration("off", &json!(["seed"])),
            registration("shoots", &json!(["shoot"])),
        ];
        let seed = seed(&json!([{"type": "Own", "providerConfig": {"a": 1}}, {"type": "off", "disabled": true}]));
        let first = plan(&seed, &registrations, &[]);
        assert_eq!(names_of(&first.request), ["auto", "own"]);
        assert_eq!(first.request[1].spec.type_, "Own");
        assert!(first.request.iter().all(is_of_seed));
        let last = first.last_operation(None, Timestamp::UNIX_EPOCH);
        assert_eq!(last.state, LastOperationState::Processing);

        let ready: Vec<Extension> = first.request.iter().map(|one| done(one, "Succeeded")).collect();
        let settled = plan(&seed, &registrations, &ready);
        assert_eq!(settled, Plan::default());
        let last = settled.last_operation(Some(&last), Timestamp::UNIX_EPOCH);
        assert_eq!(last.state, LastOperationState::Succeeded);
        let later = settled.last_operation(Some(&last), Timestamp::MAX);
        assert_eq!(later, last, "nothing is written again");
    }

    #[test]
    fn an_extension_that_fails_or_is_unwanted_is_named() {
        let registrations = [registration("auto", &json!(["seed"]))];
        let present = plan(&seed(&json!([])), &registrations, &[]).request;
        let failing = plan(&seed(&json!([])), &registrations, &[done(&present[0], "Error")]);
        let last = failing.last_operation(None, Timestamp::UNIX_EPOCH);
        assert_eq!(last.state, LastOperationState::Error);
        assert!(last.description.contains("Extension garden/auto") && last.description.contains("no quota"));
        assert!(failing.request.is_empty(), "its extension tries again by itself");

        let unwanted = plan(&seed(&json!([])), &[], &[done(&present[0], "Succeeded")]);
        assert_eq!(unwanted.delete, ["auto"]);
        assert_eq!(unwanted.waits_for, ["the deletion of Extension garden/auto"]);
    }
}
