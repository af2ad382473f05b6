//! Outgoing connections: TLS, Services and their endpoints, kubelets, webhooks. Nothing here knows what is sent over them.

pub(crate) mod addresses;
pub(crate) mod dial;
pub(crate) mod https_target;
pub(crate) mod identity;
pub(crate) mod kubelets;
pub(crate) mod network;
pub(crate) mod pool;
pub(crate) mod review_response;
pub(crate) mod tls;
pub(crate) mod webhook_client;
