//! The API server through `kube::Client`, one file per feature. Each test has a server of its own.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod abandoned_writes;
mod access;
mod admission;
mod auditing;
mod behind;
mod concurrent_patches;
mod conversion;
mod crud;
mod custom;
mod default_policy;
mod definitions;
mod endpoints;
mod escalation;
mod event_expiry;
mod exclusive_writes;
mod fairness;
mod gatekeepers;
mod hook;
mod hostile;
mod in_front;
mod negotiation;
mod nodes;
mod overtaken;
mod ownership;
mod pod_admission;
mod protection;
mod protobuf;
mod server;
mod services;
mod stored_format;
mod stores;
mod subresources;
mod watching;
