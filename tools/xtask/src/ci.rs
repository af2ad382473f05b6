//! Every check of a change, in the order from quick to slow; the tests come last so that their summary ends the output.

use crate::process::{call, call_watching, cargo};
use crate::{Outcome, licences, real, tidy};

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
    let (tally, doc_tests) = run_tests(tally, &["--workspace", "--no-fail-fast", "--doc"]);
    println!("\n{} passed, {} failed", tally.passed, tally.failed);
    tests.and(doc_tests)
}

fn run_checks() -> Outcome {
    call(cargo().args(["fmt", "--all", "--check"]))?;
    tidy::run(false)?;
    licences::run()?;
    call(cargo().args([
        "clippy",
        "--workspace",
        "--all-targets",
        "--quiet",
        "--",
        "--deny",
        "warnings",
    ]))?;
    call(
        cargo()
            .args(["doc", "--workspace", "--no-deps", "--document-private-items", "--quiet"])
            .env("RUSTDOCFLAGS", "--deny warnings"),
    )
}

/// Adds up what the test runners say in their closing lines.
#[derive(Default)]
pub(crate) struct Tally {
    passed: u64,
    failed: u64,
}

impl Tally {
    fn read(&mut self, line: &str) {
        let Some(figures) = line.strip_prefix("test result: ") else {
            return;
        };
        let figure = |name: &str| -> u64 {
            figures
                .split(['.', ';'])
                .find_map(|part| part.trim().strip_suffix(name)?.trim().parse().ok())
                .unwrap_or(0)
        };
        self.passed += figure("passed");
        self.failed += figure("failed");
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;

    #[test]
    fn figures_of_several_runners_are_added_up() {
        let mut tally = Tally::default();
        tally.read("test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s");
        tally.read("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s");
        tally.read("running 12 tests");
        assert_eq!((tally.passed, tally.failed), (15, 2));
    }
}
