//! The shoot controller: brings each shoot of its seed to its desired state, task by task, and reports its status.

mod apply;
mod care;
mod cluster;
mod given;
mod inside;
mod interrupt;
mod managed;
mod observe;
mod operation;
mod plan;
mod reconcile;
mod report;
mod required;
mod task;
mod validated;

pub(crate) use care::run as run_care;
pub(crate) use inside::Inside;
pub(crate) use reconcile::run;
