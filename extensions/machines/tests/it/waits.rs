//! Workers that wait for machines: for long, beside others, for old errors, and for classes that are still needed.

use std::time::Duration;

use api_machine::{Machine, MachineClass};
use api_meta::Fault;
use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use tokio::time::Instant;

use crate::pool::pool;
use crate::process::MARKS;
use crate::world::World;

/// More than are worked on at the same time.
const MANY: usize = 7;

#[tokio::test(start_paused = true)]
async fn workers_that_wait_for_machines_do_not_hold_back_another() {
    let mut world = World::new().await;
    world.restart();
    world.yard.set(|moods| moods.joins = false);
    for number in 0..MANY {
        world.shoot(&format!("shoot--t--w{number}")).await;
        world.write(&[pool(1)], "reconcile").await;
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    world.yard.set(|moods| moods.joins = true);
    world.shoot("shoot--t--quick").await;
    let began = Instant::now();
    world.write(&[pool(1)], "reconcile").await;
    world.succeeds().await;
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

/// How often an error of the Worker was reported.
async fn errors(world: &World) -> i32 {
    let events: Vec<Event> = world.list("").await;
    let errors = events
        .iter()
        .filter(|event| event.reason.as_deref() == Some("ReconcileError"));
    errors.map(|event| event.count.unwrap_or(1)).sum()
}

#[tokio::test(start_paused = true)]
async fn an_old_error_does_not_end_an_operation_whose_calls_take_long() {
    let mut world = World::new().await;
    world.restart();
    world.shoot("shoot--t--old").await;
    world
        .yard
        .set(|moods| moods.broken = Some(|what| Fault::access(format!("cannot {what}: access denied"))));
    world.write(&[pool(1)], "reconcile").await;
    world.fails_with("access denied").await;
    world.yard.set(|moods| {
        moods.broken = None;
        moods.slow = Duration::from_secs(40);
    });
    // The call in which the machine still fails may be on its way.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = errors(&world).await;
    world.request("reconcile").await;
    world.succeeds().await;
    assert_eq!(errors(&world).await, before);
}

#[tokio::test(start_paused = true)]
async fn a_class_stays_as_long_as_the_api_has_a_machine_of_it() {
    let mut world = World::new().await;
    world.restart();
    world.shoot("shoot--t--class").await;
    world.write(&[pool(1)], "reconcile").await;
    world.succeeds().await;
    let class = world.list::<MachineClass>("").await[0].name_any();
    // No set owns it, and it goes only when the test lets it.
    let left: Machine = serde_json::from_value(json!({
        "metadata": {"name": "left-over", "labels": {MARKS.label: MARKS.value}, "finalizers": ["example.com/stays"]},
        "spec": {"class": {"apiGroup": "machine.sapcloud.io", "kind": "MachineClass", "name": class}},
    }))
    .unwrap();
    let machines = world.all::<Machine>();
    machines.create(&PostParams::default(), &left).await.unwrap();
    world.write(&[pool(1).image("2")], "reconcile").await;
    tokio::time::sleep(Duration::from_secs(4 * 60)).await;
    let classes = world.all::<MachineClass>();
    assert!(
        classes.get_opt(&class).await.unwrap().is_some(),
        "its machine is still there"
    );
    let left = machines.get("left-over").await.unwrap();
    assert!(left.metadata.deletion_timestamp.is_some(), "no set would remove it");

    let mut released = left.clone();
    released.metadata.finalizers = None;
    drop(machines.replace("left-over", &PostParams::default(), &released).await);
    drop(machines.delete("left-over", &DeleteParams::default()).await);
    world.succeeds().await;
    assert!(classes.get_opt(&class).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_forced_deletion_removes_machines_that_no_deployment_has() {
    let mut world = World::new().await;
    world.restart();
    world.shoot("shoot--t--forced").await;
    world.write(&[pool(1)], "reconcile").await;
    world.succeeds().await;
    let class = world.list::<MachineClass>("").await[0].name_any();
    let alone: Machine = serde_json::from_value(json!({
        "metadata": {"name": "alone", "labels": {MARKS.label: MARKS.value}},
        "spec": {"class": {"apiGroup": "machine.sapcloud.io", "kind": "MachineClass", "name": class}},
    }))
    .unwrap();
    let machines = world.all::<Machine>();
    machines.create(&PostParams::default(), &alone).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.yard.machines().len(), 2, "it was made");
    world.force_deletion().await;
    world.delete().await;
    world.goes().await;
    world.check_gone("forced", 0).await;
}
