//! The garden's API server as it runs in production: the garden's kinds alone, behind a real kube-apiserver, which it asks who
//! a user is, what they may do and for all objects of Kubernetes' own, with its objects in an etcd. It has nothing on the
//! disk, and any number of replicas share one prefix of the etcd.
//!
//! [`Settings`] are what the flags of `orangery garden-apiserver` say, [`run`] is the server. It makes no decision about an
//! object: these are the API server's and the kinds'.

mod admission_configuration;
mod clients;
mod identity;
mod server;
mod serving;
mod settings;
mod trust;
mod unapplied;

pub use server::run;
pub use settings::{ClientSettings, HeaderSettings, ServingSettings, Settings, TokenSettings, TrustSettings};
