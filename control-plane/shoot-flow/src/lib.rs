//! Pure: facts about a shoot and a goal in, a flow of [`ShootTask`]s out. Nothing is read, written or decided later:
//! what is skipped, and why, stands in the flow before it runs.
//!
//! Task names and order are those of gardener/gardener v1.150 `pkg/gardenlet/controller/shoot/shoot/flow_*.go`: the
//! names reach users in progress texts and in `status.lastErrors[].taskID`.
//!
//! To add a hosted component, add it to the table of `components-hosted`: its tasks follow. To add another task, add a
//! row to `single` (or a variant to [`Kind`], [`Managed`]), follow the compiler, and add its line to `reconcile` or
//! `delete`.
//!
//! Not in the flows yet, because the components do not exist yet: monitoring, logging, Istio and SNI, dependency
//! watchdog, vertical pod autoscaler, cluster autoscaler, CoreDNS, kube-proxy and the other system components inside
//! the shoot, ingress, bastions, credentials rotation, etcd encryption of resources, copies of backups, shoot state; and the
//! goals migrate, restore and force delete. Where such a task stood between two others, what followed it follows what came
//! before it.

mod delete;
mod draft;
mod facts;
mod names;
mod reconcile;
mod single;
mod skips;
mod slots;
mod step;
mod times;

pub use facts::{DeletionFacts, ExtensionTimeouts, ExtensionVerb, Goal, HibernationFacts, ShootFacts, Tunnel};
pub use single::Single;
pub use slots::{Need, NotGiven, ShootFlowError, Slot, check_slots};
pub use step::{Kind, Managed, Point, ShootTask, Step, Verb, Way};

use base_flow::Flow;

/// The flow that takes a shoot with these facts to its goal.
///
/// # Errors
/// Only if the graph written down here is wrong, whatever the facts: a test holds that it is not. And for goals that no flow
/// leads to yet.
pub fn shoot_flow(facts: &ShootFacts, goal: &Goal) -> Result<Flow<ShootTask>, ShootFlowError> {
    match goal {
        Goal::Reconcile | Goal::Hibernate(_) | Goal::Wake => reconcile::flow(facts, goal),
        Goal::Delete(_) => delete::flow(facts, goal),
        Goal::Migrate | Goal::Restore | Goal::ForceDelete => Err(ShootFlowError::NotYet(goal.way())),
    }
}
