//! The production form on real Kubernetes for a person who tries it. The landscape is a program of its own
//! (`tests/production`): it needs the product's client, this tool does not.

use std::path::PathBuf;

use crate::process::{call, cargo};
use crate::{Outcome, cache, suite};

/// Below the cache folder.
const FOLDER: &str = "landscape";

/// What to do with a landscape.
#[derive(clap::Args)]
pub(crate) struct Landscape {
    #[command(subcommand)]
    command: Command,
    /// Folder of all its files; by default one in the cache folder
    #[arg(long, global = true)]
    folder: Option<PathBuf>,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Prepare the real parts, build the product, and run a landscape until Ctrl-C; one that was there goes on
    Up {
        /// How many seeds, 1 to 9; by default as many as there are, 1 in a new landscape
        #[arg(long)]
        seeds: Option<u8>,
    },
    /// Print whether it runs, and its kubeconfigs
    Status,
    /// End one that runs in another terminal
    Down {
        /// Delete its folder too
        #[arg(long)]
        forget: bool,
    },
}

pub(crate) fn run(landscape: &Landscape) -> Outcome {
    let folder = match &landscape.folder {
        Some(folder) => std::path::absolute(folder).map_err(|error| format!("{}: {error}", folder.display()))?,
        None => cache::folder()?.join(FOLDER),
    };
    let mut words = Vec::new();
    match landscape.command {
        Command::Up { seeds } => {
            suite::prepare_production()?;
            call(cargo().args(["build", "--package", "programs-orangery"]))?;
            words.push("up".to_owned());
            words.extend(seeds.map(|count| format!("--seeds={count}")));
        }
        Command::Status => words.push("status".to_owned()),
        Command::Down { forget } => {
            words.push("down".to_owned());
            words.extend(forget.then(|| "--forget".to_owned()));
        }
    }
    let mut command = cargo();
    command.args(["run", "--quiet", "--package", "tests-production", "--", "--folder"]);
    call(command.arg(folder).args(words))
}
