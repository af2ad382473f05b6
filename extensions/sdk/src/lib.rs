//! What an extension is written with: an actuator per kind, and everything around it: which objects concern it,
//! which operation is requested, annotations, finalizers, status, retries, heartbeat (contract of
//! gardener/gardener v1.150 docs/extensions and extensions/pkg). It knows no provider.

mod actuator;
mod cluster;
mod codes;
mod extension;
mod operation;
mod reconcile;
mod status;

/// Actuators are written for the kinds of the table in `api-extensions`.
pub use api_extensions::{CommonStatus, ExtensionObject, InfrastructureOwn, OperatingSystemConfigOwn, WorkerOwn};

pub use actuator::{Actuator, Context, Observer, Outcome};
pub use api_meta::names::HEARTBEAT_LEASE;
pub use cluster::ClusterView;
pub use codes::{CodeTable, InvalidTable};
pub use extension::{Extension, HEARTBEAT_PERIOD, Registration};
pub use operation::Operation;
