//! The server as a value: served, shut down. What it is made of is in `builder`, what a request goes through in `pipeline`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use base_client::HttpService;
use base_clock::{Clock, Entropy};
use http::header::{AUTHORIZATION, HeaderValue};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::util::BoxCloneSyncService;

use crate::PeerCertificates;
use crate::access::{Access, FrontProxies};
use crate::admission::Admission;
use crate::aggregation::Aggregation;
use crate::applied::Applied;
use crate::audit::AuditLog;
use crate::audit_event::Auditing;
use crate::builder::Builder;
use crate::connect::Nodes;
use crate::fairness::Fairness;
use crate::health::Readiness;
use crate::in_front::InFront;
use crate::kubelets::Kubelets;
use crate::measured::StoreFigures;
use crate::metrics::Metrics;
use crate::objects::Extracts;
use crate::pipeline;
use crate::protection::Protection;
use crate::registry::Registry;
use crate::relay::{Carried, Pods};
use crate::services::Addresses;
use crate::status::Status;
use crate::stores::Stores;

/// The Kubernetes version reported when the builder is not told another.
pub const DEFAULT_GIT_VERSION: &str = "v1.35.0";

/// A running API server. Clones are the same server; it lives until [`ApiServer::shutdown`].
#[derive(Clone)]
pub struct ApiServer(Arc<Inner>);

/// What all requests share.
pub(crate) struct Inner {
    pub(crate) name: String,
    pub(crate) git_version: String,
    pub(crate) store: Arc<Stores>,
    pub(crate) registry: Registry,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    pub(crate) access: Access,
    pub(crate) audit: AuditLog,
    /// Events for a log, when somebody keeps one.
    pub(crate) auditing: Option<Arc<Auditing>>,
    pub(crate) readiness: Readiness,
    pub(crate) metrics: Metrics,
    pub(crate) store_figures: Arc<StoreFigures>,
    pub(crate) addresses: Addresses,
    pub(crate) extracts: Extracts,
    /// Where the Service `kubernetes` leads.
    pub(crate) advertised: Option<SocketAddr>,
    pub(crate) watches: AtomicUsize,
    pub(crate) fairness: Fairness,
    pub(crate) applied: Applied,
    pub(crate) admission: Admission,
    pub(crate) aggregation: Aggregation,
    /// Whose turn it is among the writes that are judged by other objects.
    pub(crate) turns: tokio::sync::Mutex<()>,
    pub(crate) protection: Option<Protection>,
    /// Pods run as service accounts.
    pub(crate) accounts: bool,
    /// Who answers for nodes.
    pub(crate) nodes: Option<Nodes>,
    /// What listens on pods.
    pub(crate) pods: Option<Pods>,
    pub(crate) kubelets: Kubelets,
    /// The server that this one stands behind.
    pub(crate) in_front: Option<Arc<InFront>>,
    pub(crate) carried: Carried,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

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
    pub(crate) fn of(inner: Arc<Inner>) -> Self {
        Self(inner)
    }

    /// Begins a server. `name` is for logs: `garden`, `seed-local`, a shoot's technical id.
    pub fn builder(name: impl Into<String>) -> Builder {
        Builder::new(name.into())
    }

    /// The server as a service: what a TLS port or an in-process client calls. Credentials are read from each
    /// request: a bearer token header, else [`PeerCertificates`] in the request's extensions.
    pub fn service(&self) -> HttpService {
        let inner = self.0.clone();
        BoxCloneSyncService::new(tower::service_fn(move |request| {
            let inner = inner.clone();
            async move { Ok(pipeline::serve(inner, request).await) }
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

    /// Replaces from now on whose client certificates are accepted (a PEM bundle, empty for none) and which front proxies are
    /// believed, for a server that stands behind another one and follows whom that one trusts.
    ///
    /// # Errors
    /// A bundle that cannot be read; what it is about stays as it was.
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
