//! One shoot's control plane in its seed, one value per component: [`ComponentId::ALL`] is the list, [`Component`] what each
//! of them is. Settings in, complete Kubernetes objects out; nothing here reads or writes. Names, labels and
//! flags are those of gardener/gardener v1.150 `pkg/component` and of Kubernetes itself, so that webhooks of extensions find
//! what they look for.
//!
//! What belongs *into* the shoot (namespaces, roles, the node agents' configuration) is built in [`shoot`].

mod api_server;
mod component;
mod controller_manager;
mod etcd;
mod inventory;
mod machine_controller_manager;
mod mount;
mod object;
mod resource_manager;
mod scheduler;
pub mod secrets;
mod security;
pub mod shoot;
mod table;
mod vpn_seed_server;

pub use api_server::API_SERVER;
pub use component::{
    Component, EtcdStorage, HostedCluster, Image, Issued, MissingSecret, NodeAccess, Place, Power, ScaleFacts,
    ShootClient, Titles, Workload, build,
};
pub use controller_manager::CONTROLLER_MANAGER;
pub use inventory::{INVENTORY, Removal, bears_labels_of, inventory, obsolete, removal};
pub use mount::Mounted;
pub use object::{HostedObject, ObjectKind, Reference};
pub use resource_manager::RESOURCE_MANAGER;
pub use scheduler::SCHEDULER;
pub use table::{ComponentId, component, existing};
pub use vpn_seed_server::{CA_VPN, VPN_AGENT_PORT, VPN_SEED_SERVER, VPN_SHOOT_CLIENT, vpn_server_name};

/// Where clients of a shoot's API server find their kubeconfig inside their pods.
pub const KUBECONFIG_PATH: &str = "/var/run/secrets/gardener.cloud/shoot/generic-kubeconfig/kubeconfig";

/// The folder of [`KUBECONFIG_PATH`].
const KUBECONFIG_FOLDER: &str = "/var/run/secrets/gardener.cloud/shoot/generic-kubeconfig";

/// The key under which a kubeconfig stands in a Secret.
pub const KUBECONFIG_KEY: &str = "kubeconfig";

/// Name of the Secret that holds a component's kubeconfig for the shoot.
#[must_use]
pub fn shoot_access_secret_name(component: &str) -> String {
    format!("shoot-access-{component}")
}
