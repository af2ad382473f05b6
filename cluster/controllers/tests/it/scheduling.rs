//! Pods and the room that nodes have for them.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use tests_kit::until;

use crate::cluster::{Cluster, start};

async fn make(cluster: &Cluster, name: &str) {
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    cluster
        .create::<Pod>(json!({"metadata": {"name": name}, "spec": spec}))
        .await;
}

fn why_unscheduled(pod: &Pod) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let scheduled = conditions.iter().find(|condition| condition.type_ == "PodScheduled")?;
    scheduled.message.clone()
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_room_waits_until_another_goes() {
    let cluster = start().await;
    cluster.node("node").await;
    let room = Patch::Merge(json!({"status": {"allocatable": {"pods": "1"}}}));
    let nodes: Api<Node> = cluster.all();
    nodes
        .patch_status("node", &PatchParams::default(), &room)
        .await
        .unwrap();

    let pods = cluster.api::<Pod>();
    let is_bound = |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    make(&cluster, "first").await;
    until(&pods, "first", "bound", is_bound).await;
    make(&cluster, "second").await;
    let waiting = until(&pods, "second", "refused", |pod| why_unscheduled(pod).is_some()).await;
    assert_eq!(
        why_unscheduled(&waiting).unwrap(),
        "0/1 nodes are available: 1 Too many pods."
    );
    pods.delete("first", &DeleteParams::default()).await.unwrap();
    until(&pods, "second", "bound", is_bound).await;
}
