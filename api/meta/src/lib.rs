//! What every kind of every group shares: raw JSON, durations, conditions, operations, error codes, faults,
//! and the literal names (annotations, labels, finalizers) of the wire contract.
//! It never reads the clock, never does I/O, and knows no kind of its own.

mod duration;
mod fault;
mod kind;
mod object_name;
mod operation_report;
mod panic;
mod raw;
mod references;
mod retry;
mod scope;
mod seen;
mod status;
mod string_enum;
mod unscheduled;
mod webhook;

pub mod annotations;
pub mod conditions;
pub mod crd;
pub mod finalizers;
pub mod labels;
pub mod names;
pub mod schema;

pub use duration::{GoDuration, ParseGoDurationError};
pub use fault::{Classified, ErrorCode, Fault, FaultClass, with_hint, without_hint};
pub use kind::{Blank, Kind, go_number, null_if_empty, or_empty};
pub use object_name::ObjectName;
pub use operation_report::{OperationReport, Problem, Subject, Wait};
pub use panic::panic_text;
pub use raw::RawJson;
pub use references::{
    CrossVersionObjectReference, LocalObjectReference, NamedResourceReference, ObjectReference, SecretReference,
};
pub use retry::Retry;
pub use scope::{ByScope, ObjectScope};
pub use seen::Seen;
pub use status::{Condition, ConditionStatus, LastError, LastOperation, LastOperationState, LastOperationType};
pub use unscheduled::{SeedMismatch, SelectorOwner, UnfitFor, UnfitSeeds, Unscheduled};
pub use webhook::WebhookFailure;

/// What the exported macros name; not for direct use.
#[doc(hidden)]
pub mod private {
    pub use {k8s_openapi, kube_core, schemars, serde};
}
