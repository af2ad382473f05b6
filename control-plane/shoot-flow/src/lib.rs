//! Pure: facts about a shoot and a goal in, a flow of [`ShootTask`]s out. Nothing is read, written or decided later:
//! what is skipped, and why, stands in the flow before it runs.
//!
//! Task names and order are those of gardener/gardener v1.150 `pkg/gardenlet/controller/shoot/shoot/flow_*.go`: the
//! names reach users in progress texts and in `status.lastErrors[].taskID`.
//!
//! Not in the flows yet, because the components do not exist yet: monitoring, logging, VPN, Istio and SNI, dependency
//! watchdog, vertical pod autoscaler, cluster autoscaler, CoreDNS, kube-proxy and the other system components inside
//! the shoot, ingress, container runtimes, bastions, hibernation (and with it every "scaling up"), credentials
//! rotation, etcd encryption of resources, copies of backups, shoot state; and the goals migrate, restore and force
//! delete. Where such a task stood between two others, what followed it follows what came before it.

mod delete;
mod facts;
mod reconcile;
mod task;

pub use facts::{DeletionFacts, ExtensionTimeouts, Goal, ShootFacts};
pub use task::ShootTask;

use base_flow::{Flow, FlowError};

/// The flow that takes a shoot with these facts to its goal.
///
/// # Errors
/// Only if the graph written down here is wrong, whatever the facts: a test holds that it is not.
pub fn shoot_flow(facts: &ShootFacts, goal: &Goal) -> Result<Flow<ShootTask>, FlowError> {
    match goal {
        Goal::Reconcile => reconcile::flow(facts),
        Goal::Delete(deletion) => delete::flow(facts, deletion),
    }
}
