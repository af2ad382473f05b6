//! Worker pools that come, go, grow, shrink and roll: what was asked for happens to the machines, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use api_extensions::OperatingSystemConfig;
use api_machine::{Machine, MachineClass, MachineDeployment};
use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::ListParams;
use kube::runtime::watcher;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tests_scenarios::{TECHNICAL_ID, wait};

use crate::scene::{NEXT_IMAGE, NEXT_PATCH, Scene, is_ready, is_running, pool};

type Machines = BTreeMap<String, String>;

fn of(machines: &Machines, pool: &str) -> BTreeSet<String> {
    let in_pool = machines.iter().filter(|(_, its)| *its == pool);
    in_pool.map(|(name, _)| name.clone()).collect()
}

/// Names in the Shoot's namespace of the seed.
async fn names<K>(scene: &Scene) -> Vec<String>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
{
    let api: Api<K> = Api::namespaced(scene.world.seed.clone(), TECHNICAL_ID);
    let listed = api.list(&ListParams::default()).await.unwrap();
    listed.items.iter().map(ResourceExt::name_any).collect()
}

#[tokio::test(start_paused = true)]
async fn a_pool_comes_and_goes_and_the_other_one_stays_as_it_is() {
    let scene = Scene::start().await;
    scene.created(|_| {}).await;
    let first = scene.machines().await;
    assert_eq!(of(&first, "pool-a").len(), 1);

    scene.with_pools(&[pool("pool-a", 1), pool("pool-b", 2)]).await;
    let both = scene.machines().await;
    assert_eq!(of(&both, "pool-a"), of(&first, "pool-a"));
    assert_eq!(of(&both, "pool-b").len(), 2);
    assert_eq!(scene.nodes().await, both);

    scene.with_pools(&[pool("pool-a", 1)]).await;
    assert_eq!(scene.machines().await, first);
    assert_eq!(scene.nodes().await, first);
    let traces = [
        names::<MachineDeployment>(&scene).await,
        names::<MachineClass>(&scene).await,
        names::<OperatingSystemConfig>(&scene).await,
    ];
    assert_eq!(traces.each_ref().map(Vec::len), [1, 1, 2], "{traces:?}");
    assert!(
        traces.iter().flatten().all(|name| name.contains("pool-a")),
        "{traces:?}"
    );
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn one_pool_can_take_the_place_of_another_in_one_change() {
    let scene = Scene::start().await;
    scene.created(|_| {}).await;
    scene.with_pools(&[pool("pool-z", 1)]).await;
    let machines = scene.machines().await;
    assert_eq!((machines.len(), of(&machines, "pool-z").len()), (1, 1));
    assert_eq!(scene.nodes().await, machines);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_resized_pool_changes_its_machines_and_pods_move_before_their_node() {
    let scene = Scene::start().await;
    scene.created(|_| {}).await;
    let one = of(&scene.machines().await, "pool-a");
    scene.with_pools(&[pool("pool-a", 3)]).await;
    let three = of(&scene.machines().await, "pool-a");
    assert!(three.len() == 3 && three.is_superset(&one), "{one:?} {three:?}");

    let pods = run_something(&scene, 6).await;
    let before = pods.list(&ListParams::default()).await.unwrap().items;
    let audit = scene.world.landscape.audit_of(TECHNICAL_ID).unwrap();
    audit.clear();
    scene.with_pools(&[pool("pool-a", 1)]).await;
    let left = of(&scene.machines_once(1).await, "pool-a");
    assert!(left.len() == 1 && left.is_subset(&three), "{left:?} {three:?}");
    assert_eq!(
        scene.nodes().await.into_keys().collect::<BTreeSet<_>>(),
        left,
        "nodes go with their machines"
    );
    let evicted = audit
        .records()
        .iter()
        .filter(|record| record.path.ends_with("/eviction") && record.code < 300)
        .count();
    let stays = |pod: &&Pod| {
        pod.spec
            .as_ref()
            .and_then(|spec| spec.node_name.as_ref())
            .is_some_and(|node| left.contains(node))
    };
    assert_eq!(evicted, before.len() - before.iter().filter(stays).count());
    assert!(evicted > 0, "no pod ran on a node that went");
    all_run(&scene, 6).await;
    assert_eq!(nodes_of(&pods).await, left);
    scene.end().await;
}

/// A Deployment of so many pods in the Shoot; gives access to them once they run.
async fn run_something(scene: &Scene, replicas: i32) -> Api<Pod> {
    let client = scene.shoot_client().await;
    let labels = json!({"app": "hello"});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "hello", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": "registry.example/hello:1"}]},
            },
        },
    });
    landscape_local::apply_all(&client, vec![deployment]).await.unwrap();
    all_run(scene, replicas).await;
    Api::namespaced(client, "default")
}

async fn all_run(scene: &Scene, replicas: i32) {
    let deployments: Api<Deployment> = Api::namespaced(scene.shoot_client().await, "default");
    wait(&deployments, "hello", |deployment| {
        let status = deployment?.status.as_ref()?;
        (status.available_replicas == Some(replicas) && status.replicas == Some(replicas)).then_some(())
    })
    .await;
}

async fn nodes_of(pods: &Api<Pod>) -> BTreeSet<String> {
    let listed = pods.list(&ListParams::default()).await.unwrap();
    let staying = listed
        .items
        .into_iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none());
    staying.filter_map(|pod| pod.spec?.node_name).collect()
}

#[tokio::test(start_paused = true)]
async fn a_new_kubernetes_patch_reaches_control_plane_and_nodes_without_replacing_machines() {
    let scene = Scene::start().await;
    scene.created(|_| {}).await;
    let before = scene.machines().await;
    scene
        .change(json!({"spec": {"kubernetes": {"version": NEXT_PATCH}}}))
        .await;
    scene.succeeded().await;
    let client = scene.shoot_client().await;
    let version = client.apiserver_version().await.unwrap();
    assert_eq!(version.git_version.trim_start_matches('v'), NEXT_PATCH);
    assert_eq!(scene.machines().await, before);
    let nodes: Api<Node> = Api::all(client);
    for name in before.keys() {
        wait(&nodes, name, |node| {
            let info = node?.status.as_ref()?.node_info.as_ref()?;
            (info.kubelet_version.trim_start_matches('v') == NEXT_PATCH).then_some(())
        })
        .await;
    }
    scene.end().await;
}

/// How many there were at most and how many could be used at least, at any moment of a watch.
#[derive(Clone, Debug)]
struct Extremes {
    most: usize,
    least: usize,
    moments: usize,
}

/// Watches until the test ends. `classify` says whether an object counts, and whether it can be used.
fn watched<K>(api: Api<K>, classify: fn(&K) -> (bool, bool)) -> Arc<Mutex<Option<Extremes>>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let extremes = Arc::new(Mutex::new(None));
    let written = extremes.clone();
    tokio::spawn(async move {
        let mut all: BTreeMap<String, (bool, bool)> = BTreeMap::new();
        let mut complete = false;
        let mut events = std::pin::pin!(watcher(api, watcher::Config::default()));
        while let Some(event) = events.next().await {
            match event.unwrap() {
                watcher::Event::Apply(object) | watcher::Event::InitApply(object) => {
                    let class = classify(&object);
                    all.insert(object.name_any(), class);
                }
                watcher::Event::Delete(object) => {
                    all.remove(&object.name_any());
                }
                watcher::Event::Init => {}
                watcher::Event::InitDone => complete = true,
            }
            if !complete {
                continue;
            }
            let count = all.values().filter(|(counts, _)| *counts).count();
            let usable = all.values().filter(|(_, usable)| *usable).count();
            let mut extremes = written.lock().unwrap();
            let now = extremes.get_or_insert(Extremes {
                most: count,
                least: usable,
                moments: 0,
            });
            now.most = now.most.max(count);
            now.least = now.least.min(usable);
            now.moments += 1;
        }
    });
    extremes
}

fn rolling(machines: i32, surge: &Value, unavailable: &Value, image: &str) -> Value {
    let mut pool = pool("pool-a", machines);
    pool["maxSurge"] = surge.clone();
    pool["maxUnavailable"] = unavailable.clone();
    pool["machine"]["image"]["version"] = json!(image);
    pool
}

/// A new machine image replaces all machines of a pool of four, and at no moment are there more than `most` or can
/// fewer than `least` be used.
async fn check_rolling(surge: Value, unavailable: Value, most: usize, least: usize) {
    let scene = Scene::start().await;
    let of_image = |image: &str| rolling(4, &surge, &unavailable, image);
    let other = pool("pool-b", 1);
    let (old, new) = (of_image("1.0.0"), of_image(NEXT_IMAGE));
    scene
        .created(|shoot| shoot["spec"]["provider"]["workers"] = json!([old, other]))
        .await;
    let before = scene.machines().await;
    let machines = watched(
        Api::<Machine>::namespaced(scene.world.seed.clone(), TECHNICAL_ID),
        |machine| {
            let stays =
                machine.labels()["name"].ends_with("-pool-a-z1") && machine.metadata.deletion_timestamp.is_none();
            (stays, stays && is_running(machine))
        },
    );
    let nodes = watched(Api::<Node>::all(scene.shoot_client().await), |node| {
        let ours = node
            .labels()
            .get("worker.gardener.cloud/pool")
            .is_some_and(|pool| pool == "pool-a");
        let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
        (ours, ours && is_ready(node) && !cordoned)
    });
    scene.with_pools(&[new, other]).await;
    let after = scene.machines().await;
    assert_eq!(of(&after, "pool-b"), of(&before, "pool-b"), "only that pool rolls");
    assert_eq!(of(&after, "pool-a").len(), 4);
    assert!(
        of(&after, "pool-a").is_disjoint(&of(&before, "pool-a")),
        "{before:?} {after:?}"
    );
    assert_eq!(scene.nodes().await, after);
    let machines = machines.lock().unwrap().clone().unwrap();
    assert_eq!((machines.most, machines.least), (most, least), "machines: {machines:?}");
    let nodes = nodes.lock().unwrap().clone().unwrap();
    assert!(nodes.least >= least, "nodes: {nodes:?}");
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_image_rolls_a_pool_with_one_machine_more_and_none_less() {
    check_rolling(json!(1), json!(0), 5, 4).await;
}

#[tokio::test(start_paused = true)]
async fn a_new_image_rolls_a_pool_with_one_machine_less_and_none_more() {
    check_rolling(json!(0), json!(1), 4, 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_new_image_rolls_a_pool_within_percentages() {
    check_rolling(json!("50%"), json!("25%"), 6, 3).await;
}
