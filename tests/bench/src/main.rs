//! Measures the product as a user runs it: the real binary, real sockets, a cold store. Prints every run and the
//! median; it sets no limits, because machines differ.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool speaks on its standard streams"
)]

mod api;
mod extension;
mod first_light;
mod garden;
mod hibernations;
mod installations;
mod landscape;
mod lives;
mod load;
mod process;
mod server;
mod shoots;
mod watches;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::process::beside_this;

#[derive(Parser)]
#[command(about = "Measurements; start them with `cargo xtask bench`")]
struct Arguments {
    /// The `orangery` that is measured, in place of the one that was built with this program
    #[arg(long, global = true, value_name = "PATH")]
    program: Option<PathBuf>,
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
    /// Time, processor time and memory per Shoot when many are created at once
    Shoots(shoots::Arguments),
    /// The embedded API server beside kube-apiserver with etcd: requests a second, what they cost, watches, memory, start
    Api(api::Arguments),
    /// What memory is left behind when one Shoot is created and deleted again and again; in memory and in a folder
    Lives {
        /// How many times
        #[arg(long, default_value_t = 100)]
        runs: u8,
    },
    /// How long Shoots take to hibernate and to wake, one alone and many at once, and what a hibernated one holds in memory
    Hibernations(hibernations::Arguments),
    /// Extensions by chart on five seeds and on one: time from a registration to its installations, memory, processor, removal
    Installations(installations::Arguments),
    /// An extension with many objects, on our SDK and in Go: memory and processor at rest, all objects reconciled at once
    Extension(extension::Arguments),
    /// The garden's API alone with many Shoots: requests a second, memory, restart, and Shoots of one megabyte
    Garden(garden::Arguments),
    /// The garden's API on etcd: start with many Shoots, and many gardenlets that watch
    GardenEtcd(garden::etcd::Arguments),
    /// The garden as production runs it, beside real Kubernetes: memory of each process, and what many Seeds and Shoots take
    GardenProcesses(garden::processes::Arguments),
}

#[tokio::main]
async fn main() -> ExitCode {
    match measure(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(arguments: Arguments) -> Result<(), String> {
    if let (What::GardenProcesses(processes), None) = (&arguments.what, &arguments.program) {
        return garden::processes::run(processes).await;
    }
    let program = match arguments.program {
        Some(program) => program,
        None => beside_this()?,
    };
    match arguments.what {
        What::FirstLight { runs } => first_light::run(runs, &program).await,
        What::Shoots(arguments) => shoots::run(&arguments, &program).await,
        What::Api(arguments) => api::run(&arguments, &program).await,
        What::Lives { runs } => lives::run(runs, &program).await,
        What::Hibernations(arguments) => hibernations::run(&arguments, &program).await,
        What::Installations(arguments) => installations::run(&arguments, &program).await,
        What::Extension(arguments) => extension::run(&arguments, &program).await,
        What::Garden(arguments) => garden::run(&arguments, &program).await,
        What::GardenEtcd(arguments) => garden::etcd::run(&arguments, &program).await,
        What::GardenProcesses(_) => Err(format!(
            "--program is {}: garden-processes starts the one beside this program; leave it out",
            program.display()
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn program_of_another_folder_is_measured_by_each_subcommand() {
        for what in [
            "first-light",
            "shoots",
            "api",
            "lives",
            "hibernations",
            "installations",
            "extension",
            "garden",
            "garden-etcd",
        ] {
            let arguments = Arguments::try_parse_from(["tests-bench", what, "--program", "/opt/orangery"]).unwrap();
            assert_eq!(arguments.program.as_deref(), Some(Path::new("/opt/orangery")), "{what}");
        }
    }

    #[test]
    fn shoots_are_counted_as_the_arguments_require() {
        let counts =
            |arguments: &[&str]| match Arguments::try_parse_from([&["tests-bench", "shoots"], arguments].concat())
                .unwrap()
                .what
            {
                What::Shoots(arguments) => arguments.counts,
                _ => panic!("another measurement was parsed"),
            };
        assert_eq!(counts(&[]), [1, 10, 100]);
        assert_eq!(counts(&["--counts", "20,300"]), [20, 300]);
    }

    #[test]
    fn garden_has_ten_thousand_shoots_and_three_runs_by_default() {
        let arguments = Arguments::try_parse_from(["tests-bench", "garden"]).unwrap();
        let What::Garden(arguments) = arguments.what else {
            panic!("another measurement was parsed");
        };
        assert_eq!((arguments.count, arguments.runs), (10_000, 3));
        assert!(!arguments.requests_alone);
    }

    #[test]
    fn garden_without_shoots_is_refused() {
        assert!(Arguments::try_parse_from(["tests-bench", "garden", "--count", "0"]).is_err());
    }
}
