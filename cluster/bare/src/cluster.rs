//! The cluster from its start to its end.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use api_meta::Fault;
use base_client::{Connector, fault_of};
use base_clock::{Clock, Entropy};
use base_secrets::{CertificateSpec, Credential, KubeconfigSpec};
use cluster_apiserver::{
    ApiServer, AuditPolicy, AuditSink, Authorities, DEFAULT_GIT_VERSION, Gatekeeper, KEYS_PATH, Kind, TokenAuthority,
};
use cluster_controllers::Name;
use cluster_front::{ANY_NAME, Front, RegisteredServer, Registration};
use cluster_node::{ImageCatalogue, Network, NodeServices, Volumes};
use cluster_store::{MemoryStore, Store};
use ipnet::{IpNet, Ipv4Net};
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleRef, Subject};
use kube::api::{ObjectMeta, PostParams};
use kube::config::Kubeconfig;
use kube::{Api, Client};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::Keys;
use crate::kubelets::{KubeletAccess, with_nodes};
use crate::parts::{Parts, Runs};

/// The cluster's name in its kubeconfigs and logs.
const NAME: &str = "orangery";
/// The administrator and its group, which is bound to `cluster-admin`.
const ADMIN: &str = "orangery-admin";
const ADMINS: &str = "orangery:admins";
/// The node's default name.
const NODE: &str = "orangery-0";
/// The issuer of service account tokens, as kubeadm names it.
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// Names of the API server: those that pods know it by, and what people may write for 127.0.0.1.
const SERVER_NAMES: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];
/// Where Services get their addresses from: kubeadm's default.
const SERVICES: IpNet = IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(10, 96, 0, 0), 12));
/// How long certificates are valid. Every start issues new ones; the keys that sign them may persist.
const VALIDITY: Duration = Duration::from_secs(365 * 24 * 3600);

/// A running cluster. Dropping it ends it as a power cut would; [`Cluster::stop`] in order.
pub struct Cluster {
    server: ApiServer,
    access: Access,
    front: Front,
    clock: Clock,
    entropy: Entropy,
    leader_elect: bool,
    kubeconfig: Kubeconfig,
    client: Client,
    parts: CancellationToken,
    tasks: TaskTracker,
    _registration: Registration,
    _power: DropGuard,
}

/// How clients reach the server and authenticate.
pub(crate) struct Access {
    pub(crate) keys: Keys,
    url: String,
}

impl Access {
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn kubeconfig(
        &self,
        user: &str,
        groups: &[&str],
        clock: &Clock,
        entropy: &Entropy,
    ) -> Result<Kubeconfig, Fault> {
        let spec = CertificateSpec::client(user, groups, VALIDITY);
        let issued = self.keys.clients.issue(&spec, clock, entropy).map_err(bug)?;
        Ok(base_secrets::kubeconfig(&KubeconfigSpec {
            name: NAME.to_owned(),
            server: self.url.clone(),
            tls_server_name: None,
            authorities: self.keys.authority.certificate_pem(),
            credential: Credential::Certificate(Box::new(issued)),
            namespace: None,
        }))
    }
}

/// What a cluster is made of; everything has a default.
pub struct Builder {
    clock: Clock,
    entropy: Entropy,
    store: Option<Arc<dyn Store>>,
    keys: Option<Keys>,
    listener: Option<TcpListener>,
    git_version: String,
    kinds: Vec<Arc<dyn Kind>>,
    controllers: BTreeSet<Name>,
    scheduler: bool,
    replicated: bool,
    leader_elect: bool,
    node: Option<(ImageCatalogue, Volumes)>,
    audit: Option<(AuditPolicy, Arc<dyn AuditSink>)>,
    gatekeeper: Option<Arc<dyn Gatekeeper>>,
    node_name: String,
    kubelets: KubeletAccess,
}

impl Cluster {
    /// A cluster in memory on a free port, with controllers and without a node. It answers when this returns.
    ///
    /// # Errors
    /// No port can be opened.
    pub async fn start() -> Result<Self, Fault> {
        Self::builder().start().await
    }

    /// Begins a cluster of another kind.
    #[must_use]
    pub fn builder() -> Builder {
        Builder {
            clock: Clock::real(),
            entropy: Entropy::os(),
            store: None,
            keys: None,
            listener: None,
            git_version: DEFAULT_GIT_VERSION.to_owned(),
            kinds: Vec::new(),
            controllers: Name::ALL.into(),
            scheduler: true,
            replicated: false,
            leader_elect: false,
            node: None,
            audit: None,
            gatekeeper: None,
            node_name: NODE.to_owned(),
            kubelets: KubeletAccess::default(),
        }
    }

    /// A client that may do everything, in process: through authentication and RBAC, without a socket.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The same for clients of every other kind, over TLS.
    #[must_use]
    pub fn kubeconfig(&self) -> &Kubeconfig {
        &self.kubeconfig
    }

    /// `https://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.access.url
    }

    /// The server itself: its readiness, its audit record.
    #[must_use]
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// Runs `work` beside the server until the cluster stops, with a client of its own as `user`. Of several replicas that
    /// elect a leader, the one that holds the Lease `lease` in `kube-system` does the work.
    ///
    /// # Errors
    /// The user's certificate cannot be made, which is a bug.
    pub fn run_beside<W, F>(&self, user: &str, lease: &'static str, work: W) -> Result<(), Fault>
    where
        W: Fn(Client, CancellationToken) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        self.runs().run(user, lease, work)
    }

    /// The same beside each of several replicas: for work that serves this server alone.
    ///
    /// # Errors
    /// As [`Self::run_beside`].
    pub fn run_beside_each<W, F>(&self, user: &str, work: W) -> Result<(), Fault>
    where
        W: FnOnce(Client, CancellationToken) -> F,
        F: Future<Output = ()> + Send + 'static,
    {
        self.runs().run_on_each(user, work)
    }

    fn runs(&self) -> Runs<'_> {
        Runs {
            access: &self.access,
            front: &self.front,
            clock: &self.clock,
            entropy: &self.entropy,
            tasks: &self.tasks,
            stop: &self.parts,
            elected: self.leader_elect,
        }
    }

    /// Ends the node, the controllers and the server, in this order, and waits for them.
    pub async fn stop(self) {
        self.parts.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.server.shutdown().await;
    }
}

impl Builder {
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

    /// Where objects are stored; in memory by default.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// The keys; new ones by default. A persistent store needs persistent keys.
    #[must_use]
    pub fn keys(mut self, keys: Keys) -> Self {
        self.keys = Some(keys);
        self
    }

    /// Where it listens; on a free port of 127.0.0.1 by default.
    #[must_use]
    pub fn listener(mut self, listener: TcpListener) -> Self {
        self.listener = Some(listener);
        self
    }

    /// The version that the server reports: `v1.35.2`. How it behaves does not depend on it.
    #[must_use]
    pub fn git_version(mut self, version: &str) -> Self {
        version.clone_into(&mut self.git_version);
        self
    }

    /// No controllers and no scheduler: nothing changes without a request, as with a lone kube-apiserver. Pods need no service
    /// account then, for no controller would make one.
    #[must_use]
    pub fn without_controllers(mut self) -> Self {
        self.controllers = BTreeSet::new();
        self.scheduler = false;
        self
    }

    /// Only these controllers, and no scheduler: for a server that runs no pods. Without the controller of service accounts,
    /// pods need none.
    #[must_use]
    pub fn only_controllers(mut self, controllers: impl Into<BTreeSet<Name>>) -> Self {
        self.controllers = controllers.into();
        self.scheduler = false;
        self
    }

    /// Kinds that are built in beside those of Kubernetes.
    #[must_use]
    pub fn kinds(mut self, kinds: Vec<Arc<dyn Kind>>) -> Self {
        self.kinds = kinds;
        self
    }

    /// One of several on the same store, with the same keys: each answers with what the others write, and the controllers
    /// and the scheduler of one at a time act. `leader_elect` is false where no other process runs them.
    #[must_use]
    pub fn replicated(mut self, leader_elect: bool) -> Self {
        self.replicated = true;
        self.leader_elect = leader_elect;
        self
    }

    /// The name of its node; `orangery-0` by default. Replicas that have nodes name them differently.
    #[must_use]
    pub fn node_name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.node_name);
        self
    }

    /// Adds a node that runs the images of the catalogue; what outlives its pods lies in the volumes.
    #[must_use]
    pub fn node(mut self, catalogue: ImageCatalogue, volumes: Volumes) -> Self {
        self.node = Some((catalogue, volumes));
        self
    }

    /// Audit events of requests, as the policy selects them; none by default.
    #[must_use]
    pub fn audit(mut self, policy: AuditPolicy, sink: Arc<dyn AuditSink>) -> Self {
        self.audit = Some((policy, sink));
        self
    }

    /// The gatekeeper that decides before the access rules, and about writes; none by default.
    #[must_use]
    pub fn gatekeeper(mut self, gatekeeper: Arc<dyn Gatekeeper>) -> Self {
        self.gatekeeper = Some(gatekeeper);
        self
    }

    /// How kubelets of other processes are called: with a certificate of the cluster's own by default.
    #[must_use]
    pub fn kubelets(mut self, access: KubeletAccess) -> Self {
        self.kubelets = access;
        self
    }

    /// Starts it; when this returns, requests are answered.
    ///
    /// # Errors
    /// No port can be opened, or the store does not answer.
    pub async fn start(self) -> Result<Cluster, Fault> {
        let Self {
            clock,
            entropy,
            store,
            keys,
            listener,
            git_version,
            kinds,
            controllers,
            scheduler,
            replicated,
            leader_elect,
            node,
            audit,
            gatekeeper,
            node_name,
            kubelets,
        } = self;
        let keys = keys.map_or_else(|| Keys::generate(&clock, &entropy), Ok)?;
        let store = store.unwrap_or_else(|| Arc::new(MemoryStore::new()));
        let (listener, url) = listening(listener).await?;
        let (services, network) = (NodeServices::default(), Network::new());
        let server = ApiServer::builder(NAME)
            .shared_store(store)
            .git_version(&git_version)
            .clock(clock.clone())
            .entropy(entropy.clone())
            .authorities(authorities(&keys, &url))
            .kinds(kinds)
            .pods_as_accounts(controllers.contains(&Name::ServiceAccount))
            .others_write(replicated)
            .kubelets(kubelets.client(&keys, &clock, &entropy)?)
            .service_range(SERVICES);
        let server = built(with_nodes(server, &services, &network), audit, gatekeeper).await?;
        let front = Front::new(clock.clone());
        let registration = front
            .register([ANY_NAME], registered(&server, &keys, &clock, &entropy)?)
            .map_err(|error| Fault::bug(error.to_string()))?;
        let access = Access { keys, url };
        let kubeconfig = access.kubeconfig(ADMIN, &[ADMINS], &clock, &entropy)?;
        bind_admins(server.loopback_client()).await?;
        let power = CancellationToken::new();
        tokio::spawn(serve(front.clone(), listener, server.clone(), power.clone()));
        let cluster = Cluster {
            client: front.client(&kubeconfig)?,
            server,
            access,
            front,
            clock,
            entropy,
            leader_elect,
            kubeconfig,
            parts: power.child_token(),
            tasks: TaskTracker::new(),
            _registration: registration,
            _power: power.drop_guard(),
        };
        let parts = Parts {
            runs: cluster.runs(),
            replicated,
            services,
            network,
        };
        parts.start_controllers(controllers, scheduler)?;
        if let Some((catalogue, volumes)) = node {
            parts.start_node(&node_name, Arc::new(catalogue), volumes).await?;
        }
        Ok(cluster)
    }
}

async fn built(
    server: cluster_apiserver::Builder,
    audit: Option<(AuditPolicy, Arc<dyn AuditSink>)>,
    gatekeeper: Option<Arc<dyn Gatekeeper>>,
) -> Result<ApiServer, Fault> {
    let server = gatekeeper
        .into_iter()
        .fold(server, cluster_apiserver::Builder::gatekeeper);
    let server = match audit {
        Some((policy, sink)) => server.audit_events(policy, sink),
        None => server,
    };
    let started = server.build().await;
    started.map_err(|status| Fault::bug(format!("the API server does not start: {status}")))
}

async fn listening(listener: Option<TcpListener>) -> Result<(TcpListener, String), Fault> {
    let failed = |error: std::io::Error| Fault::user(format!("cannot listen on 127.0.0.1: {error}"));
    let listener = match listener {
        Some(listener) => listener,
        None => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?,
    };
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, format!("https://{address}")))
}

fn authorities(keys: &Keys, url: &str) -> Authorities {
    Authorities {
        client_authorities: keys.clients.certificate_pem(),
        service_accounts: Some(TokenAuthority {
            issuer: ISSUER.to_owned(),
            keys_url: Some(format!("{url}{KEYS_PATH}")),
            audiences: Vec::new(),
            verifiers: vec![keys.tokens.public()],
            signer: Some(keys.tokens.clone()),
        }),
        bootstrap_tokens: true,
    }
}

/// The server with a certificate for all its names.
fn registered(server: &ApiServer, keys: &Keys, clock: &Clock, entropy: &Entropy) -> Result<RegisteredServer, Fault> {
    let names = SERVER_NAMES.map(str::to_owned).to_vec();
    let mut addresses = vec![IpAddr::V4(Ipv4Addr::LOCALHOST)];
    // The Service `kubernetes` has the first address of the range.
    addresses.extend(SERVICES.hosts().next());
    let spec = CertificateSpec::server("kube-apiserver", names, addresses, VALIDITY);
    let issued = keys.authority.issue(&spec, clock, entropy).map_err(bug)?;
    RegisteredServer::new(server.service(), &issued.certificate_pem(), issued.key_pem().expose())
        .map_err(|error| Fault::bug(error.to_string()))
}

/// Lets administrators do everything. If the binding is deleted from a persistent store, the next start creates it
/// again.
async fn bind_admins(client: Client) -> Result<(), Fault> {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let binding = ClusterRoleBinding {
        metadata: ObjectMeta {
            name: Some(ADMINS.to_owned()),
            ..ObjectMeta::default()
        },
        role_ref: RoleRef {
            api_group: GROUP.to_owned(),
            kind: "ClusterRole".to_owned(),
            name: "cluster-admin".to_owned(),
        },
        subjects: Some(vec![Subject {
            api_group: Some(GROUP.to_owned()),
            kind: "Group".to_owned(),
            name: ADMINS.to_owned(),
            namespace: None,
        }]),
    };
    let bindings: Api<ClusterRoleBinding> = Api::all(client);
    match bindings.create(&PostParams::default(), &binding).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
        Err(error) => Err(fault_of(error, &format!("create ClusterRoleBinding {ADMINS}"))),
    }
}

/// Serves the port until the power is cut.
async fn serve(front: Front, listener: TcpListener, server: ApiServer, power: CancellationToken) {
    front.serve(listener, power).await;
    server.shutdown().await;
}

fn bug(error: base_secrets::SecretError) -> Fault {
    Fault::bug(error.to_string())
}
