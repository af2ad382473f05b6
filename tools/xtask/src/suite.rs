//! Starts suites of tests that are programs of their own: they need the product and real parts, this tool does not.

use std::path::PathBuf;

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
    /// Print what differs as it would stand in the table of known differences
    #[arg(long)]
    propose: bool,
    /// Let the embedded server keep its objects in an etcd of its own
    #[arg(long)]
    etcd: bool,
    /// Run no cases: start real Kubernetes with its controllers and scheduler, write its kubeconfig to this file, and end
    /// with Ctrl-C
    #[arg(long, value_name = "FILE", conflicts_with_all = ["filter", "show", "propose"])]
    serve: Option<PathBuf>,
}

/// A suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Suite {
    /// The same requests to real Kubernetes and to the embedded API server
    Conformance,
    /// The suite of all stores on a real etcd, and etcd killed in the middle of its work
    Stores,
}

pub(crate) fn run(test: &Test) -> Outcome {
    match test.suite {
        Suite::Conformance => conformance(test),
        Suite::Stores => stores(test),
    }
}

fn conformance(test: &Test) -> Outcome {
    real::run(Some(real::Part::Kubernetes))?;
    let mut command = cargo();
    command.args(["run", "--quiet", "--package", "tests-conformance", "--"]);
    command.args(&test.filter);
    for (flag, is_set) in [
        ("--show", test.show),
        ("--propose", test.propose),
        ("--etcd", test.etcd),
    ] {
        if is_set {
            command.arg(flag);
        }
    }
    if let Some(kubeconfig) = &test.serve {
        command.arg("--serve").arg(kubeconfig);
    }
    call(&mut command)
}

fn stores(test: &Test) -> Outcome {
    if test.show || test.propose || test.etcd || test.serve.is_some() {
        return Err("--show, --propose, --etcd and --serve belong to `test conformance`: leave them out".to_owned());
    }
    real::run(Some(real::Part::Etcd))?;
    let mut command = cargo();
    // Each starts an etcd of its own: not more of them at once than a small machine bears.
    command.args([
        "test",
        "--quiet",
        "--package",
        "tests-stores",
        "--test",
        "etcd",
        "--",
        "--test-threads",
        "2",
    ]);
    command.args(&test.filter);
    call(&mut command)
}
