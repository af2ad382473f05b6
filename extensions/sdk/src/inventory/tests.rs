//! An inventory against a cloud in memory. Every call of cloud and ledger is a place where the process may end, before or
//! after it had its effect.

mod cloud;

use std::time::Duration;

use api_meta::{Fault, FaultClass};
use futures::FutureExt;

use super::*;
use cloud::{LAG_MAX, Thing, World};

/// What a small infrastructure is made of, in the order of its creation; subnets and the gateway need the network.
const SLOTS: [&str; 4] = ["network", "subnet/a", "subnet/b", "gateway"];
/// More turns than any of these cases needs.
const TURNS_MAX: usize = 10;

async fn reconcile(world: &World) -> Result<(), Fault> {
    let inventory = world.open()?;
    let thing = |slot: &str| Thing::new(world, slot);
    inventory.ensure(&thing("network")).await?;
    let (first, second) = (thing("subnet/a"), thing("subnet/b"));
    tokio::try_join!(inventory.ensure(&first), inventory.ensure(&second))?;
    inventory.ensure(&thing("gateway")).await?;
    Ok(())
}

async fn delete(world: &World) -> Result<(), Fault> {
    let inventory = world.open()?;
    let resolve = |slot: &str| -> Option<Box<dyn Resource>> { Some(Box::new(Thing::new(world, slot))) };
    inventory.remove_all(&resolve).await
}

/// One process that ends after `calls` calls. Whether it came to an end of its own, and with what.
fn process(world: &World, calls: usize, work: impl Future<Output = Result<(), Fault>>) -> Option<Result<(), Fault>> {
    world.allow(calls);
    let ended = work.now_or_never();
    world.check_that_all_is_named();
    ended
}

/// Processes without end, one after the other, until one has done its work.
fn finish<F: Future<Output = Result<(), Fault>>>(world: &World, work: impl Fn() -> F) {
    for _ in 0..TURNS_MAX {
        match process(world, usize::MAX, work()).expect("it does not wait for anything") {
            Ok(()) => return,
            Err(fault) => {
                let pause = world.pause_of(&fault).unwrap_or_else(|| panic!("{}", fault.chain()));
                world.advance(pause);
            }
        }
    }
    panic!("it is called again and again");
}

/// The first number of calls that `run` survives.
fn each_call(mut run: impl FnMut(usize) -> bool) -> usize {
    let survived = (0..1_000).find(|calls| run(*calls));
    survived.expect("it comes to an end")
}

#[test]
fn creation_that_ends_at_any_call_is_completed_without_doubles() {
    for lag in [Duration::ZERO, LAG_MAX] {
        let ends = each_call(|first| {
            let mut survived = false;
            each_call(|second| {
                let world = World::new(lag);
                survived = process(&world, first, reconcile(&world)).is_some();
                let ended = process(&world, second, reconcile(&world)).is_some();
                finish(&world, || reconcile(&world));
                assert_eq!(world.slots(), SLOTS, "ends {first} and {second}");
                assert_eq!(world.doubles_deleted(), 0);
                ended
            });
            survived
        });
        // Four resources: announce, create, save, update; each with a place before and one after its effect.
        assert_eq!(ends, 4 * 4 * 2);
    }
}

#[test]
fn deletion_that_ends_at_any_call_is_completed_in_reverse_order() {
    for lag in [Duration::ZERO, LAG_MAX] {
        each_call(|first| {
            let mut survived = false;
            each_call(|second| {
                let world = World::new(lag);
                survived = process(&world, first, reconcile(&world)).is_some();
                let ended = process(&world, second, delete(&world)).is_some();
                finish(&world, || delete(&world));
                assert_eq!(world.slots(), [""; 0], "ends {first} and {second}");
                assert!(world.open().unwrap().slots().is_empty());
                ended
            });
            survived
        });
    }
}

#[test]
fn lists_that_lag_more_than_declared_leave_no_double_in_the_end() {
    let world = World::new(LAG_MAX * 3);
    // Announced and created, with no id saved.
    process(&world, 4, reconcile(&world));
    assert_eq!(world.slots(), ["network"]);
    finish(&world, || reconcile(&world));
    assert_eq!(world.slots().len(), SLOTS.len() + 1, "a second one was made");
    world.advance(LAG_MAX * 3);
    finish(&world, || reconcile(&world));
    assert_eq!(world.slots(), SLOTS);
    assert_eq!(world.doubles_deleted(), 1);
}

#[test]
fn lists_that_lag_more_than_declared_leave_nothing_after_deletion() {
    let world = World::new(LAG_MAX * 3);
    process(&world, 4, reconcile(&world));
    finish(&world, || reconcile(&world));
    world.advance(LAG_MAX * 3);
    finish(&world, || delete(&world));
    assert_eq!(world.slots(), [""; 0]);
}

#[test]
fn the_second_of_two_processes_makes_nothing() {
    let world = World::new(Duration::ZERO);
    world.allow(usize::MAX);
    let (one, two) = (world.open().unwrap(), world.open().unwrap());
    let network = Thing::new(&world, "network");
    let id = one.ensure(&network).now_or_never().unwrap().unwrap();
    let fault = two.ensure(&network).now_or_never().unwrap().unwrap_err();
    assert_eq!(fault.class, FaultClass::Transient, "{fault}");
    assert_eq!(
        (world.slots(), one.id("network")),
        (vec!["network".to_owned()], Some(id))
    );
}

#[test]
fn a_failed_creation_is_requested_again_under_the_same_tag_after_the_lag() {
    let world = World::new(LAG_MAX);
    world.allow(usize::MAX);
    world.refuse_creation(true);
    let network = Thing::new(&world, "network");
    let ensure = || world.open().unwrap().ensure(&network).now_or_never().unwrap();
    assert_eq!(ensure().unwrap_err().class, FaultClass::Quota);
    world.refuse_creation(false);
    let again = ensure().unwrap_err();
    let pause = world.pause_of(&again).expect("it is called again");
    assert!(again.to_string().starts_with("network cannot be found yet"), "{again}");
    world.advance(pause);
    ensure().unwrap();
    assert_eq!(world.slots(), ["network"]);
    assert_eq!(world.tags_requested(), 1);
}

#[test]
fn a_resource_that_the_cloud_no_longer_knows_is_reported() {
    let world = World::new(Duration::ZERO);
    finish(&world, || reconcile(&world));
    world.lose("gateway");
    world.advance(VISIBLE_AFTER);
    world.allow(usize::MAX);
    let fault = reconcile(&world).now_or_never().unwrap().unwrap_err();
    assert_eq!(fault.class, FaultClass::Dependency);
    assert!(
        fault.to_string().contains("the cloud no longer knows gateway-4"),
        "{fault}"
    );
    assert!(fault.hint.contains("credentials"), "{}", fault.hint);
    assert_eq!(world.slots(), SLOTS[..3]);
    finish(&world, || delete(&world));
    assert_eq!(world.slots(), [""; 0]);
}

#[test]
fn a_resource_that_may_be_made_again_keeps_its_place_at_every_end() {
    each_call(|calls| {
        let world = World::new(LAG_MAX);
        finish(&world, || reconcile(&world));
        world.lose("subnet/a");
        world.advance(VISIBLE_AFTER);
        let again = async || {
            let inventory = world.open()?;
            inventory
                .ensure(&Thing::new(&world, "subnet/a").recreated())
                .await
                .map(drop)
        };
        let ended = process(&world, calls, again()).is_some();
        finish(&world, again);
        assert_eq!(world.open().unwrap().slots(), SLOTS);
        assert_eq!(world.count(), SLOTS.len());
        ended
    });
}

#[test]
fn half_deleted_item_that_is_wanted_again_is_recreated() {
    each_call(|calls| {
        let world = World::new(Duration::ZERO);
        finish(&world, || reconcile(&world));
        let gateway = Thing::new(&world, "gateway");
        let without = async || world.open()?.remove(&gateway).await;
        let ended = process(&world, calls, without()).is_some();
        finish(&world, || reconcile(&world));
        assert_eq!(world.slots(), SLOTS, "ends {calls}");
        ended
    });
}

#[test]
fn only_what_is_no_longer_wanted_is_removed() {
    let world = World::new(Duration::ZERO);
    finish(&world, || reconcile(&world));
    world.allow(usize::MAX);
    let inventory = world.open().unwrap();
    let resolve = |slot: &str| -> Option<Box<dyn Resource>> { Some(Box::new(Thing::new(&world, slot))) };
    let removed = inventory.remove_others(&["network", "subnet/b", "elsewhere"], &resolve);
    removed.now_or_never().unwrap().unwrap();
    assert_eq!(world.slots(), ["network", "subnet/b"]);
}

#[test]
fn a_slot_that_is_unknown_stays_until_a_version_knows_it() {
    let world = World::new(Duration::ZERO);
    finish(&world, || reconcile(&world));
    world.allow(usize::MAX);
    let known = |slot: &str| -> Option<Box<dyn Resource>> {
        (slot != "subnet/b").then(|| Box::new(Thing::new(&world, slot)) as Box<dyn Resource>)
    };
    let inventory = world.open().unwrap();
    let fault = inventory.remove_all(&known).now_or_never().unwrap().unwrap_err();
    assert!(
        fault.to_string().starts_with("subnet/b of Test a cannot be removed"),
        "{fault}"
    );
    assert_eq!(world.slots(), SLOTS[..3], "what is newer went, what is older stays");
    finish(&world, || reconcile(&world));
    assert_eq!(world.slots(), SLOTS);
}

#[test]
fn what_is_stored_beside_resources_comes_back() {
    let world = World::new(Duration::ZERO);
    world.allow(usize::MAX);
    let inventory = world.open().unwrap();
    assert_eq!(inventory.own::<Vec<String>>().unwrap(), None);
    let ranges = ["10.0.0.0/16"];
    inventory.set_own(&ranges).now_or_never().unwrap().unwrap();
    finish(&world, || reconcile(&world));
    let inventory = world.open().unwrap();
    assert_eq!(inventory.own().unwrap(), Some(vec!["10.0.0.0/16".to_owned()]));
    assert!(
        inventory
            .own::<u32>()
            .unwrap_err()
            .to_string()
            .contains("status.state.own of Test a")
    );
}

#[test]
fn a_pointless_operation_begins_nothing_new() {
    let world = World::new(Duration::ZERO);
    world.allow(usize::MAX);
    world.make_pointless();
    let inventory = world.open().unwrap();
    let network = Thing::new(&world, "network");
    inventory.ensure(&network).now_or_never().unwrap().unwrap_err();
    assert!(inventory.slots().is_empty() && world.slots().is_empty());
}
