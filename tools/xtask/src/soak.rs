//! Starts the soak, which is a program of its own (`tests/soak`): it needs the product, this tool does not.

use std::path::PathBuf;

use crate::Outcome;
use crate::process::{call, cargo};

/// How many Shoots, for how long, where to begin.
#[derive(clap::Args)]
pub(crate) struct Soak {
    /// How many Shoots; the local provider has networks for about 250
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..=240))]
    shoots: u16,
    /// How long deeds and faults go on
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=1440))]
    minutes: u16,
    /// Seed of all deeds and faults
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many Shoots are worked on before the next deed waits
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=100))]
    in_flight: u8,
    /// Folder for samples, report and plot; new or empty. In the system's temporary folder if left out
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Only redraw the plot of the samples in this folder
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["shoots", "minutes", "seed", "in_flight", "out"])]
    draw: Option<PathBuf>,
}

pub(crate) fn run(soak: &Soak) -> Outcome {
    if soak.draw.is_none() {
        call(cargo().args(["build", "--release", "--package", "programs-orangery"]))?;
    }
    let mut command = cargo();
    command.args(["run", "--release", "--quiet", "--package", "tests-soak", "--"]);
    if let Some(folder) = &soak.draw {
        return call(command.arg("--draw").arg(folder));
    }
    for (name, value) in [
        ("--shoots", soak.shoots.to_string()),
        ("--minutes", soak.minutes.to_string()),
        ("--seed", soak.seed.to_string()),
        ("--in-flight", soak.in_flight.to_string()),
    ] {
        command.args([name, &value]);
    }
    if let Some(folder) = &soak.out {
        command.arg("--out").arg(folder);
    }
    call(&mut command)
}
