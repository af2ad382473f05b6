//! Many Shoots with random changes, faults and restarts for a while. Started by `cargo xtask soak`.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool speaks on its standard streams"
)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use tests_soak::product::Product;
use tests_soak::soak::{Settings, Soak};
use tests_soak::{report, verdict};

#[derive(Parser)]
#[command(about = "Many Shoots for a while; start it with `cargo xtask soak`")]
struct Arguments {
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
    /// Only draw the plot of the samples in this folder again
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["shoots", "minutes", "seed", "in_flight", "out"])]
    draw: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.draw {
        Some(folder) => report::draw(folder).map(|path| println!("{}", path.display())),
        None => run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let folder = out(arguments)?;
    let length = Duration::from_secs(60 * u64::from(arguments.minutes));
    let settings = Settings {
        in_flight: arguments.in_flight.into(),
        ..Settings::new(arguments.shoots.into(), length, arguments.seed, folder.clone())
    };
    println!("samples, report and plot: {}", folder.display());
    let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
    let again = format!(
        "repeat with --shoots {} --minutes {} --seed {} --in-flight {}",
        arguments.shoots, arguments.minutes, arguments.seed, arguments.in_flight
    );
    let title = format!(
        "{} Shoots, {} min of random deeds, faults and restarts",
        arguments.shoots, arguments.minutes
    );
    runtime
        .block_on(soak(settings, &folder, &title))
        .map_err(|why| format!("{why}\n    {again}"))
}

async fn soak(settings: Settings, folder: &Path, title: &str) -> Result<(), String> {
    let binary = tests_crash::process::binary()?;
    let data = folder.join("data");
    let product = Product::start(&binary, &data).await?;
    let soak = Soak::new(settings, |line| println!("{line}"));
    let ran = tokio::select! {
        ran = soak.run(&product) => ran,
        () = interrupted() => Err("interrupted".to_owned()),
    };
    let samples = soak.samples();
    let findings = if ran.is_ok() {
        verdict::findings(&samples)
    } else {
        Vec::new()
    };
    report::write(folder, title, &samples, &product.events(), soak.tally(), &findings)?;
    ran.map_err(|why| {
        format!(
            "{why}\n    | {}\n    its data folder is kept: {}",
            product.last_lines(),
            data.display()
        )
    })?;
    for finding in &findings {
        println!("{finding}");
    }
    drop(product);
    std::fs::remove_dir_all(&data).map_err(|error| format!("cannot remove {}: {error}", data.display()))?;
    match findings.iter().filter(|finding| !finding.holds).count() {
        0 => Ok(()),
        _ => Err("what is measured does not stay within its bounds".to_owned()),
    }
}

/// Ends with Ctrl-C or SIGTERM, so that the process under test ends with this one and what was measured stays.
async fn interrupted() {
    let signal = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
    let terminated = async {
        match signal {
            Ok(mut signal) => drop(signal.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = terminated => {}
    }
}

/// The folder for what stays: made if it is not there, refused if anything is in it.
fn out(arguments: &Arguments) -> Result<PathBuf, String> {
    let folder = arguments.out.clone().unwrap_or_else(|| {
        std::env::temp_dir().join(format!("orangery-soak-{}-{}", arguments.seed, std::process::id()))
    });
    let wrong = |why: &dyn std::fmt::Display| {
        format!(
            "the folder {} cannot be used: {why}; name another with --out",
            folder.display()
        )
    };
    std::fs::create_dir_all(&folder).map_err(|error| wrong(&error))?;
    let mut entries = std::fs::read_dir(&folder).map_err(|error| wrong(&error))?;
    match entries.next() {
        None => std::path::absolute(&folder).map_err(|error| wrong(&error)),
        Some(_) => Err(wrong(&"it is not empty")),
    }
}
