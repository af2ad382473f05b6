//! Clients of the API server in front: from a kubeconfig, or as the service account of the pod.

use std::path::{Path, PathBuf};

use api_meta::Fault;
use base_client::{Connector, Https, in_cluster_kubeconfig};
use kube::Client;
use kube::config::Kubeconfig;
use landscape_data_folder::kubeconfig::read_with_files;

use crate::settings::ClientSettings;

/// What the audit log of the server in front has of it.
const USER_AGENT: &str = "orangery-garden-apiserver";

/// The clients.
pub(crate) struct Clients {
    pub(crate) objects: Client,
    pub(crate) authentication: Client,
    pub(crate) authorization: Client,
}

impl Clients {
    /// Errors: a kubeconfig that cannot be used, or none outside of a cluster.
    pub(crate) async fn new(settings: &ClientSettings) -> Result<Self, Fault> {
        let objects = match &settings.objects {
            Some(path) => from_file("--kubeconfig", path).await?,
            None => in_cluster()?,
        };
        let other = async |flag: &str, path: &Option<PathBuf>| match path {
            Some(path) => from_file(flag, path).await,
            None => Ok(objects.clone()),
        };
        Ok(Self {
            authentication: other("--authentication-kubeconfig", &settings.authentication).await?,
            authorization: other("--authorization-kubeconfig", &settings.authorization).await?,
            objects,
        })
    }
}

async fn from_file(flag: &str, path: &Path) -> Result<Client, Fault> {
    let hint = format!("name a kubeconfig that you may read with {flag}");
    client(&read_with_files(path, &hint).await?)
}

fn client(kubeconfig: &Kubeconfig) -> Result<Client, Fault> {
    Https::new(USER_AGENT).with_token_files().client(kubeconfig)
}

/// As every pod reaches its API server.
fn in_cluster() -> Result<Client, Fault> {
    let kubeconfig = in_cluster_kubeconfig()
        .map_err(|fault| fault.hint("name a kubeconfig of the API server in front with --kubeconfig"))?;
    client(&kubeconfig)
}
