//! What objects configure, compiled when they are written: webhooks, policies, routes to aggregated servers. It calls none of
//! them.

pub(crate) mod admission_hooks;
pub(crate) mod aggregation;
pub(crate) mod backend;
pub(crate) mod matching;
pub(crate) mod policy;
pub(crate) mod webhook;
