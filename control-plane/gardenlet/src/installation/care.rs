//! How what was installed stands: the conditions Installed, Healthy and Progressing of installations with a chart, from
//! those of their ManagedResources (contract D.2). Never installs anything; what was superseded goes.

use std::sync::Arc;

use api_core::v1beta1::ControllerInstallation;
use api_meta::{Condition, ConditionStatus, Fault, conditions};
use api_resources::ManagedResource;
use base_controller::{Controller, Next, ObjectKey, changed_by_others};
use conditions::{installation as reason, managed_resource as of_resource};
use futures::FutureExt;
use jiff::Timestamp;
use kube::ResourceExt;
use tokio_util::sync::CancellationToken;

use super::report::{self, About};
use super::{is_of_seed, observe, owner, remove};
use crate::context::Context;

/// Keeps the conditions true for the installations of our seed until `stop`.
pub(crate) async fn run(context: Arc<Context>, stop: CancellationToken) {
    let seed = context.config.seed_name().to_owned();
    Controller::new("installation-care", context.garden_caches.installations.clone())
        .only(move |one| is_of_seed(one, &seed))
        // Once something has been handed over at last, what became of it is to be found out.
        .when(|old, new| changed_by_others(old, new) || old.map(installed_reason) != Some(installed_reason(new)))
        .watches(&context.seed_caches.managed_resources, |change| owner(&*change.object))
        .run(stop, move |one| reconcile(context.clone(), one).boxed())
        .await;
}

async fn reconcile(context: Arc<Context>, installation: Arc<ControllerInstallation>) -> Result<Next, Fault> {
    if installation.metadata.deletion_timestamp.is_some() || observe::deployment(&context, &installation).is_none() {
        return Ok(Next::Change);
    }
    let key = ObjectKey::namespaced(api_meta::names::GARDEN_NAMESPACE, installation.name_any());
    let resource = context.seed_caches.managed_resources.get(&key);
    let ours = care(
        report::conditions(&installation),
        resource.as_deref(),
        context.clock.now(),
    );
    let about = about(&installation, &ours);
    report::write(&context, &installation, ours, &about).await?;
    if let Some(resource) = resource.filter(|resource| is_applied(resource)) {
        remove::delete_superseded(&context, &resource).await?;
    }
    Ok(Next::Change)
}

/// What the conditions are about once `ours` are written: what keeps them from being valid, or from being installed for
/// another reason than the ManagedResource, has been reported by whoever has found it.
fn about(installation: &ControllerInstallation, ours: &[Condition]) -> About {
    let valid = Condition::find(report::conditions(installation), reason::VALID);
    match Condition::find(ours, reason::INSTALLED) {
        Some(installed) if valid.is_some_and(|valid| valid.status == ConditionStatus::True) => match installed.status {
            ConditionStatus::True => About::Nothing,
            _ => About::object(report::managed_resource(installation)),
        },
        _ => About::Same,
    }
}

fn installed_reason(installation: &ControllerInstallation) -> &str {
    let installed = Condition::find(report::conditions(installation), reason::INSTALLED);
    installed.map(|installed| installed.reason.as_str()).unwrap_or_default()
}

/// The conditions to write, given those that stand there.
fn care(known: &[Condition], resource: Option<&ManagedResource>, now: Timestamp) -> Vec<Condition> {
    let installed = Condition::find(known, reason::INSTALLED);
    let Some(resource) = resource else {
        // Before the first one is written there is nothing to be careful of.
        return match installed {
            Some(installed) if installed.status == ConditionStatus::True => {
                let message = "the ManagedResource is gone, and is written again.";
                let (status, reason) = (ConditionStatus::False, reason::INSTALLATION_PENDING);
                vec![Condition::new(reason::INSTALLED, status, reason, message, now)]
            }
            _ => Vec::new(),
        };
    };
    let mut ours = vec![healthy(resource, now), progressing(resource, now)];
    // What could not be handed over is not installed, whatever became of what was handed over before.
    if !installed.is_some_and(|installed| report::is_ours(&installed.reason)) {
        ours.push(applied(resource, now));
    }
    ours
}

fn applied(resource: &ManagedResource, now: Timestamp) -> Condition {
    let (status, reason, message) = match not_applied(resource) {
        None => (
            ConditionStatus::True,
            reason::INSTALLATION_SUCCESSFUL,
            "The controller was successfully installed in the seed cluster.".to_owned(),
        ),
        Some(why) => (ConditionStatus::False, reason::INSTALLATION_PENDING, why),
    };
    Condition::new(reason::INSTALLED, status, reason, &message, now)
}

fn healthy(resource: &ManagedResource, now: Timestamp) -> Condition {
    let (status, reason, message) = match is_not(resource, of_resource::RESOURCES_HEALTHY, &ConditionStatus::True) {
        None => (
            ConditionStatus::True,
            reason::CONTROLLER_HEALTHY,
            "The controller running in the seed cluster is healthy.".to_owned(),
        ),
        Some(why) => (ConditionStatus::False, reason::CONTROLLER_NOT_HEALTHY, why),
    };
    Condition::new(reason::HEALTHY, status, reason, &message, now)
}

fn progressing(resource: &ManagedResource, now: Timestamp) -> Condition {
    let type_ = of_resource::RESOURCES_PROGRESSING;
    let (status, reason, message) = match is_not(resource, type_, &ConditionStatus::False) {
        None => (
            ConditionStatus::False,
            reason::CONTROLLER_ROLLED_OUT,
            "The controller has been rolled out successfully.".to_owned(),
        ),
        Some(why) => (ConditionStatus::True, reason::CONTROLLER_NOT_ROLLED_OUT, why),
    };
    Condition::new(reason::PROGRESSING, status, reason, &message, now)
}

/// Whether the newest form of a ManagedResource is applied.
pub(super) fn is_applied(resource: &ManagedResource) -> bool {
    not_applied(resource).is_none()
}

/// Why the newest form of a ManagedResource is not applied (gardener/gardener v1.150
/// pkg/utils/kubernetes/health/managedresource.go).
fn not_applied(resource: &ManagedResource) -> Option<String> {
    let observed = resource.status.as_ref().and_then(|status| status.observed_generation);
    if observed != resource.metadata.generation {
        let name = resource.name_any();
        return Some(format!(
            "gardener-resource-manager of the seed has not applied the newest form of ManagedResource garden/{name} yet"
        ));
    }
    is_not(resource, of_resource::RESOURCES_APPLIED, &ConditionStatus::True)
}

/// Why a condition of a ManagedResource is not as it should be, in the words of who wrote it: they name the object.
fn is_not(resource: &ManagedResource, type_: &str, wanted: &ConditionStatus) -> Option<String> {
    let known = resource.status.as_ref().map(|status| status.conditions.as_slice());
    let name = resource.name_any();
    match Condition::find(known.unwrap_or_default(), type_) {
        None => Some(format!(
            "condition {type_} of ManagedResource garden/{name} has not been reported yet"
        )),
        Some(condition) if condition.status == *wanted => None,
        Some(Condition {
            status,
            reason,
            message,
            ..
        }) => Some(format!(
            "condition {type_} of ManagedResource garden/{name} is {status}, {reason}: {message}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use api_resources::ManagedResourceStatus;

    use super::*;

    fn resource(generation: i64, conditions: &[(&str, ConditionStatus)]) -> ManagedResource {
        let conditions = conditions.iter().map(|(type_, status)| {
            Condition::new(type_, status.clone(), "R", "Deployment \"a\"", Timestamp::UNIX_EPOCH)
        });
        let mut resource = ManagedResource {
            status: Some(ManagedResourceStatus {
                observed_generation: Some(generation),
                conditions: conditions.collect(),
                ..ManagedResourceStatus::default()
            }),
            ..ManagedResource::default()
        };
        resource.metadata.name = Some("ext".into());
        resource.metadata.generation = Some(2);
        resource
    }

    fn cared(known: &[Condition], resource: Option<&ManagedResource>) -> Vec<String> {
        let ours = care(known, resource, Timestamp::UNIX_EPOCH);
        ours.iter()
            .map(|one| format!("{} {} {}", one.type_, one.status, one.reason))
            .collect()
    }

    fn installed(status: ConditionStatus, why: &str) -> Vec<Condition> {
        vec![Condition::new(
            reason::INSTALLED,
            status,
            why,
            "",
            Timestamp::UNIX_EPOCH,
        )]
    }

    #[test]
    fn conditions_follow_those_of_the_managed_resource() {
        let (yes, no) = (ConditionStatus::True, ConditionStatus::False);
        let (applied, healthy, rolling) = (
            of_resource::RESOURCES_APPLIED,
            of_resource::RESOURCES_HEALTHY,
            of_resource::RESOURCES_PROGRESSING,
        );
        let well = resource(
            2,
            &[(applied, yes.clone()), (healthy, yes.clone()), (rolling, no.clone())],
        );
        assert_eq!(
            cared(&[], Some(&well)),
            [
                "Healthy True ControllerHealthy",
                "Progressing False ControllerRolledOut",
                "Installed True InstallationSuccessful"
            ]
        );
        let ill = resource(
            2,
            &[(applied, no.clone()), (healthy, no.clone()), (rolling, yes.clone())],
        );
        assert_eq!(
            cared(&[], Some(&ill)),
            [
                "Healthy False ControllerNotHealthy",
                "Progressing True ControllerNotRolledOut",
                "Installed False InstallationPending"
            ]
        );
        let message = &care(&[], Some(&ill), Timestamp::UNIX_EPOCH)[0].message;
        assert!(message.ends_with("is False, R: Deployment \"a\""), "{message}");
        let silent = resource(2, &[]);
        assert_eq!(cared(&[], Some(&silent)), cared(&[], Some(&ill)));
        let older = resource(1, &[(applied, yes), (healthy, no), (rolling, ConditionStatus::Unknown)]);
        assert_eq!(cared(&[], Some(&older)), cared(&[], Some(&ill)));
    }

    #[test]
    fn a_failed_installation_stays_failed_and_a_lost_one_is_pending() {
        let well = resource(2, &[(of_resource::RESOURCES_APPLIED, ConditionStatus::True)]);
        let failed = installed(ConditionStatus::False, reason::INSTALLATION_FAILED);
        assert_eq!(cared(&failed, Some(&well)).len(), 2, "Installed is not touched");
        let done = installed(ConditionStatus::True, reason::INSTALLATION_SUCCESSFUL);
        assert_eq!(cared(&done, None), ["Installed False InstallationPending"]);
        assert!(cared(&[], None).is_empty());
    }
}
