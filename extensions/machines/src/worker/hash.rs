//! The hash that names the machine class of a pool in a zone: a new one replaces all machines of the pool in that zone. Pure.
//! Source: gardener/gardener v1.150 extensions/pkg/controller/worker/machines.go (`WorkerPoolHashV2`).
//!
//! What is in it:
//! - `nodeAgentSecretName`, which gardenlet makes from the pool's Kubernetes minor version, machine type, image, root disk and
//!   container runtime, and from rotations of credentials;
//! - what the provider adds ([`crate::ClassPart::hash_data`]).
//!
//! What is not in it reaches machines that exist, or new ones alone: labels, annotations and taints of nodes, settings of the
//! machine controllers, minimum and maximum, surge and unavailability, priority, capacity, user data, credentials, and the zones
//! of a pool.

use api_extensions::WorkerPool;
use api_meta::Fault;
use sha2::{Digest, Sha256};

/// Hexadecimal digits of a pool's hash (upstream's value).
const HASH_LENGTH: usize = 5;

fn hex(text: impl AsRef<[u8]>) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The hash of a pool with the provider's own `data`.
///
/// # Errors
/// A dependency fault: gardenlet did not name the Secret of the pool's node agents.
pub(super) fn pool_hash(pool: &WorkerPool, data: &[String]) -> Result<String, Fault> {
    let agent = pool.node_agent_secret_name.as_deref().ok_or_else(|| {
        Fault::dependency(format!("pool {} has no nodeAgentSecretName", pool.name))
            .hint("gardenlet writes it: compare the versions of gardenlet and of this extension")
    })?;
    let data = data.iter().map(String::as_str);
    let all: String = std::iter::once(agent).chain(data).map(hex).collect();
    Ok(hex(all)[..HASH_LENGTH].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(agent: Option<&str>) -> WorkerPool {
        WorkerPool {
            name: "p".into(),
            node_agent_secret_name: agent.map(str::to_owned),
            ..Default::default()
        }
    }

    #[test]
    fn a_pool_hash_is_as_upstream_computes_it() {
        let agent = "gardener-node-agent-p-0123456789abcdef";
        let of = |agent: &str, data: &[&str]| {
            let data: Vec<String> = data.iter().map(|text| (*text).to_owned()).collect();
            pool_hash(&pool(Some(agent)), &data).unwrap()
        };
        assert_eq!(of(agent, &[]), hex(hex(agent))[..5]);
        let with_data = format!("{}{}", hex(agent), hex("{\"b\":1}"));
        assert_eq!(of(agent, &["{\"b\":1}"]), hex(with_data)[..5]);
        assert_ne!(of("other", &[]), of(agent, &[]));
        assert_ne!(of(agent, &["a", "b"]), of(agent, &["b", "a"]));
    }

    #[test]
    fn a_pool_without_node_agent_secret_is_refused() {
        let fault = pool_hash(&pool(None), &[]).unwrap_err();
        assert!(
            fault.to_string().contains("pool p has no nodeAgentSecretName"),
            "{fault}"
        );
    }
}
