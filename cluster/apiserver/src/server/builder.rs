//! What a server is made of, and how it is put together.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use base_client::HttpService;
use base_clock::{Clock, Entropy};
use cluster_access::{Gatekeeper, User};
use cluster_store::Store;
use ipnet::IpNet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access::audit_event::{AuditSink, Auditing};
use crate::access::audit_log::AuditLog;
use crate::access::audit_policy::AuditPolicy;
use crate::access::authentication::{Authorities, FrontProxies, TokenAuthority};
use crate::access::delegation::Delegates;
use crate::access::fairness::Fairness;
use crate::access::server_access::Access;
use crate::configuration::admission_hooks::Admission;
use crate::configuration::aggregation::Aggregation;
use crate::connections::addresses::{PodPort, Pods};
use crate::connections::identity::ClientIdentity;
use crate::connections::kubelets::KubeletClient;
use crate::connections::network::{Network, Nodes};
use crate::controllers::{api_service_availability, bootstrap, event_expiry, front_mirror, other_servers};
use crate::kinds::builtin;
use crate::kinds::kind::Kind;
use crate::kinds::registry::{Registry, Role, Served};
use crate::server::api_server::{ApiServer, DEFAULT_GIT_VERSION};
use crate::state::applied::Applied;
use crate::state::extracts::Extracts;
use crate::state::metrics::Metrics;
use crate::state::parsed_objects::ParsedObjects;
use crate::state::protection::Protection;
use crate::state::readiness::Readiness;
use crate::state::relay_limit::RelayLimit;
use crate::state::server_state::ServerState;
use crate::storage::errors::store_status;
use crate::storage::format;
use crate::storage::front_server::InFront;
use crate::storage::metered::StoreMetrics;
use crate::storage::service_addresses::Addresses;
use crate::storage::stores::{Stores, store_name};
use crate::wire::status::Status;

/// What a server is made of. The store is required; all else has a default.
pub struct Builder {
    name: String,
    git_version: String,
    store: Option<Arc<dyn Store>>,
    separate_stores: BTreeMap<String, Arc<dyn Store>>,
    kinds: Vec<Arc<dyn Kind>>,
    in_front: Option<kube::Client>,
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
    delegates: Option<Delegates>,
    gatekeepers: Vec<Arc<dyn Gatekeeper>>,
    token_issuer: Option<TokenAuthority>,
    identity: Option<ClientIdentity>,
    shared: bool,
    nodes: Option<Nodes>,
    pods: Option<Pods>,
    kubelets: KubeletClient,
}

impl Builder {
    /// The defaults.
    pub(crate) fn new(name: String) -> Self {
        Self {
            name,
            git_version: DEFAULT_GIT_VERSION.to_owned(),
            store: None,
            separate_stores: BTreeMap::new(),
            kinds: Vec::new(),
            in_front: None,
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
            delegates: None,
            gatekeepers: Vec::new(),
            token_issuer: None,
            identity: None,
            shared: false,
            nodes: None,
            pods: None,
            kubelets: KubeletClient::new(),
        }
    }

    /// Where objects are stored. Required.
    #[must_use]
    pub fn store(mut self, store: impl Store) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// Where objects are stored, shared.
    #[must_use]
    pub fn shared_store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Stores objects of a built-in resource in a store of its own; custom resources stay in the main store. Objects of the
    /// resource in the main store are no longer read. (`--etcd-servers-overrides`)
    #[must_use]
    pub fn store_of(mut self, group: &str, resource: &str, store: Arc<dyn Store>) -> Self {
        if builtin::is_stored(group, resource) {
            self.separate_stores.insert(store_name(group, resource), store);
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

    /// Who signs client certificates and service account tokens. No one by default.
    #[must_use]
    pub fn authorities(mut self, authorities: Authorities) -> Self {
        self.authorities = authorities;
        self
    }

    /// The range that Services get their cluster IPs from; without one Services get none and the Service
    /// `kubernetes` is not created.
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

    /// How many audit records are retained for later readers; none by default. Subscribers get all.
    #[must_use]
    pub fn audit_records(mut self, retained_max: usize) -> Self {
        self.audit_records = retained_max;
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

    /// Whether every pod runs as an existing service account, with a token; yes by default. No is what kube-apiserver does with
    /// `ServiceAccount` among `--disable-admission-plugins`: for servers without a controller that creates the account `default`
    /// of each namespace.
    #[must_use]
    pub fn pods_as_accounts(mut self, wanted: bool) -> Self {
        self.accounts = wanted;
        self
    }

    /// The front proxies whose identity headers are trusted, so that this server can stand behind another one; none by default.
    #[must_use]
    pub fn front_proxies(mut self, front_proxies: FrontProxies) -> Self {
        self.front_proxies = Some(front_proxies);
        self
    }

    /// Delegates to another API server: tokens that this server has not issued (TokenReview), and access decisions
    /// (SubjectAccessReview) in place of the access rules in its own store. Responses are cached for 10 s. Nothing is delegated
    /// by default. (`--authentication-kubeconfig`, `--authorization-kubeconfig`)
    #[must_use]
    pub fn delegate(self, client: kube::Client) -> Self {
        self.delegate_to(client.clone(), client)
    }

    /// As [`Builder::delegate`], with a client for tokens and another one for access.
    #[must_use]
    pub fn delegate_to(mut self, authentication: kube::Client, authorization: kube::Client) -> Self {
        self.delegates = Some(Delegates {
            authentication,
            authorization,
            bypasses_cache: |_| false,
        });
        self
    }

    /// Adds a gatekeeper that decides before the own access rules, behind those added before, and about every write. It does
    /// not decide about superusers, nor where another API server decides. There is none by default.
    #[must_use]
    pub fn gatekeeper(mut self, gatekeeper: Arc<dyn Gatekeeper>) -> Self {
        self.gatekeepers.push(gatekeeper);
        self
    }

    /// The users whose access decisions are never cached, after [`Builder::delegate`]: their rights follow from objects that
    /// change all the time. None by default.
    #[must_use]
    pub fn review_each_time(mut self, of: fn(&User) -> bool) -> Self {
        if let Some(delegates) = &mut self.delegates {
            delegates.bypasses_cache = of;
        }
        self
    }

    /// Stands behind another API server and serves the given kinds alone: none of Kubernetes' own, no reviews, and the store
    /// holds nothing else. All other objects are read from the server in front with this client: namespaces, which must be there
    /// for anything to be created in them, Secrets, ConfigMaps, Services of webhooks, quotas (whose status it also writes), and
    /// the webhooks and policies of admission, which apply to the kinds of this server too. Writes wait, and `/readyz` fails with
    /// `informer-sync`, until the server in front has listed what is followed.
    ///
    /// Guards of the kinds for writes of built-in kinds ([`Kind::guards`]) are not called: the server in front takes these.
    #[must_use]
    pub fn behind(mut self, client: kube::Client) -> Self {
        self.in_front = Some(client);
        self
    }

    /// Signs tokens of identities that are no service accounts, for a server that issues none to service accounts. No token of
    /// it is accepted here.
    #[must_use]
    pub fn token_issuer(mut self, issuer: TokenAuthority) -> Self {
        self.token_issuer = Some(issuer);
        self
    }

    /// The client certificate (PEM, its chain behind it) and private key by which servers behind this one trust it as their front
    /// proxy; without them it has no client certificate. (`--proxy-client-cert-file`, `--proxy-client-key-file`)
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub fn proxy_identity(mut self, certificate: &str, key: &[u8]) -> Result<Self, Status> {
        let identity = ClientIdentity::of("front proxy", certificate, key).map_err(Status::internal)?;
        self.identity = Some(identity);
        Ok(self)
    }

    /// Whether other servers write to the same store; no by default. Then their writes of access rules, admission and custom
    /// resource definitions apply here as well, as soon as a watch reports them.
    #[must_use]
    pub fn others_write(mut self, others: bool) -> Self {
        self.shared = others;
        self
    }

    /// The service of a node of this process, by its name, which has the logs of containers. None by default.
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

    /// Starts the server: loads the custom resources and access rules that the store holds, creates the default
    /// namespaces and the bootstrap policy. Errors: no store, or it does not answer.
    pub async fn build(self) -> Result<ApiServer, Status> {
        let store = self
            .store
            .ok_or_else(|| Status::internal("an API server needs a store"))?;
        let store_metrics = Arc::new(StoreMetrics::default());
        let in_front = self.in_front.map(|client| Arc::new(InFront::new(client)));
        let mut store = Stores::new(store, self.separate_stores, &store_metrics);
        if let Some(front) = &in_front {
            let served: BTreeSet<String> = self.kinds.iter().map(|kind| kind.resource().store_name()).collect();
            store = store.serving(served, front.clone());
        }
        let store = Arc::new(store);
        let registry = registry(self.kinds, &store, in_front.is_none()).await?;
        let mut access = Access::new(
            self.authorities,
            self.front_proxies,
            self.delegates,
            &self.clock,
            &self.entropy,
            store.clone(),
        )?;
        access.gatekeepers = self.gatekeepers;
        if in_front.is_some() {
            access.without_loopback();
        }
        if let Some(issuer) = self.token_issuer {
            access.sign_for_others(issuer, &self.clock);
        }
        let network = Network {
            store: store.clone(),
            nodes: self.nodes,
            pods: self.pods,
            kubelets: self.kubelets.build()?,
            entropy: self.entropy.clone(),
        };
        let state = Arc::new(ServerState {
            name: self.name,
            git_version: self.git_version,
            store,
            registry,
            clock: self.clock,
            entropy: self.entropy,
            access,
            audit: AuditLog::retaining(self.audit_records),
            auditing: self.auditing,
            readiness: Readiness::default(),
            metrics: Metrics::default(),
            store_metrics,
            addresses: Arc::new(Addresses::new(self.service_range)),
            extracts: Extracts::default(),
            parsed: ParsedObjects::default(),
            advertised: self.advertised,
            watches: AtomicUsize::new(0),
            fairness: Fairness::default(),
            applied: Applied::default(),
            admission: Admission::default(),
            aggregation: Aggregation::new(self.identity),
            exclusive_writes: tokio::sync::Mutex::default(),
            protection: self.protection,
            accounts: self.accounts,
            network,
            in_front,
            relay_limit: RelayLimit::default(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        start(&state, self.shared).await?;
        Ok(ApiServer::of(state))
    }
}

/// Starts what runs beside requests. `is_shared`: whether other servers write to the same store.
async fn start(state: &Arc<ServerState>, is_shared: bool) -> Result<(), Status> {
    if state.in_front.is_some() {
        front_mirror::start(state);
        return Ok(());
    }
    bootstrap::run(state).await?;
    event_expiry::start(state);
    api_service_availability::start(state);
    if is_shared {
        other_servers::start(state);
    }
    Ok(())
}

/// What is served: the given kinds and, for a server that stands alone, Kubernetes' own.
async fn registry(kinds: Vec<Arc<dyn Kind>>, store: &Stores, is_alone: bool) -> Result<Registry, Status> {
    let registry = Registry::default();
    if is_alone {
        let guards: Vec<_> = kinds.iter().flat_map(|kind| kind.guards()).collect();
        let since = format::since(store).await.map_err(store_status)?;
        builtin::register(&registry, &guards, &since);
    } else {
        registry.without_reviews();
    }
    for kind in kinds {
        registry.put(Arc::new(Served::new(kind, Role::Ordinary)));
    }
    Ok(registry)
}
