//! Leadership and heartbeats.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use base_client::{Call, Injected, Verb, inject_faults};
use base_controller::{Lost, Terms, heartbeat, lead, lead_by};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::server::{Server, start};

type Log = Arc<Mutex<Vec<String>>>;

/// Logs when a candidate begins to lead, and when its body is over, be it dropped.
struct Leading(&'static str, Log);

impl Leading {
    fn begin(name: &'static str, log: Log) -> Self {
        log.lock().unwrap().push(format!("{name} leads"));
        Self(name, log)
    }
}

impl Drop for Leading {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(format!("{} ends", self.0));
    }
}

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
            let _leading = Leading::begin(name, log);
            leading.cancelled().await;
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

/// Longer than any deadline.
const HANGS: Duration = Duration::from_secs(600);

/// What happens to a request of the leader, of which so many were writes of the lease.
type Break = fn(&Call, u32) -> Injected;

fn fails(_: &Call, _: u32) -> Injected {
    Injected::DropBefore
}

fn hangs(_: &Call, _: u32) -> Injected {
    Injected::Delay(HANGS)
}

/// The first renewal is answered late, which must not count as the time of the renewal; then nothing goes through.
fn is_slow_then_fails(call: &Call, updates: u32) -> Injected {
    match call.verb {
        Verb::Update if updates == 1 => Injected::DelayAfter(Duration::from_millis(3900)),
        _ => Injected::DropBefore,
    }
}

/// The write finds a label that another client has added; reading the lease then hangs.
fn hangs_after_a_conflict(call: &Call, _: u32) -> Injected {
    match call.verb {
        Verb::Update => Injected::Pass,
        _ => Injected::Delay(HANGS),
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_ends_before_another_begins() {
    let broken: [(Break, bool); 4] = [
        (fails, false),
        (hangs, false),
        (is_slow_then_fails, false),
        (hangs_after_a_conflict, true),
    ];
    for (breaks, is_labelled) in broken {
        let (server, log) = (start().await, Log::default());
        let updates = Arc::new(Mutex::new(None));
        let counted = updates.clone();
        let client = inject_faults(server.client.clone(), move |call| {
            let Some(updates) = &mut *counted.lock().unwrap() else {
                return Injected::Pass;
            };
            *updates += u32::from(call.verb == Verb::Update);
            breaks(call, *updates)
        });
        let stop = CancellationToken::new();
        let one = candidate(&server, client, "one", &stop, &log);
        tokio::time::sleep(Duration::from_secs(1)).await;
        candidate(&server, server.client.clone(), "two", &stop, &log);
        // Between two renewals.
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(*log.lock().unwrap(), ["one leads"]);
        *updates.lock().unwrap() = Some(0);
        if is_labelled {
            label(&server).await;
        }
        assert!(matches!(one.await.unwrap(), Err(Lost::NotRenewed { .. })));
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(*log.lock().unwrap(), ["one leads", "one ends", "two leads"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_renewal_gets_no_answer_tries_again_and_stays() {
    let (server, log) = (start().await, Log::default());
    let (updates, lost) = (Mutex::new(0), [1, 5]);
    let client = inject_faults(server.client.clone(), move |call| {
        let mut updates = updates.lock().unwrap();
        *updates += u32::from(call.verb == Verb::Update);
        match call.verb {
            Verb::Update if *updates == lost[0] => Injected::Delay(HANGS),
            // The write has its effect, and the next one conflicts with it.
            Verb::Update if *updates == lost[1] => Injected::DelayAfter(HANGS),
            // All else is slow.
            _ => Injected::DelayAfter(Duration::from_secs(1)),
        }
    });
    let stop = CancellationToken::new();
    let one = candidate(&server, client, "one", &stop, &log);
    tokio::time::sleep(Duration::from_secs(1)).await;
    candidate(&server, server.client.clone(), "two", &stop, &log);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(*log.lock().unwrap(), ["one leads"]);
    stop.cancel();
    one.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_renewals_are_answered_late_stays() {
    let (server, log) = (start().await, Log::default());
    let client = inject_faults(server.client.clone(), |call| match call.verb {
        Verb::Update => Injected::DelayAfter(Duration::from_millis(3500)),
        _ => Injected::Pass,
    });
    let stop = CancellationToken::new();
    candidate(&server, client, "one", &stop, &log);
    tokio::time::sleep(Duration::from_secs(5)).await;
    candidate(&server, server.client.clone(), "two", &stop, &log);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(*log.lock().unwrap(), ["one leads"]);
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_released_though_the_last_renewal_got_no_answer() {
    let (server, log) = (start().await, Log::default());
    let updates = Arc::new(Mutex::new(0));
    let (counted, last) = (updates.clone(), 5);
    let client = inject_faults(server.client.clone(), move |call| {
        let mut updates = counted.lock().unwrap();
        *updates += u32::from(call.verb == Verb::Update);
        match *updates == last && call.verb == Verb::Update {
            true => Injected::DelayAfter(HANGS),
            false => Injected::Pass,
        }
    });
    let (stop, other) = (CancellationToken::new(), CancellationToken::new());
    let one = candidate(&server, client, "one", &stop, &log);
    tokio::time::sleep(Duration::from_secs(1)).await;
    candidate(&server, server.client.clone(), "two", &other, &log);
    while *updates.lock().unwrap() < last {
        assert!(!one.is_finished());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    stop.cancel();
    one.await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(*log.lock().unwrap(), ["one leads", "one ends", "two leads"]);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_ends_waits_no_longer_than_its_deadline_to_release() {
    let (server, log) = (start().await, Log::default());
    let hangs = Arc::new(Mutex::new(false));
    let decided = hangs.clone();
    let client = inject_faults(server.client.clone(), move |_| match *decided.lock().unwrap() {
        true => Injected::Delay(HANGS),
        false => Injected::Pass,
    });
    let stop = CancellationToken::new();
    let one = candidate(&server, client, "one", &stop, &log);
    tokio::time::sleep(Duration::from_secs(1)).await;
    *hangs.lock().unwrap() = true;
    stop.cancel();
    let ended = tokio::time::timeout(Terms::default().renew_deadline + Duration::from_secs(1), one);
    ended.await.unwrap().unwrap().unwrap();
}

/// Changes the lease as a user would who labels it.
async fn label(server: &Server) {
    let api: Api<Lease> = Api::namespaced(server.client.clone(), "default");
    let label = Patch::Merge(json!({"metadata": {"labels": {"by": "another"}}}));
    api.patch("leader", &PatchParams::default(), &label).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lease_whose_taking_is_answered_too_late_is_taken_again() {
    let (server, log) = (start().await, Log::default());
    let client = inject_faults(server.client.clone(), |call| match call.verb {
        Verb::Create => Injected::DelayAfter(Duration::from_secs(30)),
        _ => Injected::Pass,
    });
    let stop = CancellationToken::new();
    candidate(&server, client, "one", &stop, &log);
    tokio::time::sleep(Duration::from_secs(1)).await;
    candidate(&server, server.client.clone(), "two", &stop, &log);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(*log.lock().unwrap(), ["one leads"]);
}

#[tokio::test(start_paused = true)]
async fn a_candidate_with_shorter_terms_leaves_the_leader_its_own() {
    let (server, log) = (start().await, Log::default());
    let stop = CancellationToken::new();
    candidate(&server, server.client.clone(), "one", &stop, &log);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let terms = Terms {
        lease_duration: Duration::from_secs(3),
        renew_deadline: Duration::from_secs(2),
        retry_pause: Duration::from_secs(1),
    };
    let (api, clock): (Api<Lease>, _) = (Api::namespaced(server.client.clone(), "default"), server.clock.clone());
    let (stopped, begun) = (stop.clone(), log.clone());
    let two = lead_by(terms, api, "leader", "two", clock, stop, |_| async {
        let _leading = Leading::begin("two", begun);
        stopped.cancelled().await;
    });
    assert!(tokio::time::timeout(Duration::from_secs(60), two).await.is_err());
    assert_eq!(*log.lock().unwrap(), ["one leads"]);
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
