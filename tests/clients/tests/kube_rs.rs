//! A program on kube-rs' runtime, as its users write one, on real Kubernetes and on a bare cluster: a watcher, a reflector,
//! a controller with owned objects and a finalizer. Run by `cargo xtask test node`, which prepares the real parts.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where its set-up fails")]

use std::sync::Arc;
use std::time::Duration;

use base_client::{Connector, Https, WaitState, wait_until};
use cluster_bare::Cluster;
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{self, Event, finalizer};
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use serde_json::json;
use tests_conformance::real::{Options, Real};

/// Real time: many times what a slow machine needs.
const PATIENCE: Duration = Duration::from_secs(120);
const FINALIZER: &str = "tests.orangery.dev/farewell";
const PROGRAM: &str = "program";

fn maps(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "default")
}

async fn reconcile(owner: Arc<ConfigMap>, client: Arc<Client>) -> Result<Action, finalizer::Error<kube::Error>> {
    let own = maps(&client);
    finalizer(&maps(&client), FINALIZER, owner, |event| async move {
        let params = PatchParams::apply(PROGRAM).force();
        let (name, object) = match event {
            Event::Apply(owner) => {
                let metadata = json!({"name": "child", "labels": {"role": "child"},
                    "ownerReferences": [owner.controller_owner_ref(&()).unwrap()]});
                ("child", json!({"metadata": metadata, "data": owner.data}))
            }
            Event::Cleanup(_) => ("farewell", json!({"metadata": {"name": "farewell"}})),
        };
        let mut object = object;
        object["apiVersion"] = json!("v1");
        object["kind"] = json!("ConfigMap");
        own.patch(name, &params, &Patch::Apply(object)).await?;
        Ok(Action::await_change())
    })
    .await
}

fn again(_: Arc<ConfigMap>, _: &finalizer::Error<kube::Error>, _: Arc<Client>) -> Action {
    Action::requeue(Duration::from_secs(1))
}

/// Waits until a ConfigMap is as it should be; `None`: gone.
async fn until(client: &Client, name: &str, value: Option<&str>) -> Option<ConfigMap> {
    let api = maps(client);
    let waited = wait_until(&api, name, PATIENCE, |found| {
        let now = found.and_then(|map| map.data.as_ref()?.get("k").map(String::as_str));
        match (found, value) {
            (None, None) => WaitState::Done(None),
            (Some(map), Some(_)) if now == value => WaitState::Done(Some(map.clone())),
            _ => WaitState::NotYet(format!("{name} is {found:?}, not {value:?}")),
        }
    });
    waited.await.unwrap()
}

async fn run(client: Client) {
    let (store, writer) = reflector::store::<ConfigMap>();
    let owners = watcher::Config::default().labels("role=owner");
    let reflected = watcher(maps(&client), owners.clone()).default_backoff();
    let reflected = reflected.reflect(writer).applied_objects().for_each(|_| async {});
    let reflecting = tokio::spawn(reflected);
    let children = watcher::Config::default().labels("role=child");
    let controller = Controller::new(maps(&client), owners)
        .owns(maps(&client), children)
        .run(reconcile, again, Arc::new(client.clone()))
        .for_each(|_| async {});
    let controlling = tokio::spawn(controller);

    let api = maps(&client);
    let owner = json!({"metadata": {"name": "owner", "labels": {"role": "owner"}}, "data": {"k": "1"}});
    let owner = serde_json::from_value(owner).unwrap();
    api.create(&PostParams::default(), &owner).await.unwrap();
    let first = until(&client, "child", Some("1")).await.unwrap();
    let change = Patch::Merge(json!({"data": {"k": "2"}}));
    api.patch("owner", &PatchParams::default(), &change).await.unwrap();
    until(&client, "child", Some("2")).await;
    api.delete("child", &DeleteParams::default()).await.unwrap();
    let renewed = wait_until(&api, "child", PATIENCE, |found| {
        match found.filter(|map| map.metadata.uid != first.metadata.uid) {
            Some(map) => WaitState::Done(map.data.clone()),
            None => WaitState::NotYet("it is not recreated".to_owned()),
        }
    });
    assert_eq!(renewed.await.unwrap().unwrap()["k"], "2");
    store.wait_until_ready().await.unwrap();
    let seen = async {
        let key = ObjectRef::new("owner").within("default");
        while store.get(&key).and_then(|map| map.data.clone()?.remove("k")).as_deref() != Some("2") {
            tokio::task::yield_now().await;
        }
        store.get(&key).unwrap()
    };
    let seen = tokio::time::timeout(PATIENCE, seen).await.unwrap();
    assert_eq!(seen.metadata.finalizers.as_deref(), Some(&[FINALIZER.to_owned()][..]));

    api.delete("owner", &DeleteParams::default()).await.unwrap();
    until(&client, "owner", None).await;
    // It goes with its owner.
    until(&client, "child", None).await;
    assert!(api.get_opt("farewell").await.unwrap().is_some());
    controlling.abort();
    reflecting.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_on_kube_rs_works_on_real_kubernetes() {
    let controllers = Options {
        controllers: true,
        ..Options::default()
    };
    let real = Real::start(controllers).await.unwrap();
    let kubeconfig = Kubeconfig::from_yaml(real.endpoint.kubeconfig.expose()).unwrap();
    run(Https::new(PROGRAM).client(&kubeconfig).unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn and_on_a_bare_cluster() {
    let cluster = Cluster::start().await.unwrap();
    run(Https::new(PROGRAM).client(cluster.kubeconfig()).unwrap()).await;
}
