//! How a container reaches the API that runs its pod, or any other that a mounted kubeconfig names. It has the
//! container's mounted credentials and never the node's.

use std::sync::{Arc, Mutex, PoisonError};

use api_meta::Fault;
use api_meta::names::SERVICE_ACCOUNT_FOLDER;
use base_client::Connector;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::client::Body;
use kube::config::{AuthInfo, Context, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext};
use secrecy::SecretString;

use crate::{ContainerContext, Files};

/// The API that runs the pod, without credentials.
#[derive(Clone)]
pub(crate) struct InCluster {
    connector: Arc<dyn Connector>,
    cluster: Arc<NamedCluster>,
}

impl InCluster {
    /// Takes the cluster of the node's own kubeconfig, without its user.
    pub(crate) fn new(connector: Arc<dyn Connector>, kubeconfig: &Kubeconfig) -> Result<Self, Fault> {
        let context = kubeconfig
            .current_context
            .as_deref()
            .and_then(|current| kubeconfig.contexts.iter().find(|context| context.name == current))
            .and_then(|named| named.context.as_ref())
            .ok_or_else(|| Fault::user("the node's kubeconfig has no current context"))?;
        let cluster = kubeconfig
            .clusters
            .iter()
            .find(|cluster| cluster.name == context.cluster)
            .ok_or_else(|| Fault::user("the node's kubeconfig lacks its context's cluster"))?;
        Ok(InCluster {
            connector,
            cluster: Arc::new(cluster.clone()),
        })
    }
}

impl ContainerContext {
    /// A client with the mounted service account. It follows the mounted token when the node renews it.
    ///
    /// Errors: no token is mounted.
    pub fn client(&self) -> Result<kube::Client, Fault> {
        let cluster = Arc::clone(&self.api.cluster);
        self.following(move |files| service_account_kubeconfig(&cluster, files))
    }

    /// The kubeconfig that [`ContainerContext::client`] uses now, with the token in it: a secret.
    pub fn kubeconfig(&self) -> Result<Kubeconfig, Fault> {
        service_account_kubeconfig(&self.api.cluster, &self.files)
    }

    /// A client for a mounted kubeconfig file; files that it names are read from the mounts as well. It follows all
    /// of them when they change.
    ///
    /// Errors: a file is missing or is no kubeconfig.
    pub fn client_from(&self, path: &str) -> Result<kube::Client, Fault> {
        let path = path.to_owned();
        self.following(move |files| mounted_kubeconfig(files, &path))
    }

    fn following(
        &self,
        read: impl Fn(&Files) -> Result<Kubeconfig, Fault> + Send + Sync + 'static,
    ) -> Result<kube::Client, Fault> {
        let seen = *self.files.changes().borrow();
        let kubeconfig = read(&self.files)?;
        let first = self.api.connector.client(&kubeconfig)?;
        let namespace = first.default_namespace().to_owned();
        let followed = Arc::new(Followed {
            files: self.files.clone(),
            connector: Arc::clone(&self.api.connector),
            read: Box::new(read),
            current: Mutex::new((seen, first)),
        });
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let client = followed.client();
            async move { client.send(request).await }
        });
        Ok(kube::Client::new(service, namespace))
    }
}

/// Makes a kubeconfig of what is mounted now.
type Read = Box<dyn Fn(&Files) -> Result<Kubeconfig, Fault> + Send + Sync>;

/// A client and the files it was made from.
struct Followed {
    files: Files,
    connector: Arc<dyn Connector>,
    read: Read,
    current: Mutex<(u64, kube::Client)>,
}

impl Followed {
    /// A client for the present content of the files. While that is unusable, the client made before is used: its server
    /// verifies it.
    fn client(&self) -> kube::Client {
        let now = *self.files.changes().borrow();
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.0 != now {
            match (self.read)(&self.files).and_then(|kubeconfig| self.connector.client(&kubeconfig)) {
                Ok(client) => *current = (now, client),
                Err(fault) => tracing::warn!(%fault, "mounted credentials are unusable, using the older ones"),
            }
        }
        current.1.clone()
    }
}

fn service_account_kubeconfig(cluster: &NamedCluster, files: &Files) -> Result<Kubeconfig, Fault> {
    let read = |name: &str| {
        files
            .read_text(&format!("{SERVICE_ACCOUNT_FOLDER}/{name}"))
            .map_err(|error| {
                Fault::user(format!("no service account is mounted: {error}"))
                    .hint("set automountServiceAccountToken or mount a projected token")
            })
    };
    let token = read("token")?;
    let namespace = read("namespace")?;
    let mut cluster = cluster.clone();
    "cluster".clone_into(&mut cluster.name);
    if let (Some(cluster), Ok(authority)) = (cluster.cluster.as_mut(), read("ca.crt")) {
        cluster.certificate_authority_data = Some(STANDARD.encode(authority));
    }
    Ok(Kubeconfig {
        clusters: vec![cluster],
        auth_infos: vec![NamedAuthInfo {
            name: "service-account".to_owned(),
            auth_info: Some(AuthInfo {
                token: Some(SecretString::from(token.trim().to_owned())),
                ..AuthInfo::default()
            }),
            ..NamedAuthInfo::default()
        }],
        contexts: vec![NamedContext {
            name: "in-cluster".to_owned(),
            context: Some(Context {
                cluster: "cluster".to_owned(),
                user: Some("service-account".to_owned()),
                namespace: Some(namespace.trim().to_owned()),
                ..Context::default()
            }),
            ..NamedContext::default()
        }],
        current_context: Some("in-cluster".to_owned()),
        ..Kubeconfig::default()
    })
}

fn mounted_kubeconfig(files: &Files, path: &str) -> Result<Kubeconfig, Fault> {
    let unreadable = |error: &dyn std::fmt::Display| Fault::user(format!("kubeconfig {path} cannot be read: {error}"));
    let text = files.read_text(path).map_err(|error| unreadable(&error))?;
    // The parser's words would quote the file, and with it keys and tokens.
    let mut kubeconfig =
        Kubeconfig::from_yaml(&text).map_err(|_| Fault::user(format!("file {path} is not a kubeconfig")))?;
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let read = |name: &str| {
        let full = if name.starts_with('/') {
            name.to_owned()
        } else {
            format!("{folder}/{name}")
        };
        files.read_text(&full).map_err(|error| unreadable(&error))
    };
    for cluster in kubeconfig
        .clusters
        .iter_mut()
        .filter_map(|named| named.cluster.as_mut())
    {
        if let (None, Some(name)) = (
            &cluster.certificate_authority_data,
            cluster.certificate_authority.take(),
        ) {
            cluster.certificate_authority_data = Some(STANDARD.encode(read(&name)?));
        }
    }
    for user in kubeconfig
        .auth_infos
        .iter_mut()
        .filter_map(|named| named.auth_info.as_mut())
    {
        if let (None, Some(name)) = (&user.client_certificate_data, user.client_certificate.take()) {
            user.client_certificate_data = Some(STANDARD.encode(read(&name)?));
        }
        if let (None, Some(name)) = (&user.client_key_data, user.client_key.take()) {
            user.client_key_data = Some(SecretString::from(STANDARD.encode(read(&name)?)));
        }
        // As client-go does, the file wins over a token in place.
        if let Some(name) = user.token_file.take() {
            user.token = Some(SecretString::from(read(&name)?.trim().to_owned()));
        }
    }
    Ok(kubeconfig)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::Directory;
    use crate::files::{Content, Mount};

    #[test]
    fn the_error_of_a_broken_kubeconfig_omits_its_content() {
        let directory = Directory::default();
        let text = "users:\n- name: u\n  user: {token: hidden, client-key-data: [also-hidden]}\n";
        directory.replace([("kubeconfig".to_owned(), text.into())].into());
        let mount = Mount {
            volume: "secret".to_owned(),
            scratch: false,
            path: "/secret".to_owned(),
            sub_path: String::new(),
            writable: false,
            content: Content::Files(directory),
        };
        let (_count, changes) = tokio::sync::watch::channel(0);
        let fault = mounted_kubeconfig(&Files::new(vec![mount], changes), "/secret/kubeconfig").unwrap_err();
        assert!(fault.chain().contains("/secret/kubeconfig"), "{fault}");
        assert!(!format!("{fault:?} {}", fault.chain()).contains("hidden"), "{fault:?}");
    }
}
