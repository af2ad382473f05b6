//! Requests that others answer: aggregated servers, `proxy` of nodes, pods and services, logs, exec, port forwarding.

pub(crate) mod aggregated;
pub(crate) mod carry;
pub(crate) mod connection;
pub(crate) mod headers;
pub(crate) mod html;
pub(crate) mod location;
pub(crate) mod node_streams;
pub(crate) mod place;
pub(crate) mod port_forward;
pub(crate) mod port_forward_session;
pub(crate) mod proxy;
pub(crate) mod upgrade;
