//! Clients of the API server in front: from a kubeconfig, or as the service account of the pod.

use std::path::{Path, PathBuf};

use api_meta::Fault;
use base_client::{Connector, Https, inline_files};
use kube::Client;
use kube::config::Kubeconfig;

use crate::settings::ClientSettings;

/// What the audit log of the server in front has of it.
const USER_AGENT: &str = "orangery-garden-apiserver";
/// Where a pod finds the token of its service account, and who has signed the API server's certificate.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

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
            None => in_cluster().await?,
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
    let unusable = |why: &dyn std::fmt::Display| {
        Fault::user(format!("{} of {flag} cannot be used: {why}", path.display()))
            .hint(format!("name a kubeconfig that you may read with {flag}"))
    };
    let text = tokio::fs::read_to_string(path)
        .await
        .map_err(|error| unusable(&error))?;
    let kubeconfig: Kubeconfig = base_yaml::read(&text).map_err(|error| unusable(&error))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let kubeconfig = inline_files(kubeconfig, folder)
        .await
        .map_err(|error| unusable(&error))?;
    client(&kubeconfig).map_err(|error| unusable(&error))
}

fn client(kubeconfig: &Kubeconfig) -> Result<Client, Fault> {
    Https::new(USER_AGENT).with_token_files().client(kubeconfig)
}

/// As every pod finds its API server (client-go v0.35 rest/config.go, InClusterConfig).
async fn in_cluster() -> Result<Client, Fault> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (Some(host), Some(port)) = (variable("KUBERNETES_SERVICE_HOST"), variable("KUBERNETES_SERVICE_PORT")) else {
        let what = "this is no pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set";
        return Err(Fault::user(what).hint("name a kubeconfig of the API server in front with --kubeconfig"));
    };
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let text = format!(
        "current-context: pod\ncontexts: [{{name: pod, context: {{cluster: pod, user: pod}}}}]\n\
         clusters: [{{name: pod, cluster: {{server: 'https://{host}:{port}', certificate-authority: ca.crt}}}}]\n\
         users: [{{name: pod, user: {{tokenFile: token}}}}]\n"
    );
    let kubeconfig: Kubeconfig = base_yaml::read(&text).map_err(|error| Fault::bug(error.to_string()))?;
    let kubeconfig = inline_files(kubeconfig, Path::new(ACCOUNT)).await.map_err(|error| {
        error.hint("mount the service account's token into the pod, or name a kubeconfig with --kubeconfig")
    })?;
    client(&kubeconfig)
}
