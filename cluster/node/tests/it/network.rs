//! Dialling through Services.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cluster_node::{ContainerContext, Endpoint, Exit, ImageCatalogue};
use cluster_store::MemoryStore;
use k8s_openapi::api::core::v1::{Event, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;
use tokio::sync::mpsc;

use crate::cluster::{Cluster, is_ready};

async fn listens(context: ContainerContext) -> Exit {
    let store = Endpoint::Store(Arc::new(MemoryStore::new()));
    // Held by a task that outlives the container: the port must close all the same.
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
    let (sender, mut received) = mpsc::unbounded_channel();
    let dials = move |context: ContainerContext| {
        let sender = sender.clone();
        async move {
            let address = "https://etcd.ns.svc:2379";
            let far = Duration::from_secs(3600);
            let dialled = context.network.dial_when_ready(address, far).await;
            let Ok(Endpoint::Store(store)) = dialled else {
                return Exit::failed("no store");
            };
            sender.send(store.revision().await.is_ok()).unwrap();
            while store.revision().await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            sender.send(context.network.dial(address).await.is_ok()).unwrap();
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
    assert_eq!(received.recv().await, Some(true));
    let pods: Api<Pod> = cluster.api();
    pods.delete("etcd-0", &DeleteParams::default()).await.unwrap();
    assert_eq!(
        received.recv().await,
        Some(false),
        "the endpoint is listed, but has no listener"
    );
}

/// An etcd that takes its time before it listens.
async fn listens_late(context: ContainerContext) -> Exit {
    tokio::time::sleep(Duration::from_secs(5)).await;
    listens(context).await
}

#[tokio::test(start_paused = true)]
async fn a_listener_is_noticed_although_the_slices_do_not_change() {
    let cluster = Cluster::new().await;
    let (sender, mut received) = mpsc::unbounded_channel();
    let dials = move |context: ContainerContext| {
        let sender = sender.clone();
        async move {
            let first = context.network.dial("etcd:2379").await;
            let within = Duration::from_secs(20);
            let dialled = context.network.dial_when_ready("etcd:2379", within).await;
            sender.send((first.is_ok(), dialled.is_ok())).unwrap();
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
    assert_eq!(received.recv().await, Some((false, true)));
}

/// A client that dials whenever a test requests it, and the outcome of each dial.
struct Dialling {
    requests: mpsc::UnboundedSender<()>,
    received: mpsc::UnboundedReceiver<Result<(), String>>,
}

impl Dialling {
    /// Images `dials` and `listens` for a test, and the client's other end.
    fn images() -> (Self, ImageCatalogue) {
        let (requests, requested) = mpsc::unbounded_channel();
        let (sender, received) = mpsc::unbounded_channel();
        let requested = Arc::new(tokio::sync::Mutex::new(requested));
        let dials = move |context: ContainerContext| {
            let (requested, sender) = (requested.clone(), sender.clone());
            async move {
                context.ready.set(true);
                while requested.lock().await.recv().await.is_some() {
                    let dialled = context.network.dial("etcd:2379").await;
                    sender
                        .send(dialled.map(drop).map_err(|error| error.to_string()))
                        .unwrap();
                }
                Exit::done()
            }
        };
        let catalogue = ImageCatalogue::new().with("listens", listens).with("dials", dials);
        (Dialling { requests, received }, catalogue)
    }

    async fn dial(&mut self) -> Result<(), String> {
        self.requests.send(()).unwrap();
        self.received.recv().await.unwrap()
    }

    /// Dials until the outcome is as wanted: changes of policies and pods arrive by watches.
    async fn dial_until(&mut self, wanted: impl Fn(&Result<(), String>) -> bool) -> Result<(), String> {
        loop {
            let dialled = self.dial().await;
            if wanted(&dialled) {
                return dialled;
            }
            tokio::task::yield_now().await;
        }
    }
}

/// A client, and an etcd behind a Service.
async fn with_client_and_etcd(cluster: &Cluster, catalogue: ImageCatalogue) {
    client_and_etcd_by(cluster, catalogue, cluster.client.clone()).await;
}

/// The same on a node with a client of its own.
async fn client_and_etcd_by(cluster: &Cluster, catalogue: ImageCatalogue, client: kube::Client) {
    let _node = cluster.node_with("node-a", catalogue, client);
    cluster.pod("client", json!({"image": "dials"}), json!({})).await;
    let ports = json!([{"name": "client", "containerPort": 2379}]);
    cluster
        .pod("etcd", json!({"image": "listens", "ports": ports}), json!({}))
        .await;
    cluster.pod_until("client", is_ready).await;
    let pod = cluster.pod_until("etcd", is_ready).await;
    let service =
        json!({"metadata": {"name": "etcd"}, "spec": {"ports": [{"port": 2379}], "selector": {"app": "etcd"}}});
    cluster.create(&cluster.api::<Service>(), service).await;
    let slice = json!({
        "metadata": {"name": "etcd-1", "labels": {"kubernetes.io/service-name": "etcd"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [pod.status.unwrap().pod_ip.unwrap()]}],
        "ports": [{"port": 2379, "protocol": "TCP"}],
    });
    cluster.create(&cluster.api::<EndpointSlice>(), slice).await;
}

async fn policy(cluster: &Cluster, name: &str, spec: serde_json::Value) {
    let policy = json!({"metadata": {"name": name}, "spec": spec});
    cluster.create(&cluster.api::<NetworkPolicy>(), policy).await;
}

async fn label(cluster: &Cluster, pod: &str, value: serde_json::Value) {
    let labels = json!({"metadata": {"labels": {"to-etcd": value}}});
    let pods: Api<Pod> = cluster.api();
    pods.patch(pod, &PatchParams::default(), &Patch::Merge(labels))
        .await
        .unwrap();
}

/// Denies everything, and opens etcd to pods with a label.
async fn close(cluster: &Cluster) {
    let client = json!({"matchLabels": {"to-etcd": "allowed"}});
    let etcd = json!({"matchLabels": {"app": "etcd"}});
    policy(
        cluster,
        "egress-to-etcd",
        json!({"podSelector": client, "policyTypes": ["Egress"],
            "egress": [{"to": [{"podSelector": etcd}], "ports": [{"port": "client"}]}]}),
    )
    .await;
    policy(
        cluster,
        "ingress-to-etcd",
        json!({"podSelector": etcd, "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": client}], "ports": [{"port": 2379}]}]}),
    )
    .await;
    policy(
        cluster,
        "deny-all",
        json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn pods_reach_what_policies_allow_and_a_refusal_names_the_missing_label() {
    let cluster = Cluster::new().await;
    let (mut client, catalogue) = Dialling::images();
    with_client_and_etcd(&cluster, catalogue).await;
    assert_eq!(client.dial().await, Ok(()), "no policy, no refusal");
    close(&cluster).await;
    let refused = client.dial_until(Result::is_err).await.unwrap_err();
    assert_eq!(
        refused,
        "connect to etcd:2379: refused by network policies: egress of pod ns/client is not allowed by deny-all; the label \
         to-etcd: allowed on pod ns/client would allow it (policy ns/egress-to-etcd)"
    );
    label(&cluster, "client", json!("allowed")).await;
    client.dial_until(Result::is_ok).await.unwrap();
    label(&cluster, "client", json!(null)).await;
    client.dial_until(Result::is_err).await.unwrap_err();
    let policies: Api<NetworkPolicy> = cluster.api();
    policies.delete("deny-all", &DeleteParams::default()).await.unwrap();
    let refused = client
        .dial_until(|dialled| {
            dialled.as_ref().is_ok_and(|()| true) || dialled.as_ref().is_err_and(|error| error.contains("ingress to"))
        })
        .await;
    assert_eq!(
        refused.unwrap_err(),
        "connect to etcd:2379: refused by network policies: ingress to pod ns/etcd is not allowed by ingress-to-etcd; the \
         label to-etcd: allowed on pod ns/client would allow it (policy ns/ingress-to-etcd)"
    );
    policies
        .delete("ingress-to-etcd", &DeleteParams::default())
        .await
        .unwrap();
    client.dial_until(Result::is_ok).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn refused_connection_is_an_event_of_the_pod_once() {
    let cluster = Cluster::new().await;
    let (mut client, catalogue) = Dialling::images();
    with_client_and_etcd(&cluster, catalogue).await;
    close(&cluster).await;
    client.dial_until(Result::is_err).await.unwrap_err();
    for _ in 0..5 {
        client.dial().await.unwrap_err();
    }
    // The node writes events beside its other work.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let events: Api<Event> = cluster.api();
    let events = events.list(&ListParams::default()).await.unwrap().items;
    let refusals: Vec<&Event> = events
        .iter()
        .filter(|event| event.reason.as_deref() == Some("RefusedByNetworkPolicy"))
        .collect();
    assert_eq!(refusals.len(), 1, "{events:?}");
    let refusal = refusals[0];
    assert_eq!(refusal.involved_object.name.as_deref(), Some("client"));
    assert_eq!(refusal.count, Some(1));
    let message = refusal.message.as_deref().unwrap_or_default();
    assert!(
        message.contains("the label to-etcd: allowed on pod ns/client would allow it"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn dialling_when_ready_waits_until_policies_allow_it() {
    let cluster = Cluster::new().await;
    let (sender, mut received) = mpsc::unbounded_channel();
    let patient = move |context: ContainerContext| {
        let sender = sender.clone();
        async move {
            context.ready.set(true);
            let far = Duration::from_secs(3600);
            let dialled = context.network.dial_when_ready("etcd:2379", far).await;
            sender.send(dialled.is_ok()).unwrap();
            Exit::done()
        }
    };
    let catalogue = ImageCatalogue::new().with("listens", listens).with("dials", patient);
    close(&cluster).await;
    with_client_and_etcd(&cluster, catalogue).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(received.try_recv().is_err(), "nothing is allowed yet");
    label(&cluster, "client", json!("allowed")).await;
    assert_eq!(received.recv().await, Some(true));
}

#[tokio::test(start_paused = true)]
async fn refusal_that_no_label_of_a_policy_ends_carries_a_suggestion() {
    let cluster = Cluster::new().await;
    let (mut client, catalogue) = Dialling::images();
    with_client_and_etcd(&cluster, catalogue).await;
    cluster.network.suggest(Arc::new(|service, port, namespace| {
        let name = service.metadata.name.as_deref().unwrap_or_default();
        Some(format!("pods of {namespace} ask for port {port} of {name}"))
    }));
    policy(
        &cluster,
        "deny-all",
        json!({"podSelector": {}, "policyTypes": ["Egress"]}),
    )
    .await;
    let refused = client.dial_until(Result::is_err).await.unwrap_err();
    assert_eq!(
        refused,
        "connect to etcd:2379: refused by network policies: egress of pod ns/client is not allowed by deny-all; pods of ns \
         ask for port 2379 of etcd"
    );
}

#[tokio::test(start_paused = true)]
async fn policies_are_read_once_for_many_connections() {
    let cluster = Cluster::new().await;
    let calls = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&calls);
    let recorded = base_client::record(cluster.client.clone(), "node", cluster.clock.clone(), move |seen| {
        record.lock().unwrap().push(seen.call);
    });
    let (mut client, catalogue) = Dialling::images();
    client_and_etcd_by(&cluster, catalogue, recorded).await;
    let reads = || {
        let of_policies =
            |call: &&base_client::Call| ["networkpolicies", "namespaces"].contains(&call.resource.as_str());
        calls.lock().unwrap().iter().filter(of_policies).count()
    };
    assert_eq!(reads(), 0, "no connection, no policy");
    for _ in 0..100 {
        client.dial().await.unwrap();
    }
    assert_eq!(reads(), 4, "a list and a watch of each: {:?}", calls.lock().unwrap());
}
