//! The condition Required of ControllerInstallations: whether objects of their kinds and types exist in the seed
//! (contract D.3). Protects an extension from being uninstalled while it is needed. Never installs anything.

use std::collections::BTreeSet;
use std::sync::Arc;

use api_core::v1beta1 as core;
use api_extensions::ObjectView;
use api_meta::{Condition, ConditionStatus, Fault, conditions};
use api_rules::KindType;
use base_client::patch_status_if_changed;
use base_controller::{Controller, Next, ObjectKey};
use futures::FutureExt;
use jiff::Timestamp;
use kube::Api;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::extension::ObjectEvent;

/// Kinds with types.
type Types = BTreeSet<KindType>;

/// Keeps the condition true for the installations of our seed until `stop`.
pub(crate) async fn run(context: Arc<Context>, stop: CancellationToken) {
    let installations = context.garden_caches.installations.clone();
    let seed = context.config.seed_name().to_owned();
    let caches = &context.seed_caches.extension_objects;
    let controller = Controller::new("installation-required", installations.clone())
        .only(move |one| one.spec.seed_ref.as_ref().and_then(|seed| seed.name.as_deref()) == Some(&seed));
    // Objects come and go: then every installation may be concerned. Changes of a known object concern none.
    let all = move |_: ObjectView<'_>, event: ObjectEvent<'_>| match event {
        ObjectEvent::Appeared | ObjectEvent::Deleted => {
            installations.list().iter().map(|one| ObjectKey::of(&**one)).collect()
        }
        ObjectEvent::Changed(_) => Vec::new(),
    };
    caches
        .watched_by(controller, all)
        .run(stop, move |one| reconcile(context.clone(), one).boxed())
        .await;
}

async fn reconcile(context: Arc<Context>, installation: Arc<core::ControllerInstallation>) -> Result<Next, Fault> {
    let Some(present) = context.seed_caches.extension_objects.types() else {
        // Undecided until every kind has been listed once: the list that is still missing calls again.
        return Ok(Next::After(std::time::Duration::from_secs(1)));
    };
    let registration = installation.spec.registration_ref.name.clone().unwrap_or_default();
    let Some(registration) = context
        .garden_caches
        .registrations
        .get(&ObjectKey::cluster(registration))
    else {
        return Ok(Next::Change);
    };
    let condition = required(&registration, &present, context.clock.now());
    let mut after = (*installation).clone();
    if condition.put_into(&mut after.status.get_or_insert_default().conditions) {
        let api: Api<core::ControllerInstallation> = Api::all(context.garden.clone());
        patch_status_if_changed(&api, &installation, &after).await?;
    }
    Ok(Next::Change)
}

fn required(registration: &core::ControllerRegistration, present: &Types, now: Timestamp) -> Condition {
    let found: Vec<String> = registration
        .spec
        .resources
        .iter()
        .filter(|resource| present.contains(&KindType::new(&resource.kind, &resource.type_)))
        .map(|resource| format!("{}/{}", resource.kind, resource.type_))
        .collect();
    let type_ = conditions::installation::REQUIRED;
    if found.is_empty() {
        let text = "no extension objects exist in the seed having the kind/type combinations the controller is responsible for";
        return Condition::new(
            type_,
            ConditionStatus::False,
            conditions::installation::NO_EXTENSION_OBJECTS,
            text,
            now,
        );
    }
    let text = format!("extension objects still exist in the seed: [{}]", found.join(", "));
    Condition::new(
        type_,
        ConditionStatus::True,
        conditions::installation::EXTENSION_OBJECTS_EXIST,
        &text,
        now,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installation_is_required_while_one_of_its_kinds_and_types_exists() {
        let mut registration = core::ControllerRegistration::default();
        let resource = |kind: &str, type_: &str| core::ControllerResource {
            kind: kind.into(),
            type_: type_.into(),
            ..core::ControllerResource::default()
        };
        registration.spec.resources = vec![resource("Worker", "Moon"), resource("Network", "net")];
        let types = |all: &[(&str, &str)]| {
            all.iter()
                .map(|(kind, type_)| KindType::new(kind, type_))
                .collect::<Types>()
        };
        let checked = |present: &Types| required(&registration, present, Timestamp::UNIX_EPOCH);
        let yes = checked(&types(&[("Worker", "moon"), ("Network", "other")]));
        assert_eq!(yes.message, "extension objects still exist in the seed: [Worker/Moon]");
        let no = checked(&types(&[("ControlPlane", "moon")]));
        assert_eq!(
            (no.status, no.reason.as_str()),
            (ConditionStatus::False, "NoExtensionObjects")
        );
    }
}
