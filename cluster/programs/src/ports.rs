//! Ports of the machine that programs without a network of their own share: who has which. It opens none.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use base_client::{Connection, Dialer};
use k8s_openapi::api::core::v1::Container;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::net::TcpStream;

/// Who has which port. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ports(Arc<Mutex<BTreeMap<u16, String>>>);

/// A port of a program; given back when dropped.
#[derive(Debug)]
pub(crate) struct Held {
    ports: Ports,
    port: u16,
}

impl Ports {
    /// Those of this machine as this process knows them: all its nodes share them.
    pub(crate) fn of_process() -> Self {
        static PORTS: LazyLock<Ports> = LazyLock::new(Ports::default);
        PORTS.clone()
    }

    /// Takes a port for a program that is about to listen there. Errors: who has it, in words for an event.
    pub(crate) fn take(&self, port: u16, who: &str) -> Result<Held, String> {
        let mut ports = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(holder) = ports.get(&port) {
            return Err(holder.clone());
        }
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_err() {
            return Err("another process of this machine".to_owned());
        }
        ports.insert(port, who.to_owned());
        Ok(Held {
            ports: self.clone(),
            port,
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut ports = self.ports.0.lock().unwrap_or_else(PoisonError::into_inner);
        ports.remove(&self.port);
    }
}

/// The TCP ports on which a container is known to listen: those that it declares, and those of its probes and hooks.
pub(crate) fn declared(container: &Container) -> Vec<u16> {
    let named = container.ports.iter().flatten();
    let named = named.filter(|port| port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP"));
    let named = named.map(|port| port.container_port);
    let probes = [
        &container.liveness_probe,
        &container.readiness_probe,
        &container.startup_probe,
    ];
    let probed = probes.into_iter().flatten().filter_map(|probe| {
        let http = probe.http_get.as_ref().and_then(|http| number(&http.port));
        let tcp = probe.tcp_socket.as_ref().and_then(|tcp| number(&tcp.port));
        http.or(tcp).or_else(|| probe.grpc.as_ref().map(|grpc| grpc.port))
    });
    let hooks = container.lifecycle.as_ref();
    let hooks = hooks.into_iter().flat_map(|hooks| [&hooks.post_start, &hooks.pre_stop]);
    let hooks = hooks.filter_map(|hook| number(&hook.as_ref()?.http_get.as_ref()?.port));
    let mut ports: Vec<u16> = named
        .chain(probed)
        .chain(hooks)
        .filter_map(|port| u16::try_from(port).ok())
        .collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// Ports that are named stand among the declared ones.
fn number(port: &IntOrString) -> Option<i32> {
    match port {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(_) => None,
    }
}

/// Leads to a port of loopback.
pub(crate) fn loopback(port: u16) -> Dialer {
    Dialer::new(move || {
        Box::pin(async move {
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Connection)
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_port_is_one_programs_until_it_is_given_back() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let ports = Ports::default();
        assert_eq!(ports.take(port, "a").unwrap_err(), "another process of this machine");
        drop(listener);
        let held = ports.take(port, "container a of pod n/a").unwrap();
        assert_eq!(ports.take(port, "b").unwrap_err(), "container a of pod n/a");
        drop(held);
        ports.take(port, "b").unwrap();
    }

    #[test]
    fn ports_are_those_of_the_container_its_probes_and_hooks() {
        let container = serde_json::from_value(json!({"name": "c",
            "ports": [{"containerPort": 443}, {"containerPort": 53, "protocol": "UDP"}],
            "readinessProbe": {"httpGet": {"port": 8081}}, "livenessProbe": {"httpGet": {"port": "web"}},
            "startupProbe": {"grpc": {"port": 9}}, "lifecycle": {"preStop": {"httpGet": {"port": 80}}},
        }))
        .unwrap();
        assert_eq!(declared(&container), [9, 80, 443, 8081]);
    }
}
