//! Several replicas on one prefix, and one that takes over from `orangery garden`.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use base_client::watch_dynamic;
use futures::StreamExt;
use http::Method;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::watcher::{Config, Event};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tests_conformance::real::Options;
use tests_production::PATIENCE;
use tests_production::balancer::Balancer;
use tests_production::garden::{Garden, call, create};
use tests_production::objects::{CORE, NAMESPACE, internal_secret};
use tests_production::process::Running;

use crate::garden::{landscape, operator};

/// Writers at once.
const WRITERS: usize = 4;
/// Objects that are acknowledged before a replica is killed, and after.
const PART: usize = 100;

/// Creates objects one after the other, each until it is taken, and notes the acknowledged ones.
async fn write(client: kube::Client, writer: usize, acknowledged: Arc<Mutex<BTreeSet<String>>>, stop: Arc<AtomicBool>) {
    for number in 0.. {
        let name = format!("w{writer}-{number}");
        loop {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let (code, _) = create(&client, &internal_secret(&name)).await;
            match code {
                201 => {
                    acknowledged.lock().unwrap().insert(name.clone());
                    break;
                }
                // It was written by a request whose answer was lost.
                409 => break,
                _ => tokio::time::sleep(tests_production::LOOK_PAUSE).await,
            }
        }
    }
}

async fn until_acknowledged(acknowledged: &Mutex<BTreeSet<String>>, count: usize) {
    let begun = Instant::now();
    while acknowledged.lock().unwrap().len() < count {
        assert!(begun.elapsed() < PATIENCE, "{:?}", acknowledged.lock().unwrap().len());
        tokio::time::sleep(tests_production::LOOK_PAUSE).await;
    }
}

/// Follows what is there by a watch, as clients do, into a set.
fn follow(client: kube::Client, seen: Arc<Mutex<BTreeSet<String>>>) -> tokio::task::JoinHandle<()> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "core.gardener.cloud",
        "v1beta1",
        "InternalSecret",
    ));
    let api: Api<DynamicObject> = Api::namespaced_with(client, NAMESPACE, &kind);
    tokio::spawn(async move {
        let mut events = std::pin::pin!(watch_dynamic(api, Config::default()));
        while let Some(event) = events.next().await {
            if let Ok(Event::InitApply(object) | Event::Apply(object)) = event {
                seen.lock().unwrap().insert(object.name_any());
            }
        }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_replica_loses_no_acknowledged_write_and_watches_resume() {
    let garden = Garden::start(Options::default()).await;
    let first = garden.replica("first", &[]).await;
    let second = garden.replica("second", &[]).await;
    let balancer = Balancer::start(vec![first.port, second.port]).await;
    garden.publish(balancer.port()).await;
    let operator = operator(&garden).await;
    landscape(&operator).await;
    // One who watches straight at the other replica sees what is written through either.
    let direct = second.client(&crate::garden::credentials(&garden, "olga"));
    let (seen, seen_directly) = (Arc::default(), Arc::default());
    let watches = [
        follow(operator.clone(), Arc::clone(&seen)),
        follow(direct, Arc::clone(&seen_directly)),
    ];

    let (acknowledged, stop) = (Arc::<Mutex<BTreeSet<String>>>::default(), Arc::<AtomicBool>::default());
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let client = garden.user("olga", &[]);
            tokio::spawn(write(client, writer, acknowledged.clone(), stop.clone()))
        })
        .collect();
    until_acknowledged(&acknowledged, PART).await;
    drop(first);
    let before = acknowledged.lock().unwrap().len();
    until_acknowledged(&acknowledged, before + PART).await;
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    let path = format!("{CORE}/namespaces/{NAMESPACE}/internalsecrets");
    let (_, list) = call(&operator, Method::GET, &path, &Value::Null).await;
    let items = list["items"].as_array().unwrap().iter();
    let there: BTreeSet<String> = items
        .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    let acknowledged = acknowledged.lock().unwrap().clone();
    let lost: Vec<_> = acknowledged.difference(&there).collect();
    assert!(lost.is_empty(), "{lost:?}");
    for seen in [seen, seen_directly] {
        let begun = Instant::now();
        while !acknowledged.is_subset(&seen.lock().unwrap()) {
            let missing = acknowledged.difference(&seen.lock().unwrap()).count();
            assert!(begun.elapsed() < PATIENCE, "a watch has not delivered {missing}");
            tokio::time::sleep(tests_production::LOOK_PAUSE).await;
        }
    }
    for watch in watches {
        watch.abort();
    }
}

/// Rounds in which two replicas are asked for what only one may grant.
const ROUNDS: usize = 25;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_replicas_never_grant_what_only_one_may_have() {
    let garden = Garden::start(Options::default()).await;
    let replicas = [garden.replica("first", &[]).await, garden.replica("second", &[]).await];
    operator(&garden).await;
    let clients = replicas
        .each_ref()
        .map(|replica| replica.client(&crate::garden::credentials(&garden, "olga")));
    let primary = |round: usize, name: &str| {
        json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "ControllerRegistration",
            "metadata": {"name": format!("{name}-{round}")},
            "spec": {"resources": [{"kind": "Infrastructure", "type": format!("t{round}")}]}})
    };
    for round in 0..ROUNDS {
        let [one, other] = [primary(round, "one"), primary(round, "other")];
        let ((one, first), (other, second)) = tokio::join!(create(&clients[0], &one), create(&clients[1], &other));
        let mut codes = [one, other];
        codes.sort_unstable();
        assert_eq!(codes, [201, 403], "{first} {second}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garden_that_was_written_by_orangery_garden_is_taken_over() {
    let garden = Garden::start(Options::default()).await;
    let prefix = "--etcd-prefix=/older";
    let words = ["garden", "--port=0", "--data-dir=older", "--controllers=", prefix].map(str::to_owned);
    let words: Vec<String> = words
        .into_iter()
        .chain([format!("--etcd-servers={}", garden.etcd.url())])
        .collect();
    let mut older = Running::start(garden.folder.path(), "older", &words);
    assert!(older.line().starts_with("ready: "));
    std::fs::copy(garden.path("older/garden.kubeconfig"), garden.path("older.kubeconfig")).unwrap();
    let profile = tests_production::objects::profile().to_string();
    garden.kubectl("older", &["create", "-f", "-"], &profile);
    assert!(older.stop().success());

    let replica = garden.replica("newer", &[prefix]).await;
    garden.publish(replica.port).await;
    let operator = operator(&garden).await;
    let (code, found) = call(
        &operator,
        Method::GET,
        &format!("{CORE}/cloudprofiles/cloud"),
        &Value::Null,
    )
    .await;
    assert_eq!((code, &found["spec"]["type"]), (200, &Value::from("prov")), "{found}");
}
