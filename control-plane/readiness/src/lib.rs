//! When what others report counts as done, and what stands behind it when it does not: extension objects, workloads,
//! ManagedResources, installations, webhooks. gardenlet waits by these rules and `control-plane-diagnosis` explains by them,
//! so that both use the same sentences.
//!
//! Plain functions over objects; only webhooks are read here, because an API server's error names no more than one of them.
//! It writes nothing.

mod extension;
mod installation;
mod resource;
mod webhook;
mod workload;

pub use api_resources::not_applied;
pub use extension::{Deletion, Readiness, Reported, ReportedError, deletion, readiness, reported};
pub use installation::{NotServed, Stage, not_served};
pub use resource::unhealthy;
pub use webhook::{Webhook, webhook_of, webhooks, with_webhook};
pub use workload::{Replicated, deployment_not_rolled_out, not_at_zero, not_rolled_out, set_not_rolled_out};
