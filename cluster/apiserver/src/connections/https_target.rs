//! Connections to HTTPS servers that this one calls (webhooks, aggregated APIs), found by URL or by a Service.
//! In a cluster whose nodes are in this process, a Service leads to its ready endpoints, because nothing routes its address; else
//! to its address. It sends no request.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/util/proxy/proxy.go, ResolveCluster and ResolveEndpoint)

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base_client::Connection;
use cluster_store::{Key, Page, Range};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use serde_json::Value;
use tokio_rustls::TlsConnector;

use crate::connections::addresses::{PodPort, Pods, is_reachable};
use crate::connections::dial::{by_address, to_service};
use crate::connections::network::Network;
use crate::connections::tls::{distrusted, refused, text};

/// The port of a URL or Service that names none.
const HTTPS: u16 = 443;
/// The label that names the Service of an EndpointSlice (kubernetes/api v1.35 discovery/v1/well_known_labels.go).
const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";

/// Where a server is, and why it is trusted.
pub(crate) struct HttpsTarget {
    /// As in the URL.
    name: String,
    server_name: String,
    port: u16,
    /// Namespace and name of the Service.
    service: Option<(String, String)>,
    tls: TlsConnector,
    /// How many connections to endpoints were begun: each starts with the next endpoint.
    dialled: AtomicUsize,
}

impl fmt::Display for HttpsTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}:{}", self.name, self.server_name, self.port)
    }
}

impl HttpsTarget {
    /// `HOST` or `HOST:PORT`, as in a URL.
    pub(crate) fn host(host: &str, tls: ClientConfig) -> Self {
        let (name, port) = split_port(host);
        Self {
            name: host.to_owned(),
            server_name: name.trim_matches(['[', ']']).to_owned(),
            port: port.unwrap_or(HTTPS),
            service: None,
            tls: TlsConnector::from(Arc::new(tls)),
            dialled: AtomicUsize::default(),
        }
    }

    /// A Service, as `spec.service` of an APIService or a webhook names it.
    pub(crate) fn service(service: &Value, tls: ClientConfig) -> Self {
        let (namespace, name) = (text(service, "namespace"), text(service, "name"));
        let port = service.get("port").and_then(Value::as_u64);
        let port = port.and_then(|port| port.try_into().ok()).unwrap_or(HTTPS);
        let server_name = format!("{name}.{namespace}.svc");
        Self {
            name: format!("{server_name}:{port}"),
            server_name,
            port,
            service: Some((namespace, name)),
            tls: TlsConnector::from(Arc::new(tls)),
            dialled: AtomicUsize::default(),
        }
    }

    /// The name of the server in messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Opens a new connection. Errors: worded as Go's client words them.
    pub(crate) async fn connect(&self, network: &Network) -> Result<Connection, String> {
        let stream = match (&self.service, &network.pods) {
            (Some(named), Some(pods)) => {
                let service = find_service(network, named).await?;
                match address_of(&service)? {
                    Address::Cluster(_) => match self.dial_endpoints(network, pods, named, &service).await? {
                        // A server of this process needs no certificate to be authenticated.
                        Dialled::Service(connection) => return Ok(connection),
                        Dialled::Bytes(connection) => connection,
                    },
                    Address::External(host) => dial(&host, self.port).await?,
                }
            }
            _ => {
                let (host, port) = self.address(network).await?;
                dial(&host, port).await?
            }
        };
        let name = ServerName::try_from(self.server_name.clone())
            .map_err(|error| format!("tls: {:?} is no name of a server: {error}", self.server_name))?;
        let stream = self.tls.connect(name, stream).await;
        let stream = stream.map_err(|error| distrusted(&error, &self.server_name))?;
        Ok(Box::new(stream))
    }

    /// The address that the URL or the Service names.
    pub(crate) async fn address(&self, network: &Network) -> Result<(String, u16), String> {
        let Some(named) = &self.service else {
            return Ok((self.server_name.clone(), self.port));
        };
        let service = find_service(network, named).await?;
        match address_of(&service)? {
            Address::Cluster(host) | Address::External(host) => Ok((host, self.port)),
        }
    }

    /// Dials the ready endpoints of a Service in turn until one answers.
    async fn dial_endpoints(
        &self,
        network: &Network,
        pods: &Pods,
        (namespace, name): &(String, String),
        service: &Value,
    ) -> Result<Dialled, String> {
        let port = self.port;
        let port_name =
            port_name(service, port).ok_or_else(|| format!("no service port {port} found for service {name:?}"))?;
        let endpoints = ready_endpoints(network, namespace, name, port_name).await?;
        let mut outcome = Err(format!("no endpoints available for service {name:?}"));
        let start = self.dialled.fetch_add(1, Ordering::Relaxed) % endpoints.len().max(1);
        for (ip, port) in endpoints.iter().cycle().skip(start).take(endpoints.len()) {
            outcome = dial_endpoint(pods, *ip, *port).await;
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }
}

/// A connection to an endpoint.
enum Dialled {
    /// A server of this process, which is spoken to without TLS.
    Service(Connection),
    Bytes(Connection),
}

async fn dial_endpoint(pods: &Pods, ip: IpAddr, port: u16) -> Result<Dialled, String> {
    let host = ip.to_string();
    let failed = |error: &std::io::Error| refused(&host, port, error);
    match pods(ip, port) {
        PodPort::Http(service) => Ok(Dialled::Service(to_service(service))),
        PodPort::Bytes(dialer) => dialer
            .connect()
            .await
            .map(Dialled::Bytes)
            .map_err(|error| failed(&error)),
        PodPort::Closed => Err(failed(&std::io::ErrorKind::ConnectionRefused.into())),
        PodPort::Elsewhere => dial(&host, port).await.map(Dialled::Bytes),
    }
}

async fn dial(host: &str, port: u16) -> Result<Connection, String> {
    by_address(host, port)
        .await
        .map_err(|error| refused(host, port, &error))
}

async fn find_service(network: &Network, (namespace, name): &(String, String)) -> Result<Value, String> {
    let key = Key::new("services", Some(namespace), name.as_str());
    let found = network.store.get(&key).await.map_err(|error| error.to_string())?;
    let found = found.ok_or_else(|| format!("service {name:?} not found"))?;
    Ok(found.object.value(found.revision))
}

/// Where a Service leads.
enum Address {
    /// Its address in the cluster.
    Cluster(String),
    /// A name outside of the cluster.
    External(String),
}

fn address_of(service: &Value) -> Result<Address, String> {
    let text = |field: &str| {
        let value = service.get("spec").and_then(|spec| spec.get(field)?.as_str());
        value.unwrap_or_default().to_owned()
    };
    match text("type").as_str() {
        "ClusterIP" if text("clusterIP") == "None" => Err("cannot route to service with ClusterIP \"None\"".to_owned()),
        "ClusterIP" | "NodePort" | "LoadBalancer" => Ok(Address::Cluster(text("clusterIP"))),
        "ExternalName" => Ok(Address::External(text("externalName"))),
        other => Err(format!("unsupported service type {other:?}")),
    }
}

/// The name of a Service's port, which is empty where it has none.
fn port_name(service: &Value, port: u16) -> Option<&str> {
    let mut ports = service.pointer("/spec/ports")?.as_array()?.iter();
    let found = ports.find(|found| found["port"].as_u64() == Some(u64::from(port)))?;
    Some(found["name"].as_str().unwrap_or_default())
}

/// Addresses and ports of the endpoints that are ready, in the order of their slices.
async fn ready_endpoints(
    network: &Network,
    namespace: &str,
    service: &str,
    port_name: &str,
) -> Result<Vec<(IpAddr, u16)>, String> {
    let range = Range::namespaced("discovery.k8s.io/endpointslices", namespace);
    let listing = network.store.list(&range, Page::default()).await;
    let slices = listing.map_err(|error| error.to_string())?.entries;
    let is_of_service = |labels: &std::collections::BTreeMap<String, String>| {
        labels.get(SERVICE_NAME_LABEL).is_some_and(|named| named == service)
    };
    Ok(slices
        .iter()
        .filter(|slice| is_of_service(&slice.object.meta().labels))
        .flat_map(|slice| of_slice(&slice.object.value(slice.revision), port_name))
        .collect())
}

fn of_slice(slice: &Value, port_name: &str) -> Vec<(IpAddr, u16)> {
    let list = |value: &Value, field: &str| value[field].as_array().cloned().unwrap_or_default();
    let ports = list(slice, "ports");
    let port = ports
        .iter()
        .find(|port| port["name"].as_str().unwrap_or_default() == port_name);
    let port = port.and_then(|port| u16::try_from(port["port"].as_u64()?).ok());
    let Some(port) = port else { return Vec::new() };
    list(slice, "endpoints")
        .iter()
        .filter(|endpoint| endpoint["conditions"]["ready"] != false)
        .filter_map(|endpoint| endpoint["addresses"].as_array()?.first()?.as_str()?.parse().ok())
        .filter(|ip| is_reachable(*ip))
        .map(|ip| (ip, port))
        .collect()
}

fn split_port(host: &str) -> (&str, Option<u16>) {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port.parse().ok()),
        _ => (host, None),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn endpoints_of_a_slice_are_the_ready_ones_of_the_named_port() {
        let slice = json!({
            "ports": [{"name": "metrics", "port": 8080}, {"name": "https", "port": 10_250}],
            "endpoints": [
                {"addresses": ["10.0.0.1"]},
                {"addresses": ["10.0.0.2"], "conditions": {"ready": false}},
                {"addresses": ["127.0.0.1"], "conditions": {"ready": true}},
                {"addresses": ["10.0.0.3"], "conditions": {"ready": true}},
            ],
        });
        let ip = |last: u8| IpAddr::from([10, 0, 0, last]);
        assert_eq!(of_slice(&slice, "https"), [(ip(1), 10_250), (ip(3), 10_250)]);
        assert_eq!(of_slice(&slice, ""), []);
        let unnamed = json!({"ports": [{"port": 1}], "endpoints": [{"addresses": ["10.0.0.1"]}]});
        assert_eq!(of_slice(&unnamed, ""), [(ip(1), 1)]);
        assert_eq!(of_slice(&json!({}), ""), []);
    }

    #[test]
    fn port_of_a_service_may_have_no_name() {
        let service = json!({"spec": {"ports": [{"port": 443}, {"port": 80, "name": "http"}]}});
        assert_eq!(port_name(&service, 443), Some(""));
        assert_eq!(port_name(&service, 80), Some("http"));
        assert_eq!(port_name(&service, 81), None);
    }
}
