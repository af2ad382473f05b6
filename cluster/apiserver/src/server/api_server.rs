//! The server as a value: served, shut down. What it is made of is in `builder`, what a request goes through in `pipeline`.

use std::sync::Arc;

use base_client::HttpService;
use cluster_access::PeerCertificates;
use http::header::{AUTHORIZATION, HeaderValue};
use tower::util::BoxCloneSyncService;

use crate::access::audit_log::AuditLog;
use crate::access::authentication::FrontProxies;
use crate::server::builder::Builder;
use crate::server::pipeline;
use crate::state::readiness::Readiness;
use crate::state::server_state::ServerState;
use crate::wire::status::Status;

/// The Kubernetes version reported when the builder is given no other.
pub const DEFAULT_GIT_VERSION: &str = "v1.35.0";

/// A running API server. Clones are the same server; it lives until [`ApiServer::shutdown`].
#[derive(Clone)]
pub struct ApiServer(Arc<ServerState>);

/// Who a client is. There is no way past authentication.
#[derive(Clone)]
pub enum Identity {
    /// A client certificate chain, as a TLS handshake would have proved it.
    Certificates(PeerCertificates),
    /// A bearer token.
    Token(String),
    /// No credentials at all.
    Anonymous,
}

impl From<PeerCertificates> for Identity {
    fn from(certificates: PeerCertificates) -> Self {
        Self::Certificates(certificates)
    }
}

impl ApiServer {
    pub(crate) fn of(state: Arc<ServerState>) -> Self {
        Self(state)
    }

    /// Begins a server. `name` is for logs: `garden`, `seed-local`, a shoot's technical id.
    pub fn builder(name: impl Into<String>) -> Builder {
        Builder::new(name.into())
    }

    /// The server as a service: what a TLS port or an in-process client calls. Credentials are read from each
    /// request: a bearer token header, else [`PeerCertificates`] in the request's extensions.
    pub fn service(&self) -> HttpService {
        let state = self.0.clone();
        BoxCloneSyncService::new(tower::service_fn(move |request| {
            let state = state.clone();
            async move { Ok(pipeline::serve(state, request).await) }
        }))
    }

    /// A client with that identity; it is authenticated and authorized like any other. Must be called within a
    /// tokio runtime.
    pub fn client_for(&self, identity: impl Into<Identity>) -> kube::Client {
        let identity = identity.into();
        let header = match &identity {
            Identity::Token(token) => HeaderValue::from_str(&format!("Bearer {token}")).ok(),
            _ => None,
        };
        base_client::in_process(self.service(), move |parts| {
            if let Some(header) = &header {
                parts.headers.insert(AUTHORIZATION, header.clone());
            }
            if let Identity::Certificates(certificates) = &identity {
                parts.extensions.insert(certificates.clone());
            }
        })
    }

    /// A client of group `system:masters`, for bootstrap alone. Audited as user `system:apiserver`. Of a server that stands
    /// behind another one it may do nothing.
    pub fn loopback_client(&self) -> kube::Client {
        self.client_for(Identity::Token(self.0.access.loopback_token().to_owned()))
    }

    /// Replaces the authorities of client certificates (a PEM bundle, empty for none) and the front proxies that are trusted, for
    /// a server that stands behind another one and trusts whom that one trusts.
    ///
    /// # Errors
    /// When a bundle cannot be read; it replaces nothing.
    pub fn trust(&self, client_authorities: &str, front_proxies: &FrontProxies) -> Result<(), Status> {
        self.0.access.trust(client_authorities, front_proxies)
    }

    /// The record of completed requests.
    pub fn audit(&self) -> &AuditLog {
        &self.0.audit
    }

    /// The checks behind `/readyz`.
    pub fn readiness(&self) -> &Readiness {
        &self.0.readiness
    }

    /// The name given to the builder.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Open watches, for tests and metrics.
    pub fn watches(&self) -> usize {
        self.0.watches.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Refuses new requests with 503, ends all watches and waits for the server's own tasks. The store is left as
    /// it is.
    pub async fn shutdown(&self) {
        self.0.stop.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }
}
