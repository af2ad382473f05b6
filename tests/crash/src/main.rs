//! Kills the product in the middle of its work and looks at what comes of it. Started by `cargo xtask crash`.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool speaks on its standard streams"
)]

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use base_clock::Entropy;
use clap::{Parser, Subcommand};
use tests_crash::every_call::{Survived, baseline, moments, survive_all};
use tests_crash::every_task::{Usual, alone, play_all, sample, together, usual};
use tests_crash::harm::Kind;
use tests_crash::process::{self, Blow};
use tests_crash::script::{Lifecycle, Phase};

#[derive(Parser)]
#[command(about = "Crash safety, shown; start it with `cargo xtask crash`")]
struct Arguments {
    #[command(subcommand)]
    how: How,
}

#[derive(Subcommand)]
enum How {
    /// In one process and virtual time: dies at every API call that writes
    EveryCall(EveryCall),
    /// The real binary on a real folder: killed at random moments
    Process(Process),
    /// In one process and virtual time: tasks fail, run twice, hang and panic, all together and each alone
    Tasks(Tasks),
}

#[derive(clap::Args)]
struct Process {
    /// Seed of the moments
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many deaths
    #[arg(long, default_value_t = 100)]
    runs: u32,
}

#[derive(clap::Args)]
struct EveryCall {
    /// What the user works on meanwhile, may be repeated; without it all, one after the other
    #[arg(long)]
    lifecycle: Vec<Lifecycle>,
    /// Seed of all randomness
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Nothing dies: print the calls, as two runs of one seed can be compared
    #[arg(long)]
    list: bool,
    /// Only calls of this phase
    #[arg(long)]
    phase: Option<Phase>,
    /// Only calls whose description contains this text
    #[arg(long)]
    call: Option<String>,
    /// Only so many calls, spread over all
    #[arg(long)]
    sample: Option<usize>,
    /// Die before the server has executed the call instead of after it
    #[arg(long)]
    before: bool,
    /// How many at once
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

#[derive(clap::Args)]
struct Tasks {
    /// Seed of all randomness
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only this harm
    #[arg(long)]
    kind: Option<Kind>,
    /// Only lives whose description contains this text
    #[arg(long)]
    life: Option<String>,
    /// Only so many of the lives in which one task is harmed, spread over all
    #[arg(long)]
    sample: Option<usize>,
    /// How many at once
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

fn main() -> ExitCode {
    if std::env::var_os("RUST_LOG").is_some()
        && let Err(error) = base_telemetry::init_logs(base_telemetry::LogFormat::Text, "warn")
    {
        eprintln!("error: {error}");
    }
    let outcome = match Arguments::parse().how {
        How::EveryCall(arguments) => every_call(&arguments),
        How::Process(arguments) => kill(&arguments),
        How::Tasks(arguments) => tasks(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn every_call(arguments: &EveryCall) -> Result<(), String> {
    let all = Lifecycle::ALL.into_iter();
    let wanted = all.filter(|one| arguments.lifecycle.is_empty() || arguments.lifecycle.contains(one));
    let failed: Vec<String> = wanted
        .filter_map(|lifecycle| every_call_of(lifecycle, arguments).err())
        .collect();
    if failed.is_empty() {
        Ok(())
    } else {
        Err(failed.join("\nerror: "))
    }
}

fn every_call_of(lifecycle: Lifecycle, arguments: &EveryCall) -> Result<(), String> {
    let started = Instant::now();
    let baseline = baseline(lifecycle, arguments.seed)?;
    if arguments.list {
        baseline.deeds.iter().for_each(|deed| println!("{deed}"));
        return Ok(());
    }
    for phase in lifecycle.fatal_phases() {
        let calls = baseline.deeds.iter().filter(|deed| deed.phase == *phase).count();
        println!("{phase}: {calls} calls that write");
    }
    println!("without a death: {:.1} s", started.elapsed().as_secs_f64());
    let mut moments = moments(&baseline, arguments.before, arguments.sample);
    moments.retain(|moment| {
        let text = moment.deed.to_string();
        arguments.phase.is_none_or(|phase| moment.deed.phase == phase)
            && arguments.call.as_ref().is_none_or(|call| text.contains(call))
    });
    let (all, done) = (moments.len(), AtomicUsize::new(0));
    let started = Instant::now();
    let tally = survive_all(&baseline, &moments, arguments.threads, |moment, outcome| {
        let number = done.fetch_add(1, Ordering::Relaxed) + 1;
        let deed = &moment.deed;
        match outcome {
            Ok(Survived::Well) => println!("{number}/{all} well: {deed}"),
            Ok(Survived::NotReached) => println!("{number}/{all} not reached: {deed}"),
            Err(why) => println!("{number}/{all} FAILED: {deed}\n    {why}"),
        }
    });
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{lifecycle}, seed {}: {} deaths survived, {} calls not reached, {} failed; {seconds:.0} s, {:.2} s each",
        arguments.seed,
        tally.well,
        tally.not_reached.len(),
        tally.failed.len(),
        seconds / all.max(1) as f64
    );
    match tally.failed.first() {
        None => Ok(()),
        Some((moment, _)) => Err(format!(
            "dying at some calls of the {lifecycle} does harm; repeat one with --seed {} --call {:?}",
            arguments.seed,
            moment.deed.to_string()
        )),
    }
}

fn kill(arguments: &Process) -> Result<(), String> {
    let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
    let binary = process::binary()?;
    let usual = runtime.block_on(process::usual(&binary))?;
    for (phase, duration) in &usual.durations {
        println!("{phase} takes {:.2} s", duration.as_secs_f64());
    }
    let entropy = Entropy::seeded(arguments.seed);
    let (started, mut failed) = (Instant::now(), 0);
    for number in 1..=arguments.runs {
        let blow = Blow::draw(&usual, number, &entropy);
        let title = format!(
            "{number}/{} {} +{} ms",
            arguments.runs,
            blow.phase,
            blow.after.as_millis()
        );
        match runtime.block_on(process::survive(&binary, &usual, blow)) {
            Ok(()) => println!("{title}: well"),
            Err(why) => {
                failed += 1;
                println!("{title}: FAILED\n    {why}");
            }
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "seed {}: {} kills survived, {failed} failed; {seconds:.0} s, {:.2} s each",
        arguments.seed,
        arguments.runs - failed,
        seconds / f64::from(arguments.runs.max(1))
    );
    match failed {
        0 => Ok(()),
        _ => Err(format!(
            "{failed} kills did harm; repeat with --seed {}",
            arguments.seed
        )),
    }
}

fn tasks(arguments: &Tasks) -> Result<(), String> {
    let started = Instant::now();
    let usuals = usual(arguments.seed)?;
    usuals.iter().for_each(|usual: &Usual| println!("{usual}"));
    println!("without harm: {:.1} s", started.elapsed().as_secs_f64());
    let part = arguments.sample.unwrap_or_default();
    let mut stories = together(&usuals);
    stories.extend(sample(alone(&usuals), part, arguments.seed));
    stories.retain(|story| {
        let wanted = arguments.kind.is_none_or(|kind| story.kind == kind);
        let life = arguments.life.as_ref();
        wanted && life.is_none_or(|life| story.title(&usuals).contains(life))
    });
    let (all, done) = (stories.len(), AtomicUsize::new(0));
    let started = Instant::now();
    let failed = play_all(
        &usuals,
        &stories,
        arguments.seed,
        arguments.threads,
        |story, outcome| {
            let number = done.fetch_add(1, Ordering::Relaxed) + 1;
            let title = story.title(&usuals);
            match outcome {
                Ok(()) => println!("{number}/{all} well: {title}"),
                Err(why) => println!("{number}/{all} FAILED: {title}\n    {why}"),
            }
        },
    );
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "seed {}: {} lives ended well, {} did not; {seconds:.0} s, {:.2} s each",
        arguments.seed,
        all - failed.len(),
        failed.len(),
        seconds / all.max(1) as f64
    );
    match failed.first() {
        None => Ok(()),
        Some((story, _)) => Err(format!(
            "harm to some tasks is not got over; repeat one with --seed {} --life {:?}",
            arguments.seed,
            story.title(&usuals)
        )),
    }
}
