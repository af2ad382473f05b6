//! The garden's kinds as an API server serves them: names and versions, strategies, subresources, admission, columns.
//! What is right and wrong about an object stands in `api/rules`; here is decided when it is checked. This crate never
//! stores anything, never runs a controller and never knows a provider.

mod admission;
mod admission_plugins;
mod columns;
mod convert;
mod deployment;
mod kinds;
mod prepare;
mod shoot;
mod typed;
mod webhooks;
mod workload_token;

use std::sync::Arc;

use base_clock::Entropy;
use cluster_apiserver::Kind;

pub use admission_plugins::{AdmissionPlugin, AdmissionPlugins, UnknownPlugin, Work};
pub use webhooks::{NAMESPACE_DELETION_PATH, SECRET_IN_USE_PATH, guards};

/// What the garden's kinds need from the program that wires them.
#[derive(Clone)]
pub struct GardenSettings {
    /// Randomness for keys of kubeconfigs and for maintenance windows.
    pub entropy: Entropy,
    /// The port that serves all clusters, where there is one: kubeconfigs for shoots then name it, and the shoot's own host as
    /// `tls-server-name`. `None`: the shoot's address itself.
    pub gateway: Option<Gateway>,
    /// The admission plug-ins that are on.
    pub plugins: AdmissionPlugins,
}

/// A port that serves all clusters by server name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// `https://host:port`.
    pub url: String,
    /// Whether it removes `/clusters/HOST` from the path of requests. Kubeconfigs carry that path then, by which kubectl keeps what
    /// it has discovered of one cluster from another. A gateway cannot where the servers are programs that speak TLS themselves.
    pub removes_paths: bool,
}

/// Every kind of the groups core, security, operations and seedmanagement, ready to be given to `ApiServer::builder(..).kinds(..)`.
pub fn kinds(settings: &GardenSettings) -> Vec<Arc<dyn Kind>> {
    kinds::all(settings)
}
