//! What the embedded node can run: one library function per image, and the catalogue of them all. An image is wiring:
//! it reads its command line and files as the program whose name it carries, and hands the work to the crate whose work
//! it is. Beside it: images that are programs of this machine (`programs`), and two of the implementations as
//! processes that envtest starts (`envtest`).

mod controllers;
pub mod envtest;
mod etcd;
mod etcd_client;
mod flags;
mod gardener_resource_manager;
mod idle;
mod kube_apiserver;
mod kube_controller_manager;
mod kube_scheduler;
mod kubelet;
mod listening;
mod local_machine;
mod orangery;
pub mod programs;
mod provider_local;
#[cfg(test)]
mod scenario;
mod shoot_nodes;
pub mod tunnel;

use std::fmt;
use std::sync::Arc;

use base_client::Connector;
use cluster_apiserver::ApiServer;
use cluster_front::Front;
use cluster_node::{ContainerContext, ImageCatalogue, Network, Networks};
use components_hosted::{ComponentId, Image};

pub use etcd::etcd;
pub use gardener_resource_manager::gardener_resource_manager;
pub use kube_apiserver::kube_apiserver;
pub use kube_controller_manager::kube_controller_manager;
pub use kube_scheduler::kube_scheduler;
pub use kubelet::Machines;
pub use local_machine::local_machine;
pub use orangery::orangery;
pub use provider_local::provider_local;
pub use shoot_nodes::NodePrograms;

/// What images need from the process they run in. Clock and randomness come with each container.
#[derive(Clone)]
pub struct Host {
    /// Where API servers become reachable.
    pub front: Front,
    /// Makes clients from kubeconfigs.
    pub connector: Arc<dyn Connector>,
    /// The pod network of the cluster whose nodes run the images.
    pub network: Network,
    /// The pod networks of clusters whose nodes are machines among the images' containers.
    pub networks: Networks,
    /// Where the kubelets of machines are reached by API servers that are programs. Without, they are not served: API servers of
    /// this process need none.
    pub machines: Option<Machines>,
    /// What runs on nodes of machines. Without, they pretend to run all of their pods.
    pub node_programs: Option<NodePrograms>,
    /// Called with every API server that an image starts; for a caller that needs its audit record.
    pub api_server_started: Option<ApiServerStarted>,
    /// How many audit records those API servers keep.
    pub audit_records: usize,
}

/// Called with an API server that has been started.
pub type ApiServerStarted = Arc<dyn Fn(&ApiServer) + Send + Sync>;

impl Host {
    /// The parts of one cluster's nodes, which reach API servers in process.
    pub fn new(front: Front) -> Self {
        Host {
            connector: Arc::new(front.clone()),
            front,
            network: Network::new(),
            networks: Networks::new(),
            machines: None,
            node_programs: None,
            api_server_started: None,
            audit_records: 0,
        }
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("front", &self.front)
            .finish_non_exhaustive()
    }
}

/// All images.
pub fn catalogue(host: Host) -> ImageCatalogue {
    let host = Arc::new(host);
    let with_host =
        |image: fn(Arc<Host>, ContainerContext) -> futures::future::BoxFuture<'static, cluster_node::Exit>| {
            let host = Arc::clone(&host);
            move |context: ContainerContext| image(Arc::clone(&host), context)
        };
    let of_components = ComponentId::ALL.iter().filter_map(|id| match id.component().image() {
        Image::Own(name) | Image::Kubernetes(name) | Image::Upstream { name, .. } => Some(name),
        Image::Program => None,
    });
    // The last one of a name stays.
    of_components
        .fold(ImageCatalogue::new(), |images, name| images.with(name, idle::idle))
        .with("etcd", etcd)
        .with(
            "kube-apiserver",
            with_host(|host, context| Box::pin(kube_apiserver(host, context))),
        )
        .with("orangery", orangery)
        .with("gardener-resource-manager", gardener_resource_manager)
        .with("kube-controller-manager", kube_controller_manager)
        .with("kube-scheduler", kube_scheduler)
        .with(
            "local-machine",
            with_host(|host, context| Box::pin(local_machine(host, context))),
        )
        .with(
            "provider-local",
            with_host(|host, context| Box::pin(provider_local(host, context))),
        )
}
