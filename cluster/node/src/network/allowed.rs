//! Whether network policies allow a pod to connect: checked before every connection of the pod network; refusals are
//! reported as events. The policies themselves are watched in `policies`.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cluster_network_policy::Protocol;
use k8s_openapi::api::core::v1::Service;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::backends::Listening;
use super::policies::Denied;
use super::{Network, PodNetwork, Refused};
use crate::context::ContainerEvent;
use crate::events::EventType;

/// A refused connection that a program repeats is reported again after this time.
const REPORTED_AGAIN_AFTER: Duration = Duration::from_secs(60);
/// Targets of refused connections remembered per container; a program that scans reports no more than this.
const REPORTED_MAX: usize = 64;

/// What a pod of a namespace needs to be allowed to connect to a port of a Service, where no policy names it. The
/// controller that generates policies for Services decides it.
pub type Suggestion = Arc<dyn Fn(&Service, u16, &str) -> Option<String> + Send + Sync>;

/// A suggestion as it stands at the end of a refusal.
pub(super) fn suggestion(suggested: Option<&String>) -> String {
    suggested.map(|suggested| format!("; {suggested}")).unwrap_or_default()
}

/// Reports refused connections of one container, each target once in a while.
pub(super) struct Reporter {
    container: String,
    events: mpsc::Sender<ContainerEvent>,
    reported: Mutex<BTreeMap<(IpAddr, u16), Instant>>,
}

impl Reporter {
    fn report(&self, to: (IpAddr, u16), message: &str) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        reported.retain(|_, at| at.elapsed() < REPORTED_AGAIN_AFTER);
        if reported.contains_key(&to) || reported.len() >= REPORTED_MAX {
            return;
        }
        reported.insert(to, Instant::now());
        tracing::warn!(container = %self.container, "{message}");
        let event = ContainerEvent {
            container: self.container.clone(),
            event_type: EventType::Warning,
            reason: "RefusedByNetworkPolicy",
            message: message.to_owned(),
        };
        // Events are for people: of a flood some are dropped.
        let _ = self.events.try_send(event);
    }
}

impl Network {
    /// Sets what is suggested where a connection to a Service is refused.
    pub fn suggest(&self, suggestion: Suggestion) {
        self.lock().suggestion = Some(suggestion);
    }

    fn suggested(&self, service: &Service, port: u16, namespace: &str) -> Option<String> {
        let suggestion = self.lock().suggestion.clone()?;
        suggestion(service, port, namespace)
    }

    /// The network as a pod that runs on it has it, for callers that dial in the pod's place. `client` reads what
    /// Services stand for.
    pub fn of_pod(&self, client: &kube::Client, namespace: &str, ip: IpAddr) -> PodNetwork {
        PodNetwork::new(self.clone(), client.clone(), namespace.to_owned(), ip)
    }

    /// Whether the cluster's network policies allow a connection between two addresses, of pods or of anything else. The
    /// first check of a network begins to watch the policies, with `client`.
    ///
    /// # Errors
    /// [`Refused::Policy`], and [`Refused::PoliciesUnknown`] when they could not be read within some seconds.
    pub async fn check(
        &self,
        client: &kube::Client,
        from: IpAddr,
        to: (IpAddr, u16),
        protocol: Protocol,
    ) -> Result<(), Refused> {
        let address = SocketAddr::from(to).to_string();
        let checked = self.policies().check(client, from, to, protocol).await;
        checked.map_err(|denied| Refused::by(denied, &address))
    }
}

impl Refused {
    fn by(denied: Denied, address: &str) -> Self {
        let address = address.to_owned();
        match denied {
            Denied::Unknown => Refused::PoliciesUnknown(address),
            Denied::Refused(refusal) => Refused::Policy {
                address,
                refusal,
                suggested: None,
            },
        }
    }
}

impl PodNetwork {
    /// Reports connections that policies refuse as events of a container.
    pub(crate) fn reporting(mut self, container: &str, events: mpsc::Sender<ContainerEvent>) -> Self {
        self.reporter = Some(Arc::new(Reporter {
            container: container.to_owned(),
            events,
            reported: Mutex::default(),
        }));
        self
    }

    /// Whether network policies allow the pod to connect to an address, of a pod or of anything else. For callers that
    /// make the connection themselves; [`PodNetwork::dial`] checks by itself.
    ///
    /// # Errors
    /// [`Refused::Policy`], and [`Refused::PoliciesUnknown`] when they could not be read within some seconds.
    pub async fn check(&self, ip: IpAddr, port: u16, protocol: Protocol) -> Result<(), Refused> {
        let address = SocketAddr::new(ip, port).to_string();
        self.check_as(&address, (ip, port), protocol).await
    }

    /// As [`PodNetwork::check`]; a refusal names the target as `address`, which is how the pod's program knows it.
    ///
    /// # Errors
    /// As [`PodNetwork::check`].
    pub async fn check_as(&self, address: &str, to: (IpAddr, u16), protocol: Protocol) -> Result<(), Refused> {
        self.check_target(address, to, protocol, None).await
    }

    /// The Service and its port, if it was dialled by that, serve suggestions.
    pub(super) async fn check_target(
        &self,
        address: &str,
        to: (IpAddr, u16),
        protocol: Protocol,
        service: Option<(&Service, u16)>,
    ) -> Result<(), Refused> {
        let policies = self.network.policies();
        let checked = policies.check(&self.client, self.ip, to, protocol).await;
        checked.map_err(|denied| {
            let mut refused = Refused::by(denied, address);
            if let Refused::Policy { refusal, suggested, .. } = &mut refused
                && refusal.remedy.is_none()
                && let Some((service, port)) = service
            {
                *suggested = self.network.suggested(service, port, &self.namespace);
            }
            if let (Refused::Policy { .. }, Some(reporter)) = (&refused, &self.reporter) {
                reporter.report(to, &refused.to_string());
            }
            refused
        })
    }

    /// Whether policies allow it now; a refusal is not reported.
    pub(super) async fn may_reach(&self, found: &Listening) -> bool {
        let policies = self.network.policies();
        let checked = policies.check(&self.client, self.ip, found.at, Protocol::Tcp).await;
        checked.is_ok()
    }
}
