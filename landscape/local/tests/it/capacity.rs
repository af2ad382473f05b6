//! How much one seed takes.

use std::collections::BTreeSet;
use std::time::Duration;

use base_client::{WaitState, wait_until};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use landscape_local::{Landscape, Settings, State};
use serde_json::json;

/// Virtual time.
const PATIENCE: Duration = Duration::from_secs(3600);
/// More than a kubelet's default, and more than a node's usual range has addresses for.
const PODS: usize = 260;

/// Pods of an unknown image: they are placed and get addresses all the same.
async fn create_pods(seed: &Client) {
    let sets: Api<ReplicaSet> = Api::namespaced(seed.clone(), "default");
    let set = json!({
        "metadata": {"name": "many"},
        "spec": {
            "replicas": PODS,
            "selector": {"matchLabels": {"app": "many"}},
            "template": {
                "metadata": {"labels": {"app": "many"}},
                "spec": {"containers": [{"name": "main", "image": "orangery.dev/unknown:v1"}]},
            },
        },
    });
    let set = serde_json::from_value(set).unwrap();
    sets.create(&PostParams::default(), &set).await.unwrap();
    let made = wait_until(&sets, "many", PATIENCE, |set| {
        let made = set.and_then(|set| set.status.as_ref()).map(|status| status.replicas);
        match made {
            Some(made) if usize::try_from(made) == Ok(PODS) => WaitState::Done(()),
            made => WaitState::NotYet(format!("{made:?} of {PODS} pods")),
        }
    });
    made.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_seeds_node_takes_as_many_pods_as_its_seed_has_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let start = "2026-01-01T00:00:00Z".parse().unwrap();
    let settings = Settings::simulated(folder.path().to_owned(), start, 1);
    let state = State::memory(&settings).unwrap();
    let landscape = Landscape::start(&settings, &state).await.unwrap();
    landscape.ready(PATIENCE).await.unwrap();
    let kubeconfig = landscape.seed_kubeconfig().unwrap();
    let seed = landscape.connector().client(&kubeconfig).unwrap();

    let nodes = Api::<Node>::all(seed.clone())
        .list(&ListParams::default())
        .await
        .unwrap();
    assert_eq!(nodes.items.len(), 1);
    let node = &nodes.items[0];
    let range = node.spec.as_ref().unwrap().pod_cidr.as_deref();
    let room = &node.status.as_ref().unwrap().allocatable.as_ref().unwrap()["pods"];
    assert_eq!((range, room.0.as_str()), (Some("10.1.0.0/16"), "65533"));

    create_pods(&seed).await;
    let pods: Api<Pod> = Api::namespaced(seed.clone(), "default");
    let mut addresses = BTreeSet::new();
    for pod in pods.list(&ListParams::default()).await.unwrap() {
        let name = pod.metadata.name.unwrap();
        let address = wait_until(&pods, &name, PATIENCE, |pod| {
            let status = pod.and_then(|pod| pod.status.as_ref());
            match status.and_then(|status| status.pod_ip.clone()) {
                Some(address) => WaitState::Done(address),
                None => WaitState::NotYet(format!("{status:?}")),
            }
        });
        addresses.insert(address.await.unwrap());
    }
    assert_eq!(addresses.len(), PODS);
}
