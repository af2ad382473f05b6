//! The server as a value: built, served, shut down. What a request goes through is in `pipeline`.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use base_client::HttpService;
use base_clock::{Clock, Entropy};
use cluster_access::Gatekeeper;
use cluster_store::Store;
use http::header::{AUTHORIZATION, HeaderValue};
use ipnet::IpNet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::util::BoxCloneSyncService;

use crate::PeerCertificates;
use crate::access::{Access, Authorities, FrontProxies};
use crate::admission::Admission;
use crate::admission::identity::ClientIdentity;
use crate::aggregation::{self, Aggregation};
use crate::applied::Applied;
use crate::audit::AuditLog;
use crate::audit_event::{AuditSink, Auditing};
use crate::audit_policy::AuditPolicy;
use crate::connect::Nodes;
use crate::context::store_status;
use crate::fairness::Fairness;
use crate::health::Readiness;
use crate::kind::Kind;
use crate::kubelets::{KubeletClient, Kubelets};
use crate::measured::StoreFigures;
use crate::metrics::Metrics;
use crate::objects::{Extracts, store_name};
use crate::protection::Protection;
use crate::registry::{Registry, Role, Served};
use crate::relay::{Carried, PodPort, Pods};
use crate::services::Addresses;
use crate::status::Status;
use crate::stores::Stores;
use crate::{bootstrap, builtin, event_age, forms, others, pipeline};

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
    pub(crate) carried: Carried,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

/// What a server is made of. The store, clock and entropy are asked for by name; all else has a default.
pub struct Builder {
    name: String,
    git_version: String,
    store: Option<Arc<dyn Store>>,
    apart: BTreeMap<String, Arc<dyn Store>>,
    kinds: Vec<Arc<dyn Kind>>,
    builtin: bool,
    clock: Clock,
    entropy: Entropy,
    authorities: Authorities,
    service_range: Option<IpNet>,
    advertised: Option<SocketAddr>,
    audit_records: usize,
    auditing: Option<Arc<Auditing>>,
    protection: Option<Protection>,
    accounts: bool,
    front_proxies: Option<FrontProxies>,
    delegation: Option<kube::Client>,
    gatekeepers: Vec<Arc<dyn Gatekeeper>>,
    identity: Option<ClientIdentity>,
    shared: bool,
    nodes: Option<Nodes>,
    pods: Option<Pods>,
    kubelets: KubeletClient,
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
    /// Begins a server. `name` is for logs: `garden`, `seed-local`, a shoot's technical id.
    pub fn builder(name: impl Into<String>) -> Builder {
        Builder {
            name: name.into(),
            git_version: DEFAULT_GIT_VERSION.to_owned(),
            store: None,
            apart: BTreeMap::new(),
            kinds: Vec::new(),
            builtin: true,
            clock: Clock::real(),
            entropy: Entropy::os(),
            authorities: Authorities::default(),
            service_range: None,
            advertised: None,
            audit_records: 0,
            auditing: None,
            protection: None,
            accounts: true,
            front_proxies: None,
            delegation: None,
            gatekeepers: Vec::new(),
            identity: None,
            shared: false,
            nodes: None,
            pods: None,
            kubelets: KubeletClient::new(),
        }
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

    /// A client of group `system:masters`, for bootstrap alone. Audited as user `system:apiserver`.
    pub fn loopback_client(&self) -> kube::Client {
        self.client_for(Identity::Token(self.0.access.loopback_token().to_owned()))
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

impl Builder {
    /// Where objects are kept. Required.
    #[must_use]
    pub fn store(mut self, store: impl Store) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// Where objects are kept, shared.
    #[must_use]
    pub fn shared_store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Keeps objects of a built-in resource in a store of its own; custom resources stay where all else is. Objects that the
    /// main store has of it are not seen any more. (`--etcd-servers-overrides`)
    #[must_use]
    pub fn store_of(mut self, group: &str, resource: &str, store: Arc<dyn Store>) -> Self {
        if builtin::is_stored(group, resource) {
            self.apart.insert(store_name(group, resource), store);
        }
        self
    }

    /// Adds kinds to the built-in ones.
    #[must_use]
    pub fn kinds(mut self, kinds: impl IntoIterator<Item = Arc<dyn Kind>>) -> Self {
        self.kinds.extend(kinds);
        self
    }

    /// The version that `/version` reports: `v1.33.2`. A missing `v` is added.
    #[must_use]
    pub fn git_version(mut self, version: &str) -> Self {
        self.git_version = if version.starts_with('v') {
            version.to_owned()
        } else {
            format!("v{version}")
        };
        self
    }

    /// The clock; the machine's by default.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// The randomness; the operating system's by default.
    #[must_use]
    pub fn entropy(mut self, entropy: Entropy) -> Self {
        self.entropy = entropy;
        self
    }

    /// Who signs client certificates and service account tokens. Nobody by default.
    #[must_use]
    pub fn authorities(mut self, authorities: Authorities) -> Self {
        self.authorities = authorities;
        self
    }

    /// The range that Services get their cluster IPs from; without one Services get none and the Service
    /// `kubernetes` is not made.
    #[must_use]
    pub fn service_range(mut self, range: IpNet) -> Self {
        self.service_range = Some(range);
        self
    }

    /// Where pods of the cluster reach the server behind the Service `kubernetes`; without it the Service has no endpoints.
    /// Ignored where the address is one of loopback, which endpoints must not have. (`--advertise-address`,
    /// `--secure-port`)
    #[must_use]
    pub fn advertise(mut self, address: SocketAddr) -> Self {
        self.advertised = Some(address).filter(|address| !address.ip().is_loopback());
        self
    }

    /// How many audit records are kept for who reads them later; none by default. Subscribers hear of all.
    #[must_use]
    pub fn audit_records(mut self, kept_max: usize) -> Self {
        self.audit_records = kept_max;
        self
    }

    /// Audit events of requests, as the policy wants them; none by default. (`--audit-policy-file`, `--audit-log-path`)
    #[must_use]
    pub fn audit_events(mut self, policy: AuditPolicy, sink: Arc<dyn AuditSink>) -> Self {
        self.auditing = Some(Auditing::new(policy, sink));
        self
    }

    /// What is only deleted once it is confirmed; nothing by default.
    #[must_use]
    pub fn protect(mut self, protection: Protection) -> Self {
        self.protection = Some(protection);
        self
    }

    /// Whether every pod runs as a service account that is there, with a token; yes by default. No is what kube-apiserver
    /// does with `ServiceAccount` among `--disable-admission-plugins`: for servers beside which nobody makes the account
    /// `default` of each namespace.
    #[must_use]
    pub fn pods_as_accounts(mut self, wanted: bool) -> Self {
        self.accounts = wanted;
        self
    }

    /// Believes what front proxies say of users, so that this server can stand behind another one; nobody by default.
    #[must_use]
    pub fn front_proxies(mut self, front_proxies: FrontProxies) -> Self {
        self.front_proxies = Some(front_proxies);
        self
    }

    /// Asks another API server who a token belongs to that nobody here has issued (TokenReview), and whether a user may do
    /// something (SubjectAccessReview) instead of the access rules in the own store. Answers are kept for 10 s. Nobody is
    /// asked by default. (`--authentication-kubeconfig`, `--authorization-kubeconfig`)
    #[must_use]
    pub fn delegate(mut self, client: kube::Client) -> Self {
        self.delegation = Some(client);
        self
    }

    /// Adds one who is asked before the own access rules, behind those added before, and about every write. Superusers are
    /// never asked about, nor anybody where another API server decides. Nobody is asked by default.
    #[must_use]
    pub fn gatekeeper(mut self, gatekeeper: Arc<dyn Gatekeeper>) -> Self {
        self.gatekeepers.push(gatekeeper);
        self
    }

    /// The client certificate (PEM, its chain behind it) and private key by which this server is believed as a front proxy of
    /// servers behind it; without them they are asked by nobody. (`--proxy-client-cert-file`, `--proxy-client-key-file`)
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub fn proxy_identity(mut self, certificate: &str, key: &[u8]) -> Result<Self, Status> {
        let identity = ClientIdentity::of("front proxy", certificate, key).map_err(Status::internal)?;
        self.identity = Some(identity);
        Ok(self)
    }

    /// Whether other servers write to the same store; no by default. Then what they write of access rules, admission and
    /// custom resource definitions counts here as well, as soon as a watch tells it.
    #[must_use]
    pub fn others_write(mut self, others: bool) -> Self {
        self.shared = others;
        self
    }

    /// Who answers for a node, by its name: logs of containers are asked there. Nobody by default.
    #[must_use]
    pub fn nodes(mut self, find: impl Fn(&str) -> Option<HttpService> + Send + Sync + 'static) -> Self {
        self.nodes = Some(Box::new(find));
        self
    }

    /// What listens on pods of this process, by address and port; without, they are reached by their addresses.
    #[must_use]
    pub fn pods(mut self, find: impl Fn(IpAddr, u16) -> PodPort + Send + Sync + 'static) -> Self {
        self.pods = Some(Box::new(find));
        self
    }

    /// How kubelets of other processes are reached.
    #[must_use]
    pub fn kubelets(mut self, client: KubeletClient) -> Self {
        self.kubelets = client;
        self
    }

    /// Starts the server: loads the custom resources and access rules that the store holds, makes the default
    /// namespaces and the bootstrap policy. Errors: no store, or it does not answer.
    pub async fn build(self) -> Result<ApiServer, Status> {
        let store = self
            .store
            .ok_or_else(|| Status::internal("an API server needs a store"))?;
        let store_figures = Arc::new(StoreFigures::default());
        let store = Arc::new(Stores::new(store, self.apart, &store_figures));
        let registry = Registry::default();
        if self.builtin {
            let guards: Vec<_> = self.kinds.iter().flat_map(|kind| kind.guards()).collect();
            let since = forms::since(&store).await.map_err(store_status)?;
            builtin::register(&registry, &guards, &since);
        }
        for kind in self.kinds {
            registry.put(Arc::new(Served::new(kind, Role::Ordinary)));
        }
        let mut access = Access::new(
            self.authorities,
            self.front_proxies,
            self.delegation,
            &self.clock,
            &self.entropy,
            store.clone(),
        )?;
        access.gatekeepers = self.gatekeepers;
        let inner = Arc::new(Inner {
            name: self.name,
            git_version: self.git_version,
            store,
            registry,
            clock: self.clock,
            entropy: self.entropy,
            access,
            audit: AuditLog::keeping(self.audit_records),
            auditing: self.auditing,
            readiness: Readiness::default(),
            metrics: Metrics::default(),
            store_figures,
            addresses: Addresses::new(self.service_range),
            extracts: Extracts::default(),
            advertised: self.advertised,
            watches: AtomicUsize::new(0),
            fairness: Fairness::default(),
            applied: Applied::default(),
            admission: Admission::default(),
            aggregation: Aggregation::new(self.identity),
            turns: tokio::sync::Mutex::default(),
            protection: self.protection,
            accounts: self.accounts,
            nodes: self.nodes,
            pods: self.pods,
            kubelets: self.kubelets.build()?,
            carried: Carried::default(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        bootstrap::run(&inner).await?;
        event_age::start(&inner);
        aggregation::start(&inner);
        if self.shared {
            others::start(&inner);
        }
        Ok(ApiServer(inner))
    }
}
