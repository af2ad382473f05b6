//! The Node object and the Lease.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base_client::{Injected, Verb, inject_faults};
use cluster_node::{ContainerContext, Exit, ImageCatalogue, PodAddresses};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node, NodeCondition, Pod, Secret};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::cluster::{ByToken, Cluster, OneClient, is_ready, until};
use crate::pods::{reasons, serves};

fn ready(node: &Node) -> Option<NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == "Ready").cloned()
}

async fn node_until(nodes: &Api<Node>, status: &str) -> Node {
    until(nodes, "node-a", |node: Option<&Node>| {
        node.filter(|node| ready(node).is_some_and(|ready| ready.status == status))
            .cloned()
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn node_registers_renews_its_lease_and_reports_its_stop() {
    let cluster = Cluster::new().await;
    let node = cluster.node("node-a", ImageCatalogue::new());
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let registered = node_until(&nodes, "True").await;
    assert_eq!(registered.metadata.labels.unwrap()["kubernetes.io/hostname"], "node-a");
    assert_eq!(registered.spec.unwrap().pod_cidr.as_deref(), Some("100.64.0.0/24"));
    assert_eq!(registered.status.unwrap().node_info.unwrap().kubelet_version, "v1.35.0");

    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), "kube-node-lease");
    let renewed = |lease: Lease| lease.spec.unwrap().renew_time.unwrap().0;
    let first = renewed(until(&leases, "node-a", |lease: Option<&Lease>| lease.cloned()).await);
    tokio::time::sleep(Duration::from_secs(25)).await;
    let later = renewed(leases.get("node-a").await.unwrap());
    assert_eq!(later.duration_since(first).as_secs(), 20);

    node.stop.cancel();
    node.task.await.unwrap().unwrap();
    let stopped = ready(&nodes.get("node-a").await.unwrap()).unwrap();
    assert_eq!(
        (stopped.status.as_str(), stopped.reason.as_deref()),
        ("False", Some("NodeShutdown"))
    );
}

#[tokio::test(start_paused = true)]
async fn deletion_of_a_pod_is_confirmed_by_a_node_that_stops() {
    let cluster = Cluster::new().await;
    let (sender, mut stopping) = tokio::sync::mpsc::unbounded_channel();
    let deaf = move |context: ContainerContext| {
        let sender = sender.clone();
        async move {
            context.ready.set(true);
            context.stop.cancelled().await;
            sender.send(()).unwrap();
            std::future::pending::<Exit>().await
        }
    };
    let node = cluster.node("node-a", ImageCatalogue::new().with("app", deaf));
    for name in ["deleted", "stays"] {
        cluster.pod(name, json!({}), json!({})).await;
        cluster.pod_until(name, is_ready).await;
    }
    node.stop.cancel();
    stopping.recv().await.unwrap();
    let pods = cluster.api::<Pod>();
    pods.delete("deleted", &DeleteParams::default()).await.unwrap();
    cluster.pod("late", json!({}), json!({})).await;
    node.task.await.unwrap().unwrap();
    assert_eq!(pods.get_opt("deleted").await.unwrap(), None);
    let left = pods.get("stays").await.unwrap();
    assert_eq!(left.metadata.deletion_timestamp, None);
    let late = pods.get("late").await.unwrap();
    assert_eq!(
        late.status.and_then(|status| status.pod_ip),
        None,
        "nothing starts on it"
    );
}

#[tokio::test(start_paused = true)]
async fn node_that_stops_confirms_deletion_of_pods_that_have_stopped() {
    let cluster = Cluster::new().await;
    let slow = |context: ContainerContext| async move {
        context.ready.set(true);
        std::future::pending::<Exit>().await
    };
    let over = |_: ContainerContext| async { Exit::done() };
    let catalogue = ImageCatalogue::new().with("slow", slow).with("app", serves);
    let node = cluster.node("node-a", catalogue.with("over", over));
    let image = |name: &str| json!({"image": format!("example.org/{name}:v1")});
    cluster.pod("slow", image("slow"), json!({})).await;
    cluster.pod("stopped", image("app"), json!({})).await;
    for name in ["slow", "stopped"] {
        cluster.pod_until(name, is_ready).await;
    }
    let once = json!({"restartPolicy": "Never"});
    cluster.pod("succeeded", image("over"), once).await;
    let has_succeeded = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Succeeded");
    cluster.pod_until("succeeded", has_succeeded).await;
    node.stop.cancel();
    // Virtual time: all but the slow pod have come to rest before it goes on.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let pods = cluster.api::<Pod>();
    for name in ["stopped", "succeeded"] {
        pods.delete(name, &DeleteParams::default()).await.unwrap();
        cluster.pod_gone(name).await;
    }
    assert!(!node.task.is_finished(), "the slow pod still stops");
    node.task.await.unwrap().unwrap();
    assert_eq!(pods.get("slow").await.unwrap().metadata.deletion_timestamp, None);
}

#[tokio::test(start_paused = true)]
async fn node_that_was_given_up_reports_that_it_is_ready_again() {
    let cluster = Cluster::new().await;
    let _node = cluster.node("node-a", ImageCatalogue::new());
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    node_until(&nodes, "True").await;
    let unknown =
        json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}});
    nodes
        .patch_status("node-a", &PatchParams::default(), &Patch::Strategic(unknown))
        .await
        .unwrap();
    node_until(&nodes, "True").await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_back_keeps_its_pod_addresses() {
    let cluster = Cluster::new().await;
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let old =
        json!({"metadata": {"name": "node-a"}, "spec": {"podCIDR": "100.64.9.0/24", "podCIDRs": ["100.64.9.0/24"]}});
    cluster.create(&nodes, old).await;
    let _node = cluster.node("node-a", ImageCatalogue::new().with("app", serves));
    cluster.pod("p", json!({}), json!({})).await;
    let pod = cluster.pod_until("p", is_ready).await;
    assert!(pod.status.unwrap().pod_ip.unwrap().starts_with("100.64.9."));
}

#[tokio::test(start_paused = true)]
async fn a_node_waits_for_its_assigned_range_and_gives_pods_addresses_from_it() {
    let cluster = Cluster::new().await;
    let connector = Arc::new(OneClient(cluster.client.clone()));
    let catalogue = ImageCatalogue::new().with("app", serves);
    let _node = cluster.node_of("node-a", catalogue, connector, |options| {
        options.pod_addresses = PodAddresses::OfNode;
    });
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let waiting = node_until(&nodes, "False").await;
    let condition = ready(&waiting).unwrap();
    assert_eq!(condition.reason.as_deref(), Some("KubeletNotReady"));
    assert!(condition.message.unwrap().contains("spec.podCIDR"));
    cluster.pod("p", json!({}), json!({})).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let pod = cluster.api::<Pod>().get("p").await.unwrap();
    assert_eq!(
        pod.status.and_then(|status| status.pod_ip),
        None,
        "there is no address to give"
    );
    assert_eq!(ready(&nodes.get("node-a").await.unwrap()).unwrap().status, "False");

    let given = json!({"spec": {"podCIDR": "10.9.8.0/24", "podCIDRs": ["10.9.8.0/24"]}});
    nodes
        .patch("node-a", &PatchParams::default(), &Patch::Merge(given))
        .await
        .unwrap();
    node_until(&nodes, "True").await;
    let pod = cluster.pod_until("p", is_ready).await;
    assert_eq!(pod.status.unwrap().pod_ip.as_deref(), Some("10.9.8.2"));
}

async fn room(nodes: &Api<Node>, range: &str) -> (String, String) {
    until(nodes, "node-a", |node: Option<&Node>| {
        let node = node.filter(|node| ready(node).is_some_and(|ready| ready.status == "True"))?;
        assert_eq!(node.spec.as_ref()?.pod_cidr.as_deref(), Some(range));
        let status = node.status.as_ref()?;
        let pods = |resources: &Option<BTreeMap<String, Quantity>>| resources.as_ref().map(|all| all["pods"].0.clone());
        Some((pods(&status.capacity)?, pods(&status.allocatable)?))
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_node_takes_pods_up_to_its_limit_and_its_addresses() {
    for (pods, length, takes) in [
        (None, 16, 110),
        (Some(5), 16, 5),
        (Some(u32::MAX), 16, 65_533),
        (None, 29, 5),
    ] {
        let cluster = Cluster::new().await;
        let connector = Arc::new(OneClient(cluster.client.clone()));
        let _node = cluster.node_of("node-a", ImageCatalogue::new(), connector, |options| {
            options.pods = pods.unwrap_or(options.pods);
            options.pod_addresses = PodAddresses::PartOf {
                all: "10.1.0.0/16".parse().unwrap(),
                length,
            };
        });
        let nodes: Api<Node> = Api::all(cluster.client.clone());
        let stated = room(&nodes, &format!("10.1.0.0/{length}")).await;
        assert_eq!(
            stated,
            (takes.to_string(), takes.to_string()),
            "{pods:?} in a /{length}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn node_with_few_addresses_reports_room_for_few_pods() {
    let cluster = Cluster::new().await;
    let connector = Arc::new(OneClient(cluster.client.clone()));
    let _node = cluster.node_of("node-a", ImageCatalogue::new(), connector, |options| {
        options.pod_addresses = PodAddresses::OfNode;
    });
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    node_until(&nodes, "False").await;
    let given = json!({"spec": {"podCIDR": "10.9.8.0/28", "podCIDRs": ["10.9.8.0/28"]}});
    nodes
        .patch("node-a", &PatchParams::default(), &Patch::Merge(given))
        .await
        .unwrap();
    node_until(&nodes, "True").await;
    assert_eq!(room(&nodes, "10.9.8.0/28").await, ("13".to_owned(), "13".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn hundreds_of_pods_are_ready_on_a_node_that_takes_them() {
    let cluster = Cluster::new().await;
    let connector = Arc::new(OneClient(cluster.client.clone()));
    let catalogue = ImageCatalogue::new().with("app", serves);
    let _node = cluster.node_of("node-a", catalogue, connector, |options| {
        options.pods = u32::MAX;
        options.pod_addresses = PodAddresses::whole("10.1.0.0/16".parse().unwrap());
    });
    let names: Vec<String> = (0..300).map(|number| format!("p{number}")).collect();
    for name in &names {
        cluster.pod(name, json!({}), json!({})).await;
    }
    let mut addresses = BTreeSet::new();
    for name in &names {
        let pod = cluster.pod_until(name, is_ready).await;
        addresses.insert(pod.status.unwrap().pod_ip.unwrap());
    }
    assert_eq!(addresses.len(), names.len());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_finds_hundreds_of_pods_with_thousands_of_sources_runs_them() {
    let (cluster, server) = Cluster::with_tokens().await;
    let maps: Vec<String> = (0..8).map(|number| format!("m{number}")).collect();
    for name in &maps {
        cluster
            .create::<ConfigMap>(&cluster.api(), json!({"metadata": {"name": name}, "data": {"a": "b"}}))
            .await;
    }
    let volumes: Vec<_> = maps
        .iter()
        .map(|name| json!({"name": name, "configMap": {"name": name}}))
        .collect();
    let names: Vec<String> = (0..300).map(|number| format!("p{number}")).collect();
    for name in &names {
        cluster.pod(name, json!({}), json!({"volumes": volumes})).await;
    }
    let catalogue = ImageCatalogue::new().with("app", serves);
    let _node = cluster.node_of("node-a", catalogue, Arc::new(ByToken(server)), |options| {
        options.pods = u32::MAX;
        options.pod_addresses = PodAddresses::whole("10.1.0.0/16".parse().unwrap());
    });
    for name in &names {
        cluster.pod_until(name, is_ready).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_an_address_gets_that_of_a_finished_or_deleted_one() {
    let cluster = Cluster::new().await;
    let connector = Arc::new(OneClient(cluster.client.clone()));
    let ends = |context: ContainerContext| async move {
        context.ready.set(true);
        tokio::time::sleep(Duration::from_secs(20)).await;
        Exit::done()
    };
    let catalogue = ImageCatalogue::new().with("app", serves).with("ends", ends);
    let _node = cluster.node_of("node-a", catalogue, connector, |options| {
        options.pod_addresses = PodAddresses::whole("10.1.0.0/30".parse().unwrap());
    });
    let address = |pod: &Pod| pod.status.as_ref().and_then(|status| status.pod_ip.clone());
    let image = json!({"image": "example.org/ends:v1"});
    cluster.pod("first", image, json!({"restartPolicy": "Never"})).await;
    let first = cluster.pod_until("first", is_ready).await;
    assert_eq!(address(&first).as_deref(), Some("10.1.0.2"), "the only one");
    cluster.pod("second", json!({}), json!({})).await;
    cluster.pod("third", json!({}), json!({})).await;
    let second = cluster.pod_until("second", is_ready).await;
    assert_eq!(address(&second), address(&first));
    let finished = cluster.api::<Pod>().get("first").await.unwrap();
    let phase = finished.status.as_ref().and_then(|status| status.phase.as_deref());
    assert_eq!((phase, address(&finished)), (Some("Succeeded"), address(&first)));
    let third = cluster.api::<Pod>().get("third").await.unwrap();
    assert_eq!(address(&third), None);
    cluster
        .api::<Pod>()
        .delete("second", &DeleteParams::default())
        .await
        .unwrap();
    let third = cluster.pod_until("third", is_ready).await;
    assert_eq!(address(&third), address(&first));
}

/// Runs a test in virtual time and ends it in real time: where something never rests, virtual time stands still.
fn in_virtual_time(test: impl Future<Output = ()> + Send + 'static) {
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build();
        runtime.unwrap().block_on(test);
        done.send(()).unwrap();
    });
    ended
        .recv_timeout(Duration::from_secs(60))
        .expect("the node rests and the test holds");
}

#[test]
fn a_finished_pod_at_start_takes_no_address_and_lets_the_node_rest() {
    in_virtual_time(async {
        let cluster = Cluster::new().await;
        let node = cluster.node("node-a", ImageCatalogue::new().with("app", serves));
        let secrets: Api<Secret> = cluster.api();
        cluster
            .create(&secrets, json!({"metadata": {"name": "s"}, "data": {"k": "b25l"}}))
            .await;
        let mount = json!({"volumeMounts": [{"name": "s", "mountPath": "/etc/s"}]});
        let once = json!({"restartPolicy": "Never", "volumes": [{"name": "s", "secret": {"secretName": "s"}}]});
        cluster.pod("p", mount, once).await;
        let address = |pod: &Pod| pod.status.as_ref().and_then(|status| status.pod_ip.clone());
        let before = address(&cluster.pod_until("p", is_ready).await);
        node.task.abort();
        assert!(node.task.await.unwrap_err().is_cancelled());
        secrets.delete("s", &DeleteParams::default()).await.unwrap();

        let connector = Arc::new(OneClient(cluster.client.clone()));
        let _node = cluster.node_of("node-a", ImageCatalogue::new(), connector, |_| {});
        let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
        cluster
            .pod_until("p", |pod| phase(pod).as_deref() == Some("Failed"))
            .await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let pod = cluster.api::<Pod>().get("p").await.unwrap();
        assert_eq!((phase(&pod).as_deref(), address(&pod)), (Some("Failed"), before));
        assert!(!reasons(&cluster).await.contains(&"FailedMount".to_owned()));
        cluster
            .api::<Pod>()
            .delete("p", &DeleteParams::default())
            .await
            .unwrap();
        cluster.pod_gone("p").await;
    });
}

#[tokio::test(start_paused = true)]
async fn returned_address_is_not_reserved_for_a_pod_with_unread_sources() {
    let cluster = Cluster::new().await;
    let refusing = inject_faults(cluster.client.clone(), |call| match call.resource.as_str() {
        "secrets" => Injected::Answer(403),
        _ => Injected::Pass,
    });
    let connector = Arc::new(OneClient(refusing));
    let catalogue = ImageCatalogue::new().with("app", serves);
    let _node = cluster.node_of("node-a", catalogue, connector, |options| {
        options.pod_addresses = PodAddresses::whole("10.1.0.0/30".parse().unwrap());
    });
    cluster.pod("first", json!({}), json!({})).await;
    cluster.pod_until("first", is_ready).await;
    let secret = json!({"volumes": [{"name": "s", "secret": {"secretName": "s"}}]});
    let is_seen = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Pending");
    cluster.pod("unread", json!({}), secret).await;
    cluster.pod_until("unread", is_seen).await;
    cluster.pod("second", json!({}), json!({})).await;
    cluster.pod_until("second", is_seen).await;
    let pods = cluster.api::<Pod>();
    pods.delete("first", &DeleteParams::default()).await.unwrap();
    let second = cluster.pod_until("second", is_ready).await;
    assert_eq!(second.status.unwrap().pod_ip.as_deref(), Some("10.1.0.2"));
}

#[tokio::test(start_paused = true)]
async fn an_idle_node_reads_nothing() {
    let cluster = Cluster::new().await;
    let calls = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&calls);
    let recorded = base_client::record(cluster.client.clone(), "node", cluster.clock.clone(), move |seen| {
        record.lock().unwrap().push(seen.call);
    });
    let _node = cluster.node_with("node-a", ImageCatalogue::new().with("app", serves), recorded);
    cluster.pod("p", json!({}), json!({})).await;
    cluster.pod_until("p", is_ready).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    calls.lock().unwrap().clear();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let calls = calls.lock().unwrap();
    assert!(!calls.is_empty(), "the lease is renewed");
    let reads: Vec<_> = calls
        .iter()
        .filter(|call| matches!(call.verb, Verb::Get | Verb::List))
        .collect();
    assert!(reads.is_empty(), "{reads:?}");
}
