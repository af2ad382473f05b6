//! Pods and the room that nodes have for them.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use tests_kit::{until, until_gone};

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

#[tokio::test(start_paused = true)]
async fn room_is_counted_over_pods_that_come_end_and_go() {
    let cluster = start().await;
    cluster.node("node").await;
    let room = Patch::Merge(json!({"status": {"allocatable": {"pods": "3"}}}));
    let nodes: Api<Node> = cluster.all();
    nodes
        .patch_status("node", &PatchParams::default(), &room)
        .await
        .unwrap();
    let pods = cluster.api::<Pod>();
    let is_bound = |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    for round in 0..3 {
        let name = |number: usize| format!("p{round}-{number}");
        for number in 0..4 {
            make(&cluster, &name(number)).await;
        }
        // Three of the four find room, whichever.
        let mut bound = Vec::new();
        for number in 0..4 {
            let settled = |pod: &Pod| is_bound(pod) || why_unscheduled(pod).is_some();
            let pod = until(&pods, &name(number), "bound or refused", settled).await;
            if is_bound(&pod) {
                bound.push(name(number));
            }
        }
        assert_eq!(bound.len(), 3, "{bound:?}");
        // One ends, two go: the fourth finds room.
        let ended = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
        pods.patch_status(&bound[0], &PatchParams::default(), &ended)
            .await
            .unwrap();
        for name in &bound[1..] {
            pods.delete(name, &DeleteParams::default()).await.unwrap();
            until_gone(&pods, name).await;
        }
        for number in 0..4 {
            let name = name(number);
            if !bound[1..].contains(&name) {
                until(&pods, &name, "bound", is_bound).await;
                pods.delete(&name, &DeleteParams::default()).await.unwrap();
                until_gone(&pods, &name).await;
            }
        }
    }
}
