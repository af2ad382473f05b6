//! How gardenlet deals with extension objects, whatever their kind: ask, wait, take away. What an extension reports is
//! judged here and nowhere else.

mod caches;
mod objects;
mod readiness;
mod waiting;

pub(crate) use caches::{ExtensionCaches, ObjectEvent};
pub use objects::reported;
pub use readiness::{Deletion, Readiness, Reported, deletion, readiness};
pub(crate) use waiting::Waiting;

pub(crate) use objects::{
    Asked, Kind, ask, ask_unless_done, delete_confirmed, fault_of_report, needs_operation, wait_deleted, wait_ready,
    wait_ready_until,
};
