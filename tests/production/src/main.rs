//! `cargo xtask landscape`: the production form on real Kubernetes for a person who tries it. It runs in the foreground; all of
//! its processes end with it, however it ends, and what it wrote stays in its folder.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool speaks on its standard streams"
)]

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command as Process, ExitCode};
use std::time::Duration;

use clap::{Parser, Subcommand};
use landscape_local::SEEDS_MAX;
use tests_parts::{Folder, Outcome};
use tests_production::landscape::{Landscape, Settings};
use tokio::signal::unix::{SignalKind, signal};

/// Between two looks at whether all processes run.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

#[derive(Parser)]
#[command(name = "cargo xtask landscape", about = "The production form on real Kubernetes")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Folder of all its files
    #[arg(long)]
    folder: PathBuf,
}

#[derive(Subcommand)]
enum Command {
    /// Start it, or go on where it was
    Up {
        /// How many seeds; by default as many as the folder has, 1 in a new one
        #[arg(long, value_parser = clap::value_parser!(u8).range(1..=i64::from(SEEDS_MAX)))]
        seeds: Option<u8>,
    },
    /// Print whether it runs, and its kubeconfigs
    Status,
    /// End one that runs
    Down {
        /// Delete its folder too
        #[arg(long)]
        forget: bool,
    },
}

fn main() -> ExitCode {
    let Arguments { command, folder } = Arguments::parse();
    let outcome = match command {
        Command::Up { seeds } => up(&folder, seeds),
        Command::Status => status(&folder),
        Command::Down { forget } => down(&folder, forget),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn up(folder: &Path, seeds: Option<u8>) -> Outcome {
    let owned = Folder::lasting(folder.to_owned())?;
    let _lock = lock(owned.path())?;
    let seed_count = seed_count(folder, seeds)?;
    println!("starting garden and {seed_count} seed(s) in {}", folder.display());
    let mut terminated = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
    let ended = async move {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminated.recv() => {}
        }
    };
    let running = async {
        let mut landscape = Landscape::start(&Settings::for_person(folder.to_owned(), seed_count)).await?;
        landscape.until_ready().await?;
        println!("\n{}", described(folder)?);
        supervise(&mut landscape).await
    };
    // What runs is dropped with the other branch, and ends.
    tokio::select! {
        outcome = running => outcome,
        () = ended => {
            println!("ended; `cargo xtask landscape up` goes on where it was");
            Ok(())
        }
    }
}

/// Starts processes again that have ended, as whatever supervises them on a real cluster does: one that loses its Lease ends.
async fn supervise(landscape: &mut Landscape) -> Outcome {
    loop {
        tokio::time::sleep(LOOK_PAUSE).await;
        for part in landscape.parts() {
            if let Err(why) = part.check() {
                println!("started again: {why}");
                part.start_again()?;
            }
        }
    }
}

/// How many seeds: those that are there are served by no gardenlet where they are left out.
fn seed_count(folder: &Path, wanted: Option<u8>) -> Outcome<u8> {
    let there = std::fs::read_dir(folder.join("seeds")).map_or(0, Iterator::count);
    let there = u8::try_from(there).unwrap_or(SEEDS_MAX);
    match wanted {
        Some(wanted) if wanted < there => Err(format!(
            "{} has {there} seeds, --seeds {wanted} would leave some out: give --seeds {there} or more, or `down --forget` first",
            folder.display()
        )),
        wanted => Ok(wanted.unwrap_or(there.max(1))),
    }
}

/// Kubeconfigs, and what to try.
fn described(folder: &Path) -> Outcome<String> {
    let garden = folder.join("garden/admin.kubeconfig");
    let mut lines = vec![format!("kubeconfig of the garden: {}", garden.display())];
    let seeds = std::fs::read_dir(folder.join("seeds")).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut seeds: Vec<PathBuf> = seeds.filter_map(|entry| Some(entry.ok()?.path())).collect();
    seeds.sort();
    for seed in seeds {
        let name = seed.file_name().unwrap_or_default().to_string_lossy().into_owned();
        lines.push(format!(
            "kubeconfig of seed {name}: {}",
            seed.join("admin.kubeconfig").display()
        ));
    }
    lines.push(format!("\ntry:\n  export KUBECONFIG={}", garden.display()));
    lines.push("  kubectl get seeds,controllerinstallations".to_owned());
    lines.push("  kubectl apply -f examples/10-project.yaml && kubectl wait project local --for=jsonpath={.status.phase}=Ready".to_owned());
    lines.push(
        "  kubectl apply -f examples/20-cloudprofile.yaml -f examples/30-credentials.yaml -f examples/40-shoot.yaml"
            .to_owned(),
    );
    lines.push("  kubectl get shoots -A --watch".to_owned());
    lines.push("\nlogs are beside the kubeconfigs; Ctrl-C ends all processes, what was written stays".to_owned());
    Ok(lines.join("\n"))
}

fn status(folder: &Path) -> Outcome {
    let process = holder(folder)?.ok_or_else(|| {
        format!(
            "nothing runs in {}: `cargo xtask landscape up` starts it",
            folder.display()
        )
    })?;
    println!("runs as process {process}\n{}", described(folder)?);
    Ok(())
}

fn down(folder: &Path, forget: bool) -> Outcome {
    if let Some(process) = holder(folder)? {
        let signalled = Process::new("kill").args(["-TERM", &process.to_string()]).status();
        signalled.map_err(|error| format!("cannot signal process {process}: {error}"))?;
        // Its lock goes with it.
        open(folder)?.lock().map_err(|error| error.to_string())?;
        println!("process {process} has ended");
    }
    if forget && folder.exists() {
        std::fs::remove_dir_all(folder).map_err(|error| format!("cannot delete {}: {error}", folder.display()))?;
        println!("deleted {}", folder.display());
    }
    Ok(())
}

fn open(folder: &Path) -> Outcome<File> {
    let path = folder.join("up.lock");
    let mut options = OpenOptions::new();
    let opened = options.read(true).write(true).create(true).truncate(false).open(&path);
    opened.map_err(|error| format!("cannot open {}: {error}", path.display()))
}

/// Keeps others from the folder while the file is open; the number of this process stands in it.
fn lock(folder: &Path) -> Outcome<File> {
    let mut file = open(folder)?;
    match file.try_lock() {
        Ok(()) => {
            let written = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
            written.map_err(|error| error.to_string())?;
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => Err(format!(
            "the landscape in {} runs already: `cargo xtask landscape status` prints its kubeconfigs",
            folder.display()
        )),
        Err(TryLockError::Error(error)) => Err(error.to_string()),
    }
}

/// The process that runs a landscape in the folder.
fn holder(folder: &Path) -> Outcome<Option<u32>> {
    if !folder.exists() {
        return Ok(None);
    }
    let mut file = open(folder)?;
    match file.try_lock() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            file.read_to_string(&mut text).map_err(|error| error.to_string())?;
            let number = text.trim().parse();
            number
                .map(Some)
                .map_err(|error| format!("up.lock of {}: {error}", folder.display()))
        }
        Err(TryLockError::Error(error)) => Err(error.to_string()),
    }
}
