//! The names of a Shoot's API server, asked of the DNS server that the local provider runs.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use api_extensions::DNSRecord;
use api_meta::ErrorCode;
use kube::Api;
use serde_json::{Value, json};
use tests_scenarios::{NAMESPACE, SURROUNDINGS, World, merge, wait};

/// Without machines; only an API server.
const WORKERLESS: &str = include_str!("../../../../examples/41-shoot-workerless.yaml");
const NAME: &str = "workerless";
/// How long a question on loopback may stay without an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
const NOERROR: u8 = 0;
const NXDOMAIN: u8 = 3;

/// A landscape whose local provider answers DNS, with the example Shoot without workers and this `spec.dns`.
async fn world_with(dns: Value) -> (World, SocketAddr) {
    let free = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let world = World::start_with(|settings| settings.dns = Some(address)).await;
    world.apply(&SURROUNDINGS).await;
    let mut shoot = landscape_local::documents(WORKERLESS).unwrap();
    shoot[0]["spec"]["dns"] = dns;
    landscape_local::apply_all(&world.garden, shoot).await.unwrap();
    (world, address)
}

/// Queries the A records of `name`: the response code and the addresses. The socket is a real one and blocks a thread
/// of its own, during which virtual time stands still.
async fn query(server: SocketAddr, name: &str) -> (u8, Vec<Ipv4Addr>) {
    let mut question = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        question.push(label.len().try_into().unwrap());
        question.extend_from_slice(label.as_bytes());
    }
    question.extend_from_slice(&[0, 0, 1, 0, 1]);
    let question_length = question.len();
    let answer = tokio::task::spawn_blocking(move || {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
        socket.send_to(&question, server).unwrap();
        let mut buffer = [0; 512];
        let length = socket.recv(&mut buffer).unwrap();
        buffer[..length].to_vec()
    })
    .await
    .unwrap();
    (answer[3] & 0x0f, addresses(&answer[question_length..]))
}

/// The addresses in records of one address each: a name, type, class, time to live and length, then the address.
fn addresses(mut records: &[u8]) -> Vec<Ipv4Addr> {
    const TO_LENGTH: usize = 8;
    let mut found = Vec::new();
    while !records.is_empty() {
        let end = after_name(records) + TO_LENGTH;
        assert_eq!(records[end..end + 2], [0, 4], "an IPv4 address");
        let address: [u8; 4] = records[end + 2..end + 6].try_into().unwrap();
        found.push(Ipv4Addr::from(address));
        records = &records[end + 6..];
    }
    found
}

/// Where a name ends: with an empty label, or with a pointer to another name.
fn after_name(bytes: &[u8]) -> usize {
    const POINTER: u8 = 0xc0;
    let mut at = 0;
    while bytes[at] != 0 {
        if bytes[at] & POINTER == POINTER {
            return at + 2;
        }
        at += usize::from(bytes[at]) + 1;
    }
    at + 1
}

#[tokio::test(start_paused = true)]
async fn a_shoot_without_workers_has_both_of_its_names_until_it_is_gone() {
    let domain = "workerless.local.external.local.gardener.cloud";
    let (world, server) = world_with(json!({"domain": domain})).await;
    let shoot = world.succeeded(NAMESPACE, NAME).await;
    let hosts = [
        format!("api.{domain}"),
        format!("api.{NAME}.local.internal.local.gardener.cloud"),
    ];
    for host in &hosts {
        assert_eq!(
            query(server, host).await,
            (NOERROR, vec![Ipv4Addr::LOCALHOST]),
            "{host}"
        );
    }
    let advertised: Vec<(String, bool)> = shoot
        .status
        .unwrap()
        .advertised_addresses
        .iter()
        .zip(&hosts)
        .map(|(address, host)| {
            (
                address.name.clone(),
                address.url.starts_with(&format!("https://{host}")),
            )
        })
        .collect();
    assert_eq!(
        advertised,
        [("external".to_owned(), true), ("internal".to_owned(), true)]
    );
    assert_eq!(
        query(server, "api.none.external.local.gardener.cloud").await.0,
        NXDOMAIN
    );

    world.delete_shoot(NAMESPACE, NAME).await;
    for host in &hosts {
        assert_ne!(query(server, host).await.0, NOERROR, "{host}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_custom_domain_needs_a_provider_and_gets_its_name_with_one() {
    let (world, server) = world_with(json!({"domain": "plum.example"})).await;
    let shoots = world.shoots(NAMESPACE);
    let error = wait(&shoots, NAME, |shoot| {
        shoot?.status.as_ref()?.last_errors.first().cloned()
    })
    .await;
    assert_eq!(error.codes, [ErrorCode::ConfigurationProblem]);
    assert!(
        error.description.contains("spec.dns.domain: \"plum.example\"")
            && error.description.contains("external.local.gardener.cloud")
            && error.description.contains("spec.dns.providers"),
        "{}",
        error.description
    );

    let provider = json!([{"type": "local", "primary": true}]);
    merge(&shoots, NAME, &json!({"spec": {"dns": {"providers": provider}}})).await;
    world.succeeded(NAMESPACE, NAME).await;
    assert_eq!(
        query(server, "api.plum.example").await,
        (NOERROR, vec![Ipv4Addr::LOCALHOST])
    );
    let records: Api<DNSRecord> = Api::namespaced(world.seed.clone(), "shoot--local--workerless");
    assert_eq!(records.get("workerless-external").await.unwrap().spec.type_, "local");
}
