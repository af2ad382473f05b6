//! Whether memory is flat, by rules that stand here: over the last life under deeds, and after all Shoots have gone.
//! Plain functions over samples.

use std::fmt;

use crate::sample::{Phase, Sample};

/// How much more a Shoot may take in the last third of the longest life than in the second: noise of random pools, no more.
const GROWTH_MAX: f64 = 1.10;
/// How much more an empty landscape may take after everything than before, once it was started again.
const EMPTY_MAX: f64 = 1.25;
/// Which part of the memory under load may stay with the process when all Shoots have gone, and before it is started
/// again: what an allocator retains, and what is cached for a while of what was deleted.
const RETAINED_MAX: f64 = 0.5;
/// Below this, in megabytes, sizes say nothing: code and caches that every landscape has.
const FLOOR_MB: f64 = 150.0;
/// Fewer samples in a third say nothing.
const SAMPLES_MIN: usize = 5;

/// A rule, what was found, and whether it holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What must hold.
    pub rule: String,
    /// What was found.
    pub found: String,
    /// Whether it holds.
    pub holds: bool,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.holds { "holds" } else { "DOES NOT HOLD" };
        write!(f, "{}: {} ({verdict})", self.rule, self.found)
    }
}

/// The middle one; of an even number the greater of the two in the middle.
fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

/// All rules.
#[must_use]
pub fn findings(samples: &[Sample]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let last = samples
        .iter()
        .filter(|sample| sample.phase == Phase::Deeds)
        .map(|sample| sample.life)
        .max();
    let life: Vec<&Sample> = samples
        .iter()
        .filter(|sample| sample.phase == Phase::Deeds && Some(sample.life) == last && sample.shoots > 0)
        .collect();
    let third = life.len() / 3;
    if third >= SAMPLES_MIN {
        let (second, last) = (&life[third..2 * third], &life[2 * third..]);
        findings.push(growth("resident memory per Shoot", "MB", second, last, |sample| {
            sample.rss_anon_mb / sample.shoots as f64
        }));
        findings.push(growth("open files per Shoot", "files", second, last, |sample| {
            sample.open_files as f64 / sample.shoots as f64
        }));
        findings.push(growth("threads", "threads", second, last, |sample| {
            sample.threads as f64
        }));
    }
    findings.extend(retained(samples, &life));
    findings.extend(empty(samples));
    findings
}

fn growth(what: &str, unit: &str, second: &[&Sample], last: &[&Sample], figure: fn(&Sample) -> f64) -> Finding {
    let of = |samples: &[&Sample]| median(samples.iter().map(|sample| figure(sample)));
    let (before, after) = (of(second), of(last));
    Finding {
        rule: format!(
            "median of {what} in the last third of the last life under deeds, at most {GROWTH_MAX} times that in the second third"
        ),
        found: format!("{after:.2} {unit} after {before:.2}, {:.3} times", after / before),
        holds: after <= before * GROWTH_MAX,
    }
}

fn of_phase(samples: &[Sample], phase: Phase, figure: fn(&Sample) -> f64) -> Option<f64> {
    let figures: Vec<f64> = samples
        .iter()
        .filter(|sample| sample.phase == phase)
        .map(figure)
        .collect();
    // The second half: what was freed has been given back by then.
    let later = figures.get(figures.len() / 2..)?;
    (!later.is_empty()).then(|| median(later.iter().copied()))
}

fn retained(samples: &[Sample], life: &[&Sample]) -> Option<Finding> {
    let after = of_phase(samples, Phase::After, |sample| sample.rss_anon_mb)?;
    let loaded = median(life.iter().map(|sample| sample.rss_anon_mb));
    Some(Finding {
        rule: format!(
            "resident memory once all Shoots have gone, at most {RETAINED_MAX} of that under deeds or {FLOOR_MB} MB"
        ),
        found: format!("{after:.0} MB after {loaded:.0} MB, {:.2} of it", after / loaded),
        holds: after <= (loaded * RETAINED_MAX).max(FLOOR_MB),
    })
}

/// What it is called, its unit, and the figure.
type Compared = (&'static str, &'static str, fn(&Sample) -> f64);

fn empty(samples: &[Sample]) -> Vec<Finding> {
    let compared: [Compared; 3] = [
        ("resident memory", "MB", |sample| sample.rss_anon_mb),
        ("open files", "files", |sample| sample.open_files as f64),
        ("threads", "threads", |sample| sample.threads as f64),
    ];
    compared
        .into_iter()
        .filter_map(|(what, unit, figure)| {
            let before = of_phase(samples, Phase::Empty, figure)?;
            let again = of_phase(samples, Phase::Again, figure)?;
            Some(Finding {
                rule: format!("{what} of the empty landscape, started again after everything, at most {EMPTY_MAX} times that before"),
                found: format!("{again:.0} {unit} after {before:.0}, {:.2} times", again / before),
                holds: again <= before * EMPTY_MAX,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(phase: Phase, life: u32, megabytes: impl Fn(u32) -> f64) -> Vec<Sample> {
        (0..60)
            .map(|number| Sample {
                seconds: f64::from(number * 5),
                phase,
                life,
                rss_anon_mb: megabytes(number),
                rss_file_mb: 50.0,
                threads: 5,
                open_files: 900,
                cpu_seconds: 1.0,
                shoots: if matches!(phase, Phase::Deeds) { 100 } else { 0 },
                under_way: 3,
                folder_mb: 10.0,
                load: 1.0,
            })
            .collect()
    }

    fn rules_hold(megabytes: impl Fn(u32) -> f64, after: f64, again: f64) -> Vec<bool> {
        let all = [
            samples(Phase::Empty, 1, |_| 60.0),
            // A life before, of another size, is not compared with.
            samples(Phase::Deeds, 4, |_| 100.0),
            samples(Phase::Deeds, 5, megabytes),
            samples(Phase::After, 5, |_| after),
            samples(Phase::Again, 6, |_| again),
        ];
        findings(&all.concat()).iter().map(|finding| finding.holds).collect()
    }

    #[test]
    fn memory_that_grows_with_time_does_not_hold_and_noise_does() {
        let noise = |number: u32| 1000.0 + f64::from(number % 7) * 10.0;
        assert_eq!(rules_hold(noise, 300.0, 61.0), [true; 7]);
        let leak = |number: u32| 1000.0 + f64::from(number) * 8.0;
        assert!(!rules_hold(leak, 300.0, 61.0)[0]);
    }

    #[test]
    fn what_stays_after_the_last_shoot_does_not_hold() {
        let flat = |_| 1000.0;
        assert!(!rules_hold(flat, 800.0, 61.0)[3]);
        assert!(!rules_hold(flat, 300.0, 90.0)[4]);
    }

    #[test]
    fn growth_is_not_checked_in_too_short_a_life() {
        let few = samples(Phase::Deeds, 1, f64::from).split_off(50);
        assert!(findings(&few).is_empty());
    }
}
