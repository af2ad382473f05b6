//! Dialling through Services.

use std::sync::Arc;
use std::time::Duration;

use cluster_node::{ContainerContext, Endpoint, Exit, ImageCatalogue};
use cluster_store::MemoryStore;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;
use tokio::sync::mpsc;

use crate::cluster::{Cluster, is_ready};

async fn listens(context: ContainerContext) -> Exit {
    let store = Endpoint::Store(Arc::new(MemoryStore::new()));
    // Kept by a task that outlives the container: the port must close all the same.
    let binding = context.network.bind(2379, store).unwrap();
    tokio::spawn(async move {
        let _binding = binding;
        std::future::pending::<()>().await;
    });
    context.ready.set(true);
    context.stop.cancelled().await;
    Exit::done()
}

#[tokio::test(start_paused = true)]
async fn a_service_reaches_ready_pods_and_refuses_when_they_are_gone() {
    let cluster = Cluster::new().await;
    let (said, mut heard) = mpsc::unbounded_channel();
    let dials = move |context: ContainerContext| {
        let said = said.clone();
        async move {
            let address = "https://etcd.ns.svc:2379";
            let far = Duration::from_secs(3600);
            let dialled = context.network.dial_when_ready(address, far).await;
            let Ok(Endpoint::Store(store)) = dialled else {
                return Exit::failed("no store");
            };
            said.send(store.revision().await.is_ok()).unwrap();
            while store.revision().await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            said.send(context.network.dial(address).await.is_ok()).unwrap();
            Exit::done()
        }
    };
    let catalogue = ImageCatalogue::new().with("listens", listens).with("dials", dials);
    let _node = cluster.node("node-a", catalogue);
    cluster
        .pod("client", json!({"image": "dials"}), json!({"restartPolicy": "Never"}))
        .await;
    cluster.pod("etcd-0", json!({"image": "listens"}), json!({})).await;
    let pod = cluster.pod_until("etcd-0", is_ready).await;
    let service = json!({"metadata": {"name": "etcd"}, "spec": {
        "ports": [{"name": "client", "port": 2379}], "selector": {"app": "none"},
    }});
    cluster.create(&cluster.api::<Service>(), service).await;
    let slice = json!({
        "metadata": {"name": "etcd-1", "labels": {"kubernetes.io/service-name": "etcd"}},
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": ["203.0.113.9"], "conditions": {"ready": false}},
            {"addresses": [pod.status.unwrap().pod_ip.unwrap()], "conditions": {"ready": true}},
        ],
        "ports": [{"name": "client", "port": 2379, "protocol": "TCP"}],
    });
    cluster.create(&cluster.api::<EndpointSlice>(), slice).await;
    assert_eq!(heard.recv().await, Some(true));
    let pods: Api<Pod> = cluster.api();
    pods.delete("etcd-0", &DeleteParams::default()).await.unwrap();
    assert_eq!(
        heard.recv().await,
        Some(false),
        "the endpoint is listed, but nobody listens"
    );
}

/// An etcd that takes its time before it listens.
async fn listens_late(context: ContainerContext) -> Exit {
    tokio::time::sleep(Duration::from_secs(5)).await;
    listens(context).await
}

#[tokio::test(start_paused = true)]
async fn a_listener_is_noticed_of_which_the_slices_have_no_news() {
    let cluster = Cluster::new().await;
    let (said, mut heard) = mpsc::unbounded_channel();
    let dials = move |context: ContainerContext| {
        let said = said.clone();
        async move {
            let first = context.network.dial("etcd:2379").await;
            let within = Duration::from_secs(20);
            let dialled = context.network.dial_when_ready("etcd:2379", within).await;
            said.send((first.is_ok(), dialled.is_ok())).unwrap();
            Exit::done()
        }
    };
    let catalogue = ImageCatalogue::new().with("listens", listens_late).with("dials", dials);
    let _node = cluster.node("node-a", catalogue);
    cluster.pod("etcd-0", json!({"image": "listens"}), json!({})).await;
    let runs = |pod: &Pod| pod.status.as_ref().is_some_and(|status| status.pod_ip.is_some());
    let pod = cluster.pod_until("etcd-0", runs).await;
    let service = json!({"metadata": {"name": "etcd"}, "spec": {
        "ports": [{"name": "client", "port": 2379}], "selector": {"app": "none"},
    }});
    cluster.create(&cluster.api::<Service>(), service).await;
    // As it was before the pod's container was started again.
    let slice = json!({
        "metadata": {"name": "etcd-1", "labels": {"kubernetes.io/service-name": "etcd"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [pod.status.unwrap().pod_ip.unwrap()], "conditions": {"ready": true}}],
        "ports": [{"name": "client", "port": 2379, "protocol": "TCP"}],
    });
    cluster.create(&cluster.api::<EndpointSlice>(), slice).await;
    cluster
        .pod("client", json!({"image": "dials"}), json!({"restartPolicy": "Never"}))
        .await;
    assert_eq!(heard.recv().await, Some((false, true)));
}
