//! Everything around `kube::Client`: how one is made (over TLS or in process), layers that record calls and
//! inject faults, and the few ways in which controllers read, write and wait.
//!
//! It never decides anything about an object and never polls: waiting is watching.

mod connect;
mod fault;
mod finalizer;
mod in_cluster;
mod layer;
mod layers;
mod place;
mod raw;
mod read;
mod reviews;
mod service;
mod signing_request;
mod upgrade;
mod wait;
mod watch;
mod write;

pub use connect::{Connector, Https, Target, inline_files};
pub use fault::{fault_of, is_conflict, is_exists, is_missing, is_namespace_terminating, is_unanswered};
pub use finalizer::{add_finalizer, has_finalizer, remove_finalizer};
pub use in_cluster::{in_cluster_kubeconfig, in_cluster_namespace};
pub use layer::{Call, CallRecord, Injected, Outcome, Verb, inject_faults, record};
pub use layers::Layers;
pub use place::api_in;
pub use read::{get, list, list_by, observe, read_again};
pub use reviews::{Admission, REVIEW_BYTES_MAX, Reviewer, review_server, reviewer};
pub use service::{HttpService, NoAnswer, ResponseBody, answer_apart, empty_body, full_body, in_process, stream_body};
pub use signing_request::{Decision, is_decided, record_decision, signing_condition};
pub use upgrade::{Connection, Dialer, Upgrade, Wire, requests_upgrade};
pub use wait::{WaitState, Waited, delete_and_wait, some_of, wait_until, wait_until_none, watch_fault};
pub use watch::{WatchPause, watch, watch_dynamic};
pub use write::{apply, apply_status, create_or_get, delete, patch_changed, patch_status_if_changed};
