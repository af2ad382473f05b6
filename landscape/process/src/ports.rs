//! Opens the ports that a configuration names. What is served there is `base/serve`'s.

use api_config::Server;
use api_meta::Fault;
use tokio::net::TcpListener;

/// Opens a port. `field`: where the configuration names it.
///
/// # Errors
/// It is taken, or the address is not of this machine.
pub(crate) async fn open(server: &Server, field: &str) -> Result<TcpListener, Fault> {
    base_serve::open(server.address, server.port, &format!("{field} of the configuration")).await
}
