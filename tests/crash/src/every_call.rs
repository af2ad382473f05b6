//! The same story again and again: each time the process dies at another call, and another process goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base_clock::Entropy;
use landscape_local::Settings;

use crate::death::{Deed, Moment, Reaper};
use crate::life::{Legacy, Life, runtime};
use crate::picture::Picture;
use crate::script::{Lifecycle, Phase, act};

/// How long a process still lives after its last phase, so that it can die at what is tidied up later.
const AFTERMATH: Duration = Duration::from_secs(900);
/// How long a dead process stays dead.
const GONE_FOR: Duration = Duration::from_secs(1);
/// How often a story is repeated in which a call did not come: tasks of equal right run in an order that differs.
const TRIES: u32 = 3;

/// A run in which nothing dies.
#[derive(Clone, Debug)]
pub struct Baseline {
    /// What the user works on.
    pub lifecycle: Lifecycle,
    /// Its seed.
    pub seed: u64,
    /// The calls that write, in their order.
    pub deeds: Vec<Deed>,
    /// What there is after each phase.
    pub pictures: BTreeMap<Phase, Picture>,
}

/// What came of a death.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survived {
    /// It was as if nothing had died.
    Well,
    /// The moment never came: the run differed from the one without a death.
    NotReached,
}

/// What came of many.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Deaths after which it was as if nothing had died.
    pub well: usize,
    /// Moments that never came.
    pub not_reached: Vec<Moment>,
    /// The others, and what differed.
    pub failed: Vec<(Moment, String)>,
}

/// Runs the story without a death.
///
/// # Errors
/// The story does not end well.
pub fn baseline(lifecycle: Lifecycle, seed: u64) -> Result<Baseline, String> {
    let folder = folder()?;
    let reaper = Reaper::new(None);
    let mut pictures = BTreeMap::new();
    runtime()?.block_on(async {
        let change = changes(lifecycle, Phase::Start, &reaper);
        let mut life = Life::start(folder.path(), seed, None, change, |_| {}).await?;
        for phase in lifecycle.phases().iter().copied() {
            reaper.enter(phase);
            live(&mut life, lifecycle, phase, &reaper, |_| {}).await?;
            pictures.insert(phase, life.view.at_rest(phase).await?);
        }
        Ok::<_, String>(())
    })?;
    let leftovers = lifecycle.leftovers(&pictures);
    if !leftovers.is_empty() {
        return Err(format!(
            "without a death, the last phase leaves: {}",
            leftovers.join("; ")
        ));
    }
    let mut deeds = reaper.deeds();
    deeds.retain(|deed| lifecycle.fatal_phases().contains(&deed.phase));
    Ok(Baseline {
        lifecycle,
        seed,
        deeds,
        pictures,
    })
}

/// The settings of a life in a phase.
fn changes(lifecycle: Lifecycle, phase: Phase, reaper: &Reaper) -> impl FnOnce(&mut Settings) {
    let (layers, node_access) = (reaper.layers(), lifecycle.node_access(phase));
    move |settings| {
        settings.layers = layers;
        settings.node_access = Some(node_access);
    }
}

/// Does what belongs to a phase, in a landscape with the settings for it.
async fn live(
    life: &mut Life,
    lifecycle: Lifecycle,
    phase: Phase,
    reaper: &Reaper,
    keep: impl FnOnce(&Legacy),
) -> Result<(), String> {
    if life.node_access != lifecycle.node_access(phase) {
        life.restart(changes(lifecycle, phase, reaper), keep).await?;
    }
    life.ready().await?;
    act(&life.view, phase).await?;
    if phase == Phase::Create {
        life.view.mark().await?;
    }
    Ok(())
}

/// Lets the process die at a moment, starts another on what it left, and compares.
///
/// # Errors
/// What was not as without a death.
pub fn survive(baseline: &Baseline, moment: &Moment) -> Result<Survived, String> {
    let folder = folder()?;
    let reaper = Reaper::new(Some(moment.clone()));
    let Some(legacy) = first_life(baseline, moment.deed.phase, &reaper, folder.path())? else {
        return Ok(Survived::NotReached);
    };
    let phase = reaper.phase();
    runtime()?.block_on(second_life(baseline, phase, legacy, folder.path()))?;
    Ok(Survived::Well)
}

/// Lives until death; gives what it leaves, or nothing when death did not come.
fn first_life(baseline: &Baseline, last: Phase, reaper: &Reaper, folder: &Path) -> Result<Option<Legacy>, String> {
    let kept: Mutex<Option<Legacy>> = Mutex::default();
    let story = async {
        let keep = |legacy: &Legacy| *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(legacy.clone());
        let change = changes(baseline.lifecycle, Phase::Start, reaper);
        let mut life = Life::start(folder, baseline.seed, None, change, keep).await?;
        for phase in phases(baseline).filter(|phase| *phase <= last) {
            reaper.enter(phase);
            live(&mut life, baseline.lifecycle, phase, reaper, keep).await?;
            if phase < last {
                life.view.becomes(phase, &baseline.pictures[&phase]).await?;
            }
        }
        tokio::time::sleep(AFTERMATH).await;
        Ok(())
    };
    let runtime = runtime()?;
    let died = runtime.block_on(async {
        tokio::select! {
            biased;
            () = reaper.died() => Ok::<_, String>(true),
            lived = story => lived.map(|()| false),
        }
    })?;
    let left = kept.lock().unwrap_or_else(PoisonError::into_inner).take();
    Ok(left.filter(|_| died).map(|legacy| legacy.after(&runtime, GONE_FOR)))
}

async fn second_life(baseline: &Baseline, died_in: Phase, legacy: Legacy, folder: &Path) -> Result<(), String> {
    let reaper = Reaper::new(None);
    let change = changes(baseline.lifecycle, died_in, &reaper);
    let mut life = Life::start(folder, baseline.seed, Some(legacy), change, |_| {}).await?;
    let lasting = baseline.lifecycle.lasting(&life.view).await?;
    let last = baseline.lifecycle.phases().last();
    for phase in phases(baseline).filter(|phase| *phase >= died_in) {
        // A pool more is a story of its own.
        if phase == Phase::Update && died_in != Phase::Update {
            continue;
        }
        let wanted = &baseline.pictures[&phase];
        if let Err(why) = live(&mut life, baseline.lifecycle, phase, &reaper, |_| {}).await {
            return Err(life.view.explain(phase, wanted, why).await);
        }
        life.view.becomes(phase, wanted).await?;
        if Some(&phase) != last {
            let left = baseline.lifecycle.lasting(&life.view).await?;
            if let Some(lost) = lasting.iter().find(|uid| !left.contains(*uid)) {
                return Err(format!("after {phase}, the object of uid {lost} is there no more"));
            }
        }
    }
    Ok(())
}

fn phases(baseline: &Baseline) -> impl Iterator<Item = Phase> {
    baseline.lifecycle.phases().iter().copied()
}

/// The moments of a run: each call, executed or not. `part` of them, drawn by the seed and spread over all phases; all when
/// there are no more.
#[must_use]
pub fn moments(baseline: &Baseline, before: bool, part: Option<usize>) -> Vec<Moment> {
    let all = baseline.deeds.iter().cloned().map(|deed| Moment { deed, before });
    let Some(part) = part.filter(|part| *part < baseline.deeds.len() && *part > 0) else {
        return all.collect();
    };
    let entropy = Entropy::seeded(baseline.seed);
    // One of each phase first: some are much shorter than others.
    let mut chosen = BTreeSet::new();
    for phase in phases(baseline) {
        let of_phase = (0..baseline.deeds.len()).filter(|at| baseline.deeds[*at].phase == phase);
        let of_phase: Vec<usize> = of_phase.collect();
        if !of_phase.is_empty() && chosen.len() < part {
            chosen.insert(of_phase[entropy.below(of_phase.len() as u64) as usize]);
        }
    }
    let spread = part - chosen.len();
    let stride = baseline.deeds.len() as f64 / spread.max(1) as f64;
    let begins = (0..spread).map(|number| (number as f64 * stride) as usize);
    chosen.extend(begins.map(|begin| begin + entropy.below(stride as u64) as usize));
    let all: Vec<Moment> = all.collect();
    chosen.into_iter().filter_map(|at| all.get(at).cloned()).collect()
}

/// Lets the process die at each moment, on so many threads; `say` hears of each.
#[must_use]
pub fn survive_all(
    baseline: &Baseline,
    moments: &[Moment],
    threads: usize,
    say: impl Fn(&Moment, &Result<Survived, String>) + Sync,
) -> Tally {
    let next = AtomicUsize::new(0);
    let tally: Mutex<Tally> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while let Some(moment) = moments.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut outcome = Ok(Survived::NotReached);
                    for _ in 0..TRIES {
                        outcome = survive(baseline, moment);
                        if outcome != Ok(Survived::NotReached) {
                            break;
                        }
                    }
                    say(moment, &outcome);
                    let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
                    match outcome {
                        Ok(Survived::Well) => tally.well += 1,
                        Ok(Survived::NotReached) => tally.not_reached.push(moment.clone()),
                        Err(why) => tally.failed.push((moment.clone(), why)),
                    }
                }
            });
        }
    });
    tally.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn folder() -> Result<tempfile::TempDir, String> {
    tempfile::tempdir().map_err(|error| format!("cannot make a folder: {error}"))
}
