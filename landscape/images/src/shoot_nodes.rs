//! Programs on the nodes of shoots. A machine's node pretends to run its pods, but for images that are programs of this machine,
//! where these are wanted there. Such a pod is in the network of its shoot: what it connects to there is dialled, the shoot's API
//! server and the kubelets of its nodes are those of this process, all else is the machine's network.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use api_meta::Fault;
use base_client::Dialer;
use cluster_front::Front;
use cluster_programs::{ApiServers, ImageFile, Programs, ToService};
use futures::future::BoxFuture;

use crate::kubelet::Machines;
use crate::programs::{OWN, port_of, programs, serve_by};

/// Below the folder of programs, beside those of clusters, none of which can have this name.
const FOLDER: &str = ".nodes";

/// The programs that pods of shoots' nodes can be.
#[derive(Clone, Debug)]
pub struct NodePrograms {
    /// What is mapped.
    pub file: ImageFile,
    /// The data folder.
    pub data_dir: PathBuf,
    /// `https://127.0.0.1:PORT`, which all API servers of this process share.
    pub url: String,
}

/// A node of a shoot.
pub(crate) struct Node<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// The namespace of its machine.
    pub(crate) namespace: &'a str,
    /// The name that its API server is known by.
    pub(crate) server_name: &'a str,
}

impl NodePrograms {
    /// Those of one node.
    ///
    /// # Errors
    /// The data folder cannot be used.
    pub(crate) fn of(&self, node: &Node<'_>, front: &Front, machines: &Machines) -> Result<Programs, Fault> {
        let servers = InShoot {
            front: front.clone(),
            own: node.server_name.to_owned(),
            namespace: node.namespace.to_owned(),
            port: port_of(&self.url),
            machines: machines.clone(),
        };
        let folder = format!("{FOLDER}/{}/{}", node.namespace, node.name);
        programs(&self.file, &self.data_dir, &folder, Arc::new(servers))
    }
}

/// What pods of a shoot reach in this process.
struct InShoot {
    front: Front,
    /// The name of the shoot's API server.
    own: String,
    /// The shoot's namespace in its seed.
    namespace: String,
    port: Option<u16>,
    machines: Machines,
}

impl ApiServers for InShoot {
    fn has(&self, namespace: &str, service: &str) -> bool {
        (namespace, service) == OWN
    }

    fn serve(&self, connection: ToService) -> BoxFuture<'static, ()> {
        serve_by(&self.front, &self.own, connection)
    }

    fn port(&self) -> Option<u16> {
        self.port
    }

    /// Other names, the tunnel's server among them, are outside of the shoot.
    fn service_of(&self, server_name: Option<&str>) -> Option<(String, String)> {
        let is_own = server_name?.eq_ignore_ascii_case(&self.own);
        is_own.then(|| (OWN.0.to_owned(), OWN.1.to_owned()))
    }

    fn node_at(&self, to: SocketAddr) -> Option<Dialer> {
        self.machines.find(&self.namespace, to)
    }
}

#[cfg(test)]
mod tests {
    use base_clock::Clock;

    use super::*;

    #[test]
    fn only_its_own_api_server_is_a_service_of_a_shoot() {
        let servers = InShoot {
            front: Front::new(Clock::real()),
            own: "api.a.b.internal.example".to_owned(),
            namespace: "shoot--b--a".to_owned(),
            port: Some(6443),
            machines: Machines::default(),
        };
        let service = |name: &str| servers.service_of(Some(name)).is_some();
        assert!(service("API.a.b.internal.example"));
        for other in ["kube-apiserver.shoot--b--c.svc", "vpn-seed-server.shoot--b--a.svc"] {
            assert!(!service(other), "{other}");
        }
        assert!(servers.service_of(None).is_none());
        assert!(servers.has("default", "kubernetes") && !servers.has("shoot--b--a", "kube-apiserver"));
    }
}
