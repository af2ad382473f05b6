//! The API server through `kube::Client`, one file per feature. Each test has a server of its own.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod access;
mod admission;
mod ageing;
mod auditing;
mod behind;
mod conversion;
mod crud;
mod custom;
mod default_policy;
mod definitions;
mod dropped;
mod endpoints;
mod escalation;
mod fairness;
mod forms;
mod gatekeepers;
mod hook;
mod hostile;
mod in_front;
mod nodes;
mod ownership;
mod parts;
mod pod_admission;
mod protection;
mod protobuf;
mod server;
mod services;
mod shapes;
mod stores;
mod turns;
mod watching;
