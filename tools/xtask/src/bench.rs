//! Starts the measurements, which are a program of their own (`tests/bench`): they need the product's client, this tool does not.

use clap::ValueEnum;

use crate::process::{call, cargo};
use crate::{Outcome, real, suite};

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Bench {
    /// From a cold store to the first Shoot `Succeeded`, and a second reconcile without change
    FirstLight,
    /// Time, processor time and memory per Shoot when 1, 10 and 100 are created at once
    Shoots,
    /// The embedded API server beside kube-apiserver with etcd: requests a second and their cost, watches, memory, start
    Api,
    /// What memory one Shoot leaves behind that is created and deleted again and again
    Lives,
    /// How long Shoots take to hibernate and to wake, one alone and many at once, and what a hibernated one holds in memory
    Hibernations,
    /// Extensions by chart, sixty on five seeds and on one: time to installed, memory, processor, removal
    Installations,
    /// An extension with 1,000 objects, on our SDK and in Go: memory and processor at rest, all reconciled at once
    Extension,
    /// The garden's API alone with 10,000 Shoots: requests a second, memory, restart, and Shoots of one megabyte
    Garden,
    /// The garden's API on a real etcd: start with 10,000 Shoots, and 50 gardenlets that watch 2,400
    GardenEtcd,
    /// The garden as production runs it, beside real Kubernetes: memory of each process, and what many Seeds and Shoots take
    GardenProcesses,
    /// Charts that people use: how long one rendering takes us and Helm, and how much memory
    Charts,
}

/// Measures `runs` times, or as often as the measurement itself finds right.
pub(crate) fn run(what: Bench, runs: Option<u8>) -> Outcome {
    let name = what
        .to_possible_value()
        .map(|value| value.get_name().to_owned())
        .unwrap_or_default();
    let profile = match what {
        // What whoever follows the README's first command sees.
        Bench::FirstLight => "dev",
        Bench::Shoots | Bench::Lives | Bench::Hibernations | Bench::Installations | Bench::Garden => "release",
        Bench::Extension => {
            real::clients::extension_go()?;
            call(cargo().args(["build", "--release", "--package", "tests-bench-extension"]))?;
            "release"
        }
        Bench::Api | Bench::GardenEtcd => {
            real::run(Some(real::Part::Kubernetes))?;
            "release"
        }
        Bench::GardenProcesses => {
            suite::prepare_production()?;
            "release"
        }
        Bench::Charts if runs.is_some() => {
            return Err("each chart is rendered up to 1,000 times: leave --runs out".to_owned());
        }
        Bench::Charts => return charts(),
    };
    call(cargo().args(["build", "--profile", profile, "--package", "programs-orangery"]))?;
    let mut measure = cargo();
    measure.args([
        "run",
        "--quiet",
        "--profile",
        profile,
        "--package",
        "tests-bench",
        "--",
        &name,
    ]);
    if let Some(runs) = runs {
        measure.args(["--runs", &runs.to_string()]);
    }
    call(&mut measure)
}

/// A program that needs nothing of a cluster, and so no half hour to build.
fn charts() -> Outcome {
    real::prepare(&[real::Part::Helm, real::Part::Charts])?;
    call(cargo().args([
        "run",
        "--quiet",
        "--release",
        "--package",
        "tests-helm",
        "--",
        "--bench",
    ]))
}
