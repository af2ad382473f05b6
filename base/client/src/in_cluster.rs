//! The kubeconfig of a pod: what Kubernetes mounts into each pod and sets in its environment, as client-go reads it
//! (k8s.io/client-go v0.35 rest/config.go, `InClusterConfig`).

use std::path::Path;

use api_meta::Fault;
use api_meta::names::SERVICE_ACCOUNT_FOLDER;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::config::{AuthInfo, Cluster, Context, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext};

const NAME: &str = "in-cluster";

/// The namespace of this process's pod.
#[must_use]
pub fn in_cluster_namespace() -> Option<String> {
    let text = std::fs::read_to_string(Path::new(SERVICE_ACCOUNT_FOLDER).join("namespace")).ok()?;
    Some(text.trim().to_owned()).filter(|namespace| !namespace.is_empty())
}

/// The kubeconfig of this process's pod, whose token is read again when it is renewed.
///
/// # Errors
/// This process is not in a pod, or the pod has no token of its service account.
pub fn in_cluster_kubeconfig() -> Result<Kubeconfig, Fault> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (Some(host), Some(port)) = (variable("KUBERNETES_SERVICE_HOST"), variable("KUBERNETES_SERVICE_PORT")) else {
        return Err(Fault::user(
            "this is no pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set",
        ));
    };
    of(&host, &port, Path::new(SERVICE_ACCOUNT_FOLDER))
}

fn of(host: &str, port: &str, folder: &Path) -> Result<Kubeconfig, Fault> {
    let host = match host.contains(':') {
        true => format!("[{host}]"),
        false => host.to_owned(),
    };
    let (authority, token) = (folder.join("ca.crt"), folder.join("token"));
    let missing = |path: &Path, error: &dyn std::fmt::Display| {
        Fault::user(format!(
            "the pod has no credentials of its service account: {}: {error}",
            path.display()
        ))
        .hint("mount the service account's token into the pod (automountServiceAccountToken)")
    };
    let pem = std::fs::read(&authority).map_err(|error| missing(&authority, &error))?;
    std::fs::metadata(&token).map_err(|error| missing(&token, &error))?;
    Ok(Kubeconfig {
        clusters: vec![NamedCluster {
            name: NAME.to_owned(),
            cluster: Some(Cluster {
                server: Some(format!("https://{host}:{port}")),
                certificate_authority_data: Some(STANDARD.encode(pem)),
                ..Cluster::default()
            }),
            ..NamedCluster::default()
        }],
        auth_infos: vec![NamedAuthInfo {
            name: NAME.to_owned(),
            auth_info: Some(AuthInfo {
                token_file: Some(token.display().to_string()),
                ..AuthInfo::default()
            }),
            ..NamedAuthInfo::default()
        }],
        contexts: vec![NamedContext {
            name: NAME.to_owned(),
            context: Some(Context {
                cluster: NAME.to_owned(),
                user: Some(NAME.to_owned()),
                ..Context::default()
            }),
            ..NamedContext::default()
        }],
        current_context: Some(NAME.to_owned()),
        ..Kubeconfig::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;

    #[test]
    fn a_pod_has_a_kubeconfig_once_token_and_authority_are_mounted() {
        let folder = tempfile::tempdir().unwrap();
        let missing = |folder: &Path| of("10.0.0.1", "443", folder).unwrap_err().to_string();
        assert!(missing(folder.path()).contains("ca.crt"));
        std::fs::write(folder.path().join("ca.crt"), "").unwrap();
        assert!(missing(folder.path()).contains("token"));
        std::fs::write(folder.path().join("token"), "t").unwrap();
        for (host, url) in [
            ("10.0.0.1", "https://10.0.0.1:443/"),
            ("fd00::1", "https://[fd00::1]:443/"),
        ] {
            let kubeconfig = of(host, "443", folder.path()).unwrap();
            assert_eq!(Target::of(&kubeconfig).unwrap().url.to_string(), url);
        }
    }
}
