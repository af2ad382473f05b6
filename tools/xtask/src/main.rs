//! The project's own commands, run as `cargo xtask COMMAND`. Never part of the product.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool speaks on its standard streams"
)]

mod bench;
mod cache;
mod ci;
mod crash;
mod fuzz;
mod generate;
mod landscape;
mod lexer;
mod licences;
mod modules;
mod process;
mod real;
mod soak;
mod suite;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What a command answers when it could not do its work: a sentence for the person at the terminal.
pub(crate) type Outcome<T = ()> = Result<T, String>;

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Checks, generates and prepares what the repository needs"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run every check that a change must pass: format, clippy, tidy, licences, docs, tests
    Ci,
    /// Check layers of crates and of modules, names of packages and tests, file headers, sizes and banned words
    Tidy {
        /// Write today's sizes into the ratchet where they shrank
        #[arg(long)]
        update_ratchet: bool,
    },
    /// Write the committed generated files again: custom resource definitions, reference pages, pictures
    Generate,
    /// Prepare real parts from the package registries in a cache outside the checkout
    Real {
        /// The part to prepare; all of them when absent
        part: Option<real::Part>,
    },
    /// Run tests that need real parts and stand apart from `ci`
    Test(suite::Test),
    /// Sequences of requests drawn from a seed, sent to real Kubernetes and to the embedded API server; what differs is
    /// reduced and reported by its kind
    Conformance(suite::Drawn),
    /// Measure: `bench first-light` starts the product cold and times the first Shoot, `bench shoots` times many at once,
    /// `bench lives` one that comes and goes, `bench api` the API server beside the real one, `bench garden` the garden's API
    Bench {
        /// What to measure
        what: bench::Bench,
        /// How many runs instead of the usual number; the median is reported
        #[arg(long, value_parser = clap::value_parser!(u8).range(1..))]
        runs: Option<u8>,
    },
    /// Feed the fuzzers of `fuzz/`, and print what they found
    Fuzz(fuzz::Fuzz),
    /// Kill the product in the middle of its work, again and again, and look at what comes of it
    Crash(crash::Crash),
    /// The production form on real Kubernetes, to try it: garden, seeds, and each of our parts a process
    Landscape(landscape::Landscape),
    /// Many Shoots with random changes, faults and restarts for a while; measured and drawn
    Soak(soak::Soak),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Ci => ci::run(),
        Command::Tidy { update_ratchet } => tidy::run(update_ratchet),
        Command::Generate => generate::run(),
        Command::Real { part } => real::run(part),
        Command::Test(arguments) => suite::run(&arguments),
        Command::Conformance(arguments) => suite::drawn(&arguments),
        Command::Bench { what, runs } => bench::run(what, runs),
        Command::Fuzz(arguments) => fuzz::run(&arguments),
        Command::Crash(arguments) => crash::run(&arguments),
        Command::Landscape(arguments) => landscape::run(&arguments),
        Command::Soak(arguments) => soak::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}
