//! Figures of runs, and how they are printed.

use std::time::Duration;

use crate::landscape::{median, shown};

/// One figure of one run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figure {
    what: String,
    unit: &'static str,
    value: f64,
}

impl Figure {
    pub(super) fn new(what: &str, unit: &'static str, value: f64) -> Self {
        Self {
            what: what.to_owned(),
            unit,
            value,
        }
    }

    pub(super) fn milliseconds(what: &str, time: Duration) -> Self {
        Self::new(what, "ms", time.as_secs_f64() * 1e3)
    }
}

/// Prints what one run has shown.
pub(super) fn print_run(title: &str, figures: &[Figure]) {
    println!("{title}:");
    for Figure { what, unit, value } in figures {
        println!("  {what:<48} {:>9} {unit}", shown(*value));
    }
}

/// Prints the median of each figure, with the least and the greatest of all runs.
pub(super) fn print_medians(title: &str, runs: &[Vec<Figure>]) {
    println!("{title}:");
    for line in median_lines(runs) {
        println!("  {line}");
    }
}

fn median_lines(runs: &[Vec<Figure>]) -> Vec<String> {
    let first = runs.first().map(Vec::as_slice).unwrap_or_default();
    let lines = first.iter().map(|figure| {
        // By name and not by place: a figure that only some runs have must not stand for another.
        let values = runs.iter().flatten().filter(|other| other.what == figure.what);
        let values: Vec<f64> = values.map(|other| other.value).collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        format!(
            "{:<48} {:>9} {} ({} to {})",
            figure.what,
            shown(median(values.into_iter())),
            figure.unit,
            shown(least),
            shown(greatest)
        )
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_printed_with_the_least_and_the_greatest() {
        let run = |value| vec![Figure::new("create", "a second", value)];
        let lines = median_lines(&[run(700.0), run(9.5), run(650.4)]);
        let parts: Vec<&str> = lines[0].split_whitespace().collect();
        assert_eq!(parts, ["create", "650", "a", "second", "(9.50", "to", "700)"]);
    }

    #[test]
    fn figure_that_only_some_runs_have_is_not_mixed_with_another() {
        let list = Figure::new("list", "ms", 80.0);
        let with_create = vec![Figure::new("create", "ms", 5.0), list.clone()];
        let lines = median_lines(&[vec![list], with_create]);
        assert_eq!(lines.len(), 1);
        assert!(lines[0].ends_with("(80 to 80)"), "{lines:?}");
    }
}
