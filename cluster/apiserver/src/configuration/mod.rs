//! What objects configure, compiled when they are written: webhooks, policies, routes to aggregated servers. It asks none of
//! them.

pub(crate) mod backend;
pub(crate) mod hooks;
pub(crate) mod matching;
pub(crate) mod policy;
pub(crate) mod routes;
pub(crate) mod webhook;
