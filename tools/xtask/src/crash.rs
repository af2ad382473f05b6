//! Starts the crash tests in full, which are a program of their own (`tests/crash`): they need the product, this tool does not.

use crate::Outcome;
use crate::process::{call, cargo};

/// What to kill or to break, how often, where to begin.
#[derive(clap::Args)]
pub(crate) struct Crash {
    /// Die at every API call that writes in the life of a Shoot, in its hibernation, in the life of one with a tunnel to its
    /// nodes and in that of an installation, in one process and virtual time; else kill the real binary at random moments
    #[arg(long, group = "simulated")]
    every_call: bool,
    /// Only those calls that are made while an extension is installed, upgraded and removed
    #[arg(long, requires = "every_call", conflicts_with_all = ["hibernation", "tunnel"])]
    installation: bool,
    /// Only those calls that are made while a Shoot is hibernated and woken
    #[arg(long, requires = "every_call", conflicts_with = "tunnel")]
    hibernation: bool,
    /// Only those calls that are made for a Shoot with a tunnel to its nodes, and while a Shoot gets one and loses it
    #[arg(long, requires = "every_call")]
    tunnel: bool,
    /// Harm every task of a Shoot's flows instead, in one process and virtual time: it fails, runs twice, hangs, panics
    #[arg(long, group = "simulated")]
    tasks: bool,
    /// Kill processes that write to a file store instead, 1,000 times unless --runs is given
    #[arg(long, conflicts_with = "simulated")]
    store: bool,
    /// Seed of everything that is random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many times the real binary is killed: 100 times if left out
    #[arg(long, conflicts_with = "simulated")]
    runs: Option<u32>,
    /// Only calls whose description contains this text, as a failure prints it
    #[arg(long, requires = "every_call")]
    call: Option<String>,
    /// Only harm whose description contains this text, as a failure prints it
    #[arg(long, requires = "tasks")]
    life: Option<String>,
    /// Only so many calls or harmed tasks, spread over all
    #[arg(long, requires = "simulated")]
    sample: Option<usize>,
    /// Die before the server has executed the call instead of after it
    #[arg(long, requires = "every_call")]
    before: bool,
}

/// How often the real binary is killed.
const RUNS: u32 = 100;
/// How often a process that writes to a file store is killed: each takes a fifth of a second.
const STORE_RUNS: u32 = 1000;

pub(crate) fn run(crash: &Crash) -> Outcome {
    if crash.store {
        return store(crash);
    }
    let how = match (crash.every_call, crash.tasks) {
        (true, _) => "every-call",
        (_, true) => "tasks",
        _ => "process",
    };
    // A thousand lives in a fifth of the time; the few of a sample do not make up for the build.
    let profile = crash.sample.map_or("release", |_| "dev");
    if how == "process" {
        call(cargo().args(["build", "--profile", profile, "--package", "programs-orangery"]))?;
    }
    let mut command = cargo();
    command.args(["run", "--quiet", "--profile", profile, "--package", "tests-crash"]);
    command.args(["--", how]);
    command.args(["--seed", &crash.seed.to_string()]);
    if how == "process" {
        command.args(["--runs", &crash.runs.unwrap_or(RUNS).to_string()]);
    } else if let Some(sample) = crash.sample {
        command.args(["--sample", &sample.to_string()]);
    }
    if crash.hibernation {
        command.args(["--lifecycle", "hibernation"]);
    }
    if crash.tunnel {
        command.args(["--lifecycle", "tunnel", "--lifecycle", "node-access"]);
    }
    if crash.installation {
        command.args(["--lifecycle", "installation"]);
    }
    if let Some(text) = &crash.call {
        command.args(["--call", text]);
    }
    if let Some(text) = &crash.life {
        command.args(["--life", text]);
    }
    if crash.before {
        command.arg("--before");
    }
    call(&mut command)
}

fn store(crash: &Crash) -> Outcome {
    let mut command = cargo();
    command.args(["run", "--quiet", "--package", "tests-stores", "--", "kill"]);
    command.args(["--seed", &crash.seed.to_string()]);
    command.args(["--runs", &crash.runs.unwrap_or(STORE_RUNS).to_string()]);
    call(&mut command)
}
