//! Runs drawn sequences, makes those that differ as small as they can be, and tells which kinds of differences there are.

use std::collections::BTreeMap;
use std::time::Instant;

use tests_conformance::Outcome;
use tests_conformance::generate::{Sequence, World};
use tests_conformance::known::Table;
use tests_conformance::run::{Court, Verdict};

use crate::{Count, show};

/// Runs that making one sequence smaller may take.
const SMALLER_MAX: usize = 150;
/// How many kinds of differences are made small and shown in full; of others the number is told.
const SHOWN_MAX: usize = 40;
/// How often a line tells how far it is.
const TELL_EVERY: u64 = 1000;

/// What is to be drawn.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) sequences: u64,
    pub(crate) seed: u64,
    /// Only this one.
    pub(crate) only: Option<u64>,
}

/// A kind of difference, and how often it was met.
struct Kind {
    times: usize,
    first: Sequence,
}

/// Runs them all.
pub(crate) async fn run(
    settings: Settings,
    court: &mut Court,
    table: &mut Table,
    names: &mut Vec<String>,
) -> Outcome<Count> {
    let begun = Instant::now();
    let world = World::new(settings.seed);
    let mut count = Count::default();
    for case in world.beforehand()? {
        let verdict = court.judge(&case, table).await?;
        show(&verdict, false);
        count.add(&verdict);
        names.push(case.name);
    }
    let mut kinds: BTreeMap<String, Kind> = BTreeMap::new();
    let numbers = match settings.only {
        Some(number) => number..number + 1,
        None => 0..settings.sequences,
    };
    for number in numbers {
        let sequence = world.draw(number);
        let case = sequence.case(0)?;
        let verdict = court.judge(&case, table).await?;
        count.add(&verdict);
        names.push(case.name);
        for kind in kinds_of(&verdict) {
            let first = || Kind {
                times: 0,
                first: sequence.clone(),
            };
            kinds.entry(kind).or_insert_with(first).times += 1;
        }
        if (number + 1).is_multiple_of(TELL_EVERY) {
            println!("{} sequences in {:.0} s", number + 1, begun.elapsed().as_secs_f64());
        }
    }
    tell(&kinds, court, table).await?;
    println!(
        "{} sequences of seed {} in {:.1} s",
        settings.only.map_or(settings.sequences, |_| 1),
        settings.seed,
        begun.elapsed().as_secs_f64()
    );
    Ok(count)
}

/// The commonest first, made small.
async fn tell(kinds: &BTreeMap<String, Kind>, court: &mut Court, table: &mut Table) -> Outcome {
    let mut by_weight: Vec<(&String, &Kind)> = kinds.iter().collect();
    by_weight.sort_by_key(|(_, kind)| std::cmp::Reverse(kind.times));
    let mut attempt = 0;
    for (index, (name, kind)) in by_weight.into_iter().enumerate() {
        println!("{} times: {name}", kind.times);
        if index < SHOWN_MAX {
            let (smallest, verdict) = smallest(&kind.first, name, &mut attempt, court, table).await?;
            print!("\n{}", smallest.text());
            show(&verdict, false);
            println!();
        }
    }
    Ok(())
}

/// What is left of a sequence when all is taken away without which it still differs in this way.
async fn smallest(
    found: &Sequence,
    kind: &str,
    attempt: &mut usize,
    court: &mut Court,
    table: &mut Table,
) -> Outcome<(Sequence, Verdict)> {
    *attempt += 1;
    let end = *attempt + SMALLER_MAX;
    let mut best = (found.clone(), court.judge(&found.case(*attempt)?, table).await?);
    loop {
        let mut is_smaller = false;
        for candidate in best.0.smaller() {
            *attempt += 1;
            if *attempt > end {
                return Ok(best);
            }
            // One that speaks of an answer that is gone cannot be run.
            let Ok(verdict) = court.judge(&candidate.case(*attempt)?, table).await else {
                continue;
            };
            if kinds_of(&verdict).iter().any(|found| found == kind) {
                best = (candidate, verdict);
                is_smaller = true;
                break;
            }
        }
        if !is_smaller {
            return Ok(best);
        }
    }
}

/// What differs, without numbers and names: method, resource and place.
fn kinds_of(verdict: &Verdict) -> Vec<String> {
    let mut kinds = Vec::new();
    for (request, differences) in &verdict.unexplained {
        let request = request
            .split_once(" = ")
            .map_or(request.as_str(), |(_, request)| request);
        let (method, path) = request.split_once(' ').unwrap_or((request, ""));
        let path = path.split('?').next().unwrap_or_default();
        let resource = path
            .split('/')
            .find(|part| part.len() > 2 && !part.contains('.'))
            .unwrap_or(path);
        let resource = resource.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == 's');
        for difference in differences {
            let status = |value: &Option<serde_json::Value>| value.as_ref().map(|value| value[0].clone());
            let place = match difference.at.split_once('/') {
                Some((_, place)) => place.to_owned(),
                None => format!(
                    "status {} and ours {}",
                    status(&difference.real).unwrap_or_default(),
                    status(&difference.ours).unwrap_or_default()
                ),
            };
            let kind = format!("{method} {resource} {place}");
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
    }
    kinds
}
