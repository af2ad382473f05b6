//! What goes into the shoot by way of gardener-resource-manager.

use api_meta::Fault;
use components_hosted::shoot::{
    NodeAgentPool, SystemSettings, cluster_identity_objects, namespace_objects, node_agent_objects, system_objects,
};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::super::managed;
use super::super::operation::Operation;

const NAMESPACES: &str = "shoot-core-namespaces";
const SYSTEM: &str = "shoot-core-system";
const CLUSTER_IDENTITY: &str = "shoot-core-cluster-identity";
const NODE_AGENT: &str = "shoot-gardener-node-agent";

/// The namespaces of system components.
pub(crate) async fn deploy_namespaces(op: &Operation) -> Result<(), Fault> {
    managed::deploy(op, NAMESPACES, &namespace_objects()).await
}

/// Waits until they are there.
pub(crate) async fn wait_namespaces(op: &Operation, until: Option<Instant>) -> Result<(), Fault> {
    managed::wait_applied(op, NAMESPACES, until).await
}

/// Roles of people, priorities, what the shoot says about itself.
pub(crate) async fn deploy(op: &Operation) -> Result<(), Fault> {
    let spec = &op.shoot.spec;
    let window = spec
        .maintenance
        .as_ref()
        .and_then(|maintenance| maintenance.time_window.clone())
        .unwrap_or_default();
    let settings = SystemSettings {
        shoot_name: op.shoot.name.clone(),
        project_name: op.shoot.project.clone(),
        kubernetes_version: op.shoot.version.clone(),
        provider: op.shoot.provider.clone(),
        region: op.shoot.region.clone(),
        domain: spec.dns.as_ref().and_then(|dns| dns.domain.clone()),
        pod_networks: op.shoot.pods.clone(),
        service_networks: op.shoot.services.clone(),
        node_networks: op.results().nodes.clone(),
        maintenance_begin: window.begin,
        maintenance_end: window.end,
    };
    managed::deploy(op, SYSTEM, &system_objects(&settings)).await
}

/// Waits until they are applied.
pub(crate) async fn wait(op: &Operation, until: Option<Instant>) -> Result<(), Fault> {
    managed::wait_applied(op, SYSTEM, until).await
}

/// The cluster's identity.
pub(crate) async fn deploy_cluster_identity(op: &Operation) -> Result<(), Fault> {
    let known = op.status.known().await.status.cluster_identity;
    let identity = known.unwrap_or_else(|| op.shoot.cluster_identity(&op.context.config.garden_identity));
    managed::deploy(op, CLUSTER_IDENTITY, &cluster_identity_objects(&identity)).await
}

/// Rights of nodes, and what each pool's nodes are to be.
pub(crate) async fn deploy_node_agent(op: &Operation) -> Result<(), Fault> {
    let pools: Vec<NodeAgentPool> = op
        .results()
        .pools
        .iter()
        .map(|pool| NodeAgentPool {
            pool: pool.name.clone(),
            secret_name: pool.key.clone(),
            checksum: Sha256::digest(&pool.config)
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect(),
            operating_system_config: pool.config.clone(),
            kubernetes_version: pool.version.clone(),
        })
        .collect();
    managed::deploy(op, NODE_AGENT, &node_agent_objects(&pools)).await
}
