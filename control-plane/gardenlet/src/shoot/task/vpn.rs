//! The end of the tunnel inside the shoot: settings of the agent, and when it is connected.

use std::net::IpAddr;

use api_meta::Fault;
use base_secrets::{data, text_of};
use components_hosted::shoot::{VPN_SHOOT_IMAGE, VpnSettings};
use components_hosted::{CA_VPN, VPN_AGENT_PORT, VPN_SEED_SERVER, VPN_SHOOT_CLIENT, vpn_server_name};
use tokio::time::Instant;

use super::super::managed;
use super::super::operation::Operation;
use super::component::image;
use super::dns::{ReachedAt, reached_at};
use super::secrets::ShootSecrets;
use crate::config::Addressing;

/// Settings of the agent. `nodes`: the networks of nodes.
pub(crate) async fn settings(op: &Operation, secrets: &ShootSecrets, nodes: Vec<String>) -> Result<VpnSettings, Fault> {
    let (server_address, server_port) = server(op).await?;
    let credential = &secrets.get(VPN_SHOOT_CLIENT)?.current;
    let text = |key: &str| {
        let text = text_of(credential, key).map_err(Fault::bug)?;
        Ok::<String, Fault>(text.expose().to_owned())
    };
    Ok(VpnSettings {
        image: image(op, "vpn-shoot", VPN_SHOOT_IMAGE),
        server_name: vpn_server_name(op.namespace()),
        server_address,
        server_port,
        authorities: secrets.get(CA_VPN)?.authorities()?,
        certificate: text(data::CERTIFICATE)?,
        key: text(data::KEY)?,
        node_networks: nodes,
        pod_networks: op.shoot.pods.clone(),
        service_networks: op.shoot.services.clone(),
    })
}

/// Where agents find the server: at the URL of all API servers of the seed, which hands connections on by name, or at its own
/// Service.
async fn server(op: &Operation) -> Result<(IpAddr, u16), Fault> {
    if let Addressing::Shared { url, address } = &op.context.config.addressing {
        let port = url
            .rsplit_once(':')
            .and_then(|(_, port)| port.trim_end_matches('/').parse().ok());
        let port = port.ok_or_else(|| {
            Fault::user(format!("the URL {url:?} of all API servers has no port"))
                .hint("write https://HOST:PORT into orangery.addressing.url of gardenlet's configuration")
        })?;
        return Ok((*address, port));
    }
    match reached_at(op, VPN_SEED_SERVER).await? {
        ReachedAt::Address(address) => Ok((address, VPN_AGENT_PORT)),
        ReachedAt::Host(host) => Err(Fault::dependency(format!(
            "the load balancer of Service {}/{VPN_SEED_SERVER} has the name {host} and no address: agents of the tunnel \
             look up no names",
            op.namespace()
        ))
        .hint(
            "give the load balancer an IP address, or set orangery.nodeAccess.type of gardenlet's configuration to Direct \
             where nodes are reached without a tunnel",
        )),
    }
}

/// Waits until the agent is connected. In a shoot whose pools may be without nodes it cannot be waited for.
pub(crate) async fn wait(op: &Operation, name: &str, written: i64, until: Option<Instant>) -> Result<(), Fault> {
    let has_nodes = op.shoot.spec.provider.workers.iter().any(|pool| pool.minimum > 0);
    match has_nodes {
        true => managed::wait_healthy(op, name, written, until).await,
        false => managed::wait_applied(op, name, written, until).await,
    }
}
