//! The kubeconfig of a pod: what Kubernetes mounts and sets in each, as client-go reads it (k8s.io/client-go v0.35 rest/config.go
//! InClusterConfig).

use std::path::Path;

use api_meta::names::SERVICE_ACCOUNT_FOLDER;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::config::{AuthInfo, Cluster, Context, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext};

const NAME: &str = "in-cluster";

/// The namespace of this process's pod.
pub(crate) fn namespace() -> Option<String> {
    let text = std::fs::read_to_string(Path::new(SERVICE_ACCOUNT_FOLDER).join("namespace")).ok()?;
    Some(text.trim().to_owned()).filter(|namespace| !namespace.is_empty())
}

/// The kubeconfig of this process's pod, whose token is read again when it is renewed; none outside of a pod.
pub(crate) fn kubeconfig() -> Option<Kubeconfig> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let host = variable("KUBERNETES_SERVICE_HOST")?;
    let port = variable("KUBERNETES_SERVICE_PORT")?;
    of(&host, &port, Path::new(SERVICE_ACCOUNT_FOLDER))
}

fn of(host: &str, port: &str, folder: &Path) -> Option<Kubeconfig> {
    let host = match host.contains(':') {
        true => format!("[{host}]"),
        false => host.to_owned(),
    };
    let authority = std::fs::read(folder.join("ca.crt")).ok()?;
    let token = folder.join("token");
    token.exists().then(|| Kubeconfig {
        clusters: vec![NamedCluster {
            name: NAME.to_owned(),
            cluster: Some(Cluster {
                server: Some(format!("https://{host}:{port}")),
                certificate_authority_data: Some(STANDARD.encode(authority)),
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
    use base_client::Target;

    use super::*;

    #[test]
    fn a_pod_has_a_kubeconfig_once_token_and_authority_are_mounted() {
        let folder = tempfile::tempdir().unwrap();
        assert!(of("10.0.0.1", "443", folder.path()).is_none());
        std::fs::write(folder.path().join("ca.crt"), "").unwrap();
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
