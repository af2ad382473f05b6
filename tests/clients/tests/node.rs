//! Our node as a Node of real Kubernetes: real kube-scheduler and kube-controller-manager place pods on two of them, real
//! kube-apiserver asks them for logs. Run by `cargo xtask test node`, which prepares the real parts.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test ends where its set-up fails, and says why"
)]

#[path = "../src/node.rs"]
mod node;

use std::collections::BTreeSet;
use std::time::Duration;

use base_client::{WaitState, wait_until};
use cluster_node::{ContainerContext, Exit, ImageCatalogue, Network};
use futures::{AsyncBufReadExt, TryStreamExt};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod, Secret, ServiceAccount};
use kube::api::{DeleteParams, EvictParams, ListParams, LogParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Error};
use serde_json::{Value, json};
use tests_conformance::real::{Options, Real};

/// Real time: many times what a slow machine needs.
const PATIENCE: Duration = Duration::from_secs(120);

/// Says what it was given, and runs on.
async fn talks(context: ContainerContext) -> Exit {
    let secret = context.files.read_text("/secret/word").unwrap_or_default();
    context
        .log
        .line(format!("hello from {}: {secret}", context.env["NODE"]));
    context.ready.set(true);
    context.stop.cancelled().await;
    context.log.line("goodbye");
    Exit::done()
}

async fn works(context: ContainerContext) -> Exit {
    context.log.line("done");
    Exit::done()
}

fn catalogue() -> ImageCatalogue {
    ImageCatalogue::new().with("talker", talks).with("worker", works)
}

fn template(app: &str, policy: &str, image: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {
        "restartPolicy": policy, "terminationGracePeriodSeconds": 2,
        "containers": [{"name": "c", "image": image,
            "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
            "volumeMounts": [{"name": "secret", "mountPath": "/secret"}]}],
        "volumes": [{"name": "secret", "secret": {"secretName": "word", "optional": true}}],
    }})
}

async fn create<K>(client: &Client, object: Value) -> K
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::Serialize
        + serde::de::DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), "default");
    let object = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap()
}

async fn until<K>(client: &Client, name: &str, what: &str, done: impl Fn(&K) -> bool) -> K
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + Send
        + serde::de::DeserializeOwned
        + 'static,
{
    let api: Api<K> = Api::namespaced(client.clone(), "default");
    let waited = wait_until(&api, name, PATIENCE, |found: Option<&K>| match found {
        Some(found) if done(found) => WaitState::Done(found.clone()),
        other => WaitState::NotYet(format!("{what} is not yet true of {other:?}")),
    });
    waited.await.unwrap()
}

async fn pods(client: &Client, app: &str) -> Vec<Pod> {
    let api: Api<Pod> = Api::namespaced(client.clone(), "default");
    let list = api.list(&ListParams::default().labels(&format!("app={app}"))).await;
    let living = |pod: &Pod| pod.metadata.deletion_timestamp.is_none();
    list.unwrap().into_iter().filter(living).collect()
}

fn nodes_of(pods: &[Pod]) -> BTreeSet<&str> {
    pods.iter()
        .filter_map(|pod| pod.spec.as_ref()?.node_name.as_deref())
        .collect()
}

fn available(wanted: i32) -> impl Fn(&Deployment) -> bool {
    move |deployment| {
        let status = deployment.status.clone().unwrap_or_default();
        status.available_replicas == Some(wanted) && status.observed_generation == deployment.metadata.generation
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_kubernetes_runs_pods_on_two_nodes_of_ours() {
    let all = Options {
        controllers: true,
        scheduler: true,
        ..Options::default()
    };
    let real = Real::start(all).await.unwrap();
    let client = node::client(real.endpoint.kubeconfig.expose()).unwrap();
    let network = Network::new();
    let first = node::join(&real, "node-a", catalogue(), network.clone()).await.unwrap();
    let _second = node::join(&real, "node-b", catalogue(), network).await.unwrap();
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    for name in ["node-a", "node-b"] {
        // The namespace of Leases is made while the first node registers.
        let held = wait_until(&leases, name, PATIENCE, |lease| {
            match lease.and_then(|lease| lease.spec.as_ref()?.holder_identity.clone()) {
                Some(holder) => WaitState::Done(holder),
                None => WaitState::NotYet("it is not made".to_owned()),
            }
        });
        assert_eq!(held.await.unwrap(), name);
    }
    until::<ServiceAccount>(&client, "default", "it is made", |_| true).await;
    create::<Secret>(
        &client,
        json!({"metadata": {"name": "word"}, "stringData": {"word": "please"}}),
    )
    .await;

    let web = json!({"metadata": {"name": "web"}, "spec": {"replicas": 3,
        "selector": {"matchLabels": {"app": "web"}}, "template": template("web", "Always", "talker")}});
    create::<Deployment>(&client, web).await;
    until(&client, "web", "three are available", available(3)).await;
    let running = pods(&client, "web").await;
    assert_eq!(nodes_of(&running), BTreeSet::from(["node-a", "node-b"]));
    let everywhere = json!({"metadata": {"name": "all"}, "spec": {
        "selector": {"matchLabels": {"app": "all"}}, "template": template("all", "Always", "talker")}});
    create::<DaemonSet>(&client, everywhere).await;
    let both = |set: &DaemonSet| set.status.as_ref().is_some_and(|status| status.number_ready == 2);
    until(&client, "all", "two are ready", both).await;

    logs_come_through_the_real_api_server(&client, &running[0]).await;
    a_job_is_done(&client).await;
    drain(&client, "node-a").await;
    until(&client, "web", "three are available again", available(3)).await;
    let left = pods(&client, "web").await;
    assert_eq!(nodes_of(&left), BTreeSet::from(["node-b"]));

    drop(first);
    let nodes: Api<Node> = Api::all(client.clone());
    let stopped = wait_until(&nodes, "node-a", PATIENCE, |node| {
        let status = node.and_then(|node| node.status.as_ref());
        let conditions = status.and_then(|status| status.conditions.as_ref());
        match conditions
            .into_iter()
            .flatten()
            .any(|one| one.type_ == "Ready" && one.status != "True")
        {
            true => WaitState::Done(()),
            false => WaitState::NotYet("it is ready".to_owned()),
        }
    });
    stopped.await.unwrap();
}

async fn logs_come_through_the_real_api_server(client: &Client, pod: &Pod) {
    let api: Api<Pod> = Api::namespaced(client.clone(), "default");
    let name = pod.metadata.name.as_deref().unwrap();
    let node = pod.spec.as_ref().unwrap().node_name.as_deref().unwrap();
    let logs = api.logs(name, &LogParams::default()).await.unwrap();
    assert_eq!(logs, format!("hello from {node}: please\n"));
    let follow = LogParams {
        follow: true,
        tail_lines: Some(1),
        ..LogParams::default()
    };
    let mut lines = api.log_stream(name, &follow).await.unwrap().lines();
    assert!(lines.try_next().await.unwrap().unwrap().starts_with("hello"));
    let before = LogParams {
        previous: true,
        ..LogParams::default()
    };
    let Err(Error::Api(refused)) = api.logs(name, &before).await else {
        panic!("there is no run before")
    };
    let words = format!("previous terminated container \"c\" in pod \"{name}\" not found");
    assert_eq!((refused.code, refused.message), (400, words));
    let exec = format!("/api/v1/namespaces/default/pods/{name}/exec?command=true&stdout=true");
    let refused = client
        .request_text(http::Request::post(exec).body(Vec::new()).unwrap())
        .await;
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("no program to run") || refused.contains("Upgrade"),
        "{refused}"
    );
    api.delete(name, &DeleteParams::default()).await.unwrap();
    assert_eq!(lines.try_next().await.unwrap().as_deref(), Some("goodbye"));
    assert_eq!(lines.try_next().await.unwrap(), None);
    until(client, "web", "another one runs in its place", available(3)).await;
}

async fn a_job_is_done(client: &Client) {
    let job = json!({"metadata": {"name": "once"}, "spec": {"template": template("once", "Never", "worker")}});
    create::<Job>(client, job).await;
    until::<Job>(client, "once", "it is done", |job| {
        job.status.as_ref().is_some_and(|status| status.succeeded == Some(1))
    })
    .await;
}

/// As `kubectl drain --ignore-daemonsets` does it.
async fn drain(client: &Client, name: &str) {
    let nodes: Api<Node> = Api::all(client.clone());
    let cordon = json!({"spec": {"unschedulable": true}});
    nodes
        .patch(name, &PatchParams::default(), &Patch::Merge(cordon))
        .await
        .unwrap();
    let api: Api<Pod> = Api::namespaced(client.clone(), "default");
    for pod in pods(client, "web").await {
        if pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(name) {
            let pod = pod.metadata.name.unwrap();
            api.evict(&pod, &EvictParams::default()).await.unwrap();
            wait_until(&api, &pod, PATIENCE, |pod| match pod {
                None => WaitState::Done(()),
                Some(_) => WaitState::NotYet("it is there".to_owned()),
            })
            .await
            .unwrap();
        }
    }
}
