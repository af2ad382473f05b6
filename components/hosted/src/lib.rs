//! Pure builders of one shoot's control plane in its seed: etcd, kube-apiserver, kube-controller-manager,
//! kube-scheduler, gardener-resource-manager. Settings in, complete Kubernetes objects out; nothing here reads, writes
//! or decides. Names, labels and flags are those of gardener/gardener v1.150 `pkg/component` and of Kubernetes itself,
//! so that webhooks of extensions find what they look for.
//!
//! What belongs *into* the shoot (namespaces, roles, the node agents' configuration) is built in [`shoot`].

mod api_server;
mod controller_manager;
mod etcd;
mod mount;
mod object;
mod resource_manager;
mod scheduler;
pub mod shoot;

pub use api_server::{API_SERVER, ApiServerSettings, api_server, api_server_service};
pub use controller_manager::{CONTROLLER_MANAGER, ControllerManagerSettings, controller_manager};
pub use etcd::{ETCD, ETCD_CLIENT_SERVICE, EtcdObjects, EtcdSettings, etcd};
pub use mount::Mounted;
pub use resource_manager::{RESOURCE_MANAGER, ResourceManagerObjects, ResourceManagerSettings, resource_manager};
pub use scheduler::{SCHEDULER, SchedulerSettings, scheduler};

/// Where clients of a shoot's API server find their kubeconfig inside their pods.
pub const KUBECONFIG_PATH: &str = "/var/run/secrets/gardener.cloud/shoot/generic-kubeconfig/kubeconfig";

/// The key under which a kubeconfig stands in a Secret.
pub const KUBECONFIG_KEY: &str = "kubeconfig";

/// Name of the Secret that holds a component's kubeconfig for the shoot.
#[must_use]
pub fn shoot_access_secret_name(component: &str) -> String {
    format!("shoot-access-{component}")
}
