//! Every check of a change, in the order from quick to slow; the tests come last so that their summary ends the output.

use crate::process::{call, call_watching, cargo};
use crate::{Outcome, licences, real, suite, tidy};

fn run_tests(mut tally: Tally, arguments: &[&str]) -> (Tally, Outcome) {
    let outcome = call_watching(cargo().arg("test").args(arguments), |line| tally.read(line));
    (tally, outcome)
}

pub(crate) fn run() -> Outcome {
    run_checks()?;
    real::run(Some(real::Part::Kubectl))?;
    let (tally, tests) = run_tests(
        Tally::default(),
        &["--workspace", "--no-fail-fast", "--lib", "--bins", "--tests"],
    );
    // They need the program `orangery`, which is built by now; by its name in the workspace, so that nothing is built twice.
    let (tally, exec) = run_tests(tally, &["--workspace", "--test", suite::EXEC]);
    let (tally, extension) = extension_in_go(tally);
    let (tally, on_kubernetes) = beside_kubernetes(tally);
    let (mut tally, doc_tests) = run_tests(tally, &["--workspace", "--no-fail-fast", "--doc"]);
    let compared = suite::compare(|line| tally.read(line));
    println!("\n{} passed, {} failed", tally.passed, tally.failed);
    for name in &tally.failed_tests {
        println!("failed: {name}");
    }
    all_of([tests, exec, extension, on_kubernetes, doc_tests, compared])
}

/// Every failure, not only the first, so that the end of a long run names all of them.
fn all_of(outcomes: impl IntoIterator<Item = Outcome>) -> Outcome {
    let failures: Vec<String> = outcomes.into_iter().filter_map(Outcome::err).collect();
    if failures.is_empty() {
        Ok(())
    } else {
        Err(failures.join("\n"))
    }
}

/// The production form beside real Kubernetes, and a Shoot whose control plane is real.
fn beside_kubernetes(tally: Tally) -> (Tally, Outcome) {
    if let Err(error) = suite::prepare_production() {
        return (tally, Err(error));
    }
    let (tally, production) = run_tests(
        tally,
        &["--workspace", "--test", suite::PRODUCTION, "--", "--test-threads", "2"],
    );
    let (tally, real_shoot) = run_tests(
        tally,
        &["--workspace", "--test", suite::REAL_SHOOT, "--", "--test-threads", "1"],
    );
    (tally, all_of([production, real_shoot]))
}

/// The example extension in Go beside `orangery up`.
fn extension_in_go(tally: Tally) -> (Tally, Outcome) {
    match real::clients::extension_go() {
        Ok(()) => run_tests(tally, &["--workspace", "--test", suite::EXTENSIONS, "--", "in_go"]),
        failed => (tally, failed),
    }
}

fn run_checks() -> Outcome {
    call(cargo().args(["fmt", "--all", "--check"]))?;
    tidy::run(false)?;
    licences::run()?;
    clippy(&["--all-targets"])?;
    // The tests that only run beside real parts are targets with `test = false`: `--all-targets` leaves them out, named or not.
    clippy(&["--test", "*"])?;
    call(
        cargo()
            .args(["doc", "--workspace", "--no-deps", "--document-private-items", "--quiet"])
            .env("RUSTDOCFLAGS", "--deny warnings"),
    )
}

fn clippy(targets: &[&str]) -> Outcome {
    call(
        cargo()
            .args(["clippy", "--workspace", "--quiet"])
            .args(targets)
            .args(["--", "--deny", "warnings"]),
    )
}

/// Adds up the figures in the closing lines of test runners, and collects the names of failed tests.
#[derive(Default)]
pub(crate) struct Tally {
    passed: u64,
    failed: u64,
    failed_tests: Vec<String>,
}

impl Tally {
    fn read(&mut self, line: &str) {
        if let Some(figures) = line.strip_prefix("test result: ") {
            self.passed += figure(figures, "passed");
            self.failed += figure(figures, "failed");
        } else if let Some(name) = line
            .strip_prefix("test ")
            .and_then(|rest| rest.strip_suffix(" ... FAILED"))
        {
            self.failed_tests.push(name.to_owned());
        } else if let Some((_, figures)) = line
            .split_once(" cases in ")
            .and_then(|(_, rest)| rest.split_once(": "))
        {
            self.passed += figure(figures, "agree") + figure(figures, "with known differences");
            self.failed += figure(figures, "differ");
        }
    }
}

/// The number before a word, in a line of such pairs.
fn figure(figures: &str, name: &str) -> u64 {
    figures
        .split(['.', ';', ','])
        .find_map(|part| part.trim().strip_suffix(name)?.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{Tally, all_of};

    #[test]
    fn every_failure_is_reported() {
        let outcomes = [Err("one failed".to_owned()), Ok(()), Err("another failed".to_owned())];
        assert_eq!(all_of(outcomes), Err("one failed\nanother failed".to_owned()));
        assert_eq!(all_of([Ok(()), Ok(())]), Ok(()));
    }

    #[test]
    fn figures_of_several_runners_are_added_up() {
        let mut tally = Tally::default();
        tally.read("test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s");
        tally.read("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s");
        tally.read("running 12 tests");
        tally.read("test requests::patch ... ok");
        tally.read("test requests::watch ... FAILED");
        tally.read("20 cases in 4.1 s: 12 agree, 7 with known differences, 1 differ");
        assert_eq!((tally.passed, tally.failed), (34, 3));
        assert_eq!(tally.failed_tests, ["requests::watch"]);
    }
}
