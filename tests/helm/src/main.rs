//! Asks Helm for its answers to all cases and to cases drawn from a seed, and compares ours with them. Started by
//! `cargo xtask test helm`, which builds Helm's program.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool speaks on its standard streams"
)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tests_helm::{Answer, Case, Oracle, Outcome, bench, case, generate, our_answer, real};

/// That of `orangery`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// So many drawn cases that differ are shown; the others are counted.
const SHOWN_MAX: u64 = 15;
/// So often Helm is asked again.
const REPEATS: u32 = 30;

#[derive(Parser)]
#[command(about = "Compares ours with Helm; start it with `cargo xtask test helm`")]
struct Arguments {
    /// Only cases that contain this text
    filter: Option<String>,
    /// In place of cases, charts that people use, with each switch in their values turned
    #[arg(long, conflicts_with_all = ["update", "drawn", "seed"])]
    real: bool,
    /// In place of cases, how long charts that people use take us and Helm
    #[arg(long, conflicts_with_all = ["real", "update", "drawn", "seed"])]
    bench: bool,
    /// How long one chart takes us: what `--bench` starts for each
    #[arg(long, value_name = "FOLDER", hide = true)]
    measure: Option<PathBuf>,
    /// Write Helm's answers into the files of cases
    #[arg(long)]
    update: bool,
    /// So many cases drawn from a seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    drawn: u64,
    /// Where all that is drawn begins
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> ExitCode {
    match judge(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn judge(arguments: &Arguments) -> Outcome<bool> {
    let filter = arguments.filter.as_deref().unwrap_or_default();
    if let Some(folder) = &arguments.measure {
        println!("{}", bench::measure(folder)?);
        return Ok(true);
    }
    if arguments.bench {
        bench::run(filter, |line| println!("{line}"))?;
        return Ok(true);
    }
    let mut oracle = Oracle::start()?;
    if arguments.real {
        return real(&mut oracle, filter);
    }
    let (mut passed, mut failed) = (0_u64, 0);
    for mut file in case::files()? {
        for case in file.cases() {
            if !case.shown().contains(filter) {
                continue;
            }
            let answer = oracle.answer(case)?;
            let is_stale = case.answer().as_ref() != Some(&answer) && !arguments.update;
            if is_stale {
                println!(
                    "{}: the answer in the file is not Helm's: run with --update",
                    case.shown()
                );
            }
            case.set_answer(&answer);
            if is_stale || !agrees(case, &answer)? {
                failed += 1;
            } else {
                passed += 1;
            }
        }
        if arguments.update {
            file.write()?;
        }
    }
    let differ = drawn(arguments, &mut oracle)?;
    passed += arguments.drawn - differ;
    failed += differ;
    println!("{passed} passed, {failed} failed");
    Ok(failed == 0)
}

/// Compares charts that people use whose path contains `filter`.
fn real(oracle: &mut Oracle, filter: &str) -> Outcome<bool> {
    let (mut charts, mut passed, mut failed) = (0, 0, 0);
    for chart in real::charts()?.iter().filter(|chart| chart.name.contains(filter)) {
        let (mut agree, mut differ) = (0, 0);
        for values in chart.values()? {
            match chart.difference(&values, oracle)? {
                None => agree += 1,
                Some(difference) if differ < SHOWN_MAX => {
                    differ += 1;
                    println!("{} with {values}\n{difference}", chart.name);
                }
                Some(_) => differ += 1,
            }
        }
        println!("{}: {agree} agree, {differ} differ", chart.name);
        charts += 1;
        passed += agree;
        failed += differ;
    }
    println!("{charts} charts: {passed} passed, {failed} failed");
    Ok(failed == 0)
}

/// How many drawn cases differ. Each is shown as small as it gets.
fn drawn(arguments: &Arguments, oracle: &mut Oracle) -> Outcome<u64> {
    let (mut differ, mut errors, mut vary) = (0, 0, 0);
    for number in 0..arguments.drawn {
        let case = generate::draw(arguments.seed, number);
        let answer = oracle.answer(&case)?;
        errors += u64::from(matches!(answer, Answer::Error(_)));
        let ours = our_answer(&case)?;
        if ours == answer {
            continue;
        }
        if varies(&case, &answer, oracle)? {
            vary += 1;
            continue;
        }
        if is_same_but_for_a_key(&ours, &answer) {
            continue;
        }
        differ += 1;
        if differ > SHOWN_MAX {
            continue;
        }
        let case = generate::shrink(&case, |smaller| {
            let answer = oracle.answer(smaller);
            answer.is_ok_and(|answer| {
                our_answer(smaller).is_ok_and(|ours| ours != answer && !is_same_but_for_a_key(&ours, &answer))
                    && !varies(smaller, &answer, oracle).unwrap_or(true)
            })
        });
        let answer = oracle.answer(&case)?;
        agrees(&case, &answer)?;
    }
    if arguments.drawn > 0 {
        println!(
            "of {} drawn cases {errors} end in an error; of {vary} Helm's answer is not always the same",
            arguments.drawn
        );
    }
    Ok(differ)
}

/// Whether Helm answers differently when it is asked again: its order of keys is none where numbers and letters mix.
fn varies(case: &Case, answer: &Answer, oracle: &mut Oracle) -> Outcome<bool> {
    for _ in 0..REPEATS {
        if oracle.answer(case)? != *answer {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether two errors differ only in how they show a value that cannot be a key, where keys in it lost their types.
fn is_same_but_for_a_key(ours: &Answer, answer: &Answer) -> bool {
    match (ours, answer) {
        (Answer::Error(ours), Answer::Error(answer)) => ["value: ", "map key: "].iter().any(
            |shown| matches!((ours.split_once(shown), answer.split_once(shown)), (Some(a), Some(b)) if a.0 == b.0),
        ),
        _ => false,
    }
}

/// Whether ours is Helm's answer; says what differs.
fn agrees(case: &Case, answer: &Answer) -> Outcome<bool> {
    let ours = our_answer(case)?;
    if ours == *answer {
        return Ok(true);
    }
    println!("{}\n  Helm {}\n  ours {}", case.shown(), answer.shown(), ours.shown());
    Ok(false)
}
