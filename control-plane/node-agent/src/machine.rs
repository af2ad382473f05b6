//! The seam between what to do and how a machine does it: a file system and a unit manager.

use std::collections::BTreeMap;

use api_meta::{Classified, FaultClass};
use async_trait::async_trait;
use bytes::Bytes;

use crate::plan::Action;

/// Why a machine could not do something.
#[derive(Debug, thiserror::Error)]
#[error("{doing}: {why}")]
pub struct MachineError {
    /// What was being done.
    pub doing: String,
    /// The machine's message.
    pub why: String,
}

impl Classified for MachineError {
    fn class(&self) -> FaultClass {
        FaultClass::Dependency
    }
}

/// What this agent has put on a machine, as the machine has it now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// By absolute path.
    pub files: BTreeMap<String, SeenFile>,
    /// By unit name.
    pub units: BTreeMap<String, SeenUnit>,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenFile {
    /// [`crate::DesiredFile::digest`] of what was written.
    pub digest: String,
}

/// One unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenUnit {
    /// [`crate::DesiredUnit::digest`] of what was written.
    pub digest: String,
    /// Whether it starts with the system.
    pub enabled: bool,
    /// Whether it runs.
    pub running: bool,
}

/// A machine's file system and unit manager.
#[async_trait]
pub trait Machine: Send + Sync {
    /// What this agent wrote and started before.
    async fn seen(&self) -> Result<Seen, MachineError>;

    /// Does one thing. Doing it twice is fine.
    async fn perform(&self, action: &Action) -> Result<(), MachineError>;

    /// A file's bytes; None when it is not there.
    async fn read_file(&self, path: &str) -> Result<Option<Bytes>, MachineError>;

    /// Waits until a unit has failed for good; the text names the unit and the reason.
    async fn failed(&self) -> MachineError;
}
