//! The conditions of a ManagedResource. Pure but for the write; each function touches only the conditions it names.

use api_meta::conditions::managed_resource::{RESOURCES_APPLIED, RESOURCES_HEALTHY, RESOURCES_PROGRESSING};
use api_meta::{Condition, ConditionStatus, Fault};
use api_resources::{ManagedResource, ManagedResourceStatus};
use base_client::patch_status_if_changed;
use jiff::Timestamp;
use kube::Api;

use crate::Context;

/// Reasons of ResourcesApplied (gardener/gardener v1.150 pkg/apis/resources/v1alpha1/types.go).
pub(crate) mod reason {
    pub(crate) use api_meta::conditions::managed_resource::{DELETION_FAILED, DELETION_PENDING};

    pub(crate) const APPLY_SUCCEEDED: &str = "ApplySucceeded";
    pub(crate) const APPLY_FAILED: &str = "ApplyFailed";
    pub(crate) const APPLY_PROGRESSING: &str = "ApplyProgressing";
    pub(crate) const DECODING_FAILED: &str = "DecodingFailed";
    pub(crate) const CANNOT_READ_SECRET: &str = "CannotReadSecret";
    pub(crate) const RELEASE_FAILED: &str = "ReleaseOfOrphanedResourcesFailed";
    pub(crate) const IGNORED: &str = "ManagedResourceIgnored";
    pub(crate) const CHECKS_PENDING: &str = "ChecksPending";
}

/// The message of a fault: what is wrong, and the one thing to do about it.
pub(crate) fn message_of(fault: &Fault) -> String {
    let hint = fault.hint.as_str();
    let separator = if hint.is_empty() { "" } else { "; " };
    format!("{}{separator}{hint}", fault.chain())
}

/// A status in the making.
pub(crate) struct Report<'a> {
    status: &'a mut ManagedResourceStatus,
    now: Timestamp,
}

impl<'a> Report<'a> {
    pub(crate) fn of(resource: &'a mut ManagedResource, now: Timestamp) -> Self {
        Self {
            status: resource.status.get_or_insert_default(),
            now,
        }
    }

    fn set(&mut self, type_: &str, status: ConditionStatus, reason: &str, message: &str) {
        Condition::new(type_, status, reason, message, self.now).put_into(&mut self.status.conditions);
    }

    pub(crate) fn applied(&mut self, status: ConditionStatus, reason: &str, message: &str) {
        self.set(RESOURCES_APPLIED, status, reason, message);
    }

    pub(crate) fn healthy(&mut self, status: ConditionStatus, reason: &str, message: &str) {
        self.set(RESOURCES_HEALTHY, status, reason, message);
    }

    pub(crate) fn progressing(&mut self, status: ConditionStatus, reason: &str, message: &str) {
        self.set(RESOURCES_PROGRESSING, status, reason, message);
    }

    /// What was known about health is about something else now.
    pub(crate) fn checks_pending(&mut self) {
        let message = "The health checks have not yet been executed for the current set of resources.";
        self.healthy(ConditionStatus::Unknown, reason::CHECKS_PENDING, message);
        self.progressing(ConditionStatus::Unknown, reason::CHECKS_PENDING, message);
    }

    /// All of it is going.
    pub(crate) fn deleting(&mut self) {
        let message = "The resources are currently being deleted.";
        self.healthy(ConditionStatus::False, reason::DELETION_PENDING, message);
        self.progressing(ConditionStatus::True, reason::DELETION_PENDING, message);
    }

    pub(crate) fn ignored(&mut self) {
        let message = "ManagedResource is marked to be ignored.";
        self.applied(ConditionStatus::True, reason::IGNORED, message);
        self.healthy(ConditionStatus::True, reason::IGNORED, message);
        self.progressing(ConditionStatus::False, reason::IGNORED, message);
    }
}

/// Writes the status if it differs; returns the object as it is then.
pub(crate) async fn write(
    before: &ManagedResource,
    after: ManagedResource,
    context: &Context,
) -> Result<ManagedResource, Fault> {
    let namespace = before.metadata.namespace.clone().unwrap_or_default();
    let api: Api<ManagedResource> = Api::namespaced(context.source.clone(), &namespace);
    let written = patch_status_if_changed(&api, before, &after).await?;
    Ok(written.unwrap_or(after))
}
