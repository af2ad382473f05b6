//! Connections that programs with namespaces open: to the machine's network, and to pods that network policies hide. Where a
//! machine's users have no namespaces, these tests print why and prove nothing.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

use crate::cluster::{World, is_ready};

const TESTEE: &str = env!("CARGO_BIN_EXE_programs-testee");
/// An address of every machine as pods dial it (`docs/programs.md`).
const MACHINE: Ipv4Addr = Ipv4Addr::new(169, 254, 20, 1);
/// Only the route to it is looked up: documentation's own network (RFC 5737).
const FAR_AWAY: (Ipv4Addr, u16) = (Ipv4Addr::new(198, 51, 100, 1), 9);
const LABEL: &str = "networking.resources.gardener.cloud/to-a-tcp-8080";

/// The address that this machine has towards others, where it has one.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // Without a packet: it chooses the route.
    socket.connect(FAR_AWAY).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

/// Answers every connection on all addresses of this machine; gives its port.
async fn serve_on_the_machine() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // A request comes in as many pieces as its client wrote, up to an empty line.
            let mut lines = BufReader::new(stream).lines();
            let mut request = Vec::new();
            while let Ok(Some(line)) = lines.next_line().await
                && !line.is_empty()
            {
                request.push(line);
            }
            let first = request.first().map(String::as_str).unwrap_or_default();
            let mut stream = lines.into_inner();
            let answer = format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nthe machine got {first}\n");
            // A client that has gone shows in its own log.
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_reaches_servers_of_the_machine_by_its_addresses() {
    let Some(world) = World::isolated(&[]).await else {
        return;
    };
    let port = serve_on_the_machine().await;
    let own = own_address();
    if own.is_none() {
        println!("left out: this machine has no address but loopback");
    }
    for (number, address) in std::iter::once(IpAddr::V4(MACHINE)).chain(own).enumerate() {
        let name = format!("ask-{number}");
        let fields = json!({"args": ["get", format!("{address}:{port}"), format!("/{number}")]});
        world.pod(&name, "testee", fields, json!({})).await;
        let (phase, log) = world.outcome(&name).await;
        let answer = format!("the machine got GET /{number} HTTP/1.1");
        assert!(phase == "Succeeded" && log.contains(&answer), "{address}: {log}");
    }
}

/// What gardenlet and resource-manager write for a Service `a` of the namespace.
fn policies() -> [Value; 3] {
    let clients = json!({"matchLabels": {LABEL: "allowed"}});
    let served = json!({"matchLabels": {"app": "a"}});
    let ports = json!([{"protocol": "TCP", "port": 8080}]);
    [
        json!({"metadata": {"name": "deny-all"}, "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}}),
        json!({"metadata": {"name": "ingress-to-a-tcp-8080"}, "spec": {
            "podSelector": served, "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": clients}], "ports": ports}],
        }}),
        json!({"metadata": {"name": "egress-to-a-tcp-8080"}, "spec": {
            "podSelector": clients, "policyTypes": ["Egress"],
            "egress": [{"to": [{"podSelector": served}], "ports": ports}],
        }}),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_without_the_label_is_refused_until_it_has_it() {
    let script = format!("until {TESTEE} get $1 /x; do sleep 0.2; done");
    let Some(world) = World::isolated(&[("ask", &script)]).await else {
        return;
    };
    for policy in policies() {
        world.create::<NetworkPolicy>(policy).await;
    }
    let probe = json!({"httpGet": {"port": 8080, "path": "/healthz"}, "periodSeconds": 1});
    let fields = json!({"args": ["serve", "8080"], "readinessProbe": probe});
    world.pod("a", "testee", fields, json!({})).await;
    let ports = json!([{"port": 80, "targetPort": 8080}]);
    let service = json!({"metadata": {"name": "a"}, "spec": {"selector": {"app": "a"}, "ports": ports}});
    let service: Service = world.create(service).await;
    let served = world.pod_until("a", is_ready).await;
    let by_service = format!("{}:80", service.spec.unwrap().cluster_ip.unwrap());
    let by_pod = format!("{}:8080", served.status.unwrap().pod_ip.unwrap());
    for (name, dialled, address) in [("ask-service", "a.ns:80", &by_service), ("ask-pod", &by_pod, &by_pod)] {
        world.pod(name, "ask", json!({"args": [address]}), json!({})).await;
        world.logged(name, "Connection re").await;
        assert_eq!(
            world.event(name, "RefusedByNetworkPolicy").await,
            format!(
                "connect to {dialled}: refused by network policies: egress of pod ns/{name} is not allowed by deny-all; the \
                 label {LABEL}: allowed on pod ns/{name} would allow it (policy ns/egress-to-a-tcp-8080)"
            )
        );
        assert!(!world.log(name, "main").await.contains("200 OK"), "{name} was answered");
        let labelled = Patch::Merge(json!({"metadata": {"labels": {LABEL: "allowed"}}}));
        let pods = world.api::<Pod>();
        pods.patch(name, &PatchParams::default(), &labelled).await.unwrap();
        let (phase, log) = world.outcome(name).await;
        assert!(phase == "Succeeded" && log.contains("a to "), "{name}: {log}");
    }
}
