//! Whole programs: election, heartbeat, health, the end. In real time, because their ports are real.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api_extensions::Infrastructure;
use api_meta::{Fault, LastOperationState::Succeeded};
use base_client::Https;
use base_controller::Terms;
use extensions_sdk::run::{BindAddress, Place, Setup, run_in, serve_in};
use extensions_sdk::{About, Extension, Flags, HEARTBEAT_LEASE, Registration};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tests_kit::{free_port, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::landscape::{Answering, NAMESPACE, Seed, state_of};

const ABOUT: About = About::new("provider-x", "v1");
const LEASE: &str = "provider-x-leader-election";
/// Between two looks at a port.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// One replica of a program.
struct Replica {
    health: u16,
    stop: CancellationToken,
    ended: JoinHandle<Result<(), Fault>>,
}

impl Replica {
    /// Starts one with an actuator of type `Example`.
    fn start(seed: &Seed, reported: &Answering) -> Self {
        let reported = reported.clone();
        Self::start_with(seed, move |setup| {
            let registration = Registration::of_type("Example");
            Ok(setup
                .extension()
                .actuator::<Infrastructure>(registration, Arc::new(reported)))
        })
    }

    fn start_with(seed: &Seed, setup: impl FnOnce(&mut Setup) -> Result<Extension, Fault> + Send + 'static) -> Self {
        let (stop, health) = (CancellationToken::new(), free_port().unwrap());
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, health));
        let flags = Flags {
            namespace: Some(NAMESPACE.to_owned()),
            health_bind_address: address.into(),
            metrics_bind_address: address.into(),
            ..Flags::default()
        };
        let place = Place {
            client: seed.client.clone(),
            connector: Arc::new(Https::new("test")),
            clock: seed.embedded.clock.clone(),
            entropy: seed.embedded.entropy.clone(),
            terms: Terms::default(),
            stop: Box::pin(stop.clone().cancelled_owned()),
        };
        let ended = tokio::spawn(async move { run_in(ABOUT, place, &flags, setup).await });
        Self { health, stop, ended }
    }

    async fn get(&self, path: &str) -> String {
        loop {
            let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, self.health)).await else {
                tokio::time::sleep(LOOK_PAUSE).await;
                continue;
            };
            let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            return answer;
        }
    }

    /// Gets the path until its answer has this text.
    async fn until(&self, path: &str, expected: &str) {
        while !self.get(path).await.contains(expected) {
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }

    async fn end(self) -> Result<(), Fault> {
        self.stop.cancel();
        self.ended.await.unwrap()
    }
}

fn leases(seed: &Seed) -> Api<Lease> {
    Api::namespaced(seed.client.clone(), NAMESPACE)
}

#[tokio::test]
async fn one_replica_works_and_another_takes_over() {
    let seed = Seed::new().await;
    seed.cluster(Succeeded, json!({})).await;
    let (first, second) = (Answering::new(|_| Ok(())), Answering::new(|_| Ok(())));
    let one = Replica::start(&seed, &first);
    one.until("/metrics", "orangery_leading 1").await;
    one.until("/readyz", "HTTP/1.1 200").await;
    let two = Replica::start(&seed, &second);
    two.until("/readyz", "HTTP/1.1 200").await;
    assert!(two.get("/metrics").await.contains("orangery_leading 0"));

    seed.create("example", json!({"gardener.cloud/operation": "reconcile"}))
        .await;
    let api = seed.infrastructures();
    until(&api, "b", "created", |object| {
        state_of(object) == "Create Succeeded 100"
    })
    .await;
    assert_eq!((first.received().len(), second.received().len()), (1, 0));
    let beat = leases(&seed).get(HEARTBEAT_LEASE).await.unwrap();
    assert_eq!(beat.spec.unwrap().holder_identity.as_deref(), Some("provider-x"));

    one.end().await.unwrap();
    two.until("/metrics", "orangery_leading 1").await;
    seed.annotate("gardener.cloud/operation", Some("reconcile")).await;
    until(&api, "b", "reconciled", |object| {
        state_of(object) == "Reconcile Succeeded 100"
    })
    .await;
    assert_eq!((first.received().len(), second.received().len()), (1, 1));
    two.end().await.unwrap();
}

#[tokio::test]
async fn a_lost_lease_ends_the_program() {
    let seed = Seed::new().await;
    let one = Replica::start(&seed, &Answering::new(|_| Ok(())));
    one.until("/metrics", "orangery_leading 1").await;
    let theft = Patch::Merge(json!({"spec": {"holderIdentity": "thief"}}));
    leases(&seed)
        .patch(LEASE, &PatchParams::default(), &theft)
        .await
        .unwrap();
    let fault = one.ended.await.unwrap().unwrap_err();
    assert_eq!(
        fault.to_string(),
        "leadership lost: the lease provider-x-leader-election is held by thief"
    );
}

#[tokio::test]
async fn a_waiting_replica_beats_not_and_answers_what_runs_everywhere() {
    let seed = Seed::new().await;
    let held: Lease = serde_json::from_value(json!({
        "metadata": {"name": LEASE},
        "spec": {"holderIdentity": "another", "leaseDurationSeconds": 3600},
    }))
    .unwrap();
    leases(&seed).create(&Default::default(), &held).await.unwrap();
    let began = Arc::new(AtomicBool::new(false));
    let (of_task, of_check) = (began.clone(), began.clone());
    let waits = Replica::start_with(&seed, move |setup| {
        setup.everywhere(async move {
            of_task.store(true, Ordering::Relaxed);
            Ok(())
        });
        setup.ready_when(move || match of_check.load(Ordering::Relaxed) {
            true => Ok(()),
            false => Err("it has not begun".to_owned()),
        });
        Ok(setup.extension())
    });
    waits.until("/readyz", "HTTP/1.1 200").await;
    assert!(began.load(Ordering::Relaxed));
    assert!(leases(&seed).get_opt(HEARTBEAT_LEASE).await.unwrap().is_none());
    waits.end().await.unwrap();
}

#[tokio::test]
async fn what_fails_everywhere_ends_the_program_and_frees_the_lease() {
    let seed = Seed::new().await;
    let fails = CancellationToken::new();
    let failing = fails.clone();
    let one = Replica::start_with(&seed, move |setup| {
        setup.everywhere(async move {
            failing.cancelled().await;
            Err(Fault::user("the webhook's port is taken"))
        });
        Ok(setup.extension())
    });
    one.until("/metrics", "orangery_leading 1").await;
    fails.cancel();
    let fault = one.ended.await.unwrap().unwrap_err();
    assert_eq!(fault.to_string(), "the webhook's port is taken");
    let lease = leases(&seed).get(LEASE).await.unwrap();
    assert_eq!(lease.spec.unwrap().holder_identity, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_only_serves_ends_without_an_error_when_it_is_stopped() {
    let seed = Seed::new().await;
    for _ in 0..50 {
        let stop = CancellationToken::new();
        let flags = Flags {
            health_bind_address: BindAddress::off(),
            metrics_bind_address: BindAddress::off(),
            ..Flags::default()
        };
        let place = Place {
            client: seed.client.clone(),
            connector: Arc::new(Https::new("test")),
            clock: seed.embedded.clock.clone(),
            entropy: seed.embedded.entropy.clone(),
            terms: Terms::default(),
            stop: Box::pin(stop.clone().cancelled_owned()),
        };
        let (begun, begins) = tokio::sync::oneshot::channel();
        let serving = tokio::spawn(async move {
            let serves = async |setup: &mut Setup| {
                let stop = setup.stop.clone();
                setup.everywhere(async move {
                    begun.send(()).unwrap();
                    stop.cancelled().await;
                    Ok(())
                });
                Ok(())
            };
            serve_in(ABOUT, place, &flags, serves).await
        });
        begins.await.unwrap();
        stop.cancel();
        serving.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_setup_that_fails_ends_the_program() {
    let seed = Seed::new().await;
    let one = Replica::start_with(&seed, |_| Err(Fault::user("there is no cloud of this name")));
    let fault = one.ended.await.unwrap().unwrap_err();
    assert_eq!(fault.to_string(), "there is no cloud of this name");
}
