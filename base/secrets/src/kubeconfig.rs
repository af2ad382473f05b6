//! Building kubeconfigs. Never reads one from disk and never connects anywhere.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::{AuthInfo, Cluster, Context, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext};

use crate::{Issued, SecretError, SecretText};

/// How a client authenticates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// With a client certificate.
    Certificate(Box<Issued>),
    /// With a bearer token.
    Token(SecretText),
    /// With a bearer token in a file that another process renews.
    TokenFile(String),
    /// Not at all: `system:anonymous`.
    Anonymous,
}

/// The content of a kubeconfig.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeconfigSpec {
    /// Name of its one cluster, user and context.
    pub name: String,
    /// `https://host:port`.
    pub server: String,
    /// Name to send in the TLS handshake and to expect in the certificate, where that is not the URL's host.
    pub tls_server_name: Option<String>,
    /// PEM bundle of the authorities the server's certificate may come from.
    pub authorities: String,
    /// Who the client is.
    pub credential: Credential,
    /// Namespace of the context.
    pub namespace: Option<String>,
}

/// Builds the kubeconfig.
pub fn kubeconfig(spec: &KubeconfigSpec) -> Kubeconfig {
    let KubeconfigSpec {
        name,
        server,
        tls_server_name,
        authorities,
        credential,
        namespace,
    } = spec;
    let cluster = Cluster {
        server: Some(server.clone()),
        certificate_authority_data: (!authorities.is_empty()).then(|| STANDARD.encode(authorities)),
        tls_server_name: tls_server_name.clone(),
        ..Cluster::default()
    };
    let mut user = AuthInfo::default();
    match credential {
        Credential::Certificate(issued) => {
            user.client_certificate_data = Some(STANDARD.encode(issued.certificate_pem()));
            user.client_key_data = Some(STANDARD.encode(issued.key_pem().expose()).into());
        }
        Credential::Token(token) => user.token = Some(token.expose().to_owned().into()),
        Credential::TokenFile(path) => user.token_file = Some(path.clone()),
        Credential::Anonymous => {}
    }
    let context = Context {
        cluster: name.clone(),
        user: Some(name.clone()),
        namespace: namespace.clone(),
        ..Context::default()
    };
    Kubeconfig {
        api_version: Some("v1".to_owned()),
        kind: Some("Config".to_owned()),
        clusters: vec![NamedCluster {
            name: name.clone(),
            cluster: Some(cluster),
            ..NamedCluster::default()
        }],
        auth_infos: vec![NamedAuthInfo {
            name: name.clone(),
            auth_info: Some(user),
            ..NamedAuthInfo::default()
        }],
        contexts: vec![NamedContext {
            name: name.clone(),
            context: Some(context),
            ..NamedContext::default()
        }],
        current_context: Some(name.clone()),
        ..Kubeconfig::default()
    }
}

/// The kubeconfig as YAML, secrets included. Base64 data is on one line, as kubectl writes it and as scripts cut it out.
///
/// # Errors
/// [`SecretError::Yaml`] when the serialiser refuses it, which no kubeconfig built here makes it do.
pub fn to_yaml(kubeconfig: &Kubeconfig) -> Result<SecretText, SecretError> {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    let text = serde_saphyr::to_string_with_options(kubeconfig, options).map_err(|error| SecretError::Yaml {
        reason: error.to_string(),
    })?;
    Ok(SecretText::new(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubeconfig_is_read_back_from_its_yaml_completely() {
        let spec = KubeconfigSpec {
            name: "garden-local--yes".to_owned(),
            server: "https://127.0.0.1:6443".to_owned(),
            tls_server_name: Some("garden.orangery.internal".to_owned()),
            authorities: "PEM\n".to_owned(),
            credential: Credential::Token(SecretText::new("t:o: k#en")),
            namespace: Some("yes".to_owned()),
        };
        let yaml = to_yaml(&kubeconfig(&spec)).expect("yaml");
        let read = Kubeconfig::from_yaml(yaml.expose()).expect("own yaml");
        let text = to_yaml(&read).expect("yaml");
        assert_eq!(text.expose(), yaml.expose());
        let cluster = read.clusters[0].cluster.as_ref().expect("cluster");
        assert_eq!(cluster.tls_server_name.as_deref(), Some("garden.orangery.internal"));
        assert_eq!(
            read.contexts[0]
                .context
                .as_ref()
                .and_then(|context| context.namespace.as_deref()),
            Some("yes")
        );
        assert!(
            read.auth_infos[0]
                .auth_info
                .as_ref()
                .is_some_and(|user| user.token.is_some())
        );
        assert!(!format!("{spec:?}").contains("k#en"));
    }

    #[test]
    fn data_of_a_kubeconfig_stands_on_one_line_however_long_it_is() {
        let spec = KubeconfigSpec {
            name: "garden".to_owned(),
            server: "https://127.0.0.1:6443".to_owned(),
            tls_server_name: None,
            authorities: "PEM of an authority\n".repeat(100),
            credential: Credential::Anonymous,
            namespace: None,
        };
        let yaml = to_yaml(&kubeconfig(&spec)).expect("yaml");
        let line = format!("certificate-authority-data: {}", STANDARD.encode(&spec.authorities));
        assert!(yaml.expose().lines().any(|one| one.trim() == line), "{}", yaml.expose());
    }
}
