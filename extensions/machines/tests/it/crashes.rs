//! The process ends at calls of a Worker's life, of the API server and of the yard, before and after the call's effect: at a sample
//! of them, and at every one with `WORKER_CRASH_STEP=1`.

use std::collections::BTreeSet;
use std::future::Future;

use api_machine::Machine;
use kube::ResourceExt;

use crate::gate::{Gate, Gated};
use crate::pool::{Pool, pool};
use crate::process::Process;
use crate::witness::Witness;
use crate::world::World;
use crate::yard::{Faults, PROVIDER};

/// Every how many calls a process ends by default.
const STEP: &str = "WORKER_CRASH_STEP";

fn step(or: usize) -> usize {
    std::env::var(STEP).map_or(or, |value| value.parse().unwrap())
}

fn in_virtual_time<F: Future>(work: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(work)
}

/// One life: machines are made, some are replaced, all go.
struct Life {
    from: Vec<Pool>,
    to: Vec<Pool>,
}

impl Life {
    async fn live(&self, world: &World) {
        let witness = Witness::of(&world.client, &world.namespace);
        for (pools, when) in [(&self.from, "created"), (&self.to, "changed")] {
            world.write(pools, "reconcile").await;
            world.succeeds().await;
            world.settles().await;
            world.check_settled(when).await;
        }
        world.delete().await;
        world.goes().await;
        world.check_gone("deleted", 0).await;
        witness.check("a life", 0);
    }

    /// Lives with processes one after the other, each with the gate that `gate` gives for its number.
    async fn with_processes(&self, world: &World, gate: impl Fn(usize) -> Gate) {
        let succeed = async {
            for number in 0.. {
                let gate = gate(number);
                let client = gate.client(world.embedded.admin());
                let driver = Gated {
                    gate: gate.clone(),
                    yard: world.yard.clone(),
                };
                let process = Process::start(&world.embedded, client, std::sync::Arc::new(driver));
                gate.ended().await;
                process.kill();
                all_are_named(world, &gate.last()).await;
            }
        };
        tokio::select! {
            () = self.live(world) => {}
            () = succeed => {}
        }
    }
}

/// Each machine of the yard has a Machine object.
async fn all_are_named(world: &World, last: &str) {
    let machines: Vec<Machine> = world.list("").await;
    let named: BTreeSet<String> = machines.iter().map(ResourceExt::name_any).collect();
    for (name, made) in world.yard.machines() {
        assert!(
            named.contains(&name),
            "after the end at {last:?}: {name} is {made:?} and nothing names it"
        );
    }
    let ids: Vec<&String> = machines
        .iter()
        .filter_map(|machine| machine.spec.provider_id.as_ref())
        .collect();
    assert!(ids.iter().all(|id| id.starts_with(PROVIDER)));
    assert_eq!(
        ids.len(),
        ids.iter().collect::<BTreeSet<_>>().len(),
        "after the end at {last:?}: one machine twice"
    );
}

fn small() -> Life {
    let q = || pool(1).named("q").zones(&["a"]);
    Life {
        from: vec![pool(2), q()],
        to: vec![pool(2).image("2")],
    }
}

async fn small_world() -> World {
    let mut world = World::new().await;
    world.shoot("shoot--t--crash").await;
    world
}

#[test]
fn a_process_killed_at_any_call_leaves_no_machine_behind_or_duplicated() {
    let whole = Gate::new(None, false);
    in_virtual_time(async {
        let world = small_world().await;
        small().with_processes(&world, |_| whole.clone()).await;
    });
    let calls = whole.count();
    let moments: Vec<usize> = (0..2 * calls).step_by(step((calls / 4) | 1)).collect();
    for moment in &moments {
        in_virtual_time(async {
            let world = small_world().await;
            let end = Gate::new(Some(moment / 2 + 1), moment % 2 == 0);
            let gate = |number| {
                if number == 0 {
                    end.clone()
                } else {
                    Gate::new(None, false)
                }
            };
            small().with_processes(&world, gate).await;
            assert!(end.has_ended(), "there is no call {moment}, only {}", end.count());
        });
    }
    println!("{} ends at {calls} calls, before and after", moments.len());
}

/// 200 machines in eight pools, some of them in zones.
fn large(image: &'static str) -> Vec<Pool> {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let pools = names.into_iter().enumerate().map(|(number, name)| {
        let pool = pool(25).named(name).room("20%", "10%");
        let pool = if number % 2 == 0 {
            pool.zones(&["a", "b", "c"])
        } else {
            pool
        };
        if number < 2 { pool.image(image) } else { pool }
    });
    pools.collect()
}

#[test]
fn two_hundred_machines_survive_faults_of_their_cloud_and_ends_of_their_process() {
    let ends = in_virtual_time(async {
        let mut world = World::new().await;
        world.shoot("shoot--t--storm").await;
        world.yard.set(|moods| moods.faults = Some(Faults::seeded(7, 200)));
        let life = Life {
            from: large("1"),
            to: large("2"),
        };
        // Each process ends some calls later in its life than the one before, so that each makes more of its calls.
        let interval = step(250);
        let ends = std::cell::Cell::new(0);
        let gate = |number: usize| {
            ends.set(number);
            Gate::new(Some(interval * (number + 1)), number.is_multiple_of(2))
        };
        life.with_processes(&world, gate).await;
        assert!(world.yard.made() >= 250);
        ends.get()
    });
    println!("200 machines, and {ends} ends of the process");
    assert!(ends > 2, "{ends}");
}
