//! Nodes that are emptied before their machines go, with pods that do not end by themselves.

use std::time::Duration;

use api_machine::{Machine, MachineDeployment};
use api_meta::Fault;
use base_client::{WaitState, wait_until};
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::time::Instant;

use crate::pool::pool;
use crate::world::World;

/// More than one process works on at the same time.
const MANY: i32 = 55;
/// As [`pool`] leaves it to the machine controllers.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// A pod on a node, which no kubelet ends: it is there until it is deleted without grace.
async fn place_pod(world: &World, node: &str) {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": format!("on-{node}")},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
    }))
    .unwrap();
    world.all::<Pod>().create(&PostParams::default(), &pod).await.unwrap();
}

/// The kubelet has ended a pod.
async fn end_pod(world: &World, node: &str) {
    let now = DeleteParams::default().grace_period(0);
    world.all::<Pod>().delete(&format!("on-{node}"), &now).await.unwrap();
}

async fn scale(world: &World, replicas: i32) {
    let deployments: Vec<MachineDeployment> = world.list("").await;
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    let api = world.all::<MachineDeployment>();
    let name = deployments[0].name_any();
    api.patch(&name, &PatchParams::default(), &patch).await.unwrap();
}

/// Waits until the pods on these nodes are asked to end.
async fn evicted(world: &World, nodes: &[String]) {
    for node in nodes {
        let going = |pod: Option<&Pod>| match pod {
            Some(pod) if pod.metadata.deletion_timestamp.is_some() => WaitState::Done(()),
            _ => WaitState::NotYet("it is not evicted".to_owned()),
        };
        let name = format!("on-{node}");
        wait_until(&world.all::<Pod>(), &name, Duration::from_secs(60), going)
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn drains_of_one_shoot_do_not_hold_back_another() {
    let mut world = World::new().await;
    world.restart();
    world.shoot("shoot--t--full").await;
    world.write(&[pool(0).size(0, MANY)], "reconcile").await;
    world.succeeds().await;
    scale(&world, MANY).await;
    let all = |machines: &Vec<Machine>| machines.iter().filter(|one| one.spec.provider_id.is_some()).count();
    let mut nodes = Vec::new();
    while nodes.len() < usize::try_from(MANY).unwrap() {
        tokio::time::sleep(Duration::from_secs(30)).await;
        let machines: Vec<Machine> = world.list("").await;
        assert!(all(&machines) <= usize::try_from(MANY).unwrap());
        let present = Api::<Node>::all(world.client.clone());
        let present = present.list(&ListParams::default()).await.unwrap();
        nodes = present.iter().map(ResourceExt::name_any).collect();
    }
    for node in &nodes {
        place_pod(&world, node).await;
    }
    scale(&world, 0).await;
    evicted(&world, &nodes).await;

    world.shoot("shoot--t--other").await;
    let began = Instant::now();
    world.write(&[pool(2)], "reconcile").await;
    world.succeeds().await;
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    "shoot--t--full".clone_into(&mut world.namespace);
    assert_eq!(
        world.list::<Machine>("").await.len(),
        nodes.len(),
        "their pods are still there"
    );

    for node in &nodes {
        end_pod(&world, node).await;
    }
    let began = Instant::now();
    world.settles().await;
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_drain_continues_after_a_restart_and_ends_at_its_timeout() {
    let mut world = World::new().await;
    let nodes = [machine_with_a_pod(&mut world).await];
    scale(&world, 0).await;
    evicted(&world, &nodes).await;
    let cordoned = Api::<Node>::all(world.client.clone()).get(&nodes[0]).await.unwrap();
    assert_eq!(cordoned.spec.unwrap().unschedulable, Some(true));

    world.restart();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.yard.machines().len(), 1, "its pod is still there");
    tokio::time::sleep(DRAIN_TIMEOUT - Duration::from_secs(90)).await;
    assert_eq!(world.yard.machines().len(), 1, "its time is not up");
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!(world.yard.machines().len(), 0);
    world.settles().await;
}

/// Has every eviction refused, as one is that a disruption budget has no room for.
async fn refuse_evictions(world: &World) {
    let policy: ValidatingAdmissionPolicy = serde_json::from_value(json!({
        "metadata": {"name": "spent"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/eviction"]},
            ]},
            "validations": [{"expression": "false", "message": "the budget is spent"}],
        },
    }))
    .unwrap();
    let binding: ValidatingAdmissionPolicyBinding = serde_json::from_value(json!({
        "metadata": {"name": "spent"},
        "spec": {"policyName": "spent", "validationActions": ["Deny"]},
    }))
    .unwrap();
    let params = PostParams::default();
    Api::all(world.client.clone()).create(&params, &policy).await.unwrap();
    Api::all(world.client.clone()).create(&params, &binding).await.unwrap();
}

/// A machine whose node has a pod, and its node.
async fn machine_with_a_pod(world: &mut World) -> String {
    world.restart();
    world.shoot("shoot--t--one").await;
    world.write(&[pool(1).size(0, 1)], "reconcile").await;
    world.succeeds().await;
    scale(world, 1).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let node = world.machine_names().await.first().cloned().unwrap();
    place_pod(world, &node).await;
    node
}

#[tokio::test(start_paused = true)]
async fn refused_eviction_is_tried_again_and_never_made_a_deletion() {
    let mut world = World::new().await;
    let node = machine_with_a_pod(&mut world).await;
    refuse_evictions(&world).await;
    scale(&world, 0).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let pod = world.all::<Pod>().get(&format!("on-{node}")).await.unwrap();
    assert_eq!(pod.metadata.deletion_timestamp, None, "no eviction was allowed");
    assert_eq!(world.yard.machines().len(), 1);

    let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(world.client.clone());
    bindings.delete("spent", &DeleteParams::default()).await.unwrap();
    let began = Instant::now();
    evicted(&world, std::slice::from_ref(&node)).await;
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    end_pod(&world, &node).await;
    world.settles().await;
    assert_eq!(world.yard.machines().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn machine_that_its_cloud_does_not_delete_stays_drained_until_it_does() {
    let mut world = World::new().await;
    let node = machine_with_a_pod(&mut world).await;
    world
        .yard
        .set(|moods| moods.broken = Some(|what| Fault::access(format!("cannot {what}: access denied"))));
    scale(&world, 0).await;
    evicted(&world, std::slice::from_ref(&node)).await;
    end_pod(&world, &node).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let machines: Vec<Machine> = world.list("").await;
    let last = machines[0]
        .status
        .as_ref()
        .and_then(|status| status.last_operation.as_ref());
    let text = last.and_then(|last| last.description.as_deref()).unwrap_or_default();
    assert!(text.contains("cannot delete: access denied"), "{text}");
    let cordoned = Api::<Node>::all(world.client.clone()).get(&node).await.unwrap();
    assert_eq!(
        cordoned.spec.unwrap().unschedulable,
        Some(true),
        "nothing is placed on it"
    );

    world.yard.set(|moods| moods.broken = None);
    world.settles().await;
    assert_eq!(world.yard.machines().len(), 0);
    assert!(
        Api::<Node>::all(world.client.clone())
            .get_opt(&node)
            .await
            .unwrap()
            .is_none()
    );
}
