//! Runs the scripts of `scripts/` against real Kubernetes and a bare cluster of ours, and compares what the clients say.
//! Started by `cargo xtask test clients`, which prepares them.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool speaks on its standard streams"
)]

mod clusters;
mod mask;
mod node;
mod run;
mod script;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use clusters::Clusters;
use mask::Masks;
use run::{Side, Verdict};
use script::Script;
use tests_conformance::Outcome;

/// Where the scripts are.
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts");

#[derive(Parser)]
#[command(about = "Compares what clients say of real Kubernetes and of ours; start it with `cargo xtask test clients`")]
struct Arguments {
    /// Only scripts whose name contains this text
    filter: Option<String>,
    /// Show what is said against the real cluster
    #[arg(long)]
    show: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match compare(&Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

async fn compare(arguments: &Arguments) -> Outcome<bool> {
    let scripts = scripts(arguments.filter.as_deref())?;
    let masks = Masks::new()?;
    let clusters = Clusters::start().await?;
    let begun = Instant::now();
    let (mut agree, mut known, mut differ) = (0, 0, 0);
    for script in &scripts {
        let sides = [
            Side::new("real", &clusters.kubeconfigs[0], SCRIPTS)?,
            Side::new("ours", &clusters.kubeconfigs[1], SCRIPTS)?,
        ];
        let verdicts = run::script(script, &sides, &masks).await?;
        let mut wrong = 0;
        for (step, verdict) in script.steps.iter().zip(&verdicts) {
            match verdict {
                Verdict::Agree => agree += 1,
                Verdict::Known => known += 1,
                Verdict::Differ(why) => {
                    wrong += 1;
                    println!("\n{}:{}: {}\n{why}", script.name, step.line, step.command);
                }
            }
        }
        if arguments.show {
            println!("{}", sides[0].transcript());
        }
        println!("{:<24} {:>3} steps, {wrong} differ", script.name, verdicts.len());
        differ += wrong;
    }
    println!(
        "\n{} scripts in {:.1} s: {agree} steps agree, {known} with known differences, {differ} differ",
        scripts.len(),
        begun.elapsed().as_secs_f64(),
    );
    Ok(differ == 0)
}

fn scripts(filter: Option<&str>) -> Outcome<Vec<Script>> {
    let unreadable = |error: std::io::Error| format!("cannot read {SCRIPTS}: {error}");
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(Path::new(SCRIPTS)).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let wanted = filter.is_none_or(|filter| name.contains(filter));
        if wanted && path.extension().is_some_and(|ending| ending == "script") {
            files.push(path);
        }
    }
    files.sort();
    match files.is_empty() {
        true => Err(format!("no script in {SCRIPTS} is called like {filter:?}")),
        false => files.iter().map(|path| script::read(path)).collect(),
    }
}
