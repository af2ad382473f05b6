//! One version of an extension object as a watch showed it, of whichever kind. It only reads.

use api_extensions::{DefaultStatus, ExtensionObject};
use api_meta::{Fault, LastOperation, LastOperationState, LastOperationType, annotations, finalizers};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

/// What stands before the names of the kit's own labels, annotations and finalizers.
pub(crate) const OWN_PREFIX: &str = "conformance.orangery.dev/";

/// An object as it was at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    /// When the kit saw it.
    pub(crate) seen: Timestamp,
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: Value,
    pub(crate) status: DefaultStatus,
}

impl Version {
    /// # Errors
    /// An object that cannot be written as JSON, which is a defect of ours.
    pub(crate) fn of<K: ExtensionObject>(object: &K, seen: Timestamp) -> Result<Self, Fault> {
        Ok(Self {
            seen,
            metadata: object.meta().clone(),
            spec: spec_of(object)?,
            status: object.status().map(|status| status.to_owned()).unwrap_or_default(),
        })
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// The operation that is requested and not yet picked up.
    pub(crate) fn operation(&self) -> Option<&str> {
        self.annotation(annotations::OPERATION)
    }

    pub(crate) fn last(&self) -> Option<&LastOperation> {
        self.status.last_operation.as_ref()
    }

    /// Whether the last operation is this one and ended well.
    pub(crate) fn succeeded(&self, type_: &LastOperationType) -> bool {
        self.last()
            .is_some_and(|last| last.type_ == *type_ && last.state == LastOperationState::Succeeded)
    }

    pub(crate) fn generation(&self) -> i64 {
        self.metadata.generation.unwrap_or_default()
    }

    pub(crate) fn observed(&self) -> i64 {
        self.status.observed_generation.unwrap_or_default()
    }

    pub(crate) fn resource_version(&self) -> &str {
        self.metadata.resource_version.as_deref().unwrap_or_default()
    }

    pub(crate) fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// The finalizers of extensions. One that does not bear their prefix counts where no other does.
    pub(crate) fn finalizers(&self) -> Vec<&str> {
        let all = self.metadata.finalizers.iter().flatten().map(String::as_str);
        let foreign: Vec<&str> = all.filter(|name| !name.starts_with(OWN_PREFIX)).collect();
        let of_extensions: Vec<&str> = foreign
            .iter()
            .copied()
            .filter(|name| name.starts_with(finalizers::EXTENSION_PREFIX))
            .collect();
        if of_extensions.is_empty() {
            foreign
        } else {
            of_extensions
        }
    }

    /// "Reconcile Processing 50 %", for evidence.
    pub(crate) fn state(&self) -> String {
        self.last().map_or_else(
            || "no lastOperation".to_owned(),
            |last| format!("{} {} {} %", last.type_, last.state, last.progress),
        )
    }

    /// "at 2026-01-01T00:00:00Z (resourceVersion 7)", for evidence.
    pub(crate) fn place(&self) -> String {
        let seen = self.seen.round(jiff::Unit::Millisecond).unwrap_or(self.seen);
        format!("at {seen} (resourceVersion {})", self.resource_version())
    }
}

/// The spec of an object.
///
/// # Errors
/// As [`Version::of`].
pub(crate) fn spec_of<K: ExtensionObject>(object: &K) -> Result<Value, Fault> {
    let mut whole = serde_json::to_value(object).map_err(Fault::bug)?;
    Ok(whole["spec"].take())
}
