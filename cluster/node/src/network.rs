//! The pod network of one cluster, in memory: pod addresses, what listens on them, and dialling through Services. There
//! are no sockets and no name server; what a Service stands for is read from the API that runs the pods.

mod addresses;
mod allowed;
mod backends;
mod policies;
mod resolve;
mod services;
mod target;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base_client::{Dialer, HttpService};
use cluster_network_policy::{Protocol, Refusal};
use cluster_store::{Link, Store};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::ListParams;
use tokio::sync::Notify;

pub(crate) use addresses::{PodAddress, PodRange};
pub use allowed::Suggestion;

use allowed::Reporter;
use backends::{Backends, listening, port_name, slices_of};
use policies::Enforcement;
pub use resolve::Resolved;
use services::Services;
use target::Target;

/// How long the last attempt may take after a wait that timed out.
const LAST_DIAL_TIMEOUT: Duration = Duration::from_secs(5);

/// What listens on a port.
#[derive(Clone)]
pub enum Endpoint {
    /// A server that speaks HTTP.
    Http(HttpService),
    /// An etcd, or what takes its place.
    Store(Arc<dyn Store>),
    /// A program: it is reached by connections of bytes, and what it speaks is its own matter.
    Bytes(Dialer),
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Endpoint::Http(_) => "Http",
            Endpoint::Store(_) => "Store",
            Endpoint::Bytes(_) => "Bytes",
        })
    }
}

/// Why a connection was not made.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The address is not `service[.namespace[.svc...]]:port` or `ip:port`.
    #[error("{0} is not an address of a service or a pod")]
    Malformed(String),
    /// No such Service, or it has no such port.
    #[error("no such host: {0}")]
    NoSuchHost(String),
    /// The Service has no ready endpoint, or nothing listens there.
    #[error("connect to {0}: connection refused")]
    NotListening(String),
    /// A NetworkPolicy at one end does not allow it. A real network drops the packets, and who connects runs into its
    /// time-out.
    #[error("connect to {address}: refused by network policies: {refusal}{}", allowed::suggestion(.suggested.as_ref()))]
    Policy {
        /// What was dialled.
        address: String,
        /// Which end refuses, and the label that would allow it as far as a policy names it.
        refusal: Box<Refusal>,
        /// What to do where no policy names a label.
        suggested: Option<String>,
    },
    /// The cluster's policies could not be read yet.
    #[error("connect to {0}: the network policies of the cluster are not known yet")]
    PoliciesUnknown(String),
    /// The Service could not be looked up.
    #[error("cannot look up {address}")]
    LookUp {
        /// What was dialled.
        address: String,
        /// What the API answered.
        source: kube::Error,
    },
}

/// A port is taken on this pod address already.
#[derive(Debug, thiserror::Error)]
#[error("listen on port {port}: address already in use")]
pub struct AddressInUse {
    /// The port.
    pub port: u16,
}

/// The pod network of one cluster. Clones are the same network; clusters have networks of their own, so that their
/// address ranges may overlap.
#[derive(Clone, Default)]
pub struct Network {
    state: Arc<Mutex<State>>,
}

/// Makes the dialer of a port.
type PortDialer = Arc<dyn Fn(u16) -> Dialer + Send + Sync>;

#[derive(Default)]
struct State {
    listening: BTreeMap<(IpAddr, u16), Listener>,
    /// What is dialled at the ports of an address on which nothing of this process listens.
    programs: BTreeMap<IpAddr, (u64, PortDialer)>,
    ranges: BTreeMap<IpNet, Held>,
    addresses: BTreeSet<IpAddr>,
    last_id: u64,
    policies: Arc<Enforcement>,
    suggestion: Option<Suggestion>,
    services: Arc<Services>,
    /// Notified of every listener that begins.
    opened: Arc<Notify>,
}

/// A range that nodes hold.
#[derive(Default)]
struct Held {
    /// How many: one that is going may still hold what its successor was given.
    holders: usize,
    /// Where among the addresses for pods the search for a free one goes on. It goes round, so that no
    /// search passes thousands of addresses in use, and so that an address which is still dialled is not reused soon.
    next: usize,
    /// Notified of every address that is given back; the pod that has waited longest is woken.
    freed: Arc<Notify>,
}

struct Listener {
    id: u64,
    endpoint: Endpoint,
    // Cut when the listener goes away, as a connection is when its server dies.
    link: Option<Link>,
}

impl Network {
    /// A network without listeners.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the first range of `length` bits out of `all` that no node holds. None when there is no room.
    pub(crate) fn free_range(&self, all: IpNet, length: u8) -> Option<PodRange> {
        let mut state = self.lock();
        let range = all
            .subnets(length)
            .ok()?
            .find(|range| !state.ranges.contains_key(range))?;
        state.hold(range);
        Some(PodRange {
            network: self.clone(),
            range,
        })
    }

    /// A range that was given to one node by whoever divides the cluster's pod network.
    pub(crate) fn given_range(&self, range: IpNet) -> PodRange {
        self.lock().hold(range);
        PodRange {
            network: self.clone(),
            range,
        }
    }

    /// What listens there now.
    pub fn connect(&self, ip: IpAddr, port: u16) -> Option<Endpoint> {
        let state = self.lock();
        let own = state
            .listening
            .get(&(ip, port))
            .map(|listener| listener.endpoint.clone());
        own.or_else(|| {
            let (_, dialer) = state.programs.get(&ip)?;
            Some(Endpoint::Bytes(dialer(port)))
        })
    }

    /// Whether an address is one that a node of this network gives to its pods.
    pub fn has(&self, ip: IpAddr) -> bool {
        self.lock().ranges.keys().any(|range| range.contains(&ip))
    }

    fn policies(&self) -> Arc<Enforcement> {
        Arc::clone(&self.lock().policies)
    }

    fn listen(&self, ip: IpAddr, port: u16, endpoint: Endpoint) -> Result<Binding, AddressInUse> {
        let mut state = self.lock();
        if state.listening.contains_key(&(ip, port)) {
            return Err(AddressInUse { port });
        }
        state.last_id += 1;
        let id = state.last_id;
        let (endpoint, link) = match endpoint {
            Endpoint::Http(_) | Endpoint::Bytes(_) => (endpoint, None),
            Endpoint::Store(store) => {
                let link = Link::new(store);
                (Endpoint::Store(Arc::new(link.clone())), Some(link))
            }
        };
        state.listening.insert((ip, port), Listener { id, endpoint, link });
        state.opened.notify_waiters();
        Ok(Binding {
            network: self.clone(),
            ip,
            port,
            id,
        })
    }

    fn close(&self, ip: IpAddr, port: u16, id: u64) {
        let mut state = self.lock();
        if state.is_listening(ip, port, id)
            && let Some(link) = state.listening.remove(&(ip, port)).and_then(|listener| listener.link)
        {
            link.cut();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.lock().listening.keys()).finish()
    }
}

/// The networks of a process's clusters, by a name for each cluster that is unique in the process. A network ends with
/// its last user. Clones are the same set.
#[derive(Clone, Debug, Default)]
pub struct Networks {
    by_cluster: Arc<Mutex<BTreeMap<String, std::sync::Weak<Mutex<State>>>>>,
}

impl State {
    fn is_listening(&self, ip: IpAddr, port: u16, id: u64) -> bool {
        let listener = self.listening.get(&(ip, port));
        listener.is_some_and(|listener| listener.id == id)
    }

    fn hold(&mut self, range: IpNet) {
        self.ranges.entry(range).or_default().holders += 1;
    }

    fn release(&mut self, range: IpNet) {
        if let Some(held) = self.ranges.get_mut(&range) {
            held.holders -= 1;
            if held.holders == 0 {
                self.ranges.remove(&range);
            }
        }
    }

    /// The next free address for a pod, going round the range.
    fn next_free(&mut self, range: IpNet) -> Option<IpAddr> {
        let held = self.ranges.get_mut(&range)?;
        let from = |start: usize| (start..).zip(for_pods(range).skip(start));
        let (place, ip) = from(held.next)
            .chain(from(0).take(held.next))
            .find(|(_, ip)| !self.addresses.contains(ip))?;
        held.next = place + 1;
        Some(ip)
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.listening.keys()).finish()
    }
}

impl Networks {
    /// No networks.
    pub fn new() -> Self {
        Self::default()
    }

    /// The cluster's network, made on first use.
    pub fn of(&self, cluster: &str) -> Network {
        let mut networks = self.by_cluster.lock().unwrap_or_else(PoisonError::into_inner);
        networks.retain(|_, state| state.strong_count() > 0);
        if let Some(state) = networks.get(cluster).and_then(std::sync::Weak::upgrade) {
            return Network { state };
        }
        let network = Network::new();
        networks.insert(cluster.to_owned(), Arc::downgrade(&network.state));
        network
    }
}

/// The addresses of a range that pods get: neither the network's nor the gateway's.
fn for_pods(range: IpNet) -> impl Iterator<Item = IpAddr> {
    range.hosts().skip(1)
}

/// How many pods a range has addresses for.
pub(crate) fn pods_in(range: IpNet) -> u32 {
    let (count, _) = for_pods(range).size_hint();
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// All ports of a pod's address, dialled one by one; given up when this is dropped.
#[derive(Debug)]
#[must_use = "the address is given up when this is dropped"]
pub struct AllPorts {
    network: Network,
    ip: IpAddr,
    id: u64,
}

impl Drop for AllPorts {
    fn drop(&mut self) {
        let mut state = self.network.lock();
        if state.programs.get(&self.ip).is_some_and(|(id, _)| *id == self.id) {
            state.programs.remove(&self.ip);
        }
    }
}

/// Something listening on a pod's port; it stops when this is dropped, and when its container ends.
#[derive(Debug)]
#[must_use = "the port closes when the binding is dropped"]
pub struct Binding {
    network: Network,
    ip: IpAddr,
    port: u16,
    id: u64,
}

impl Drop for Binding {
    fn drop(&mut self) {
        self.network.close(self.ip, self.port, self.id);
    }
}

/// One container's view of the network: its pod's address, and the Services of the API that runs the pod.
#[derive(Clone)]
pub struct PodNetwork {
    network: Network,
    client: kube::Client,
    namespace: String,
    ip: IpAddr,
    // What this container listens on, so that it closes with the container even when a task keeps the binding.
    bound: Arc<Mutex<Vec<(u16, u64)>>>,
    reporter: Option<Arc<Reporter>>,
}

impl PodNetwork {
    pub(crate) fn new(network: Network, client: kube::Client, namespace: String, ip: IpAddr) -> Self {
        PodNetwork {
            network,
            client,
            namespace,
            ip,
            bound: Arc::default(),
            reporter: None,
        }
    }

    /// The pod's address.
    pub fn pod_ip(&self) -> IpAddr {
        self.ip
    }

    /// Listens on a port of the pod. Callers reach it by the pod's address and, once the pod is ready, through its
    /// Services. A [`Endpoint::Store`] is handed out behind a connection that is cut when the binding ends.
    pub fn bind(&self, port: u16, endpoint: Endpoint) -> Result<Binding, AddressInUse> {
        let binding = self.network.listen(self.ip, port, endpoint)?;
        let mut bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        // A container may bind again and again for as long as it runs.
        bound.retain(|(port, id)| self.network.lock().is_listening(self.ip, *port, *id));
        bound.push((port, binding.id));
        drop(bound);
        Ok(binding)
    }

    /// Leads to every port of the pod on which nothing else listens, by the dialer that is made for it: for programs with
    /// a network of their own, of which only a connection shows whether they listen. It is the pod's, not the container's:
    /// it stays until it is dropped, or until the next call for this pod.
    pub fn bind_all(&self, dialer: impl Fn(u16) -> Dialer + Send + Sync + 'static) -> AllPorts {
        let mut state = self.network.lock();
        state.last_id += 1;
        let id = state.last_id;
        state.programs.insert(self.ip, (id, Arc::new(dialer)));
        state.opened.notify_waiters();
        AllPorts {
            network: self.network.clone(),
            ip: self.ip,
            id,
        }
    }

    /// Closes all that the container listens on.
    pub(crate) fn close(&self) {
        for (port, id) in self.bound.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            self.network.close(self.ip, port, id);
        }
    }

    /// Connects to `service[.namespace[.svc...]]:port` or `ip:port`; a leading `scheme://` is ignored. Only ready
    /// endpoints are tried. One read of the Service and one of its EndpointSlices; the first connection of a network also
    /// waits some seconds at most until the cluster's network policies have been read.
    pub async fn dial(&self, address: &str) -> Result<Endpoint, Refused> {
        match Target::parse(address, &self.namespace)? {
            Target::Pod(ip, port) => {
                self.check_target(address, (ip, port), Protocol::Tcp, None).await?;
                self.network
                    .connect(ip, port)
                    .ok_or_else(|| Refused::NotListening(address.to_owned()))
            }
            Target::Service { namespace, name, port } => self.dial_service(address, &namespace, &name, port).await,
        }
    }

    /// As [`PodNetwork::dial`], but waits up to `within` for the Service to have a ready endpoint that listens and that
    /// policies allow, watching it, its EndpointSlices, listeners and the policies: the slices of a restarted pod may be
    /// stale. What a last attempt, which may take five seconds more, finds is the error.
    pub async fn dial_when_ready(&self, address: &str, within: Duration) -> Result<Endpoint, Refused> {
        let Target::Service { namespace, name, port } = Target::parse(address, &self.namespace)? else {
            return self.dial(address).await;
        };
        let opened = Arc::clone(&self.network.lock().opened);
        let policies = self.network.policies();
        let dialled = tokio::time::timeout(within, async {
            let mut backends = Backends::follow(&self.client, &namespace, &name);
            let mut policy_changes = policies.changes();
            loop {
                // Made before the lookup, so that it is notified of what begins to listen meanwhile.
                let listens = opened.notified();
                if let Some(found) = backends.endpoint(&self.network, port)
                    && self.may_reach(&found).await
                {
                    return found.endpoint;
                }
                tokio::select! {
                    biased;
                    () = backends.changed() => {}
                    () = listens => {}
                    () = policy_changes.next() => {}
                }
            }
        })
        .await;
        match dialled {
            Ok(endpoint) => Ok(endpoint),
            Err(_) => tokio::time::timeout(LAST_DIAL_TIMEOUT, self.dial(address))
                .await
                .unwrap_or_else(|_| Err(Refused::NotListening(address.to_owned()))),
        }
    }

    async fn dial_service(&self, address: &str, namespace: &str, name: &str, port: u16) -> Result<Endpoint, Refused> {
        let look_up = |source| Refused::LookUp {
            address: address.to_owned(),
            source,
        };
        let services: Api<Service> = Api::namespaced(self.client.clone(), namespace);
        let service = services.get_opt(name).await.map_err(look_up)?;
        let service = service.ok_or_else(|| Refused::NoSuchHost(address.to_owned()))?;
        let port_name = port_name(&service, port).ok_or_else(|| Refused::NoSuchHost(address.to_owned()))?;
        let slices: Api<EndpointSlice> = Api::namespaced(self.client.clone(), namespace);
        let slices = slices
            .list(&ListParams::default().labels(&slices_of(name)))
            .await
            .map_err(look_up)?;
        let found = listening(&self.network, slices.iter(), &port_name);
        let found = found.ok_or_else(|| Refused::NotListening(address.to_owned()))?;
        let checked = self
            .check_target(address, found.at, Protocol::Tcp, Some((&service, port)))
            .await;
        checked.map(|()| found.endpoint)
    }
}

impl fmt::Debug for PodNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PodNetwork")
            .field("ip", &self.ip)
            .field("namespace", &self.namespace)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http() -> Endpoint {
        use kube::client::Body;
        let answer = |_: http::Request<Body>| async {
            Ok::<_, std::convert::Infallible>(http::Response::new(base_client::empty_body()))
        };
        Endpoint::Http(HttpService::new(tower::service_fn(answer)))
    }

    #[test]
    fn ranges_are_given_once_and_given_back() {
        let network = Network::new();
        let all = "10.0.0.0/23".parse().unwrap();
        let first = network.free_range(all, 24).unwrap();
        let second = network.free_range(all, 24).unwrap();
        assert_ne!(first.range, second.range);
        assert!(network.free_range(all, 24).is_none());
        let successor = network.given_range(second.range);
        drop(second);
        assert!(network.free_range(all, 24).is_none(), "its successor holds it");
        drop(successor);
        assert!(network.free_range(all, 24).is_some());
    }

    #[test]
    fn a_pod_gets_an_exclusive_address_and_the_requested_one_if_free() {
        let network = Network::new();
        let range = network.given_range("10.0.0.0/24".parse().unwrap());
        let ip = |last: u8| IpAddr::from([10, 0, 0, last]);
        let taken = range.allocate(None).unwrap();
        assert_eq!(taken.ip, ip(2));
        let given = [
            (ip(77), ip(77)),
            (taken.ip, ip(3)),
            (ip(1), ip(4)),
            (ip(0), ip(5)),
            (IpAddr::from([10, 9, 0, 9]), ip(6)),
        ];
        for (wanted, given) in given {
            assert_eq!(range.allocate(Some(wanted)).unwrap().ip, given, "{wanted}");
        }
        let twin = network.given_range(range.range);
        assert_ne!(twin.allocate(None).unwrap().ip, taken.ip);
    }

    #[test]
    fn each_address_for_pods_is_given_once_and_a_freed_one_comes_last() {
        for range in ["10.0.0.0/29", "10.0.0.0/31", "fd00::/125"] {
            let range: IpNet = range.parse().unwrap();
            let node = Network::new().given_range(range);
            let mut given: Vec<PodAddress> = std::iter::from_fn(|| node.allocate(None)).collect();
            assert_eq!(given.len(), usize::try_from(pods_in(range)).unwrap(), "{range}");
            let freed = given.remove(0).ip;
            assert_eq!(node.allocate(None).unwrap().ip, freed, "{range} has no other");
        }
        assert_eq!(pods_in("10.1.0.0/16".parse().unwrap()), 65_533);
        assert_eq!(pods_in("10.1.0.0/32".parse().unwrap()), 0);
        assert_eq!(pods_in("fd00::/64".parse().unwrap()), u32::MAX);
        let node = Network::new().given_range("10.0.0.0/28".parse().unwrap());
        let freed = node.allocate(None).unwrap().ip;
        assert_ne!(node.allocate(None).unwrap().ip, freed, "others have waited longer");
    }

    #[tokio::test]
    async fn only_ports_that_are_open_are_remembered() {
        let refuse = |_: http::Request<kube::client::Body>| async {
            Err::<http::Response<kube::client::Body>, _>(std::io::Error::from(std::io::ErrorKind::NotConnected))
        };
        let client = kube::Client::new(tower::service_fn(refuse), "ns");
        let pod = PodNetwork::new(Network::new(), client, "ns".to_owned(), "10.0.0.2".parse().unwrap());
        let stays = pod.bind(80, http()).unwrap();
        for _ in 0..100 {
            drop(pod.bind(443, http()).unwrap());
        }
        assert!(pod.bound.lock().unwrap().len() <= 2);
        pod.close();
        assert!(pod.network.connect(pod.ip, 80).is_none());
        drop(stays);
    }

    #[tokio::test]
    async fn closing_a_port_cuts_off_the_store_behind_it_and_frees_it() {
        let network = Network::new();
        let ip = "10.0.0.2".parse().unwrap();
        let store = Arc::new(cluster_store::MemoryStore::new());
        let binding = network.listen(ip, 2379, Endpoint::Store(store)).unwrap();
        assert!(network.listen(ip, 2379, http()).is_err());
        let Some(Endpoint::Store(seen)) = network.connect(ip, 2379) else {
            panic!("a store listens")
        };
        seen.revision().await.unwrap();
        drop(binding);
        assert!(seen.revision().await.is_err());
        assert!(network.connect(ip, 2379).is_none());
        let _again = network.listen(ip, 2379, http()).unwrap();
    }
}
