//! What an extension is written with: an actuator per kind, and everything around it: which objects concern it,
//! which operation is requested, annotations, finalizers, status, retries, heartbeat (contract of
//! gardener/gardener v1.150 docs/extensions and extensions/pkg). It knows no provider.

mod act;
mod actuator;
mod caches;
pub mod charts;
mod cluster;
mod codes;
mod context;
mod credentials;
mod extension;
mod field_problem;
pub mod images;
pub mod inventory;
pub mod managed;
mod observe;
mod operation;
mod outcome;
mod persist;
mod provider_config;
mod reconcile;
mod registration;
mod remembered;
mod rest;
pub mod run;
mod same_json;
mod shared;
pub mod shoot_client;
mod status;
mod watches;

/// Actuators are written for the kinds of the table in `api-extensions`.
pub use api_extensions::{CommonStatus, ExtensionObject, InfrastructureOwn, OperatingSystemConfigOwn, WorkerOwn};

pub use actuator::{Actuator, Observer};
pub use api_meta::names::HEARTBEAT_LEASE;
/// What a watch has seen of one object.
pub use base_controller::Change as Changed;
pub use cluster::ClusterView;
pub use codes::{CodeTable, InvalidTable};
pub use context::Context;
pub use credentials::{Credentials, SecretData, credentials_of};
pub use extension::{Extension, HEARTBEAT_PERIOD};
pub use field_problem::FieldProblem;
pub use operation::Operation;
pub use outcome::{Change, Outcome, Saved};
pub use provider_config::{check_config, decode_config, decode_config_or_default};
pub use registration::Registration;
pub use run::{About, Flags, Setup, run, run_with, serve_with};
