//! A Shoot's three networks: whose addresses lie where.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tests_scenarios::{NAME, NAMESPACE, SHOOT, SURROUNDINGS, World, wait};

const PODS: &str = "10.11.0.0/16";
const SERVICES: &str = "10.12.0.0/16";
const NODES: &str = "10.13.0.0/16";

/// The example with two pools of two machines, and networks that nothing has by default.
fn two_pools() -> Value {
    let mut shoot = landscape_local::documents(SHOOT).unwrap().remove(0);
    let spec = &mut shoot["spec"];
    spec["networking"]["pods"] = PODS.into();
    spec["networking"]["services"] = SERVICES.into();
    spec["networking"]["nodes"] = NODES.into();
    spec["kubernetes"]["kubeControllerManager"] = json!({"nodeCIDRMaskSize": 25});
    let mut pool = spec["provider"]["workers"][0].clone();
    pool["minimum"] = 2.into();
    pool["maximum"] = 2.into();
    let mut other = pool.clone();
    other["name"] = "pool-b".into();
    spec["provider"]["workers"] = json!([pool, other]);
    shoot
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

/// Pods on every node and more, and two Services.
async fn workload(client: &Client) {
    let labels = json!({"app": "hello"});
    let template = json!({
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "web", "image": "registry.example/hello:1"}]},
    });
    let of = |version: &str, kind: &str, name: &str, spec: Value| {
        json!({
            "apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec,
        })
    };
    let (selector, ports) = (json!({"matchLabels": labels}), json!([{"port": 80}]));
    let everywhere = json!({"selector": selector, "template": template});
    let some = json!({"replicas": 8, "selector": selector, "template": template});
    let objects = vec![
        of("apps/v1", "DaemonSet", "everywhere", everywhere),
        of("apps/v1", "Deployment", "some", some),
        of("v1", "Service", "one", json!({"selector": labels, "ports": ports})),
        of("v1", "Service", "two", json!({"selector": labels, "ports": ports})),
    ];
    landscape_local::apply_all(client, objects).await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "default");
    wait(&deployments, "some", |deployment| {
        (deployment?.status.as_ref()?.ready_replicas == Some(8)).then_some(())
    })
    .await;
    let daemons: Api<DaemonSet> = Api::namespaced(client.clone(), "default");
    wait(&daemons, "everywhere", |daemons| {
        (daemons?.status.as_ref()?.number_ready == 4).then_some(())
    })
    .await;
}

/// Nodes by name: range of pod addresses, own address.
async fn nodes(client: &Client) -> BTreeMap<String, (IpNet, IpAddr)> {
    let nodes = Api::<Node>::all(client.clone())
        .list(&ListParams::default())
        .await
        .unwrap();
    let facts = |node: Node| {
        let spec = node.spec.clone().unwrap();
        let range = spec.pod_cidr.unwrap();
        assert_eq!(spec.pod_cidrs, Some(vec![range.clone()]));
        let addresses = node.status.clone().unwrap().addresses.unwrap();
        let internal = addresses.iter().find(|address| address.type_ == "InternalIP").unwrap();
        (node.name_any(), (net(&range), internal.address.parse().unwrap()))
    };
    nodes.items.into_iter().map(facts).collect()
}

/// Everything is there once and lies in the network.
fn assert_apart(what: &str, addresses: &[IpAddr], network: &str) {
    let distinct: BTreeSet<_> = addresses.iter().collect();
    assert_eq!(distinct.len(), addresses.len(), "{what}: {addresses:?}");
    assert!(
        addresses.iter().all(|address| net(network).contains(address)),
        "{what}: {addresses:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn nodes_pods_and_services_have_distinct_addresses_in_the_shoots_networks() {
    let world = World::start().await;
    world.apply(&SURROUNDINGS).await;
    world.apply(&[&two_pools().to_string()]).await;
    let shoot = world.succeeded(NAMESPACE, NAME).await;
    let networking = shoot.status.unwrap().networking.unwrap();
    let reported = [networking.pods, networking.services, networking.nodes];
    assert_eq!(
        reported,
        [vec![PODS.to_owned()], vec![SERVICES.to_owned()], vec![NODES.to_owned()]]
    );
    let client = world.shoot_client(NAMESPACE, NAME).await;
    workload(&client).await;

    let nodes = nodes(&client).await;
    assert_eq!(nodes.len(), 4);
    let internal: Vec<IpAddr> = nodes.values().map(|(_, address)| *address).collect();
    assert_apart("nodes", &internal, NODES);
    let ranges: Vec<IpNet> = nodes.values().map(|(range, _)| *range).collect();
    assert!(ranges.iter().all(|range| range.prefix_len() == 25), "{ranges:?}");
    let first: Vec<IpAddr> = ranges.iter().map(IpNet::network).collect();
    assert_apart("ranges of pods", &first, PODS);

    let pods = Api::<Pod>::all(client.clone())
        .list(&ListParams::default())
        .await
        .unwrap()
        .items;
    let mut addresses: Vec<IpAddr> = Vec::new();
    for pod in pods {
        let (spec, status) = (pod.spec.unwrap(), pod.status.unwrap());
        let (range, host) = nodes[&spec.node_name.unwrap()];
        assert_eq!(status.host_ip.unwrap().parse::<IpAddr>().unwrap(), host);
        let address: IpAddr = status.pod_ip.unwrap().parse().unwrap();
        if spec.host_network == Some(true) {
            assert_eq!(address, host);
        } else {
            assert!(range.contains(&address), "{address} in {range}");
            addresses.push(address);
        }
    }
    assert!(addresses.len() >= 12, "{addresses:?}");
    assert_apart("pods", &addresses, PODS);

    let services = Api::<Service>::all(client).list(&ListParams::default()).await.unwrap();
    let own = services
        .iter()
        .filter_map(|service| service.spec.as_ref()?.cluster_ip.as_deref());
    let addresses: Vec<IpAddr> = own.filter(|ip| *ip != "None").map(|ip| ip.parse().unwrap()).collect();
    assert!(addresses.len() >= 3, "{addresses:?}");
    assert_apart("services", &addresses, SERVICES);
}
