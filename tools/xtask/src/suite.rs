//! Starts suites of tests that are programs of their own: they need the product and real parts, this tool does not.

use clap::ValueEnum;

use crate::process::{call, cargo};
use crate::{Outcome, real};

/// Which tests, and which of them.
#[derive(clap::Args)]
pub(crate) struct Test {
    /// The suite
    suite: Suite,
    /// Only cases whose name contains this text
    filter: Option<String>,
    /// Show what the real server answers
    #[arg(long)]
    show: bool,
}

/// A suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Suite {
    /// The same requests to real Kubernetes and to the embedded API server
    Conformance,
}

pub(crate) fn run(test: &Test) -> Outcome {
    match test.suite {
        Suite::Conformance => conformance(test),
    }
}

fn conformance(test: &Test) -> Outcome {
    real::run(Some(real::Part::Kubernetes))?;
    let mut command = cargo();
    command.args(["run", "--quiet", "--package", "tests-conformance", "--"]);
    command.args(&test.filter);
    if test.show {
        command.arg("--show");
    }
    call(&mut command)
}
