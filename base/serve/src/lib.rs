//! The ports that a process serves itself: plain HTTP for health and metrics ([`serve`]), and HTTPS for a service whose
//! certificate can be replaced while it serves ([`HttpsServer`]).
//!
//! It knows no objects of Kubernetes, never authenticates a client and never reads a file: certificates are given as texts.

mod body;
mod certificate;
mod https;
mod limits;
mod plain;
mod stalled;

pub use certificate::{CertificateError, ServerCertificate};
pub use https::HttpsServer;
pub use limits::Limits;
pub use plain::{Answer, Paths, open, serve};
