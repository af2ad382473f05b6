//! The network policies of a cluster as its pod network holds them: read once for all pods, by one watch of policies
//! and one of namespaces, from the first connection on. Labels of pods come from the nodes that run them. What policies
//! mean is decided in `cluster-network-policy`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base_client::{WatchPause, watch};
use cluster_network_policy::{End, NamedPort, PodFacts, Policies, Protocol, Refusal};
use futures::stream::{BoxStream, select};
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::{Container, Namespace, Pod};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use tokio::sync::watch as channel;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// How long a connection waits for the first reading of the policies: two lists of an API server that is there.
const READ_WITHIN: Duration = Duration::from_secs(5);
/// A node that is forbidden to read policies tries again after this time: the permission may have been granted meanwhile.
const RETRIED_AFTER: Duration = Duration::from_secs(300);
const FORBIDDEN: u16 = 403;

/// What is known of a cluster's policies. It ends with its last user, and the watches with it.
#[derive(Default)]
pub(super) struct Enforcement {
    known: Arc<Known>,
    following: Mutex<Option<AbortOnDropHandle<()>>>,
}

#[derive(Default)]
struct Known {
    state: Mutex<State>,
    /// Sent at every change of what connections depend on.
    phase: channel::Sender<Phase>,
}

#[derive(Default)]
struct State {
    policies: Policies,
    /// By address.
    pods: BTreeMap<IpAddr, Arc<PodFacts>>,
}

/// How far the reading of policies has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// No connection has needed them yet.
    #[default]
    Idle,
    /// The first reading has not ended.
    Reading,
    /// They are known and followed.
    Known,
    /// The API server refused to let the node read them, at this time: nothing is enforced.
    Forbidden(Instant),
}

/// Why a connection is not made.
pub(super) enum Denied {
    /// By policies.
    Refused(Box<Refusal>),
    /// The policies could not be read in time.
    Unknown,
}

impl Enforcement {
    /// Whether a connection from one address of the network to another, or to one outside, is allowed. The first one of
    /// a network begins to read the policies as `client`.
    pub(super) async fn check(
        &self,
        client: &Client,
        from: IpAddr,
        to: (IpAddr, u16),
        protocol: Protocol,
    ) -> Result<(), Denied> {
        self.begin(client);
        let mut phase = self.known.phase.subscribe();
        let read = phase.wait_for(|phase| !matches!(phase, Phase::Idle | Phase::Reading));
        let Ok(Ok(phase)) = tokio::time::timeout(READ_WITHIN, read)
            .await
            .map(|read| read.map(|phase| *phase))
        else {
            return Err(Denied::Unknown);
        };
        if matches!(phase, Phase::Forbidden(_)) {
            return Ok(());
        }
        self.known.lock().check(from, to, protocol).map_err(Denied::Refused)
    }

    /// Notifies of everything that may change what is allowed.
    pub(super) fn changes(&self) -> Changes {
        Changes(self.known.phase.subscribe())
    }

    /// The pod that has an address, as it is now.
    pub(super) fn set_pod(&self, address: IpAddr, pod: &Pod) {
        let facts = facts_of(pod, address);
        let mut state = self.known.lock();
        if state.pods.get(&address).is_some_and(|known| **known == facts) {
            return;
        }
        state.pods.insert(address, Arc::new(facts));
        drop(state);
        self.known.phase.send_modify(|_| ());
    }

    /// No pod has the address any more.
    pub(super) fn remove_pod(&self, address: IpAddr) {
        self.known.lock().pods.remove(&address);
    }

    /// Starts to watch the policies where no task does.
    fn begin(&self, client: &Client) {
        let mut following = self.following.lock().unwrap_or_else(PoisonError::into_inner);
        let again = match *self.known.phase.borrow() {
            Phase::Forbidden(at) => at.elapsed() >= RETRIED_AFTER,
            Phase::Idle => true,
            Phase::Reading | Phase::Known => following.as_ref().is_none_or(AbortOnDropHandle::is_finished),
        };
        if again {
            self.known.phase.send_replace(Phase::Reading);
            let followed = follow(Arc::clone(&self.known), client.clone());
            *following = Some(AbortOnDropHandle::new(tokio::spawn(followed)));
        }
    }
}

/// Notifications of changes.
pub(super) struct Changes(channel::Receiver<Phase>);

impl Changes {
    pub(super) async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            // Nothing changes any more.
            std::future::pending::<()>().await;
        }
    }
}

impl Known {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn check(&self, from: IpAddr, (to, port): (IpAddr, u16), protocol: Protocol) -> Result<(), Box<Refusal>> {
        // A pod always reaches itself.
        if from == to {
            return Ok(());
        }
        let end = |ip: IpAddr| self.pods.get(&ip).map_or(End::Address(ip), |pod| End::Pod(pod));
        self.policies.check(end(from), end(to), port, protocol)
    }
}

enum Update {
    Policy(Event<NetworkPolicy>),
    Namespace(Event<Namespace>),
    Failed(watcher::Error),
}

/// Follows policies and namespaces until it is refused.
async fn follow(known: Arc<Known>, client: Client) {
    let mut pause = WatchPause::default();
    loop {
        let mut reading = Reading::begin(&client);
        let error = loop {
            match reading.next(&known).await {
                Ok(()) => pause.reset(),
                Err(error) => break error,
            }
        };
        if is_forbidden(&error) {
            tracing::warn!(
                "network policies are not enforced: this node may not list and watch networkpolicies and namespaces"
            );
            known.phase.send_replace(Phase::Forbidden(Instant::now()));
            return;
        }
        tracing::debug!(%error, "network policies cannot be read, trying again");
        if let Some(pause) = pause.next() {
            tokio::time::sleep(pause).await;
        }
    }
}

fn is_forbidden(error: &watcher::Error) -> bool {
    use watcher::Error as Watching;
    match error {
        Watching::InitialListFailed(kube::Error::Api(status))
        | Watching::WatchStartFailed(kube::Error::Api(status))
        | Watching::WatchFailed(kube::Error::Api(status)) => status.code == FORBIDDEN,
        _ => false,
    }
}

/// One reading of both kinds and what follows it.
struct Reading {
    updates: BoxStream<'static, Update>,
    /// The objects of lists that are not complete yet.
    policies: Vec<NetworkPolicy>,
    namespaces: Vec<Namespace>,
    policies_are_known: bool,
    namespaces_are_known: bool,
}

impl Reading {
    fn begin(client: &Client) -> Self {
        let all = watcher::Config::default;
        let policies = events(watch(Api::all(client.clone()), all()), Update::Policy);
        let namespaces = events(watch(Api::all(client.clone()), all()), Update::Namespace);
        Reading {
            updates: select(policies, namespaces).boxed(),
            policies: Vec::new(),
            namespaces: Vec::new(),
            policies_are_known: false,
            namespaces_are_known: false,
        }
    }

    /// Applies the next update.
    async fn next(&mut self, known: &Known) -> Result<(), watcher::Error> {
        match self.updates.next().await {
            Some(Update::Policy(event)) => self.take_policy(event, known),
            Some(Update::Namespace(event)) => self.take_namespace(event, known),
            Some(Update::Failed(error)) => return Err(error),
            None => std::future::pending().await,
        }
        if self.policies_are_known && self.namespaces_are_known {
            known.phase.send_replace(Phase::Known);
        }
        Ok(())
    }

    fn take_policy(&mut self, event: Event<NetworkPolicy>, known: &Known) {
        let policies = &mut known.lock().policies;
        match event {
            Event::Init => self.policies.clear(),
            Event::InitApply(policy) => self.policies.push(policy),
            Event::InitDone => {
                policies.clear();
                self.policies.drain(..).for_each(|policy| policies.set(&policy));
                self.policies_are_known = true;
            }
            Event::Apply(policy) => policies.set(&policy),
            Event::Delete(policy) => {
                policies.remove(&policy.namespace().unwrap_or_default(), &policy.name_any());
            }
        }
    }

    fn take_namespace(&mut self, event: Event<Namespace>, known: &Known) {
        let policies = &mut known.lock().policies;
        let set = |policies: &mut Policies, namespace: Namespace| {
            let name = namespace.name_any();
            policies.set_namespace(&name, namespace.metadata.labels.unwrap_or_default());
        };
        match event {
            Event::Init => self.namespaces.clear(),
            Event::InitApply(namespace) => self.namespaces.push(namespace),
            Event::InitDone => {
                policies.clear_namespaces();
                self.namespaces.drain(..).for_each(|namespace| set(policies, namespace));
                self.namespaces_are_known = true;
            }
            Event::Apply(namespace) => set(policies, namespace),
            Event::Delete(namespace) => policies.remove_namespace(&namespace.name_any()),
        }
    }
}

fn events<K: 'static>(
    events: impl Stream<Item = watcher::Result<Event<K>>> + Send + 'static,
    update: impl Fn(Event<K>) -> Update + Send + 'static,
) -> impl Stream<Item = Update> + Send + 'static {
    events.map(move |event| match event {
        Ok(event) => update(event),
        Err(error) => Update::Failed(error),
    })
}

fn facts_of(pod: &Pod, address: IpAddr) -> PodFacts {
    let spec = pod.spec.as_ref();
    let containers = spec.map(|spec| spec.containers.as_slice()).unwrap_or_default();
    let init = spec
        .and_then(|spec| spec.init_containers.as_deref())
        .unwrap_or_default();
    PodFacts {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        name: pod.metadata.name.clone().unwrap_or_default(),
        labels: pod.metadata.labels.clone().unwrap_or_default(),
        address: Some(address),
        ports: containers.iter().chain(init).flat_map(named_ports).collect(),
    }
}

fn named_ports(container: &Container) -> Vec<NamedPort> {
    let ports = container.ports.iter().flatten();
    ports
        .filter_map(|port| {
            Some(NamedPort {
                name: port.name.clone()?,
                number: u16::try_from(port.container_port).ok()?,
                protocol: Protocol::named(port.protocol.as_deref()),
            })
        })
        .collect()
}
