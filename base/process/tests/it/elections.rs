//! Elections, health and ports, in real time: the ports are real.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use api_meta::Fault;
use base_client::{WaitState, wait_until};
use base_clock::{Clock, Entropy};
use base_controller::Terms;
use base_process::{Elected, Election, Port, Settings};
use cluster_apiserver::ApiServer;
use cluster_store::MemoryStore;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

const LEASE: &str = "test-leader-election";
/// Between two requests to a port.
const REQUEST_PAUSE: Duration = Duration::from_millis(20);

pub(crate) async fn server() -> ApiServer {
    let server = ApiServer::builder("test")
        .store(MemoryStore::new())
        .clock(Clock::real());
    server.entropy(Entropy::seeded(1)).build().await.unwrap()
}

fn free_port() -> std::io::Result<u16> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    listener.local_addr().map(|address| address.port())
}

fn elected(ports: [u16; 2]) -> Elected {
    let port = |at: usize, setting: &str| {
        Some(Port {
            address: Some(std::net::Ipv4Addr::LOCALHOST.into()),
            port: ports[at],
            setting: setting.to_owned(),
        })
    };
    let settings = Settings {
        election: Some(Election {
            namespace: "default".to_owned(),
            lease: LEASE.to_owned(),
            terms: Terms::default(),
        }),
        health: port(0, "the setting of health"),
        metrics: port(1, "the setting of metrics"),
    };
    Elected::new("test", settings, Clock::real(), Entropy::os())
}

async fn get(port: u16, path: &str) -> String {
    loop {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await else {
            tokio::time::sleep(REQUEST_PAUSE).await;
            continue;
        };
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        return answer;
    }
}

/// Requests a path until the answer begins with `beginning`.
async fn until(port: u16, path: &str, beginning: &str) -> String {
    loop {
        let answer = get(port, path).await;
        if answer.starts_with(beginning) {
            return answer;
        }
        tokio::time::sleep(REQUEST_PAUSE).await;
    }
}

/// Waits until some process holds the Lease.
async fn held(leases: &Api<Lease>) {
    let held = wait_until(leases, LEASE, Duration::from_secs(60), |lease| match lease {
        Some(lease) if lease.spec.is_some() => WaitState::Done(()),
        _ => WaitState::NotYet("it is not held".to_owned()),
    });
    held.await.unwrap();
}

#[tokio::test]
async fn a_stop_ends_the_work_and_hands_the_lease_over() {
    let server = server().await;
    let ports = [free_port().unwrap(), free_port().unwrap()];
    let first = elected(ports);
    let client = first.watched(server.loopback_client());
    let stop = CancellationToken::new();
    let work = move |until: CancellationToken| {
        let client = client.clone();
        async move {
            let maps: Api<ConfigMap> = Api::all(client);
            maps.list(&ListParams::default()).await.unwrap();
            until.cancelled().await;
            Ok(())
        }
    };
    let running = tokio::spawn(first.run(server.loopback_client(), stop.clone().cancelled_owned(), work));
    let metrics = async {
        loop {
            let text = get(ports[1], "/metrics").await;
            if text.contains("orangery_leading 1") {
                return text;
            }
            tokio::time::sleep(REQUEST_PAUSE).await;
        }
    };
    assert!(metrics.await.contains("orangery_api_requests_total"));
    until(ports[0], "/readyz", "HTTP/1.1 200").await;
    assert!(get(ports[0], "/healthz").await.ends_with("ok"));
    assert!(get(ports[0], "/other").await.starts_with("HTTP/1.1 404"));

    let others = [free_port().unwrap(), free_port().unwrap()];
    let second = elected(others);
    let idle = |until: CancellationToken| async move {
        until.cancelled().await;
        Ok(())
    };
    let waiting = tokio::spawn(second.run(server.loopback_client(), std::future::pending(), idle));
    until(others[0], "/readyz", "HTTP/1.1 200").await;
    assert!(get(others[1], "/metrics").await.contains("orangery_leading 0"));
    stop.cancel();
    running.await.unwrap().unwrap();
    // It is not ready before it has listed something, and so it leads now.
    until(others[0], "/readyz", "HTTP/1.1 500").await;
    waiting.abort();
}

#[tokio::test]
async fn a_lease_that_another_takes_ends_the_process_with_an_error() {
    let server = server().await;
    let ports = [free_port().unwrap(), free_port().unwrap()];
    let idle = |until: CancellationToken| async move {
        until.cancelled().await;
        Ok(())
    };
    let running = tokio::spawn(elected(ports).run(server.loopback_client(), std::future::pending(), idle));
    let leases: Api<Lease> = Api::namespaced(server.loopback_client(), "default");
    held(&leases).await;
    let theft = Patch::Merge(json!({"spec": {"holderIdentity": "thief"}}));
    leases.patch(LEASE, &PatchParams::default(), &theft).await.unwrap();
    let fault = running.await.unwrap().unwrap_err();
    let expected = "leadership lost: the lease test-leader-election is held by thief";
    assert_eq!(fault.to_string(), expected);
}

#[tokio::test]
async fn a_check_that_fails_makes_a_waiting_replica_unready() {
    let server = server().await;
    let ports = [free_port().unwrap(), free_port().unwrap()];
    let waits = elected(ports);
    let known = Arc::new(AtomicBool::new(false));
    let certificate = known.clone();
    waits
        .readiness()
        .when(move || match certificate.load(Ordering::Relaxed) {
            true => Ok(()),
            false => Err("there is no certificate yet".to_owned()),
        });
    // Another one holds the Lease.
    let holder = elected([free_port().unwrap(), free_port().unwrap()]);
    let idle = |until: CancellationToken| async move {
        until.cancelled().await;
        Ok(())
    };
    let holding = tokio::spawn(holder.run(server.loopback_client(), std::future::pending(), idle));
    held(&Api::namespaced(server.loopback_client(), "default")).await;
    let waiting = tokio::spawn(waits.run(server.loopback_client(), std::future::pending(), idle));
    assert!(
        until(ports[0], "/readyz", "HTTP/1.1 500")
            .await
            .ends_with("there is no certificate yet")
    );
    known.store(true, Ordering::Relaxed);
    assert!(get(ports[0], "/readyz").await.starts_with("HTTP/1.1 200"));
    holding.abort();
    waiting.abort();
}

#[tokio::test]
async fn work_that_fails_is_tried_again_and_a_taken_port_is_named() {
    let server = server().await;
    let ports = [free_port().unwrap(), free_port().unwrap()];
    let stop = CancellationToken::new();
    let tries = Arc::new(AtomicU32::new(0));
    let of_work = tries.clone();
    let work = move |_| {
        of_work.fetch_add(1, Ordering::Relaxed);
        async { Err(Fault::dependency("not yet")) }
    };
    let running = tokio::spawn(elected(ports).run(server.loopback_client(), stop.clone().cancelled_owned(), work));
    until(ports[0], "/healthz", "HTTP/1.1 200").await;
    assert!(
        until(ports[0], "/readyz", "HTTP/1.1 500")
            .await
            .contains("cannot work yet: not yet")
    );
    let idle = |_| async { Ok(()) };
    let fault = elected(ports)
        .run(server.loopback_client(), std::future::pending(), idle)
        .await
        .unwrap_err();
    assert!(fault.to_string().starts_with("cannot listen at 127.0.0.1:"), "{fault}");
    assert!(fault.hint.contains("the setting of health"), "{}", fault.hint);
    while tries.load(Ordering::Relaxed) < 2 {
        assert!(!running.is_finished());
        tokio::time::sleep(REQUEST_PAUSE).await;
    }
    stop.cancel();
    running.await.unwrap().unwrap();
}
