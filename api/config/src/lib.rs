//! Configuration files of the production form's processes, in Gardener's component configuration kinds (gardener/gardener
//! v1.150 pkg/apis/config) as far as their fields apply here. It reads values, never files, and starts nothing.
//!
//! A field that Gardener does not have and one that it has but that has no effect here are returned by path, so that
//! the process can log one warning for each. A value of the wrong type is a [`Problem`]: all of a document are found at
//! once.

mod admission_controller;
mod controller_manager;
mod described;
mod fields;
mod garden_connection;
mod gardenlet;
mod process;
mod resource_manager;
mod scheduler;

use serde_json::Value;

pub use admission_controller::AdmissionControllerConfiguration;
pub use controller_manager::ControllerManagerConfiguration;
pub use described::Described;
pub use fields::Problem;
pub use garden_connection::{GardenConnection, SecretName, StoredCredential};
pub use gardenlet::{
    Addressing, Extended, GardenAccess, GardenletConfiguration, ImageOverwrite, Images, NodeAccess, SeedWebhooks,
    ShootCare,
};
pub use process::{LeaderElection, LogFormat, LogLevel, Process, Server, Webhooks};
pub use resource_manager::{Ingress, NetworkPolicy, ResourceManagerConfiguration};
pub use scheduler::{SchedulerConfiguration, Strategy};

use fields::{Fields, Notes};

/// A kind of configuration file.
pub trait Configuration: Sized {
    /// Its `apiVersion`.
    const API_VERSION: &'static str;
    /// Its `kind`.
    const KIND: &'static str;

    #[doc(hidden)]
    fn of(fields: &mut Fields<'_>) -> Self;

    /// What every process has.
    fn process(&self) -> &Process;
}

/// A configuration as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Read<T> {
    /// The configuration, with defaults where the document has nothing.
    pub configuration: T,
    /// Paths of fields that the kind does not have.
    pub unknown: Vec<String>,
    /// Paths of fields that the kind has and that have no effect here.
    pub without_effect: Vec<String>,
}

/// Reads a document of this kind.
///
/// # Errors
/// Every value that is not allowed, by path.
pub fn read<T: Configuration>(document: Value) -> Result<Read<T>, Vec<Problem>> {
    let mut notes = Notes::default();
    let configuration = walk(document, &mut notes);
    match notes.problems.is_empty() {
        true => Ok(Read {
            configuration,
            unknown: notes.unknown,
            without_effect: notes.without_effect,
        }),
        false => Err(notes.problems),
    }
}

/// The fields of this kind, in the order in which they are read.
#[must_use]
pub fn describe<T: Configuration>() -> Vec<Described> {
    let mut notes = Notes::default();
    let _: T = walk(Value::Null, &mut notes);
    notes.described
}

fn walk<T: Configuration>(document: Value, notes: &mut Notes) -> T {
    Fields::whole(document, notes, |fields| {
        fields.fixed("apiVersion", T::API_VERSION);
        fields.fixed("kind", T::KIND);
        T::of(fields)
    })
}

#[cfg(test)]
mod tests;
