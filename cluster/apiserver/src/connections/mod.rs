//! Outgoing connections: TLS, Services and their endpoints, kubelets, webhooks. Nothing here knows what is sent over them.

pub(crate) mod addresses;
pub(crate) mod dial;
pub(crate) mod identity;
pub(crate) mod kubelets;
pub(crate) mod network;
pub(crate) mod reach;
pub(crate) mod review_reply;
pub(crate) mod tls;
pub(crate) mod webhook_client;
