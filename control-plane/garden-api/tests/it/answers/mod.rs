//! Recorded answers of gardener-apiserver v1.149.0 (behind kube-apiserver v1.35.4) to requests that users make, replayed
//! against the garden's kinds. What differs stands in `tests/answers/known-differences.yaml` with its reason: an unknown
//! difference fails the test, and so does an entry that no longer differs. `tests/answers/README.md` describes the files.

mod cause;
mod compare;
mod fuzzed;
mod normal;
mod replay;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::Value;

use replay::{Recorded, Replay};

const CASES: &str = include_str!("../../answers/cases.jsonl");
const KNOWN: &str = include_str!("../../answers/known-differences.yaml");
/// Names a file that receives every difference and, at its end, their causes by number of cases.
const REPORT_VARIABLE: &str = "GARDEN_ANSWERS_REPORT";
/// Differences that a failure prints for one case.
const SHOWN_MAX: usize = 8;

/// Cases that are known to differ, and why.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    reason: String,
    cases: Vec<String>,
}

/// A case whose answers differ.
struct Differing {
    name: String,
    lines: Vec<String>,
    causes: BTreeSet<cause::Cause>,
}

#[tokio::test(start_paused = true)]
async fn answers_are_those_of_gardener_but_for_known_differences() {
    let recorded = Recorded::read(CASES);
    let replay = Replay::start(&recorded.fixtures).await;
    let mut differing = Vec::new();
    for case in &recorded.cases {
        let answers = replay.run(&case.steps).await;
        let mut lines = Vec::new();
        for (step, (expected, got)) in case.expect.iter().zip(&answers).enumerate() {
            let found = compare::differences(expected, got);
            lines.extend(found.into_iter().map(|line| format!("step {step} {line}")));
        }
        if !lines.is_empty() {
            let causes = cause::of_case(&case.expect, &answers);
            differing.push(Differing {
                name: case.name.clone(),
                lines,
                causes,
            });
        }
    }
    if let Some(path) = std::env::var_os(REPORT_VARIABLE) {
        std::fs::write(path, report(&differing, recorded.cases.len())).unwrap();
    }
    let names: BTreeSet<&str> = recorded.cases.iter().map(|case| case.name.as_str()).collect();
    let complaints = complaints(&differing, &names);
    assert!(complaints.is_empty(), "{complaints}");
}

/// What does not agree with the table of known differences.
fn complaints(differing: &[Differing], names: &BTreeSet<&str>) -> String {
    let entries: Vec<Known> = serde_saphyr::from_str(KNOWN).unwrap();
    let mut known = BTreeMap::new();
    let mut text = String::new();
    for entry in &entries {
        for case in &entry.cases {
            if !names.contains(case.as_str()) {
                writeln!(text, "known-differences.yaml names {case}, which is no case").unwrap();
            }
            if known.insert(case.as_str(), entry.reason.as_str()).is_some() {
                writeln!(text, "known-differences.yaml names {case} twice").unwrap();
            }
        }
    }
    for case in differing {
        if known.remove(case.name.as_str()).is_none() {
            writeln!(text, "{} differs:", case.name).unwrap();
            for line in case.lines.iter().take(SHOWN_MAX) {
                writeln!(text, "    {line}").unwrap();
            }
        }
    }
    for case in known.into_keys() {
        writeln!(text, "{case} no longer differs: remove it from known-differences.yaml").unwrap();
    }
    text
}

fn report(differing: &[Differing], total: usize) -> String {
    let mut text = String::new();
    let mut causes: BTreeMap<&cause::Cause, usize> = BTreeMap::new();
    for case in differing {
        writeln!(text, "DIFFERS {}", case.name).unwrap();
        for line in &case.lines {
            writeln!(text, "    {line}").unwrap();
        }
        for cause in &case.causes {
            *causes.entry(cause).or_default() += 1;
        }
    }
    let mut causes: Vec<_> = causes.into_iter().collect();
    causes.sort_by_key(|((group, what), count)| (group.clone(), std::cmp::Reverse(*count), what.clone()));
    for ((group, what), count) in causes {
        writeln!(text, "{count:5} {group}: {what}").unwrap();
    }
    writeln!(text, "{total} cases, {} differ", differing.len()).unwrap();
    text
}

/// A text at a pointer; empty when it is missing.
fn text_at<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
