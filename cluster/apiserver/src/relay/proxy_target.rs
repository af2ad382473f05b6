//! Where the name in a path leads: `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT` of a node, a pod or a service. It refuses what
//! would lead to the machine of this server itself.
//! (kubernetes/kubernetes v1.35 pkg/registry/core/{node,pod}/strategy.go, pkg/registry/core/service/storage/storage.go,
//! pkg/proxy/util IsProxyableIP)

use std::net::IpAddr;

use base_client::{Dialer, HttpService};
use cluster_store::Key;
use serde_json::Value;

use crate::connections::addresses::{PodPort, bracketed, is_reachable};
use crate::connections::kubelets::{KUBELET_PORT, NodePlace};
use crate::kinds::resource::Proxied;
use crate::state::context::Context;
use crate::storage::errors::store_status;
use crate::wire::status::Status;

/// The protocol of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    /// Certificates are not verified: none is for the address of a pod.
    Https,
}

/// The target of a forwarded request.
pub(crate) struct Place {
    pub(crate) scheme: Scheme,
    /// An address or a name, without brackets.
    pub(crate) host: String,
    /// None: that of the scheme.
    pub(crate) port: Option<String>,
    pub(crate) way: Way,
}

/// How it is reached.
pub(crate) enum Way {
    /// In this process.
    Here(HttpService),
    /// A program of this process' nodes.
    Dial(Dialer),
    /// By its address.
    Address,
    /// By its address, as its API server.
    Kubelet,
    /// Nothing listens there.
    Nowhere,
}

impl Place {
    /// A kubelet's port.
    pub(crate) fn of_kubelet(kubelet: NodePlace) -> Self {
        Self {
            scheme: Scheme::Https,
            host: kubelet.host,
            port: Some(kubelet.port.to_string()),
            way: Way::Kubelet,
        }
    }

    /// As in a URL: `10.0.0.1:80`, `[fd00::1]`.
    pub(crate) fn authority(&self) -> String {
        let host = bracketed(&self.host);
        match &self.port {
            Some(port) => format!("{host}:{port}"),
            None => host,
        }
    }

    /// The port as a number, if it is one.
    pub(crate) fn port(&self) -> Option<u16> {
        match (&self.port, self.scheme) {
            (Some(port), _) => port.parse().ok(),
            (None, Scheme::Http) => Some(80),
            (None, Scheme::Https) => Some(443),
        }
    }
}

/// Where the request's name leads.
pub(crate) async fn find(context: &Context, proxied: Proxied) -> Result<Place, Status> {
    let given = context.name();
    let split = split(given);
    match proxied {
        Proxied::Node => {
            let split = split.ok_or_else(|| Status::bad_request(format!("invalid node request {given:?}")))?;
            node(context, &split).await
        }
        Proxied::Pod => {
            let split = split.ok_or_else(|| Status::bad_request(format!("invalid pod request {given:?}")))?;
            pod(context, &split).await
        }
        Proxied::Service => {
            let split = split.ok_or_else(|| Status::bad_request(format!("invalid service request {given:?}")))?;
            service(context, &split).await
        }
    }
}

/// A name with its optional scheme and port.
struct Split<'a> {
    scheme: Scheme,
    name: &'a str,
    port: &'a str,
}

fn split(id: &str) -> Option<Split<'_>> {
    let parts: Vec<&str> = id.split(':').collect();
    let (scheme, name, port) = match parts.as_slice() {
        [name] => ("", *name, ""),
        [name, port] => ("", *name, *port),
        [scheme, name, port] => (*scheme, *name, *port),
        _ => return None,
    };
    let scheme = match scheme {
        "" | "http" => Scheme::Http,
        "https" => Scheme::Https,
        _ => return None,
    };
    (!name.is_empty()).then_some(Split { scheme, name, port })
}

async fn node(context: &Context, split: &Split<'_>) -> Result<Place, Status> {
    let server = &context.server;
    let here = server.network.nodes.as_ref().and_then(|find| find(split.name));
    let found = match &here {
        // One that runs here needs no address.
        Some(_) if split.port.is_empty() => None,
        _ => {
            let found = server.network.kubelet(split.name).await?;
            let found = found.ok_or_else(|| context.not_found(split.name))?;
            if !is_reachable_host(&found.host).await {
                return Err(Status::bad_request("address not allowed"));
            }
            Some(found)
        }
    };
    let port = found.as_ref().map_or(KUBELET_PORT, |found| found.port).to_string();
    let host = found.map_or_else(|| split.name.to_owned(), |found| found.host);
    if split.port.is_empty() || split.port == port {
        return Ok(Place {
            scheme: Scheme::Https,
            host,
            port: Some(port),
            way: here.map_or(Way::Kubelet, Way::Here),
        });
    }
    Ok(Place {
        scheme: split.scheme,
        host,
        port: Some(split.port.to_owned()),
        way: Way::Address,
    })
}

async fn pod(context: &Context, split: &Split<'_>) -> Result<Place, Status> {
    let pod = object(context, "pods", split.name).await?;
    let pod = pod.ok_or_else(|| context.not_found(split.name))?;
    let declared = || {
        let containers = pod.pointer("/spec/containers").and_then(Value::as_array)?;
        let mut ports = containers
            .iter()
            .filter_map(|container| container.pointer("/ports/0/containerPort"));
        ports.next().map(Value::to_string)
    };
    let port = match split.port {
        "" => declared(),
        port => Some(port.to_owned()),
    };
    let ip = ips(&pod).next().unwrap_or_default();
    let not_allowed = || Status::bad_request("address not allowed");
    let address: IpAddr = ip.parse().map_err(|_| not_allowed())?;
    if !is_reachable(address) {
        return Err(not_allowed());
    }
    Ok(at_pod(context, split.scheme, ip, port))
}

/// A port of a pod: one of this process, or by its address.
fn at_pod(context: &Context, scheme: Scheme, ip: &str, port: Option<String>) -> Place {
    let mut place = Place {
        scheme,
        host: ip.to_owned(),
        port,
        way: Way::Address,
    };
    if let (Some(find), Ok(ip), Some(port)) = (&context.server.network.pods, ip.parse(), place.port()) {
        place.way = match find(ip, port) {
            PodPort::Http(service) => Way::Here(service),
            PodPort::Bytes(dialer) => Way::Dial(dialer),
            PodPort::Closed => Way::Nowhere,
            PodPort::Elsewhere => Way::Address,
        };
    }
    place
}

async fn service(context: &Context, split: &Split<'_>) -> Result<Place, Status> {
    let name = split.name;
    let mut port_name = split.port.to_owned();
    if let Ok(number) = split.port.parse::<i64>() {
        let service = object(context, "services", name).await?;
        let service = service.ok_or_else(|| context.not_found(name))?;
        let ports = service.pointer("/spec/ports").and_then(Value::as_array);
        let found = ports
            .into_iter()
            .flatten()
            .find(|port| port["port"].as_i64() == Some(number));
        let Some(found) = found else {
            let message = format!("no service port {number} found for service {name:?}");
            return Err(Status::unavailable(message));
        };
        port_name = found["name"].as_str().unwrap_or_default().to_owned();
    }
    let endpoints = object(context, "endpoints", name).await?;
    let endpoints = endpoints.ok_or_else(|| context.not_found(name))?;
    let none = |id: &str| Status::unavailable(format!("no endpoints available for service {id:?}"));
    let subsets = endpoints["subsets"].as_array().filter(|subsets| !subsets.is_empty());
    let subsets = subsets.ok_or_else(|| none(name))?;
    for subset in from_random_start(context, subsets) {
        let named = |port: &&Value| port["name"].as_str().unwrap_or_default() == port_name;
        let port = subset["ports"].as_array().into_iter().flatten().find(named);
        let (Some(port), Some(addresses)) = (port, subset["addresses"].as_array()) else {
            continue;
        };
        for address in from_random_start(context, addresses) {
            if let Some(ip) = of_its_pod(context, address).await? {
                return Ok(at_pod(context, split.scheme, &ip, Some(port["port"].to_string())));
            }
        }
    }
    Err(none(context.name()))
}

/// All of a list, from a random item on, so that no endpoint gets all requests.
fn from_random_start<'a>(context: &Context, all: &'a [Value]) -> impl Iterator<Item = &'a Value> {
    let start = match all.len() {
        0 | 1 => 0,
        count => usize::try_from(context.server.entropy.below(count as u64)).unwrap_or_default(),
    };
    all.iter().cycle().skip(start).take(all.len())
}

/// The address of an endpoint, if it is that of the pod which it names, in the same namespace: a user who may write endpoints
/// reaches no more with them than the pods there.
async fn of_its_pod(context: &Context, address: &Value) -> Result<Option<String>, Status> {
    let target = &address["targetRef"];
    let (Some(ip), Some(name)) = (address["ip"].as_str(), target["name"].as_str()) else {
        return Ok(None);
    };
    if target["namespace"].as_str().unwrap_or_default() != context.namespace().unwrap_or_default() {
        return Ok(None);
    }
    let Some(pod) = object(context, "pods", name).await? else {
        return Ok(None);
    };
    let is_its = ips(&pod).any(|own| own == ip);
    // A client may have written the address of the pod.
    let reachable = ip.parse().is_ok_and(is_reachable);
    Ok((is_its && reachable).then(|| ip.to_owned()))
}

/// The addresses of a pod.
fn ips(pod: &Value) -> impl Iterator<Item = &str> {
    let all = pod.pointer("/status/podIPs").and_then(Value::as_array);
    let all = all.filter(|all| !all.is_empty());
    // A status may have only `podIP`.
    let alone = pod
        .pointer("/status/podIP")
        .and_then(Value::as_str)
        .filter(|_| all.is_none());
    let listed = all.into_iter().flatten().filter_map(|own| own["ip"].as_str());
    listed.chain(alone)
}

async fn object(context: &Context, resource: &str, name: &str) -> Result<Option<Value>, Status> {
    let key = Key::new(resource, context.namespace(), name);
    let entry = context.server.store.get(&key).await.map_err(store_status)?;
    Ok(entry.map(|entry| entry.object.value(entry.revision)))
}

/// Whether a host, or each address of its name, is reachable.
async fn is_reachable_host(host: &str) -> bool {
    if let Ok(ip) = host.parse() {
        return is_reachable(ip);
    }
    let Ok(found) = tokio::net::lookup_host((host, 0)).await else {
        return false;
    };
    let found: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    !found.is_empty() && found.into_iter().all(is_reachable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_a_port_and_with_it_a_scheme() {
        let of = |id: &str| split(id).map(|split| format!("{:?} {} {}", split.scheme, split.name, split.port));
        assert_eq!(of("a").as_deref(), Some("Http a "));
        assert_eq!(of("a:http").as_deref(), Some("Http a http"));
        assert_eq!(of("https:a:").as_deref(), Some("Https a "));
        assert_eq!(of(":a:1").as_deref(), Some("Http a 1"));
        for bad in ["", ":80", "ftp:a:1", "a:b:c:d", "http::80"] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }

    #[test]
    fn addresses_of_this_machine_and_its_link_are_not_reachable() {
        for bad in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "169.254.169.254",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
        ] {
            assert!(!is_reachable(bad.parse().unwrap()), "{bad}");
        }
        for good in ["10.0.0.1", "192.0.2.2", "100.64.0.1", "fd00::1"] {
            assert!(is_reachable(good.parse().unwrap()), "{good}");
        }
    }
}
