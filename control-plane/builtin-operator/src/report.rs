//! The status of a ControllerInstallation, from what was done. It writes the conditions Valid and Installed and the
//! providerStatus, and never any other condition.

use api_core::v1beta1::ControllerInstallation;
use api_meta::conditions::installation::{
    INSTALLATION_FAILED, INSTALLATION_PENDING, INSTALLATION_SUCCESSFUL, INSTALLED, REGISTRATION_VALID, VALID,
};
use api_meta::{Condition, ConditionStatus, Fault, RawJson};
use base_client::patch_status_if_changed;
use base_controller::Next;
use jiff::Timestamp;
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::Context;
use crate::apply::Done;
use crate::objects::Objects;
use crate::plan::Standing;

/// Reason of Valid=False: gardenlet's word for a deployment that cannot be understood.
const DEPLOYMENT_INVALID: &str = "ChartInformationInvalid";
/// Reasons of Installed=False while it goes.
const DELETION_PENDING: &str = "DeletionPending";
const DELETION_FAILED: &str = "DeletionFailed";

pub(crate) async fn report(
    read: &ControllerInstallation,
    done: Result<Done, Fault>,
    context: &Context,
) -> Result<Next, Fault> {
    let done = done?;
    let before = match &done {
        Done::Applied { installation, .. } | Done::Failed { installation, .. } => installation,
        _ => read,
    };
    let after = reported(before, &done, context.clock.now());
    patch_status_if_changed(&Api::all(context.garden.clone()), before, &after).await?;
    match done {
        Done::Failed { fault, .. } | Done::NotRemoved { fault } => Err(fault),
        // Whatever is waited for calls by its change.
        _ => Ok(Next::Change),
    }
}

/// The installation with its status as it is to be.
fn reported(before: &ControllerInstallation, done: &Done, now: Timestamp) -> ControllerInstallation {
    let mut after = before.clone();
    let status = after.status.get_or_insert_default();
    let mut say = |type_: &str, status_: ConditionStatus, reason: &str, message: &str| {
        Condition::new(type_, status_, reason, message, now).put_into(&mut status.conditions);
    };
    let (yes, no) = (|| ConditionStatus::True, || ConditionStatus::False);
    let valid = "The configuration of the deployment could be read.";
    match done {
        Done::Nothing => return before.clone(),
        Done::Refused { problem } => say(VALID, no(), DEPLOYMENT_INVALID, problem),
        Done::Applied { standing, objects, .. } => {
            say(VALID, yes(), REGISTRATION_VALID, valid);
            match standing {
                Standing::Available => say(
                    INSTALLED,
                    yes(),
                    INSTALLATION_SUCCESSFUL,
                    "The extension is installed in the seed and available.",
                ),
                Standing::Waiting { reason } => say(INSTALLED, no(), INSTALLATION_PENDING, reason),
            }
            status.provider_status = Some(provider_status(objects));
        }
        Done::Failed { fault, .. } => {
            say(VALID, yes(), REGISTRATION_VALID, valid);
            say(INSTALLED, no(), INSTALLATION_FAILED, &fault.chain());
        }
        Done::Removing { waiting_for } => say(
            INSTALLED,
            no(),
            DELETION_PENDING,
            &format!("waiting for {waiting_for} to be gone"),
        ),
        Done::NotRemoved { fault } => say(INSTALLED, no(), DELETION_FAILED, &fault.chain()),
    }
    after
}

/// Where it was installed and what runs.
fn provider_status(objects: &Objects) -> RawJson {
    let pod = objects
        .deployment
        .spec
        .as_ref()
        .and_then(|spec| spec.template.spec.as_ref());
    let image = pod
        .and_then(|pod| pod.containers.first())
        .and_then(|container| container.image.as_deref());
    RawJson::from(json!({
        "deployment": objects.deployment.name_any(),
        "image": image,
        "namespace": objects.namespace.name_any(),
        "serviceAccount": objects.service_account.name_any(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(hour: i64) -> Timestamp {
        Timestamp::from_second(hour * 3600).unwrap()
    }

    fn condition<'a>(installation: &'a ControllerInstallation, type_: &str) -> &'a Condition {
        Condition::find(&installation.status.as_ref().unwrap().conditions, type_).unwrap()
    }

    #[test]
    fn a_refusal_leaves_what_is_installed_installed_and_other_conditions_alone() {
        let mut before = ControllerInstallation::default();
        let status = before.status.get_or_insert_default();
        for (type_, reason) in [
            (INSTALLED, INSTALLATION_SUCCESSFUL),
            ("Required", "ExtensionObjectsExist"),
        ] {
            Condition::new(type_, ConditionStatus::True, reason, "", now(1)).put_into(&mut status.conditions);
        }
        let after = reported(
            &before,
            &Done::Refused {
                problem: "no image".into(),
            },
            now(2),
        );
        assert_eq!(condition(&after, VALID).message, "no image");
        assert_eq!(condition(&after, INSTALLED).status, ConditionStatus::True);
        assert_eq!(condition(&after, "Required"), condition(&before, "Required"));
        let again = reported(
            &after,
            &Done::Refused {
                problem: "no image".into(),
            },
            now(3),
        );
        assert_eq!(again, after, "nothing changed, nothing is written");
    }

    #[test]
    fn a_failure_tells_the_whole_chain() {
        let fault = Fault::access("forbidden").doing("apply Namespace x");
        let done = Done::Failed {
            installation: Box::default(),
            fault,
        };
        let after = reported(&ControllerInstallation::default(), &done, now(1));
        assert_eq!(
            (
                condition(&after, INSTALLED).reason.as_str(),
                condition(&after, INSTALLED).message.as_str()
            ),
            (INSTALLATION_FAILED, "apply Namespace x: forbidden")
        );
        assert_eq!(condition(&after, VALID).status, ConditionStatus::True);
    }
}
