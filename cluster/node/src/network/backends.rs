//! What is behind a Service: from it and its EndpointSlices to a listener. Two watches follow it,
//! each of which begins with a list.

use std::collections::BTreeMap;
use std::net::IpAddr;

use futures::stream::BoxStream;
use futures::{StreamExt, future, stream};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::watcher::{self, Event};
use kube::{Api, ResourceExt};

use super::{Endpoint, Network};
use crate::follow::{follow, follow_one};

/// The label that names the Service of an EndpointSlice (kubernetes/api v1.35 discovery/v1/well_known_labels.go).
const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";

/// A Service and its EndpointSlices as they are now, by two watches.
pub(super) struct Backends {
    updates: BoxStream<'static, Update>,
    service: Option<Service>,
    slices: BTreeMap<String, EndpointSlice>,
    /// The slices of a list that is not at its end.
    listed: BTreeMap<String, EndpointSlice>,
}

impl Backends {
    /// Starts to follow both; neither is known yet.
    pub(super) fn follow(client: &kube::Client, namespace: &str, name: &str) -> Self {
        let services: Api<Service> = Api::namespaced(client.clone(), namespace);
        let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), namespace);
        let service = follow_one(services, name).map(|service| Update::Service(Box::new(service)));
        let slices = follow(slices, watcher::Config::default().labels(&slices_of(name)))
            .map(|event| Update::Slice(Box::new(event)));
        Backends {
            updates: stream::select(service, slices).boxed(),
            service: None,
            slices: BTreeMap::new(),
            listed: BTreeMap::new(),
        }
    }

    pub(super) fn endpoint(&self, network: &Network, port: u16) -> Option<Listening> {
        let port_name = port_name(self.service.as_ref()?, port)?;
        listening(network, self.slices.values(), &port_name)
    }

    /// Waits for a change and applies it.
    pub(super) async fn changed(&mut self) {
        match self.updates.next().await {
            Some(Update::Service(service)) => self.service = *service,
            Some(Update::Slice(event)) => self.apply(*event),
            None => future::pending().await,
        }
    }

    fn apply(&mut self, event: Event<EndpointSlice>) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(slice) => drop(self.listed.insert(slice.name_any(), slice)),
            Event::InitDone => self.slices = std::mem::take(&mut self.listed),
            Event::Apply(slice) => drop(self.slices.insert(slice.name_any(), slice)),
            Event::Delete(slice) => drop(self.slices.remove(&slice.name_any())),
        }
    }
}

enum Update {
    Service(Box<Option<Service>>),
    Slice(Box<Event<EndpointSlice>>),
}

/// The selector of a Service's EndpointSlices.
pub(super) fn slices_of(service: &str) -> String {
    format!("{SERVICE_NAME_LABEL}={service}")
}

/// The name of a Service's port, which is empty where it may be.
pub(super) fn port_name(service: &Service, port: u16) -> Option<String> {
    let mut ports = service.spec.as_ref()?.ports.iter().flatten();
    let known = ports.find(|known| known.port == i32::from(port))?;
    Some(known.name.clone().unwrap_or_default())
}

/// What listens behind a Service, and where.
pub(super) struct Listening {
    pub(super) at: (IpAddr, u16),
    pub(super) endpoint: Endpoint,
}

/// The first ready endpoint of the port that has a listener.
pub(super) fn listening<'a>(
    network: &Network,
    slices: impl Iterator<Item = &'a EndpointSlice>,
    port_name: &str,
) -> Option<Listening> {
    slices
        .flat_map(|slice| ready_addresses(slice, port_name))
        .find_map(|at| {
            let endpoint = network.connect(at.0, at.1)?;
            Some(Listening { at, endpoint })
        })
}

/// The ready addresses of a slice behind the Service port of this name. `ready` left out counts as ready, as the API's
/// documentation requires.
fn ready_addresses(slice: &EndpointSlice, port_name: &str) -> Vec<(IpAddr, u16)> {
    let port = slice
        .ports
        .iter()
        .flatten()
        .find(|port| port.name.as_deref().unwrap_or_default() == port_name)
        .and_then(|port| u16::try_from(port.port?).ok());
    let Some(port) = port else { return Vec::new() };
    slice
        .endpoints
        .iter()
        .filter(|endpoint| endpoint.conditions.as_ref().and_then(|c| c.ready).unwrap_or(true))
        .flat_map(|endpoint| &endpoint.addresses)
        .filter_map(|address| Some((address.parse().ok()?, port)))
        .collect()
}
