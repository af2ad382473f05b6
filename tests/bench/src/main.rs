//! Measures the product as a user runs it: the real binary, real sockets, a cold store. Prints every run and the
//! median; it judges nothing, because machines differ.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool speaks on its standard streams"
)]

mod api;
mod first_light;
mod installations;
mod landscape;
mod lives;
mod process;
mod shoots;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::process::Place;

#[derive(Parser)]
#[command(about = "Measurements; start them with `cargo xtask bench`")]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// From process start to the first Shoot `Succeeded`, then a second reconcile without change; in memory and in a folder
    FirstLight {
        /// How many times; the median is reported
        #[arg(long, default_value_t = 5)]
        runs: u8,
    },
    /// Time and memory per Shoot when 1, 10 and 100 are created at once
    Shoots {
        /// How many times; the median is reported
        #[arg(long, default_value_t = 5)]
        runs: u8,
        /// Where the landscape keeps its state
        #[arg(long, value_enum, default_value_t = Place::Memory)]
        state: Place,
    },
    /// The embedded API server beside kube-apiserver with etcd: requests a second, what they cost, watches, memory, start
    Api(api::Arguments),
    /// What memory is left behind when one Shoot is created and deleted again and again; in memory and in a folder
    Lives {
        /// How many times
        #[arg(long, default_value_t = 100)]
        runs: u8,
    },
    /// Extensions by chart on five seeds and on one: time from a registration to its installations, memory, processor, removal
    Installations(installations::Arguments),
}

#[tokio::main]
async fn main() -> ExitCode {
    let measured = match Arguments::parse().what {
        What::FirstLight { runs } => first_light::run(runs).await,
        What::Shoots { runs, state } => shoots::run(runs, state).await,
        What::Api(arguments) => api::run(&arguments).await,
        What::Lives { runs } => lives::run(runs).await,
        What::Installations(arguments) => installations::run(&arguments).await,
    };
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}
