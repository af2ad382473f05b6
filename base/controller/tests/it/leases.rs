//! Leadership and heartbeats.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use base_client::{Injected, inject_faults};
use base_controller::{Lost, heartbeat, lead};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;

use crate::server::{Server, start};

type Log = Arc<Mutex<Vec<String>>>;

fn candidate(
    server: &Server,
    client: Client,
    name: &'static str,
    stop: &CancellationToken,
    log: &Log,
) -> tokio::task::JoinHandle<Result<(), Lost>> {
    let api: Api<Lease> = Api::namespaced(client, "default");
    let (clock, stop, log) = (server.clock.clone(), stop.clone(), log.clone());
    tokio::spawn(async move {
        lead(api, "leader", name, clock, stop, |leading| async move {
            log.lock().unwrap().push(format!("{name} leads"));
            leading.cancelled().await;
            log.lock().unwrap().push(format!("{name} ends"));
        })
        .await
    })
}

#[tokio::test(start_paused = true)]
async fn one_leads_at_a_time_and_hands_over_when_stopped() {
    let (server, log) = (start().await, Log::default());
    let (first, second) = (CancellationToken::new(), CancellationToken::new());
    let one = candidate(&server, server.client.clone(), "one", &first, &log);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let two = candidate(&server, server.client.clone(), "two", &second, &log);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(*log.lock().unwrap(), ["one leads"]);
    first.cancel();
    one.await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(*log.lock().unwrap(), ["one leads", "one ends", "two leads"]);
    second.cancel();
    two.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_ends_before_another_begins() {
    let (server, log) = (start().await, Log::default());
    let cut = Arc::new(Mutex::new(false));
    let is_cut = cut.clone();
    let cuttable = inject_faults(server.client.clone(), move |_| {
        if *is_cut.lock().unwrap() {
            Injected::DropBefore
        } else {
            Injected::Pass
        }
    });
    let stop = CancellationToken::new();
    let one = candidate(&server, cuttable, "one", &stop, &log);
    tokio::time::sleep(Duration::from_secs(1)).await;
    candidate(&server, server.client.clone(), "two", &stop, &log);
    tokio::time::sleep(Duration::from_secs(60)).await;
    *cut.lock().unwrap() = true;
    assert!(matches!(one.await.unwrap(), Err(Lost::NotRenewed { .. })));
    assert_eq!(
        *log.lock().unwrap(),
        ["one leads"],
        "two has not begun when one has ended"
    );
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(*log.lock().unwrap(), ["one leads", "two leads"]);
}

#[tokio::test(start_paused = true)]
async fn refused_lease_is_requested_until_it_is_allowed() {
    let (server, log) = (start().await, Log::default());
    let refused = Arc::new(Mutex::new(true));
    let is_refused = refused.clone();
    let client = inject_faults(server.client.clone(), move |_| {
        if *is_refused.lock().unwrap() {
            Injected::Answer(403)
        } else {
            Injected::Pass
        }
    });
    let stop = CancellationToken::new();
    let one = candidate(&server, client, "one", &stop, &log);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(!one.is_finished() && log.lock().unwrap().is_empty());
    *refused.lock().unwrap() = false;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(*log.lock().unwrap(), ["one leads"]);
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_moves_its_lease_and_nothing_else() {
    let server = start().await;
    let api: Api<Lease> = Api::namespaced(server.client.clone(), "default");
    let (clock, stop) = (server.clock.clone(), server.stop.clone());
    let beating = heartbeat(api.clone(), "beat", "me", Duration::from_secs(30), clock, stop);
    tokio::spawn(beating);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let renewed = |lease: Lease| lease.spec.unwrap().renew_time.unwrap().0;
    let first = renewed(api.get("beat").await.unwrap());
    tokio::time::sleep(Duration::from_secs(60)).await;
    let second = renewed(api.get("beat").await.unwrap());
    assert_eq!(second.duration_since(first).as_secs(), 60);
}
