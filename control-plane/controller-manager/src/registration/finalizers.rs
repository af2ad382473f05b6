//! Keeps registrations while installations refer to them, and deployments while registrations do
//! (gardener/gardener v1.150 .../controllerregistrationfinalizer, controllerdeployment). It holds back only.

use std::sync::Arc;
use std::time::Duration;

use api_core::v1beta1::{ControllerDeployment, ControllerInstallation, ControllerRegistration};
use api_meta::conditions::installation::{INSTALLED, REQUIRED};
use api_meta::{Condition, Fault, finalizers};
use base_client::{add_finalizer, has_finalizer, remove_finalizer};
use base_controller::{Controller, EventType, Next, ObjectKey};
use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::context::Context;

const DELETION_BLOCKED: &str = "DeletionBlocked";
/// How long a registration in deletion waits for its installations before an event is written: an ordinary removal takes
/// seconds, without any action.
const REMOVAL_PATIENCE: Duration = Duration::from_secs(30);

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
    /// It stays.
    Hold,
}

/// A finalizer that is always there until the object may go.
fn step(present: bool, deleting: bool, is_referred_to: bool) -> Step {
    match (deleting, present) {
        (false, false) => Step::Add,
        (true, true) if !is_referred_to => Step::Remove,
        (true, true) => Step::Hold,
        (false, true) | (true, false) => Step::Nothing,
    }
}

async fn registration_finalizer(context: &Context, registration: &Arc<ControllerRegistration>) -> Result<Next, Fault> {
    context.caches.installations.ready().await;
    let refers =
        |installation: &ControllerInstallation| installation.spec.registration_ref.name == registration.metadata.name;
    let mut referring = context.caches.installations.list();
    referring.retain(|installation| refers(installation));
    let present = has_finalizer(&**registration, finalizers::CONTROLLER_REGISTRATION);
    let api = context.cluster::<ControllerRegistration>();
    let object = || (**registration).clone();
    let deleted = registration.meta().deletion_timestamp.as_ref();
    match step(present, deleted.is_some(), !referring.is_empty()) {
        Step::Nothing => {}
        Step::Add => drop(add_finalizer(&api, object(), finalizers::CONTROLLER_REGISTRATION).await?),
        Step::Remove => drop(remove_finalizer(&api, object(), finalizers::CONTROLLER_REGISTRATION).await?),
        Step::Hold => {
            let now = context.clock.now();
            let since = deleted.map_or(now, |deleted| deleted.0);
            if let Some(remaining) = remaining(since, now) {
                return Ok(Next::After(remaining));
            }
            let message = blocked_by(&referring);
            context
                .recorder
                .record(&**registration, EventType::Warning, DELETION_BLOCKED, &message)
                .await;
        }
    }
    Ok(Next::Change)
}

/// How long an ordinary removal that began at that time may still take; none once that time is over.
fn remaining(since: Timestamp, now: Timestamp) -> Option<Duration> {
    let elapsed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    REMOVAL_PATIENCE.checked_sub(elapsed).filter(|left| !left.is_zero())
}

/// The installations that are still there, and what each reports of it.
fn blocked_by(referring: &[Arc<ControllerInstallation>]) -> String {
    let of_one = |installation: &Arc<ControllerInstallation>| {
        let conditions = installation
            .status
            .as_ref()
            .map_or(&[][..], |status| &status.conditions);
        let is_going = installation.meta().deletion_timestamp.is_some();
        let reported = Condition::find(conditions, if is_going { INSTALLED } else { REQUIRED });
        match reported.filter(|condition| !condition.message.is_empty()) {
            Some(condition) => format!("{} ({})", installation.name_any(), condition.message),
            None => installation.name_any(),
        }
    };
    let all: Vec<String> = referring.iter().map(of_one).collect();
    format!(
        "cannot remove finalizer because still found ControllerInstallations: {}",
        all.join(", ")
    )
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
    use serde_json::json;

    use super::*;

    #[test]
    fn a_finalizer_goes_only_when_nothing_refers_any_more() {
        let cases = [
            (false, false, false, Step::Add),
            (true, false, true, Step::Nothing),
            (true, true, true, Step::Hold),
            (true, true, false, Step::Remove),
            (false, true, false, Step::Nothing),
        ];
        for (present, deleting, is_referred_to, expected) in cases {
            assert_eq!(step(present, deleting, is_referred_to), expected);
        }
    }

    #[test]
    fn only_a_removal_that_lasts_is_reported_as_blocked() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        assert_eq!(remaining(at(10), at(10)), Some(REMOVAL_PATIENCE));
        assert_eq!(remaining(at(10), at(39)), Some(Duration::from_secs(1)));
        assert_eq!(remaining(at(10), at(40)), None);
        assert_eq!(remaining(at(10), at(9)), Some(REMOVAL_PATIENCE), "clocks differ");
    }

    #[test]
    fn what_blocks_a_removal_is_named_with_what_it_reports() {
        let installation = |name: &str, deleted: Option<&str>| {
            let conditions = json!([
                {"type": "Required", "status": "True", "message": "extension objects still exist in the seed: [Worker/moon]"},
                {"type": "Installed", "status": "False", "message": "Deletion of Namespace \"n\" is still pending."},
            ]);
            let metadata = json!({"name": name, "deletionTimestamp": deleted});
            let object = json!({"metadata": metadata, "spec": {"registrationRef": {"name": "moon"}}, "status": {"conditions": conditions}});
            Arc::new(serde_json::from_value::<ControllerInstallation>(object).unwrap())
        };
        let all = [installation("a", None), installation("b", Some("2026-01-01T00:00:00Z"))];
        assert_eq!(
            blocked_by(&all),
            "cannot remove finalizer because still found ControllerInstallations: a (extension objects still exist in the \
             seed: [Worker/moon]), b (Deletion of Namespace \"n\" is still pending.)"
        );
    }
}
