//! Runs drawn sequences, several at a time, reduces those that differ, and prints which kinds of differences there are.
//! Servers are restarted after some thousand sequences, so that neither they nor this program grow with the number of
//! sequences.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use tests_conformance::Outcome;
use tests_conformance::generate::{Sequence, World, smallest};
use tests_conformance::known::Table;
use tests_conformance::ours::{Ours, Storage};
use tests_conformance::real::{Options, Real};
use tests_conformance::run::{Comparer, Verdict};

use crate::{Count, show};

/// Sequences at a time: beyond the processors that a server has, more only wait for each other.
const AT_ONCE: usize = 4;
/// Sequences after which servers are restarted: what each leaves behind stays in their memory.
const ROUND: u64 = 5000;
/// Runs that the reduction of one sequence may take.
const SMALLER_MAX: usize = 100;
/// How long the sequences of a round are reduced: one with a watch takes seconds each time.
const SMALLER_TIME_MAX: Duration = Duration::from_secs(60);
/// The attempt of a sequence that is repeated: beyond those of its reduction.
const AGAIN: usize = SHOWN_MAX * SMALLER_MAX + SHOWN_MAX + 1;
/// How many kinds of differences are reduced and shown in full; of others the number is printed.
const SHOWN_MAX: usize = 12;
/// How often a line of progress is printed without a terminal.
const LOG_EVERY: u64 = 1000;
/// How often it is printed on a terminal.
const SHOW_EVERY: u64 = 25;

/// What is to be drawn.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) sequences: u64,
    pub(crate) seed: u64,
    /// Only this one.
    pub(crate) only: Option<u64>,
    /// Whether one that differs is repeated, and counts only if it differs again.
    pub(crate) again: bool,
}

/// A kind of difference, and how often it was met.
struct Kind {
    times: usize,
    /// The first that has it.
    first: Sequence,
    /// That one reduced, as a case, with what differs.
    smallest: Option<(String, Verdict)>,
}

/// What was found so far.
struct Found<'t> {
    world: World,
    table: &'t Table,
    begun: Instant,
    settings: Settings,
    count: RefCell<Count>,
    kinds: RefCell<BTreeMap<String, Kind>>,
}

/// Runs them all.
pub(crate) async fn run(settings: Settings, table: &Table) -> Outcome<Count> {
    let found = Found {
        world: World::new(settings.seed),
        table,
        begun: Instant::now(),
        settings,
        count: RefCell::default(),
        kinds: RefCell::default(),
    };
    let (mut next, end) = match settings.only {
        Some(number) => {
            println!("{}", found.world.shown(number));
            (number, number + 1)
        }
        None => (0, settings.sequences),
    };
    while next < end {
        let upto = end.min(next + ROUND);
        Box::pin(found.round(next..upto)).await?;
        next = upto;
    }
    found.print_kinds();
    Ok(found.count.into_inner())
}

impl Found<'_> {
    /// Runs some of them on servers of their own.
    async fn round(&self, numbers: std::ops::Range<u64>) -> Outcome {
        let real = Real::start(Options::compared()).await?;
        let ours = Ours::start(Storage::Memory).await?;
        let mut comparer = Comparer::connect(&real.endpoint, &ours.endpoint).await?;
        for case in self.world.beforehand()? {
            let verdict = comparer.compare(&case, self.table).await?;
            show(&verdict, false);
            self.count.borrow_mut().add(&verdict);
        }
        let (next, end) = (Cell::new(numbers.start), numbers.end);
        let workers = (0..AT_ONCE).map(|_| async {
            let mut comparer = Comparer::connect(&real.endpoint, &ours.endpoint).await?;
            while next.get() < end {
                let number = next.replace(next.get() + 1);
                if self.one(number, &mut comparer).await.is_err() {
                    // What is left unread on the connection belongs to no other sequence.
                    comparer = Comparer::connect(&real.endpoint, &ours.endpoint).await?;
                }
                self.progress();
            }
            Ok::<_, String>(())
        });
        try_join_all(workers).await?;
        self.reduce(&mut comparer).await
    }

    async fn one(&self, number: u64, comparer: &mut Comparer) -> Outcome {
        let sequence = self.world.draw(number);
        let mut outcome = comparer.compare(&sequence.case(0)?, self.table).await;
        if self.settings.again
            && let Ok(verdict) = &outcome
            && !verdict.unexplained.is_empty()
        {
            println!("{} differs and is asked again", verdict.case);
            outcome = comparer.compare(&sequence.case(AGAIN)?, self.table).await;
        }
        let found = match &outcome {
            Ok(verdict) => {
                self.count.borrow_mut().add(verdict);
                kinds_of(verdict)
            }
            Err(why) => {
                println!("{why}");
                self.count.borrow_mut().differ += 1;
                vec!["no answer".to_owned()]
            }
        };
        for kind in found {
            let mut kinds = self.kinds.borrow_mut();
            let kind = kinds.entry(kind).or_insert_with(|| Kind {
                times: 0,
                first: sequence.clone(),
                smallest: None,
            });
            kind.times += 1;
        }
        outcome.map(drop)
    }

    fn progress(&self) {
        let count = self.count.borrow();
        let (done, differ) = (self.done(&count), count.differ);
        let seconds = self.begun.elapsed().as_secs_f64();
        if std::io::stdout().is_terminal() {
            if done.is_multiple_of(SHOW_EVERY) || done == self.settings.sequences {
                let end = if done == self.settings.sequences { "\n" } else { "" };
                print!(
                    "\r{done} of {} sequences, {differ} differ{end}",
                    self.settings.sequences
                );
                let _ = std::io::stdout().flush();
            }
        } else if done.is_multiple_of(LOG_EVERY) {
            println!("{done} sequences in {seconds:.0} s, {differ} differ");
        }
    }

    /// Sequences that were run; the definitions of each round are counted too.
    fn done(&self, count: &Count) -> u64 {
        let all = (count.agree + count.known + count.differ) as u64;
        let rounds = all.div_ceil(ROUND + self.world.definitions() as u64).max(1);
        all.saturating_sub(rounds * self.world.definitions() as u64)
    }

    /// Reduces the first sequence of each kind, the commonest kinds first.
    async fn reduce(&self, comparer: &mut Comparer) -> Outcome {
        let mut wanted: Vec<(usize, String, Sequence)> = {
            let kinds = self.kinds.borrow();
            let shown = kinds.values().filter(|kind| kind.smallest.is_some()).count();
            let new = kinds.iter().filter(|(_, kind)| kind.smallest.is_none());
            let mut new: Vec<_> = new
                .map(|(name, kind)| (kind.times, name.clone(), kind.first.clone()))
                .collect();
            new.sort_by_key(|(times, ..)| std::cmp::Reverse(*times));
            new.truncate(SHOWN_MAX.saturating_sub(shown));
            new
        };
        let begun = Instant::now();
        // Every run needs a namespace of its own.
        let mut attempt = 0;
        for (_, name, first) in wanted.drain(..) {
            let is_explained = |kind: &Kind| {
                kind.smallest
                    .as_ref()
                    .is_some_and(|(_, verdict)| kinds_of(verdict).contains(&name))
            };
            if self.kinds.borrow().values().any(is_explained) {
                continue;
            }
            let has = |verdict: &Verdict| kinds_of(verdict).contains(&name);
            attempt += 1;
            let Ok(verdict) = comparer.compare(&first.case(attempt)?, self.table).await else {
                continue;
            };
            let compare = async |candidate: &Sequence| {
                if begun.elapsed() > SMALLER_TIME_MAX {
                    return None;
                }
                attempt += 1;
                // One that refers to a removed request cannot be run.
                let case = candidate.case(attempt).ok()?;
                comparer.compare(&case, self.table).await.ok().filter(has)
            };
            let (left, verdict) = smallest(first.clone(), verdict, SMALLER_MAX, compare).await;
            if let Some(kind) = self.kinds.borrow_mut().get_mut(&name) {
                kind.smallest = Some((left.text(), verdict));
            }
        }
        Ok(())
    }

    /// Prints the kinds of differences, the commonest first.
    fn print_kinds(&self) {
        let kinds = self.kinds.borrow();
        let mut by_weight: Vec<(&String, &Kind)> = kinds.iter().collect();
        by_weight.sort_by_key(|(_, kind)| std::cmp::Reverse(kind.times));
        for (name, kind) in by_weight {
            println!("{} times: {name}", kind.times);
            if let Some((text, verdict)) = &kind.smallest {
                print!("\n{text}");
                show(verdict, false);
                println!();
            }
        }
        let count = self.count.borrow();
        println!(
            "{} sequences of seed {} in {:.1} s, {} kinds of differences",
            self.done(&count),
            self.settings.seed,
            self.begun.elapsed().as_secs_f64(),
            kinds.len()
        );
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
