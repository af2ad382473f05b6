//! The status of a ControllerInstallation, from what was done. It writes the conditions Valid, Installed, Healthy and
//! Progressing and the providerStatus, and never any other condition.

use api_core::v1beta1::ControllerInstallation;
use api_meta::conditions::installation::{
    DELETION_FAILED, DELETION_PENDING, HEALTHY, INSTALLATION_FAILED, INSTALLATION_PENDING, INSTALLATION_SUCCESSFUL,
    INSTALLED, PROGRESSING, REGISTRATION_VALID, VALID,
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
use crate::observe::Seen;
use crate::standing::{Standing, standing};

/// Reason of Valid=False: gardenlet's word for a deployment that cannot be understood.
const DEPLOYMENT_INVALID: &str = "ChartInformationInvalid";
/// Reasons of Healthy and Progressing: gardenlet's words for the same of its charts.
const IS_HEALTHY: &str = "ControllerHealthy";
const IS_NOT_HEALTHY: &str = "ControllerNotHealthy";
const IS_ROLLED_OUT: &str = "ControllerRolledOut";
const IS_NOT_ROLLED_OUT: &str = "ControllerNotRolledOut";

pub(crate) async fn report(
    read: &ControllerInstallation,
    seen: &Seen,
    done: Result<Done, Fault>,
    context: &Context,
) -> Result<Next, Fault> {
    let done = done?;
    let before = match &done {
        Done::Applied { installation, .. } | Done::Failed { installation, .. } => installation,
        _ => read,
    };
    let after = reported(before, &done, found(&done, seen).as_ref(), context.clock.now());
    patch_status_if_changed(&Api::all(context.garden.clone()), before, &after).await?;
    match done {
        Done::Failed { fault, .. } | Done::NotRemoved { fault } => Err(fault),
        // Whatever is waited for calls by its change.
        _ => Ok(Next::Change),
    }
}

/// How that stands which runs in the seed; none if nothing does, or if it is on its way out.
fn found(done: &Done, seen: &Seen) -> Option<Standing> {
    let deployment = match done {
        Done::Applied { deployment, .. } => Some(&**deployment),
        Done::Refused { .. } | Done::Failed { .. } => seen.deployment.as_deref(),
        Done::Nothing | Done::Removing { .. } | Done::NotRemoved { .. } => None,
    };
    deployment.map(|deployment| standing(deployment, &seen.pods))
}

/// The installation with its status as it is to be.
fn reported(
    before: &ControllerInstallation,
    done: &Done,
    found: Option<&Standing>,
    now: Timestamp,
) -> ControllerInstallation {
    let mut after = before.clone();
    let status = after.status.get_or_insert_default();
    let mut report = |type_: &str, status_: ConditionStatus, reason: &str, message: &str| {
        Condition::new(type_, status_, reason, message, now).put_into(&mut status.conditions);
    };
    let (yes, no) = (|| ConditionStatus::True, || ConditionStatus::False);
    let valid = "The configuration of the deployment could be read.";
    match done {
        Done::Nothing => return before.clone(),
        Done::Refused { problem } => report(VALID, no(), DEPLOYMENT_INVALID, problem),
        Done::Applied { .. } => {
            report(VALID, yes(), REGISTRATION_VALID, valid);
            match found.and_then(|found| found.pending.as_deref()) {
                None => report(
                    INSTALLED,
                    yes(),
                    INSTALLATION_SUCCESSFUL,
                    "The extension is installed in the seed and available.",
                ),
                Some(reason) => report(INSTALLED, no(), INSTALLATION_PENDING, reason),
            }
        }
        Done::Failed { fault, .. } => {
            report(VALID, yes(), REGISTRATION_VALID, valid);
            report(INSTALLED, no(), INSTALLATION_FAILED, &fault.chain());
        }
        Done::Removing { waiting_for } => report(
            INSTALLED,
            no(),
            DELETION_PENDING,
            &format!("waiting for {waiting_for} to be gone"),
        ),
        Done::NotRemoved { fault } => report(INSTALLED, no(), DELETION_FAILED, &fault.chain()),
    }
    if let Some(Standing { ill, rolling_out, .. }) = found {
        match ill {
            None => report(HEALTHY, yes(), IS_HEALTHY, "The extension runs well."),
            Some(why) => report(HEALTHY, no(), IS_NOT_HEALTHY, why),
        }
        match rolling_out {
            None => report(PROGRESSING, no(), IS_ROLLED_OUT, "The extension has been rolled out."),
            Some(why) => report(PROGRESSING, yes(), IS_NOT_ROLLED_OUT, why),
        }
    }
    if let Done::Applied { objects, .. } = done {
        status.provider_status = Some(provider_status(objects));
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
            None,
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
            None,
            now(3),
        );
        assert_eq!(again, after, "nothing changed, nothing is written");
    }

    #[test]
    fn a_failure_reports_the_whole_chain() {
        let fault = Fault::access("forbidden").doing("apply Namespace x");
        let done = Done::Failed {
            installation: Box::default(),
            fault,
        };
        let after = reported(&ControllerInstallation::default(), &done, None, now(1));
        assert_eq!(
            (
                condition(&after, INSTALLED).reason.as_str(),
                condition(&after, INSTALLED).message.as_str()
            ),
            (INSTALLATION_FAILED, "apply Namespace x: forbidden")
        );
        assert_eq!(condition(&after, VALID).status, ConditionStatus::True);
    }
    #[test]
    fn health_and_progress_are_reported_after_a_refusal_too() {
        let mut found = Standing {
            pending: None,
            ill: Some("no image".into()),
            rolling_out: Some("1 of 2".into()),
        };
        let refused = Done::Refused {
            problem: "replicas".into(),
        };
        let printed = |after: &ControllerInstallation| {
            [HEALTHY, PROGRESSING].map(|type_| {
                let condition = condition(after, type_);
                format!("{} {} {}", condition.status, condition.reason, condition.message)
            })
        };
        let ill = reported(&ControllerInstallation::default(), &refused, Some(&found), now(1));
        assert_eq!(
            printed(&ill),
            [
                "False ControllerNotHealthy no image",
                "True ControllerNotRolledOut 1 of 2"
            ]
        );
        found = Standing::default();
        let well = reported(&ill, &refused, Some(&found), now(2));
        assert_eq!(
            printed(&well),
            [
                "True ControllerHealthy The extension runs well.",
                "False ControllerRolledOut The extension has been rolled out."
            ]
        );
    }
}
