//! Keeps registrations while installations refer to them, and deployments while registrations do
//! (gardener/gardener v1.150 .../controllerregistrationfinalizer, controllerdeployment). It holds back only.

use std::sync::Arc;

use api_core::v1beta1::{ControllerDeployment, ControllerInstallation, ControllerRegistration};
use api_meta::{Fault, finalizers};
use base_client::{add_finalizer, has_finalizer, remove_finalizer};
use base_controller::{Controller, EventType, Next, ObjectKey};
use kube::{Resource, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::context::Context;

const DELETION_BLOCKED: &str = "DeletionBlocked";

/// Every registration carries a finalizer; it goes once nothing refers to a registration in deletion.
pub(crate) async fn run_registration_finalizers(context: Context, stop: CancellationToken) {
    let caches = context.caches.clone();
    Controller::new("registration-finalizers", caches.registrations.clone())
        .watches(&caches.installations, |change| {
            change
                .object
                .spec
                .registration_ref
                .name
                .iter()
                .map(ObjectKey::cluster)
                .collect()
        })
        .run(stop, move |registration| {
            let context = context.clone();
            async move { registration_finalizer(&context, &registration).await }
        })
        .await;
}

/// What a finalizer needs.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Nothing,
    Add,
    Remove,
    /// It stays; the text says because of what.
    Hold(String),
}

/// A finalizer that is always there until the object may go.
fn step(present: bool, deleting: bool, referring: &[String]) -> Step {
    match (deleting, present) {
        (false, false) => Step::Add,
        (true, true) if referring.is_empty() => Step::Remove,
        (true, true) => Step::Hold(referring.join(", ")),
        (false, true) | (true, false) => Step::Nothing,
    }
}

async fn registration_finalizer(context: &Context, registration: &Arc<ControllerRegistration>) -> Result<Next, Fault> {
    context.caches.installations.ready().await;
    let refers =
        |installation: &ControllerInstallation| installation.spec.registration_ref.name == registration.metadata.name;
    let installations = context.caches.installations.list();
    let referring: Vec<String> = installations
        .iter()
        .filter(|installation| refers(installation))
        .map(|i| i.name_any())
        .collect();
    let present = has_finalizer(&**registration, finalizers::CONTROLLER_REGISTRATION);
    let api = context.cluster::<ControllerRegistration>();
    let object = || (**registration).clone();
    match step(present, registration.meta().deletion_timestamp.is_some(), &referring) {
        Step::Nothing => {}
        Step::Add => drop(add_finalizer(&api, object(), finalizers::CONTROLLER_REGISTRATION).await?),
        Step::Remove => drop(remove_finalizer(&api, object(), finalizers::CONTROLLER_REGISTRATION).await?),
        Step::Hold(names) => {
            let message = format!("cannot remove finalizer because still found ControllerInstallations: {names}");
            context
                .recorder
                .record(&**registration, EventType::Warning, DELETION_BLOCKED, &message)
                .await;
        }
    }
    Ok(Next::Change)
}

/// Every deployment that a registration refers to carries a finalizer.
pub(crate) async fn run_deployment_finalizers(context: Context, stop: CancellationToken) {
    let caches = context.caches.clone();
    Controller::new("deployment-finalizers", caches.deployments.clone())
        .watches(&caches.registrations, |change| {
            let both = [Some(&change.object), change.old.as_ref()];
            both.into_iter()
                .flatten()
                .flat_map(|registration| deployment_names(registration))
                .map(ObjectKey::cluster)
                .collect()
        })
        .run(stop, move |deployment| {
            let context = context.clone();
            async move { deployment_finalizer(&context, &deployment).await }
        })
        .await;
}

fn deployment_names(registration: &ControllerRegistration) -> Vec<String> {
    let references = registration
        .spec
        .deployment
        .iter()
        .flat_map(|deployment| deployment.deployment_refs.iter());
    references.map(|reference| reference.name.clone()).collect()
}

async fn deployment_finalizer(context: &Context, deployment: &Arc<ControllerDeployment>) -> Result<Next, Fault> {
    context.caches.registrations.ready().await;
    let name = deployment.name_any();
    let used = context
        .caches
        .registrations
        .list()
        .iter()
        .any(|r| deployment_names(r).contains(&name));
    let present = has_finalizer(&**deployment, finalizers::GARDENER);
    let deleting = deployment.meta().deletion_timestamp.is_some();
    let api = context.cluster::<ControllerDeployment>();
    if used && !present && !deleting {
        add_finalizer(&api, (**deployment).clone(), finalizers::GARDENER).await?;
    } else if !used && present {
        remove_finalizer(&api, (**deployment).clone(), finalizers::GARDENER).await?;
    }
    Ok(Next::Change)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finalizer_goes_only_when_nothing_refers_any_more() {
        let one = ["local-abcde".to_owned()];
        let cases = [
            (false, false, &[][..], Step::Add),
            (true, false, &one[..], Step::Nothing),
            (true, true, &one[..], Step::Hold("local-abcde".into())),
            (true, true, &[][..], Step::Remove),
            (false, true, &[][..], Step::Nothing),
        ];
        for (present, deleting, referring, expected) in cases {
            assert_eq!(step(present, deleting, referring), expected);
        }
    }
}
