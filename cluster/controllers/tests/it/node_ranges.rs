//! Nodes and their parts of the pod network.

use std::collections::BTreeSet;

use cluster_controllers::NodeRanges;
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Event, Node};
use kube::Api;
use kube::api::DeleteParams;
use kube::runtime::watcher;
use serde_json::json;
use tests_kit::until;

use crate::cluster::{Cluster, start_with};

/// A cluster with room for two nodes.
async fn small() -> Cluster {
    let ranges = NodeRanges::new(&[("10.1.0.0/23".parse().unwrap(), Some(24))], vec![]).unwrap();
    start_with(|options| options.node_ranges = Some(ranges)).await
}

fn range(node: &Node) -> Option<String> {
    node.spec.as_ref()?.pod_cidr.clone()
}

async fn given(cluster: &Cluster, name: &str) -> String {
    let node = until(&cluster.all::<Node>(), name, "has a range", |node| {
        range(node).is_some()
    })
    .await;
    let spec = node.spec.unwrap();
    assert_eq!(spec.pod_cidrs, spec.pod_cidr.clone().map(|range| vec![range]));
    spec.pod_cidr.unwrap()
}

async fn make(cluster: &Cluster, name: &str) {
    cluster.create::<Node>(json!({"metadata": {"name": name}})).await;
}

#[tokio::test(start_paused = true)]
async fn simultaneous_nodes_get_distinct_ranges_and_the_last_waits_for_a_free_one() {
    let cluster = small().await;
    tokio::join!(make(&cluster, "a"), make(&cluster, "b"));
    let ranges: BTreeSet<String> = [given(&cluster, "a").await, given(&cluster, "b").await].into();
    assert_eq!(ranges, ["10.1.0.0/24".to_owned(), "10.1.1.0/24".to_owned()].into());

    make(&cluster, "c").await;
    let events: Api<Event> = cluster.all();
    let event = until_event(&events, "CIDRNotAvailable").await;
    assert_eq!(event.involved_object.name.as_deref(), Some("c"));
    let message = event.message.unwrap();
    assert!(message.contains("10.1.0.0/23"), "{message}");
    let nodes: Api<Node> = cluster.all();
    assert_eq!(range(&nodes.get("c").await.unwrap()), None);

    let freed = given(&cluster, "a").await;
    nodes.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(given(&cluster, "c").await, freed);
}

#[tokio::test(start_paused = true)]
async fn range_of_a_registering_node_is_retained_and_given_to_no_other() {
    let cluster = small().await;
    let ranges = json!({"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]});
    cluster
        .create::<Node>(json!({"metadata": {"name": "old"}, "spec": ranges}))
        .await;
    make(&cluster, "new").await;
    assert_eq!(given(&cluster, "new").await, "10.1.1.0/24");
    assert_eq!(given(&cluster, "old").await, "10.1.0.0/24");
}

/// Waits for an event by its reason.
async fn until_event(events: &Api<Event>, reason: &str) -> Event {
    let mut seen = std::pin::pin!(watcher::watcher(events.clone(), watcher::Config::default()));
    loop {
        let event = seen.next().await.unwrap().unwrap();
        if let watcher::Event::Apply(event) | watcher::Event::InitApply(event) = event
            && event.reason.as_deref() == Some(reason)
        {
            return event;
        }
    }
}
