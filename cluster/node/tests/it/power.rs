//! Power cuts: the node's future is dropped, and a node of the same name begins on what was stored.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use cluster_node::{ContainerContext, Exit, ImageCatalogue, Volumes};
use k8s_openapi::api::core::v1::{PersistentVolume, Pod, Secret};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use crate::cluster::{Cluster, OneClient, RunningNode, condition, container, is_ready};
use crate::pods::serves;
use crate::volumes::bind;

impl Cluster {
    /// A node that stores its volumes in a folder.
    fn node_in(&self, folder: &std::path::Path, catalogue: ImageCatalogue) -> RunningNode {
        let volumes = Volumes::in_folder(folder).unwrap();
        let connector = std::sync::Arc::new(OneClient(self.client.clone()));
        self.node_of("node-a", catalogue, connector, |options| options.volumes = volumes)
    }
}

async fn cut(node: RunningNode) {
    node.task.abort();
    assert!(node.task.await.unwrap_err().is_cancelled());
}

async fn done(context: ContainerContext) -> Exit {
    context.ready.set(true);
    Exit::done()
}

fn is_over(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Succeeded")
}

#[tokio::test(start_paused = true)]
async fn restarted_nodes_run_their_pods_again_and_finished_ones_stay_finished() {
    let cluster = Cluster::new().await;
    let images = || ImageCatalogue::new().with("app", serves).with("once", done);
    let node = cluster.node("node-a", images());
    for name in ["b", "c", "going"] {
        cluster.pod(name, json!({}), json!({})).await;
        cluster.pod_until(name, is_ready).await;
    }
    let over = json!({"restartPolicy": "Never"});
    cluster.pod("over", json!({"image": "once"}), over).await;
    cluster.pod_until("over", is_over).await;
    let address = |pod: Pod| pod.status.unwrap().pod_ip.unwrap();
    let pods: Api<Pod> = cluster.api();
    let mut before = BTreeMap::new();
    for name in ["b", "c"] {
        before.insert(name, address(pods.get(name).await.unwrap()));
    }
    cut(node).await;
    pods.delete("going", &DeleteParams::default()).await.unwrap();
    // Earlier in order than what ran, and without an address.
    cluster.pod("a", json!({}), json!({})).await;

    let _node = cluster.node("node-a", images());
    let fresh = cluster.pod_until("a", is_ready).await;
    assert_eq!(container(&fresh)["restartCount"], 0);
    for (name, ip) in &before {
        let again = |pod: &Pod| container(pod)["restartCount"] == 1 && is_ready(pod);
        let pod = cluster.pod_until(name, again).await;
        assert_eq!(container(&pod)["lastState"]["terminated"]["exitCode"], 137);
        assert_eq!(&address(pod), ip, "{name}");
    }
    cluster.pod_gone("going").await;
    let over = pods.get("over").await.unwrap();
    assert!(is_over(&over) && container(&over)["restartCount"] == 0, "{over:?}");
    pods.delete("over", &DeleteParams::default()).await.unwrap();
    cluster.pod_gone("over").await;
}

#[tokio::test(start_paused = true)]
async fn finished_pod_sends_no_requests_when_its_node_starts_again() {
    let cluster = Cluster::new().await;
    let images = || ImageCatalogue::new().with("app", serves).with("once", done);
    let node = cluster.node("node-a", images());
    for name in ["of-one-that-is-over", "of-one-that-runs"] {
        let secret = json!({"metadata": {"name": name}, "data": {}});
        cluster.create(&cluster.api::<Secret>(), secret).await;
    }
    let mounts = |secret: &str| json!([{"name": "s", "secret": {"secretName": secret}}]);
    let over = json!({"restartPolicy": "Never", "volumes": mounts("of-one-that-is-over")});
    cluster.pod("over", json!({"image": "once"}), over).await;
    cluster.pod_until("over", is_over).await;
    let runs = json!({"volumes": mounts("of-one-that-runs")});
    cluster.pod("runs", json!({}), runs).await;
    cluster.pod_until("runs", is_ready).await;
    cut(node).await;

    let requests = Arc::new(Mutex::new(Vec::new()));
    let (recorded, client) = (Arc::clone(&requests), cluster.client.clone());
    let listening = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        recorded.lock().unwrap().push(request.uri().to_string());
        let client = client.clone();
        async move { client.send(request).await }
    });
    let _node = cluster.node_with("node-a", images(), Client::new(listening, "ns"));
    let again = |pod: &Pod| container(pod)["restartCount"] == 1 && is_ready(pod);
    cluster.pod_until("runs", again).await;
    let about = |name: &str| {
        let requests = requests.lock().unwrap();
        requests.iter().filter(|uri| uri.contains(name)).count()
    };
    assert_eq!(about("of-one-that-is-over"), 0);
    assert!(about("of-one-that-runs") > 0);
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_not_ready_between_the_cut_and_its_new_start() {
    let cluster = Cluster::new().await;
    let node = cluster.node("node-a", ImageCatalogue::new().with("app", serves));
    cluster.pod("p", json!({}), json!({})).await;
    cluster.pod_until("p", is_ready).await;
    cut(node).await;
    let starts = |context: ContainerContext| async move {
        context.stop.cancelled().await;
        Exit::done()
    };
    let _node = cluster.node("node-a", ImageCatalogue::new().with("app", starts));
    let pod = cluster.pod_until("p", |pod| !is_ready(pod)).await;
    assert_eq!(condition(&pod, "ContainersReady"), "False");
    assert_eq!(container(&pod)["restartCount"], 1);
}

/// Adds a letter to its file at every start and ends the first time.
async fn writes(context: ContainerContext) -> Exit {
    let path = "/scratch/a/letters";
    let before = context.files.read_text(path).unwrap_or_default();
    context.files.write(path, format!("{before}x")).unwrap();
    if before.is_empty() {
        return Exit::failed("as it should");
    }
    context.ready.set(true);
    context.stop.cancelled().await;
    Exit::failed(before)
}

#[tokio::test(start_paused = true)]
async fn an_empty_dir_outlives_containers_and_power_and_ends_with_its_pod() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::new().await;
    let images = || ImageCatalogue::new().with("app", writes);
    let mount = || json!({"volumeMounts": [{"name": "s", "mountPath": "/scratch"}]});
    let volumes = json!({"volumes": [{"name": "s", "emptyDir": {}}]});
    let node = cluster.node_in(folder.path(), images());
    for name in ["stays", "goes"] {
        cluster.pod(name, mount(), volumes.clone()).await;
        cluster.pod_until(name, is_ready).await;
    }
    cut(node).await;
    let pods: Api<Pod> = cluster.api();
    pods.delete("goes", &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    let of = |uid: &str| folder.path().join("pods/node-a").join(uid);
    let uid = pods.get("stays").await.unwrap().metadata.uid.unwrap();
    assert_eq!(std::fs::read_dir(of("")).unwrap().count(), 2);

    let _node = cluster.node_in(folder.path(), images());
    cluster
        .pod_until("stays", |pod| container(pod)["restartCount"] == 2 && is_ready(pod))
        .await;
    assert_eq!(std::fs::read_to_string(of(&uid).join("s/a/letters")).unwrap(), "xxx");
    assert_eq!(std::fs::read_dir(of("")).unwrap().count(), 1, "what is gone is removed");
    pods.delete("stays", &DeleteParams::default()).await.unwrap();
    cluster.pod_gone("stays").await;
    // The node is notified of it after the test.
    while of(&uid).exists() {
        tokio::task::yield_now().await;
    }
}

/// Begins its file, which must not be there when it starts for the first time.
async fn keeps(context: ContainerContext) -> Exit {
    let volume = context.files.volume("/data").unwrap();
    std::fs::create_dir_all(volume.path().unwrap()).unwrap();
    serves(context).await
}

#[tokio::test(start_paused = true)]
async fn a_persistent_volume_deleted_without_a_node_is_removed_and_others_stay() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::new().await;
    let images = || ImageCatalogue::new().with("app", keeps);
    let node = cluster.node_in(folder.path(), images());
    let volumes: Api<PersistentVolume> = Api::all(cluster.client.clone());
    let mut folders = Vec::new();
    for name in ["stays", "goes", "later"] {
        bind(&cluster, name).await;
        let mount = json!({"volumeMounts": [{"name": "d", "mountPath": "/data"}]});
        let spec = json!({"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": name}}]});
        cluster.pod(name, mount, spec).await;
        cluster.pod_until(name, is_ready).await;
        let uid = volumes.get(name).await.unwrap().metadata.uid.unwrap();
        folders.push(folder.path().join("persistent").join(uid));
    }
    cut(node).await;
    let pods: Api<Pod> = cluster.api();
    for name in ["goes", "later"] {
        pods.delete(name, &DeleteParams::default().grace_period(0))
            .await
            .unwrap();
    }
    volumes.delete("goes", &DeleteParams::default()).await.unwrap();
    let unprotected = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let _ = volumes.patch("goes", &PatchParams::default(), &unprotected).await;
    assert!(folders.iter().all(|folder| folder.exists()));

    let _node = cluster.node_in(folder.path(), images());
    cluster
        .pod_until("stays", |pod| container(pod)["restartCount"] == 1 && is_ready(pod))
        .await;
    while folders[1].exists() {
        tokio::task::yield_now().await;
    }
    assert!(folders[0].exists() && folders[2].exists());
    // The end of a volume that no pod mounts any more is noticed too.
    volumes.delete("later", &DeleteParams::default()).await.unwrap();
    while folders[2].exists() {
        tokio::task::yield_now().await;
    }
    assert!(folders[0].exists());
}
