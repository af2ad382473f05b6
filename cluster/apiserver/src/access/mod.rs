//! Who a request is from and whether it may be done: authentication, authorization, nodes' rules, audit, and limits on requests
//! in flight. It decides without the bodies of requests: audit records them, and RBAC objects are parsed once they are stored.

pub(crate) mod audit_event;
pub(crate) mod audit_log;
pub(crate) mod audit_policy;
pub(crate) mod authentication;
pub(crate) mod authorization;
pub(crate) mod delegation;
pub(crate) mod fairness;
pub(crate) mod gatekeepers;
pub(crate) mod impersonation;
pub(crate) mod node_authorizer;
pub(crate) mod server_access;
