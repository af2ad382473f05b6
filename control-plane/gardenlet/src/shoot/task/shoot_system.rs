//! What goes into the shoot by way of gardener-resource-manager: our own ManagedResources.

use api_meta::Fault;
use components_hosted::shoot::{
    NodeAgentPool, Object, SystemSettings, cluster_identity_objects, namespace_objects, node_agent_objects,
    system_objects, vpn_objects,
};
use control_plane_shoot_flow::Managed;
use sha2::{Digest, Sha256};

use super::super::given::Given;
use super::super::operation::Operation;
use super::os_config::Pool;
use super::vpn;

/// The name of a ManagedResource.
pub(crate) fn name(managed: Managed) -> &'static str {
    match managed {
        Managed::ShootNamespaces => "shoot-core-namespaces",
        Managed::ShootSystem => "shoot-core-system",
        Managed::ClusterIdentity => "shoot-core-cluster-identity",
        Managed::NodeAgent => "shoot-gardener-node-agent",
        Managed::VpnShoot => "shoot-core-vpn-shoot",
    }
}

/// The objects of a ManagedResource.
///
/// # Errors
/// A bug: what it needs is not given.
pub(crate) async fn objects(op: &Operation, given: &Given<'_>, managed: Managed) -> Result<Vec<Object>, Fault> {
    Ok(match managed {
        Managed::ShootNamespaces => namespace_objects(),
        Managed::ShootSystem => system_objects(&system_settings(op, given.nodes()?)),
        Managed::ClusterIdentity => {
            let known = op.status.known().status.cluster_identity;
            let identity = known.unwrap_or_else(|| op.shoot.cluster_identity(&op.context.config.garden_identity));
            cluster_identity_objects(&identity)
        }
        Managed::NodeAgent => node_agent_objects(&node_agent_pools(&given.pools()?)),
        Managed::VpnShoot => vpn_objects(&vpn::settings(op, &given.secrets()?, given.nodes()?).await?),
    })
}

/// Roles of people, priorities, what the shoot knows about itself.
fn system_settings(op: &Operation, nodes: Vec<String>) -> SystemSettings {
    let spec = &op.shoot.spec;
    let window = spec
        .maintenance
        .as_ref()
        .and_then(|maintenance| maintenance.time_window.clone())
        .unwrap_or_default();
    SystemSettings {
        shoot_name: op.shoot.name.clone(),
        project_name: op.shoot.project.clone(),
        kubernetes_version: op.shoot.version.clone(),
        provider: op.shoot.provider.clone(),
        region: op.shoot.region.clone(),
        domain: spec.dns.as_ref().and_then(|dns| dns.domain.clone()),
        pod_networks: op.shoot.pods.clone(),
        service_networks: op.shoot.services.clone(),
        node_networks: nodes,
        maintenance_begin: window.begin,
        maintenance_end: window.end,
    }
}

/// Rights of nodes, and what each pool's nodes are to be.
fn node_agent_pools(pools: &[Pool]) -> Vec<NodeAgentPool> {
    let checksum = |text: &str| Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
    let pools = pools.iter().map(|pool| NodeAgentPool {
        pool: pool.key.name.clone(),
        secret_name: pool.key.key.clone(),
        checksum: checksum(&pool.config),
        operating_system_config: pool.config.clone(),
        kubernetes_version: pool.key.version.clone(),
    });
    pools.collect()
}
