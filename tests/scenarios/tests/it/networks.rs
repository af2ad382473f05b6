//! The network of a Shoot's nodes, as its infrastructure reports it: where it ends up, beside what the Shoot asked for.

use api_core::v1beta1::Shoot;
use api_extensions::{Cluster, Infrastructure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tests_scenarios::hold::Hold;
use tests_scenarios::{NAME, NAMESPACE, TECHNICAL_ID, merge, wait};

use crate::scene::Scene;

const REQUESTED: &str = "10.44.0.0/16";
const REPORTED: &str = "10.68.0.0/16";
const PODS: &str = "10.3.0.0/16";
const SERVICES: &str = "10.4.0.0/16";

/// A Shoot with these networks whose infrastructure reports [`REPORTED`]: the scenario answers in its extension's stead.
async fn created(nodes: Option<&str>) -> (Scene, Shoot, Hold) {
    let scene = Scene::start().await;
    let hold = scene.world.hold("infrastructures").await;
    scene
        .create(|shoot| {
            let networking = &mut shoot["spec"]["networking"];
            (networking["pods"], networking["services"]) = (json!(PODS), json!(SERVICES));
            match nodes {
                Some(nodes) => networking["nodes"] = json!(nodes),
                None => drop(networking.as_object_mut().unwrap().remove("nodes")),
            }
        })
        .await;
    let infrastructures: Api<Infrastructure> = Api::namespaced(scene.world.seed.clone(), TECHNICAL_ID);
    let generation = wait(&infrastructures, NAME, |object| object?.metadata.generation).await;
    let picked_up = json!({"metadata": {"annotations": {"gardener.cloud/operation": null}}});
    merge(&infrastructures, NAME, &picked_up).await;
    let reported = json!({"status": {
        "observedGeneration": generation,
        "lastOperation": {"type": "Create", "state": "Succeeded", "progress": 100, "description": "done",
            "lastUpdateTime": "2027-01-01T00:00:00Z"},
        "nodesCIDR": REPORTED,
        "providerStatus": {
            "apiVersion": "local.provider.extensions.gardener.cloud/v1alpha1", "kind": "InfrastructureStatus", "description": "",
            "network": {"id": 7, "cidr": REPORTED, "egressCidrs": ["203.0.113.7/32"],
                "subnets": [{"zone": "", "cidr": "10.68.0.0/20"}]},
        },
    }});
    infrastructures
        .patch_status(NAME, &PatchParams::default(), &Patch::Merge(&reported))
        .await
        .unwrap();
    let shoot = scene.succeeded().await;
    (scene, shoot, hold)
}

/// Requests a reconciliation; the Shoot after it, and as it was requested.
async fn reconciled(scene: &Scene) -> (Shoot, Shoot) {
    let request = json!({"metadata": {"annotations": {"gardener.cloud/operation": "reconcile"}}});
    let requested = scene.change(request).await;
    (scene.succeeded().await, requested)
}

/// The network holds everywhere but in the Shoot's spec, which has `in_spec`.
async fn assert_networks(scene: &Scene, shoot: &Shoot, in_spec: &str) {
    let holds = |shoot: &Value, whose: &str| {
        assert_eq!(shoot["spec"]["networking"]["nodes"], in_spec, "{whose}");
        let status = json!({"nodes": [REPORTED], "pods": [PODS], "services": [SERVICES]});
        assert_eq!(shoot["status"]["networking"], status, "{whose}");
    };
    holds(&serde_json::to_value(shoot).unwrap(), "the Shoot");
    let clusters: Api<Cluster> = Api::all(scene.world.seed.clone());
    let cluster = clusters.get(TECHNICAL_ID).await.unwrap();
    holds(&cluster.spec.shoot.value(), "the Cluster");

    // kube-controller-manager gives nodes parts of the pod network, and knows no network of nodes.
    let deployments: Api<Deployment> = Api::namespaced(scene.world.seed.clone(), TECHNICAL_ID);
    let arguments = |deployment: Deployment| {
        let container = deployment.spec.unwrap().template.spec.unwrap().containers.remove(0);
        [container.command, container.args]
            .into_iter()
            .flatten()
            .flatten()
            .collect::<Vec<_>>()
    };
    let of_manager = arguments(deployments.get("kube-controller-manager").await.unwrap());
    for flag in [
        "--allocate-node-cidrs=true".to_owned(),
        format!("--cluster-cidr={PODS}"),
        format!("--service-cluster-ip-range={SERVICES}"),
    ] {
        assert!(of_manager.contains(&flag), "{of_manager:?} lacks {flag}");
    }
    let of_server = arguments(deployments.get("kube-apiserver").await.unwrap());
    for argument in of_manager.iter().chain(&of_server) {
        assert!(
            !argument.contains(REPORTED) && !argument.contains(REQUESTED),
            "{argument}"
        );
    }

    let maps: Api<ConfigMap> = Api::namespaced(scene.shoot_client().await, "kube-system");
    let info = wait(&maps, "shoot-info", |info| info?.data.clone()).await;
    assert_eq!(
        (info["nodeNetwork"].as_str(), info["nodeNetworks"].as_str()),
        (REPORTED, REPORTED)
    );
    assert_eq!(
        (info["podNetwork"].as_str(), info["serviceNetwork"].as_str()),
        (PODS, SERVICES)
    );

    // The seed's other pods reach no node, whichever of the two networks it has an address of.
    let policies: Api<NetworkPolicy> = Api::namespaced(scene.world.seed.clone(), TECHNICAL_ID);
    let policy = policies.get("allow-to-private-networks").await.unwrap();
    let blocks = serde_json::to_value(policy.spec).unwrap();
    let blocks = blocks["egress"][0]["to"].as_array().unwrap();
    let ten = blocks
        .iter()
        .find(|one| one["ipBlock"]["cidr"] == "10.0.0.0/8")
        .unwrap();
    let except = ten["ipBlock"]["except"].as_array().unwrap();
    for network in [REPORTED, in_spec, PODS, SERVICES] {
        assert!(except.contains(&json!(network)), "{network} is open: {except:?}");
    }

    let nodes: Api<Node> = Api::all(scene.shoot_client().await);
    let nodes = nodes.list(&ListParams::default()).await.unwrap();
    let addresses = nodes.items[0].status.as_ref().unwrap().addresses.as_ref().unwrap();
    assert!(
        addresses.iter().any(|one| one.address.starts_with("10.68.")),
        "{addresses:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_nodes_network_reported_by_the_infrastructure_overrides_that_of_the_spec() {
    let (scene, shoot, hold) = created(Some(REQUESTED)).await;
    assert_networks(&scene, &shoot, REQUESTED).await;

    // A later reconciliation begins with what was reported, and finds nothing else.
    let (again, requested) = reconciled(&scene).await;
    assert_networks(&scene, &again, REQUESTED).await;
    assert_eq!(
        again.metadata.generation, requested.metadata.generation,
        "nothing is written"
    );
    scene.world.release(hold).await;
    scene.world.delete_shoot(NAMESPACE, NAME).await;
}

#[tokio::test(start_paused = true)]
async fn a_nodes_network_known_only_to_the_infrastructure_enters_the_spec_once() {
    let (scene, shoot, hold) = created(None).await;
    assert_networks(&scene, &shoot, REPORTED).await;
    let (again, requested) = reconciled(&scene).await;
    assert_networks(&scene, &again, REPORTED).await;
    assert_eq!(
        again.metadata.generation, requested.metadata.generation,
        "nothing is written"
    );
    scene.world.release(hold).await;
    scene.world.delete_shoot(NAMESPACE, NAME).await;
}
