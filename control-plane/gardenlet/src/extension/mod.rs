//! How gardenlet deals with extension objects, of any kind: request, wait, delete. When what an extension reports
//! counts as done is the crate `control-plane-readiness`.

mod caches;
mod objects;
mod waiting;

pub(crate) use caches::{ExtensionCaches, ObjectEvent};
pub(crate) use waiting::Waiting;

pub(crate) use objects::{
    Kind, Request, delete_confirmed, fault_of_report, needs_operation, object_name, wait_deleted, wait_ready,
    wait_ready_until, write_request, write_request_unless_done,
};
