//! The images that are programs of this machine, wired into the processes that have nodes: how they run here, and which API
//! servers stand behind Services of their cluster.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use api_meta::Fault;
use base_client::Dialer;
use cluster_front::Front;
use cluster_node::{ContainerContext, image_name};
use cluster_programs::{ApiServers, ImageFile, Isolation, Options, Programs, ToService};
use components_hosted::{API_SERVER, VPN_SEED_SERVER};
use futures::future::BoxFuture;

use crate::kube_apiserver;
use crate::kubelet::Machines;
use crate::tunnel;

/// The folder for what pods of programs need on disk, in the data folder.
const FOLDER: &str = "programs";
/// The Service of every cluster's own API server.
pub(crate) const OWN: (&str, &str) = ("default", "kubernetes");

/// The programs of a cluster's node. `cluster`: its name among those of the process.
///
/// # Errors
/// The data folder cannot be used.
pub fn programs(
    file: &ImageFile,
    data_dir: &Path,
    cluster: &str,
    servers: Arc<dyn ApiServers>,
) -> Result<Programs, Fault> {
    let isolation = match cluster_sandbox::available() {
        Ok(()) => Isolation::Namespaces {
            helper: "/proc/self/exe".into(),
        },
        Err(_) => Isolation::None,
    };
    let options = Options {
        folder: data_dir.join(FOLDER).join(cluster),
        hidden: vec![data_dir.to_owned()],
        isolation,
        servers,
    };
    Programs::new(file, options)
}

/// The port of `https://HOST:PORT`.
pub(crate) fn port_of(url: &str) -> Option<u16> {
    url.rsplit_once(':').and_then(|(_, port)| port.parse().ok())
}

/// Serves a connection as one to the API server of a name.
pub(crate) fn serve_by(front: &Front, name: &str, connection: ToService) -> BoxFuture<'static, ()> {
    let (front, name) = (front.clone(), name.to_owned());
    Box::pin(async move {
        let served = front
            .serve_stream(&name, connection.stream, Some(connection.from))
            .await;
        if let Err(error) = served {
            tracing::debug!(%error, "a connection of a program was not served");
        }
    })
}

/// A sentence about what programs share with this machine, where they do not run as in a cluster.
pub async fn shared_with_machine() -> Option<String> {
    // It is tried once, in a process of its own.
    let tried = tokio::task::spawn_blocking(cluster_sandbox::available).await;
    match tried {
        Ok(Err(missing)) => Some(format!(
            "programs of --images share this machine's network and files (docs/programs.md): {missing}"
        )),
        _ => None,
    }
}

/// The API servers of a landscape as pods of one of its seeds reach them.
pub struct InLandscape {
    front: Front,
    /// The name of the seed's own.
    own: String,
    port: Option<u16>,
    machines: Machines,
}

impl InLandscape {
    /// `own`: the server name of the seed's own; empty where that is not of this process. `url`: `https://127.0.0.1:PORT`,
    /// which all of them share.
    pub fn new(front: Front, own: &str, url: &str) -> Self {
        InLandscape {
            front,
            own: own.to_owned(),
            port: port_of(url),
            machines: Machines::default(),
        }
    }

    /// The same with the kubelets of these machines, for the programs of their namespace.
    #[must_use]
    pub fn with_machines(self, machines: Machines) -> Self {
        Self { machines, ..self }
    }

    /// The name that the front knows the API server behind a Service by.
    fn name(&self, namespace: &str, service: &str) -> Option<String> {
        if (namespace, service) == OWN {
            return Some(self.own.clone()).filter(|own| !own.is_empty());
        }
        // The front leads to the one port at which the tunnel's server has agents, and it is no API server.
        let is_tunnel = service == VPN_SEED_SERVER;
        Some(format!("{service}.{namespace}.svc")).filter(|name| !is_tunnel && self.front.has(name))
    }
}

impl ApiServers for InLandscape {
    fn has(&self, namespace: &str, service: &str) -> bool {
        self.name(namespace, service).is_some()
    }

    fn serve(&self, connection: ToService) -> BoxFuture<'static, ()> {
        match self.name(&connection.namespace, &connection.name) {
            Some(name) => serve_by(&self.front, &name, connection),
            None => Box::pin(std::future::ready(())),
        }
    }

    fn port(&self) -> Option<u16> {
        self.port
    }

    fn service_of(&self, server_name: Option<&str>) -> Option<(String, String)> {
        let server_name = server_name?;
        if server_name.eq_ignore_ascii_case(&self.own) {
            return Some((OWN.0.to_owned(), OWN.1.to_owned()));
        }
        let (service, namespace) = server_name.strip_suffix(".svc")?.split_once('.')?;
        (!namespace.contains('.')).then(|| (namespace.to_owned(), service.to_owned()))
    }

    fn outside(&self, namespace: &str, to: SocketAddr) -> Option<Dialer> {
        self.machines.find(namespace, to)
    }

    fn started(&self, context: &ContainerContext) -> Option<Box<dyn Send + Sync>> {
        let image = context.container.image.as_deref().map(image_name)?;
        let registered = match image {
            API_SERVER => kube_apiserver::register_program(&self.front, context),
            other if other == tunnel::server_image() => tunnel::register_program(&self.front, context),
            _ => return None,
        };
        match registered {
            Ok(registration) => Some(Box::new(registration)),
            Err(exit) => {
                let why = exit.message;
                context.warn(
                    "NotReachable",
                    format!("clients outside of the cluster do not reach it: {why}"),
                );
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use base_clock::Clock;

    use super::*;

    fn servers() -> InLandscape {
        let front = Front::new(Clock::real());
        InLandscape::new(front, "seed.orangery.internal", "https://127.0.0.1:6443")
    }

    #[test]
    fn server_names_of_the_seed_and_of_services_stand_for_services() {
        let servers = servers();
        assert_eq!(servers.port(), Some(6443));
        for (name, service) in [
            ("seed.orangery.internal", Some("default/kubernetes")),
            ("kube-apiserver.shoot--a--b.svc", Some("shoot--a--b/kube-apiserver")),
            ("garden.orangery.internal", None),
            ("api.b.a.internal.example", None),
            ("a.b.c.svc", None),
        ] {
            let found = servers.service_of(Some(name));
            let found = found.map(|(namespace, service)| format!("{namespace}/{service}"));
            assert_eq!(found.as_deref(), service, "{name}");
        }
        assert_eq!(servers.service_of(None), None);
    }

    #[test]
    fn only_services_of_api_servers_lead_to_the_front() {
        let servers = servers();
        assert_eq!(
            servers.name("default", "kubernetes").as_deref(),
            Some("seed.orangery.internal")
        );
        assert!(!servers.has("ns", "kube-apiserver") && !servers.has("ns", "kubernetes"));
    }
}
