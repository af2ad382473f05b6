//! Runs the cases against real Kubernetes and the embedded API server. Started by `cargo xtask test conformance`.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool speaks on its standard streams"
)]

mod generated;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use tests_conformance::known::{Status, Table};
use tests_conformance::ours::{Ours, Storage};
use tests_conformance::real::{Options, Real};
use tests_conformance::run::{Comparer, Verdict};
use tests_conformance::script::{self, Case};
use tests_conformance::{Outcome, attacks, audit, columns, credentials, flood, generate, raw};

/// Where the cases are.
const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/cases");

/// Enough to see what a connection of each kind leaves behind; more is for `--each`.
const EACH: usize = 100;

#[derive(Parser)]
#[command(
    about = "Compares the embedded API server with real Kubernetes; start it with `cargo xtask test conformance`"
)]
struct Arguments {
    /// Only cases whose name contains this text
    filter: Option<String>,
    /// Show what the real server answers
    #[arg(long)]
    show: bool,
    /// Print what differs as entries of the table of known differences
    #[arg(long)]
    propose: bool,
    /// After the cases, run so many sequences of requests that are drawn from the seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    sequences: u64,
    /// The seed of all that is drawn
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run only this one of the drawn sequences
    #[arg(long, value_name = "NUMBER")]
    only: Option<u64>,
    /// How many of each kind of bad input are sent to ours, after twice as many, before memory is measured
    #[arg(long, value_name = "N", default_value_t = EACH)]
    each: usize,
    /// Repeat on restarted servers what differed; it counts only if it differs again. For a gate that must not fail because
    /// real Kubernetes answered late
    #[arg(long)]
    again: bool,
    /// Report every difference, the known ones included
    #[arg(long)]
    unknown: bool,
    /// Let the embedded server keep its objects in an etcd of its own
    #[arg(long)]
    etcd: bool,
    /// Run no cases: start real Kubernetes with its controllers and scheduler, write its kubeconfig to this file, and end
    /// with Ctrl-C
    #[arg(long, value_name = "FILE", conflicts_with_all = ["filter", "show", "propose"])]
    serve: Option<PathBuf>,
    /// Run no cases: write the descriptions of real Kubernetes' table columns to this file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["filter", "show", "propose", "serve"])]
    columns: Option<PathBuf>,
}

/// The results of the cases of one file.
#[derive(Default)]
struct Count {
    agree: usize,
    known: usize,
    differ: usize,
}

impl Count {
    fn add(&mut self, verdict: &Verdict) {
        match (verdict.unexplained.len(), verdict.known.len()) {
            (0, 0) => self.agree += 1,
            (0, _) => self.known += 1,
            _ => self.differ += 1,
        }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match (&arguments.serve, &arguments.columns) {
        (Some(kubeconfig), _) => serve(kubeconfig).await,
        (None, Some(file)) => describe(file).await,
        (None, None) => Box::pin(run(&arguments)).await,
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(kubeconfig: &Path) -> Outcome<bool> {
    let begun = Instant::now();
    let all = Options {
        controllers: true,
        scheduler: true,
        ..Options::default()
    };
    let real = Real::start(all).await?;
    std::fs::write(kubeconfig, real.endpoint.kubeconfig.expose())
        .map_err(|error| format!("cannot write {}: {error}", kubeconfig.display()))?;
    println!(
        "real Kubernetes is ready after {:.1} s: {}",
        begun.elapsed().as_secs_f64(),
        kubeconfig.display()
    );
    tokio::signal::ctrl_c()
        .await
        .map_err(|error| format!("cannot wait for Ctrl-C: {error}"))?;
    Ok(true)
}

async fn describe(file: &Path) -> Outcome<bool> {
    let real = Real::start(Options::default()).await?;
    let described = columns::read(&real.endpoint).await?;
    std::fs::write(file, format!("{described:#}\n"))
        .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    Ok(true)
}

async fn run(arguments: &Arguments) -> Outcome<bool> {
    let table = match arguments.unknown {
        true => Table::empty(),
        false => Table::committed()?,
    };
    let filter = arguments.filter.as_deref();
    let is_no_script = matches!(
        filter,
        Some(attacks::FILE | audit::FILE | credentials::FILE | flood::FILE | generate::FILE | raw::FILE)
    );
    let cases = match is_no_script {
        true => Vec::new(),
        false => cases(filter)?,
    };
    let begun = Instant::now();
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    let mut names: Vec<String> = cases.iter().map(|case| case.name.clone()).collect();
    // First, while the process has no free memory in which a growth would not be noticed.
    without_script(arguments, &table, &mut counts, &mut names).await?;
    Box::pin(from_files(arguments, &cases, &table, &mut counts)).await?;
    if arguments.sequences > 0 || arguments.only.is_some() {
        let settings = generated::Settings {
            sequences: arguments.sequences,
            seed: arguments.seed,
            only: arguments.only,
            again: arguments.again,
        };
        let drawn = Box::pin(generated::run(settings, &table)).await?;
        counts.insert(generate::FILE.to_owned(), drawn);
    }
    let has_drawn = arguments.sequences > 0;
    let mut stale = table.stale(&names, arguments.filter.is_none());
    stale.retain(|entry| has_drawn || !entry.starts_with(generate::FILE));
    for entry in &stale {
        println!("known-differences.yaml has an entry that nothing needs any more; remove it: {entry}");
    }
    print_known(&table);
    let total = summary(&counts);
    println!(
        "\n{} cases in {:.1} s: {} agree, {} with known differences, {} differ",
        total.agree + total.known + total.differ,
        begun.elapsed().as_secs_f64(),
        total.agree,
        total.known,
        total.differ
    );
    // Whether an entry is needed can also depend on when real Kubernetes answered.
    Ok(total.differ == 0 && (stale.is_empty() || arguments.again))
}

/// Runs the cases that are not in files, as far as the filter selects them, and adds their names.
async fn without_script(
    arguments: &Arguments,
    table: &Table,
    counts: &mut BTreeMap<String, Count>,
    names: &mut Vec<String>,
) -> Outcome {
    let filter = arguments.filter.as_deref();
    let is_selected = |file: &str| filter.is_none_or(|filter| filter == file);
    if is_selected(attacks::FILE) {
        counts.insert(attacks::FILE.to_owned(), attacked(table).await?);
        names.extend(attacks::names());
    }
    if is_selected(flood::FILE) {
        counts.insert(flood::FILE.to_owned(), flooded(arguments.each).await?);
    }
    if is_selected(raw::FILE) {
        counts.insert(raw::FILE.to_owned(), bytes(table).await?);
        names.extend(raw::names());
    }
    if is_selected(credentials::FILE) {
        let (count, shown) = identities(table).await?;
        counts.insert(credentials::FILE.to_owned(), count);
        names.extend(shown);
    }
    if is_selected(audit::FILE) {
        counts.insert(audit::FILE.to_owned(), events(table).await?);
    }
    Ok(())
}

/// Runs the cases of the files, and with `--again` once more those that differ.
async fn from_files(
    arguments: &Arguments,
    cases: &[Case],
    table: &Table,
    counts: &mut BTreeMap<String, Count>,
) -> Outcome {
    if cases.is_empty() {
        return Ok(());
    }
    let differ = Box::pin(curated(arguments, cases, table, counts)).await?;
    if arguments.again && !differ.is_empty() {
        println!("\n{} differ and are asked again", differ.len());
        for case in &differ {
            counts.entry(file(case)).or_default().differ -= 1;
        }
        Box::pin(curated(arguments, &differ, table, counts)).await?;
    }
    Ok(())
}

/// The file of a case.
fn file(case: &Case) -> String {
    case.name.split(" / ").next().unwrap_or_default().to_owned()
}

/// Runs the cases of the files, on servers of their own; returns those that differ.
async fn curated(
    arguments: &Arguments,
    cases: &[Case],
    table: &Table,
    counts: &mut BTreeMap<String, Count>,
) -> Outcome<Vec<Case>> {
    let begun = Instant::now();
    let real = Real::start(Options::compared()).await?;
    println!("real Kubernetes is ready after {:.1} s", begun.elapsed().as_secs_f64());
    let ours = Ours::start(if arguments.etcd { Storage::Etcd } else { Storage::Memory }).await?;
    let mut comparer = Comparer::connect(&real.endpoint, &ours.endpoint).await?;
    let mut differ = Vec::new();
    for case in cases {
        let count = counts.entry(file(case)).or_default();
        match comparer.compare(case, table).await {
            Ok(verdict) => {
                show(&verdict, arguments.show);
                if arguments.propose {
                    propose(&verdict);
                }
                count.add(&verdict);
                if !verdict.unexplained.is_empty() {
                    differ.push(case.clone());
                }
            }
            Err(why) => {
                println!("\n{why}");
                count.differ += 1;
                differ.push(case.clone());
                // What is left unread on the connection belongs to no other case.
                comparer = Comparer::connect(&real.endpoint, &ours.endpoint).await?;
            }
        }
    }
    Ok(differ)
}

/// Compares the audit logs of both.
async fn events(table: &Table) -> Outcome<Count> {
    let tally = audit::run(table).await?;
    for (title, differences) in &tally.differ {
        println!("\n{} / {title}", audit::FILE);
        for difference in differences {
            println!("{difference}");
        }
    }
    Ok(Count {
        agree: tally.agree,
        known: tally.known,
        differ: tally.differ.len(),
    })
}

/// Sends what no library sends, to servers of their own.
async fn bytes(table: &Table) -> Outcome<Count> {
    let real = Real::start(Options::default()).await?;
    let ours = Ours::start(Storage::Memory).await?;
    let tally = raw::run(&real.endpoint, &ours.endpoint, table).await?;
    for (title, real, ours) in &tally.differ {
        println!("\n{} / {title}\n  real: {real}\n  ours: {ours}", raw::FILE);
    }
    Ok(Count {
        agree: tally.agree,
        known: tally.known,
        differ: tally.differ.len(),
    })
}

/// Presents revoked and forged credentials to servers of their own. Returns their names as well.
async fn identities(table: &Table) -> Outcome<(Count, Vec<String>)> {
    let real = Real::start(Options::default()).await?;
    let ours = Ours::start(Storage::Memory).await?;
    let tally = credentials::run(&real, &ours, table).await?;
    for (title, differences) in &tally.differ {
        println!("\n{} / {title}", credentials::FILE);
        for difference in differences {
            println!("{difference}");
        }
    }
    let count = Count {
        agree: tally.agree,
        known: tally.known,
        differ: tally.differ.len(),
    };
    Ok((count, tally.names))
}

/// Attacks servers of their own over HTTP/2.
async fn attacked(table: &Table) -> Outcome<Count> {
    let real = Real::start(Options::default()).await?;
    let ours = Ours::start(Storage::Memory).await?;
    let compared = attacks::compare(&real.endpoint, &ours.endpoint, table).await?;
    drop((real, ours));
    let attacked = attacks::attack_ours().await?;
    for why in compared.differ.iter().chain(&attacked.differ) {
        println!("\n{why}");
    }
    let (bytes, title) = attacked.most;
    println!(
        "\n{}: most memory was taken by {title}: {} MiB",
        attacks::FILE,
        bytes >> 20
    );
    Ok(Count {
        agree: compared.agree + attacked.agree,
        known: compared.known,
        differ: compared.differ.len() + attacked.differ.len(),
    })
}

/// Sends bad input again and again to an embedded server, and measures its memory: two cases, in which it must not grow.
async fn flooded(each: usize) -> Outcome<Count> {
    let ours = Ours::start(Storage::Memory).await?;
    let rounds = flood::run(&ours, each).await?;
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!("\n{}: memory in MiB after the first and the second time", flood::FILE);
    let mut count = Count::default();
    for round in rounds {
        for flood::Figures {
            kind,
            sent,
            first,
            second,
        } in &round.figures
        {
            println!(
                "  {kind:<24} {sent:>5} {:>8.1} {:>8.1}",
                mebibytes(*first),
                mebibytes(*second)
            );
        }
        println!(
            "  before the second time {:.1}, after it {:.1}",
            mebibytes(round.before),
            mebibytes(round.after)
        );
        count.agree += usize::from(!round.has_grown());
        count.differ += usize::from(round.has_grown());
    }
    Ok(count)
}

fn cases(filter: Option<&str>) -> Outcome<Vec<Case>> {
    let unreadable = |path: &Path, error: std::io::Error| format!("cannot read {}: {error}", path.display());
    let folder = Path::new(CASES);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| unreadable(folder, error))? {
        let path = entry.map_err(|error| unreadable(folder, error))?.path();
        if path.extension().is_some_and(|ending| ending == "case") {
            files.push(path);
        }
    }
    files.sort();
    let mut cases = Vec::new();
    for path in &files {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let text = std::fs::read_to_string(path).map_err(|error| unreadable(path, error))?;
        cases.extend(script::read(&name, &text)?);
    }
    if let Some(filter) = filter {
        cases = script::select(cases, filter);
    }
    match cases.is_empty() {
        true => Err(format!("no case below {CASES} is called like {filter:?}")),
        false => Ok(cases),
    }
}

fn show(verdict: &Verdict, transcript: bool) {
    if transcript {
        println!("\n{}", verdict.case);
        for (request, answer) in &verdict.transcript {
            println!("  {request}\n{answer:#}");
        }
    }
    if verdict.unexplained.is_empty() {
        return;
    }
    println!("\n{}", verdict.case);
    for (request, differences) in &verdict.unexplained {
        println!("  {request}");
        for difference in differences {
            println!("{difference}");
        }
    }
}

/// Prints the differences of a case as lines of the table.
fn propose(verdict: &Verdict) {
    let differences = verdict.unexplained.iter().flat_map(|(_, differences)| differences);
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let places: Vec<String> = differences.map(|difference| quoted(&difference.at)).collect();
    if !places.is_empty() {
        println!("\n    {}: [{}]", quoted(&verdict.case), places.join(", "));
    }
}

/// Prints which entries of the table were needed, and in how many cases.
fn print_known(table: &Table) {
    for (times, known) in table.met() {
        let status = match known.status {
            Status::ToBeMended => "to be mended",
            Status::Meant => "meant",
        };
        println!("{times:>6} met what is {status}: {}", known.reason);
    }
}

fn summary(counts: &BTreeMap<String, Count>) -> Count {
    let mut total = Count::default();
    println!();
    for (file, count) in counts {
        println!(
            "{file:<24} {:>3} agree {:>3} known {:>3} differ",
            count.agree, count.known, count.differ
        );
        total.agree += count.agree;
        total.known += count.known;
        total.differ += count.differ;
    }
    total
}
