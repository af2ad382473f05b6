//! Requests that other servers answer: aggregated servers, `proxy` of nodes, pods and services, logs, exec, port forwarding.

pub(crate) mod aggregated;
pub(crate) mod connection;
pub(crate) mod forwarded_request;
pub(crate) mod forwarding;
pub(crate) mod headers;
pub(crate) mod html_links;
pub(crate) mod node_streams;
pub(crate) mod port_forward;
pub(crate) mod proxy;
pub(crate) mod proxy_target;
pub(crate) mod rewriting;
pub(crate) mod upgrade;
