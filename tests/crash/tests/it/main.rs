//! Samples of what `cargo xtask crash` shows in full.

mod tasks;

use base_clock::Entropy;
use tests_crash::every_call::{Baseline, Survived, baseline, moments, survive, survive_all};
use tests_crash::process::{self, Blow};
use tests_crash::script::{Lifecycle, Phase};

/// Deaths in a lifecycle that fit into a minute on two cores.
const CALLS: usize = 8;
/// Deaths in one that is played with a tunnel and without: the same calls but for the tunnel's.
const CALLS_OF_TWO: usize = CALLS / 2;
/// Deaths while a Shoot gets a tunnel and loses it: one in each phase.
const CALLS_AROUND_TUNNEL: usize = 2;
/// Kills of the real binary, one in each phase.
const KILLS: u32 = 4;

fn survives_deaths_at_a_sample_of_calls(baseline: &Baseline, calls: usize) {
    let moments = moments(baseline, false, Some(calls));
    let phases: Vec<Phase> = moments.iter().map(|moment| moment.deed.phase).collect();
    for phase in baseline.lifecycle.fatal_phases() {
        assert!(phases.contains(phase), "{phase} is not in the sample: {phases:?}");
    }
    let tally = survive_all(baseline, &moments, 2, |_, _| {});
    let failed: Vec<String> = tally
        .failed
        .iter()
        .map(|(moment, why)| format!("{}\n    {why}", moment.deed))
        .collect();
    assert!(failed.is_empty(), "seed {}: {}", baseline.seed, failed.join("\n"));
    assert!(tally.well >= calls / 2, "too few moments came: {tally:?}");
    for phase in baseline.lifecycle.fatal_phases() {
        let deaths = moments.iter().filter(|moment| moment.deed.phase == *phase);
        let missed = tally.not_reached.iter().filter(|moment| moment.deed.phase == *phase);
        assert!(missed.count() < deaths.count(), "no death came in {phase}: {tally:?}");
    }
}

#[test]
fn a_death_at_any_call_that_writes_is_survived() {
    survives_deaths_at_a_sample_of_calls(&baseline(Lifecycle::Shoot, 1).unwrap(), CALLS);
}

#[test]
fn a_death_while_a_shoot_falls_asleep_or_wakes_is_survived() {
    survives_deaths_at_a_sample_of_calls(&baseline(Lifecycle::Hibernation, 1).unwrap(), CALLS_OF_TWO);
}

/// The same with the calls for the tunnel alone.
fn for_tunnel(mut baseline: Baseline) -> Baseline {
    baseline.deeds.retain(|deed| deed.path.contains("vpn"));
    baseline
}

#[test]
fn a_death_while_a_tunnel_is_built_sleeps_wakes_or_goes_is_survived() {
    survives_deaths_at_a_sample_of_calls(&for_tunnel(baseline(Lifecycle::Tunnel, 1).unwrap()), CALLS_OF_TWO);
}

#[test]
fn a_death_while_a_shoot_gets_a_tunnel_or_loses_it_is_survived() {
    survives_deaths_at_a_sample_of_calls(
        &for_tunnel(baseline(Lifecycle::NodeAccess, 1).unwrap()),
        CALLS_AROUND_TUNNEL,
    );
}

#[test]
fn a_death_while_an_extension_is_installed_upgraded_or_removed_is_survived() {
    survives_deaths_at_a_sample_of_calls(&baseline(Lifecycle::Installation, 1).unwrap(), CALLS);
}

#[test]
fn a_death_before_a_call_is_executed_is_survived() {
    let baseline = baseline(Lifecycle::Shoot, 2).unwrap();
    for moment in moments(&baseline, true, Some(3)) {
        let outcome = survive(&baseline, &moment).unwrap_or_else(|why| panic!("seed 2: {}\n    {why}", moment.deed));
        assert!(matches!(outcome, Survived::Well | Survived::NotReached));
    }
}

#[test]
fn the_same_seed_makes_the_same_calls_in_the_same_order() {
    let [one, other] = std::thread::scope(|scope| {
        let runs = [0, 1].map(|_| scope.spawn(|| baseline(Lifecycle::Shoot, 1).unwrap().deeds));
        runs.map(|run| run.join().unwrap())
    });
    for (number, (one, other)) in one.iter().zip(&other).enumerate() {
        assert_eq!(one, other, "call {number}");
    }
    assert_eq!(one.len(), other.len());
}

#[tokio::test]
async fn the_binary_survives_kill_9_at_any_moment() {
    let binary = process::binary().unwrap();
    let usual = process::usual(&binary).await.unwrap();
    let entropy = Entropy::seeded(1);
    for number in 1..=KILLS {
        let blow = Blow::draw(&usual, number, &entropy);
        process::survive(&binary, &usual, blow)
            .await
            .unwrap_or_else(|why| panic!("seed 1, no. {number}, {} after {:?}: {why}", blow.phase, blow.after));
    }
}
