//! Kills the file store. Started by `cargo xtask crash --store`.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool speaks on its standard streams"
)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, Subcommand};
use tests_stores::kill::Shown;
use tests_stores::{Outcome, kill, writing};

/// A line after so many kills.
const PROGRESS_EVERY: u32 = 100;

#[derive(Parser)]
#[command(about = "The file store under kill -9; start it with `cargo xtask crash --store`")]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Kills processes that write, and checks what they left
    Kill {
        /// How many
        #[arg(long, default_value_t = 1000)]
        runs: u32,
        /// Seed of all that is random
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// The process that is killed
    #[command(hide = true)]
    Write {
        folder: PathBuf,
        seed: u64,
        /// How far each resource was watched
        #[arg(num_args = 3)]
        seen: Vec<u64>,
    },
}

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let outcome = match Arguments::parse().what {
        What::Kill { runs, seed } => kill_all(runs, seed).await,
        What::Write { folder, seed, seen } => match seen.try_into() {
            Ok(seen) => writing::until_killed(&folder, seed, seen).await,
            Err(seen) => Err(format!("three revisions are expected, not {seen:?}")),
        },
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

async fn kill_all(runs: u32, seed: u64) -> Outcome {
    let begun = Instant::now();
    let program = std::env::current_exe().map_err(|error| format!("where is this program? {error}"))?;
    let report = |shown: &Shown| {
        if shown.kills.is_multiple_of(PROGRESS_EVERY) {
            println!("{} kills, {:.0} s", shown.kills, begun.elapsed().as_secs_f64());
        }
    };
    let shown = kill::kill(&program, runs, seed, report).await?;
    let Shown {
        kills,
        before_open,
        during_copy,
        acknowledged,
        unanswered,
    } = shown;
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "seed {seed}: {kills} kills in {seconds:.0} s ({before_open} before the folder was open, {during_copy} while it was \
         copied): {acknowledged} acknowledged writes all there, {unanswered} unanswered ones too, nothing else, every \
         watch resumed"
    );
    Ok(())
}
