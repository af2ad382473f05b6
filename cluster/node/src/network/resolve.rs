//! Addresses and names as programs of a pod use them: which Service has an address, and which addresses a name has, as the
//! cluster's name server would answer.

use std::net::IpAddr;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::ListParams;

use super::backends::slices_of;
use super::{Endpoint, Network, PodNetwork};

/// What the names of a cluster end with.
const DOMAIN: &str = "cluster.local";

/// What a name of the cluster stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// Its addresses; none where the name exists without one.
    Addresses(Vec<IpAddr>),
    /// No such name.
    Missing,
    /// The name is none of the cluster's: others may know it.
    Elsewhere,
}

impl PodNetwork {
    /// The pod's namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// What listens on a port of the pod now, for callers that serve the pod outside of its cluster. No policy is checked.
    pub fn own(&self, port: u16) -> Option<Endpoint> {
        self.network.connect(self.ip, port)
    }

    /// The namespace and the name of the Service that has an address.
    pub async fn service_at(&self, ip: IpAddr) -> Option<(String, String)> {
        let services = self.network.services();
        let table = services.table(&self.client).await?;
        table.at(ip).cloned()
    }

    /// Whether an address is one that a node of the network gives to its pods.
    pub fn is_pod(&self, ip: IpAddr) -> bool {
        self.network.has(ip)
    }

    /// What the cluster's name server answers for a name without a dot at its end, compared without case. Names of this
    /// process's clusters without their domain (`SERVICE.NAMESPACE.svc`, `SERVICE.NAMESPACE`) are known as well, because
    /// some resolvers query them before they try a search list.
    pub async fn resolve(&self, name: &str) -> Resolved {
        let name = name.to_ascii_lowercase();
        let inside = name.strip_suffix(DOMAIN).and_then(|rest| rest.strip_suffix('.'));
        let full = inside.unwrap_or(&name);
        let Some(table) = self.network.services().table(&self.client).await else {
            return Resolved::Elsewhere;
        };
        let missing = || match inside {
            Some(_) => Resolved::Missing,
            None => Resolved::Elsewhere,
        };
        let Some(Parsed {
            host,
            service,
            namespace,
        }) = Parsed::of(full)
        else {
            return match inside {
                // Such as `svc.cluster.local`, which has names below it.
                Some("svc") => Resolved::Addresses(Vec::new()),
                _ => missing(),
            };
        };
        if inside.is_none() && !table.has_namespace(namespace) {
            return Resolved::Elsewhere;
        }
        match (table.of(namespace, service), host) {
            (Some([_, ..]), Some(_)) | (None, _) => missing(),
            (Some(addresses @ [_, ..]), None) => Resolved::Addresses(addresses.to_vec()),
            (Some([]), host) => match self.endpoints(namespace, service, host).await {
                addresses if addresses.is_empty() && host.is_some() => missing(),
                addresses => Resolved::Addresses(addresses),
            },
        }
    }

    /// The addresses behind a headless Service; with `host`, the one of this name.
    async fn endpoints(&self, namespace: &str, service: &str, host: Option<&str>) -> Vec<IpAddr> {
        let slices: Api<EndpointSlice> = Api::namespaced(self.client.clone(), namespace);
        let slices = match slices.list(&ListParams::default().labels(&slices_of(service))).await {
            Ok(slices) => slices,
            Err(error) => {
                tracing::debug!(%error, service, "the endpoints of a service cannot be read");
                return Vec::new();
            }
        };
        let endpoints = slices.into_iter().flat_map(|slice| slice.endpoints);
        let ready = endpoints.filter(|endpoint| endpoint.conditions.as_ref().and_then(|c| c.ready).unwrap_or(true));
        let named = ready.filter(|endpoint| host.is_none() || endpoint.hostname.as_deref() == host);
        let addresses = named.flat_map(|endpoint| endpoint.addresses);
        addresses.filter_map(|address| address.parse().ok()).collect()
    }
}

impl Network {
    fn services(&self) -> std::sync::Arc<super::Services> {
        self.lock().services.clone()
    }
}

/// The parts of `[HOST.]SERVICE.NAMESPACE[.svc]`.
#[derive(Debug, PartialEq, Eq)]
struct Parsed<'a> {
    host: Option<&'a str>,
    service: &'a str,
    namespace: &'a str,
}

impl<'a> Parsed<'a> {
    fn of(name: &'a str) -> Option<Self> {
        let parts: Vec<&str> = name.split('.').collect();
        let (host, service, namespace) = match parts.as_slice() {
            [service, namespace] if *namespace != "svc" => (None, service, namespace),
            [service, namespace, "svc"] => (None, service, namespace),
            [host, service, namespace, "svc"] => (Some(*host), service, namespace),
            _ => return None,
        };
        Some(Parsed {
            host,
            service,
            namespace,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_services_have_a_namespace() {
        let of = |name| Parsed::of(name).map(|parsed| (parsed.host, parsed.service, parsed.namespace));
        assert_eq!(of("a.ns.svc"), Some((None, "a", "ns")));
        assert_eq!(of("a.ns"), Some((None, "a", "ns")));
        assert_eq!(of("0.a.ns.svc"), Some((Some("0"), "a", "ns")));
        for name in ["a", "ns.svc", "a.b.c", "a.b.c.d.svc", "svc"] {
            assert_eq!(of(name), None, "{name}");
        }
    }
}
