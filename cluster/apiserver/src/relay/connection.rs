//! Opens connections for forwarded requests to places that are not in this process.

use std::sync::Arc;

use base_client::Connection;
use tokio_rustls::TlsConnector;

use crate::connections::dial::{Destination, open};
use crate::connections::tls::{Trust, tls};
use crate::relay::proxy_target::{Place, Scheme, Way};
use crate::state::server_state::ServerState;

/// A connection to a place that is not in this process. Errors: why there is none.
pub(crate) async fn open_to(server: &ServerState, place: &Place) -> Result<Connection, String> {
    let shown = place.port.as_deref().unwrap_or_default();
    let port = place.port().ok_or_else(|| format!("invalid port {shown:?}"))?;
    let tls = match (&place.way, place.scheme) {
        (Way::Here(_) | Way::Nowhere, _) => {
            return Err(format!("dial tcp {}: connect: connection refused", place.authority()));
        }
        (Way::Kubelet, _) => Some(server.network.kubelets.connector()),
        (Way::Address | Way::Dial(_), Scheme::Https) => {
            Some(TlsConnector::from(Arc::new(tls(Trust::AnyServer, None)?)))
        }
        (Way::Address | Way::Dial(_), Scheme::Http) => None,
    };
    let dialer = match &place.way {
        Way::Dial(dialer) => Some(dialer),
        _ => None,
    };
    let host = place.host.as_str();
    open(Destination {
        host,
        port,
        dialer,
        tls,
    })
    .await
}
