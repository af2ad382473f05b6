//! Lives in which calls fail, of the seed's API server and of the cloud, and processes end, all drawn by a seed.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base_client::{Injected, inject_faults};
use base_clock::Entropy;
use extensions_provider_fake::cloud::{Calls, Harms, Moment, Rates, Settings};
use kube::Client;

use crate::story::{in_virtual_time, life, sweep};
use crate::world::World;

/// Seeds that the test draws from.
const SEEDS: usize = 100;
/// Calls after which nothing is harmed, so that every life comes to an end.
const HARMED_CALLS: u64 = 300;
/// Processes that end in a life.
const ENDS: usize = 4;
/// How many of a thousand calls of the API server fail.
const BROKEN: u64 = 120;

/// A client of the seed some of whose calls fail. Calls are counted through all processes of a life.
fn unreliable(client: Client, seed: u64, counter: Counter) -> Client {
    inject_faults(client, move |_| {
        let call = counter.calls.fetch_add(1, Ordering::Relaxed);
        let entropy = Entropy::seeded(seed.wrapping_mul(7_919).wrapping_add(call));
        let drawn = entropy.below(1_000);
        if call > HARMED_CALLS || drawn >= BROKEN {
            return Injected::Pass;
        }
        counter.broken.fetch_add(1, Ordering::Relaxed);
        match drawn % 6 {
            0 => Injected::Answer(409),
            1 => Injected::Answer(429),
            2 => Injected::Answer(500),
            3 => Injected::Answer(503),
            4 => Injected::DropBefore,
            _ => Injected::DropAfter,
        }
    })
}

/// Calls of one life, and those of them that failed.
#[derive(Clone, Default)]
struct Counter {
    calls: Arc<AtomicU64>,
    broken: Arc<AtomicUsize>,
}

/// Where the processes of a life end; the last goes on.
fn end_of(process: usize, seed: u64) -> Option<Moment> {
    let entropy = Entropy::seeded(seed.wrapping_mul(104_729).wrapping_add(process as u64));
    (process < ENDS).then(|| Moment {
        call: entropy.below(60) as usize + 1,
        before: entropy.below(2) == 0,
    })
}

/// A cloud that is as late as the seed has it.
fn settings(seed: u64) -> Settings {
    let entropy = Entropy::seeded(seed);
    let lag = || [0, 1, u32::MAX][entropy.below(3) as usize];
    Settings {
        list_lag: lag(),
        get_lag: lag(),
        ..Settings::default()
    }
}

#[test]
fn a_life_with_faults_and_ends_of_processes_leaks_and_doubles_nothing() {
    let (calls, ends, broken) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let seeds = sweep(SEEDS, |number| {
        let seed = number as u64;
        in_virtual_time(async {
            let world = World::new(settings(seed)).await;
            world.cloud.harm(Harms::seeded(seed, Rates::default(), HARMED_CALLS));
            let (counter, processes) = (Counter::default(), Mutex::new(Vec::new()));
            life(&world, |process| {
                let calls = Calls::new(end_of(process, seed));
                processes.lock().unwrap().push(calls.clone());
                let client = unreliable(world.embedded.admin(), seed, counter.clone());
                world.start_through(client, Arc::new(world.cloud.clone()), calls)
            })
            .await;
            let ended = processes
                .lock()
                .unwrap()
                .iter()
                .filter(|calls| calls.has_ended())
                .count();
            ends.fetch_add(ended, Ordering::Relaxed);
            broken.fetch_add(counter.broken.load(Ordering::Relaxed), Ordering::Relaxed);
            calls.fetch_add(world.cloud.calls() as usize, Ordering::Relaxed);
        });
    });
    println!(
        "{seeds} seeds: {ends:?} ends of processes, {broken:?} broken calls of the seed, {calls:?} calls of the cloud"
    );
    let (ends, broken) = (ends.into_inner(), broken.into_inner());
    assert!(
        ends > seeds * 2 && broken > seeds * 5,
        "hardly anything went wrong: {ends} ends, {broken} broken calls"
    );
}
