//! `orangery apiserver` on a real etcd: several processes on one, each killed and started again, etcd too, and what is
//! refused. Run by `cargo xtask test stores`, which prepares etcd.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where its set-up fails")]

mod refused;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base_client::{Connector, Https, WaitState, wait_until};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, Error};
use serde_json::{Value, json};
use tests_kit::Etcd;

/// Real time: many times what a slow machine needs.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running `orangery apiserver`; killed when it is dropped.
struct Running {
    process: Child,
    client: Client,
}

impl Running {
    fn start(folder: &Path, arguments: &str) -> Self {
        let words = arguments.split_whitespace();
        let data = words.clone().skip_while(|word| *word != "--data-dir").nth(1).unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_orangery"))
            .arg("apiserver")
            .args(words)
            .current_dir(folder)
            .env_remove("RUST_LOG")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert!(line.contains(", kept in etcd; "), "{line}");
        let path = folder.join(data).join("admin.kubeconfig");
        let kubeconfig = Kubeconfig::from_yaml(&std::fs::read_to_string(path).unwrap()).unwrap();
        let client = Https::new("test").client(&kubeconfig).unwrap();
        Self { process, client }
    }

    fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), "default")
    }

    async fn ready(&self) -> Result<String, Error> {
        let request = http::Request::get("/readyz").body(Vec::new()).unwrap();
        self.client.request_text(request).await
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn etcd() -> Etcd {
    Etcd::start().unwrap_or_else(|why| panic!("{why}"))
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

/// For all nodes, or for those that `selector` takes.
fn deployment(name: &str, replicas: i32, selector: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}},
            "spec": {"nodeSelector": selector, "containers": [{"name": "c", "image": "nginx"}]}},
    }})
}

/// Foreign keys go with the process that shares the etcd, as those of kubeadm's control planes do.
fn copy_keys(folder: &Path, from: &str, to: &str) {
    let own = |data: &str| folder.join(data).join("apiserver-on-etcd/kubernetes");
    std::fs::create_dir_all(own(to)).unwrap();
    for file in ["keys", "../format"] {
        std::fs::copy(own(from).join(file), own(to).join(file)).unwrap();
    }
}

async fn available(running: &Running, name: &str, wanted: i32) {
    let deployments: Api<Deployment> = Api::namespaced(running.client.clone(), "default");
    wait_until(&deployments, name, PATIENCE, |found| {
        match found.and_then(|found| found.status.as_ref()?.available_replicas) {
            Some(available) if available == wanted => WaitState::Done(()),
            other => WaitState::NotYet(format!("available: {other:?}")),
        }
    })
    .await
    .unwrap();
}

async fn node_ready(running: &Running, name: &str) {
    let nodes: Api<Node> = Api::all(running.client.clone());
    wait_until(&nodes, name, PATIENCE, |found| {
        let conditions = found.and_then(|node| node.status.as_ref()?.conditions.as_ref());
        let ready = conditions.and_then(|all| all.iter().find(|condition| condition.type_ == "Ready"));
        match ready {
            Some(ready) if ready.status == "True" => WaitState::Done(()),
            other => WaitState::NotYet(format!("{other:?}")),
        }
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_are_one_kubernetes_which_survives_the_kill_of_one() {
    let (folder, etcd) = (tempfile::tempdir().unwrap(), etcd());
    let flags = format!("--etcd-servers {} --port 0 --node", etcd.url());
    let first = Running::start(folder.path(), &format!("{flags} --data-dir a --node-name node-a"));
    copy_keys(folder.path(), "a", "b");
    let second = Running::start(folder.path(), &format!("{flags} --data-dir b --node-name node-b"));

    first
        .config_maps()
        .create(&PostParams::default(), &config_map("m"))
        .await
        .unwrap();
    second.config_maps().get("m").await.unwrap();
    let gvk = GroupVersionKind::gvk("example.com", "v1", "Widget");
    let kind = ApiResource::from_gvk(&gvk);
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"}, "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    let crds = ApiResource::erase::<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    >(&());
    Api::<DynamicObject>::all_with(first.client.clone(), &crds)
        .create(&PostParams::default(), &serde_json::from_value(definition).unwrap())
        .await
        .unwrap();
    let widgets: Api<DynamicObject> = Api::namespaced_with(second.client.clone(), "default", &kind);
    let widget = DynamicObject::new("w", &kind);
    let served = async {
        while let Err(error) = widgets.create(&PostParams::default(), &widget).await {
            assert!(matches!(&error, Error::Api(status) if status.code == 404), "{error}");
        }
    };
    tokio::time::timeout(PATIENCE, served).await.unwrap();

    // The scheduler spreads pods over the nodes that are there.
    for node in ["node-a", "node-b"] {
        node_ready(&second, node).await;
    }
    let deployments: Api<Deployment> = Api::namespaced(second.client.clone(), "default");
    let apply = PatchParams::apply("test");
    let web = Patch::Apply(deployment("web", 2, json!({})));
    deployments.patch("web", &apply, &web).await.unwrap();
    available(&second, "web", 2).await;
    let pods: Api<Pod> = Api::namespaced(second.client.clone(), "default");
    let pods = pods.list(&ListParams::default()).await.unwrap();
    let mut nodes: Vec<String> = pods.into_iter().filter_map(|pod| pod.spec?.node_name).collect();
    nodes.sort();
    assert_eq!(nodes, ["node-a", "node-b"]);
    let leases: Api<Lease> = Api::namespaced(second.client.clone(), "kube-system");
    let holder = |lease: Lease| lease.spec.unwrap().holder_identity.unwrap();
    let before = holder(leases.get("kube-controller-manager").await.unwrap());

    drop(first);
    // Pods of the other one's node are lost with it.
    let left = Patch::Apply(deployment("left", 1, json!({"kubernetes.io/hostname": "node-b"})));
    deployments.patch("left", &apply, &left).await.unwrap();
    available(&second, "left", 1).await;
    let after = holder(leases.get("kube-controller-manager").await.unwrap());
    assert_ne!(before, after, "the controllers of the other one act");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_in_etcd_survive_the_process_and_requests_resume_with_etcd() {
    let (folder, mut etcd) = (tempfile::tempdir().unwrap(), etcd());
    let flags = format!("--etcd-servers {} --etcd-prefix /k8s --port 0 --data-dir d", etcd.url());
    let first = Running::start(folder.path(), &flags);
    let made = first
        .config_maps()
        .create(&PostParams::default(), &config_map("m"))
        .await
        .unwrap();
    drop(first);
    assert!(!folder.path().join("d/apiserver-on-etcd/kubernetes/store").exists());

    let second = Running::start(folder.path(), &flags);
    assert_eq!(
        second.config_maps().get("m").await.unwrap().metadata.uid,
        made.metadata.uid
    );
    assert_eq!(second.ready().await.unwrap(), "ok");
    etcd.kill();
    let refused = second.config_maps().get("m").await.unwrap_err();
    let Error::Api(refused) = refused else {
        panic!("{refused}")
    };
    assert_eq!((refused.code, refused.reason.as_str()), (504, "Timeout"));
    let begins = "Timeout: request did not complete within requested timeout - ";
    assert!(refused.message.starts_with(begins), "{}", refused.message);
    let unready = second.ready().await.unwrap_err().to_string();
    assert!(unready.contains("[-]etcd failed"), "{unready}");

    etcd.start_again().unwrap();
    let made = second.config_maps();
    let made = made.create(&PostParams::default(), &config_map("n")).await.unwrap();
    assert!(made.metadata.uid.is_some());
    second.config_maps().get("m").await.unwrap();
    let ready = async { while second.ready().await.is_err() {} };
    tokio::time::timeout(PATIENCE, ready).await.unwrap();
}
