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
    /// `https://host:port` of a port that serves all clusters by server name, where there is one: kubeconfigs for
    /// shoots then name it with the path `/clusters/HOST`, and the shoot's own host as `tls-server-name`. `None`: the shoot's address itself.
    pub gateway: Option<String>,
    /// The admission plug-ins that are on.
    pub plugins: AdmissionPlugins,
}

/// Every kind of the groups core, security, operations and seedmanagement, ready to be given to `ApiServer::builder(..).kinds(..)`.
pub fn kinds(settings: &GardenSettings) -> Vec<Arc<dyn Kind>> {
    kinds::all(settings)
}
