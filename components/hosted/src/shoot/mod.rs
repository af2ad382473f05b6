//! What goes *into* a shoot: built here, delivered by gardener-resource-manager. Each function gives the objects of one
//! ManagedResource, in the order in which they can be applied.

mod network_policies;
mod node_agent;
mod system;
mod vpn;

pub use node_agent::{
    NODE_AGENT_CONFIG_PATH, NODE_AGENT_TOKEN_PATH, NodeAgentPool, node_agent_objects, node_agent_secret,
};
pub use system::{
    SystemSettings, access_bindings, cluster_identity_objects, gardener_access_objects,
    machine_controller_access_objects, namespace_objects, system_objects,
};
pub use vpn::{VPN_SHOOT_IMAGE, VpnSettings, vpn_objects};

use serde_json::Value;

/// One object as it is to be applied, `apiVersion` and `kind` included.
pub type Object = Value;

/// The key of an object in the Secret behind a ManagedResource: unique, sorted by kind, readable.
#[must_use]
pub fn object_key(object: &Object) -> String {
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let (kind, namespace, name) = (
        text("/kind").to_lowercase(),
        text("/metadata/namespace"),
        text("/metadata/name"),
    );
    // Keys of Secrets know letters, digits, "-", "_" and "." only; names of roles have colons.
    format!("{kind}__{namespace}__{}.yaml", name.replace(':', "_"))
}
