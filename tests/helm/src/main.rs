//! Runs all cases, and cases drawn from a seed, in Helm, and compares ours with its answers. Started by `cargo xtask test helm`,
//! which builds Helm's program.
#![expect(clippy::print_stdout, reason = "a command line tool speaks on its standard streams")]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tests_helm::{Answer, Case, Oracle, Outcome, bench, case, generate, our_answer, real};
use tests_parts::{Comparing, ended};

/// The allocator of `orangery`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// How many drawn cases that differ are shown; the others are counted.
const SHOWN_MAX: u64 = 15;
/// How often a case is repeated in Helm.
const REPEATS: u32 = 30;

#[derive(Parser)]
#[command(about = "Compares ours with Helm; start it with `cargo xtask test helm`")]
struct Arguments {
    #[command(flatten)]
    compared: Comparing,
    /// In place of cases, compare published charts, with each switch in their values toggled
    #[arg(long, conflicts_with_all = ["update", "drawn", "seed"])]
    real: bool,
    /// In place of cases, measure how long ours and Helm take for published charts
    #[arg(long, conflicts_with_all = ["real", "update", "drawn", "seed"])]
    bench: bool,
    /// Measure ours for one chart: `--bench` starts this for each
    #[arg(long, value_name = "FOLDER", hide = true)]
    measure: Option<PathBuf>,
}

fn main() -> ExitCode {
    ended(&compare(&Arguments::parse()))
}

fn compare(arguments: &Arguments) -> Outcome<bool> {
    let options = &arguments.compared;
    let filter = options.filter.as_deref().unwrap_or_default();
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
        return charts(&mut oracle, &real::charts()?, filter, real::RealChart::values);
    }
    if !charts(
        &mut oracle,
        &real::own_charts()?,
        filter,
        real::RealChart::values_needed,
    )? {
        return Ok(false);
    }
    let (mut passed, mut failed) = (0_u64, 0);
    for mut file in case::files()? {
        for case in file.cases() {
            if !options.is_meant(&case.shown()) {
                continue;
            }
            let answer = oracle.answer(case)?;
            let is_stale = case.answer().as_ref() != Some(&answer) && !options.update;
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
        if options.update {
            file.write()?;
        }
    }
    let differ = drawn(options, &mut oracle)?;
    passed += options.drawn - differ;
    failed += differ;
    println!("{passed} passed, {failed} failed");
    Ok(failed == 0)
}

/// Compares charts whose path contains `filter`, with the values that `values` has for each.
fn charts(
    oracle: &mut Oracle,
    all: &[real::RealChart],
    filter: &str,
    values: impl Fn(&real::RealChart) -> Outcome<Vec<serde_json::Value>>,
) -> Outcome<bool> {
    let (mut charts, mut passed, mut failed) = (0, 0, 0);
    for chart in all.iter().filter(|chart| chart.name.contains(filter)) {
        let (mut agree, mut differ) = (0, 0);
        for values in values(chart)? {
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

/// How many drawn cases differ. Each is reduced before it is shown.
fn drawn(options: &Comparing, oracle: &mut Oracle) -> Outcome<u64> {
    let (mut differ, mut errors, mut vary) = (0, 0, 0);
    for number in 0..options.drawn {
        let case = generate::draw(options.seed, number);
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
        if is_same_but_for_order(&ours, &answer) {
            continue;
        }
        differ += 1;
        if differ > SHOWN_MAX {
            continue;
        }
        let case = generate::shrink(&case, |smaller| {
            let answer = oracle.answer(smaller);
            answer.is_ok_and(|answer| {
                our_answer(smaller).is_ok_and(|ours| ours != answer && !is_same_but_for_order(&ours, &answer))
                    && !varies(smaller, &answer, oracle).unwrap_or(true)
            })
        });
        let answer = oracle.answer(&case)?;
        agrees(&case, &answer)?;
    }
    if options.drawn > 0 {
        println!(
            "of {} drawn cases {errors} end in an error; of {vary} Helm's answer is not always the same",
            options.drawn
        );
    }
    Ok(differ)
}

/// Whether Helm's answer varies between runs: it has no fixed order of keys that mix numbers and letters.
fn varies(case: &Case, answer: &Answer, oracle: &mut Oracle) -> Outcome<bool> {
    for _ in 0..REPEATS {
        if oracle.answer(case)? != *answer {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether two errors differ only in the order of the keys of a map that they show.
fn is_same_but_for_order(ours: &Answer, answer: &Answer) -> bool {
    let sorted = |text: &str| {
        let mut bytes = text.as_bytes().to_vec();
        bytes.sort_unstable();
        bytes
    };
    match (ours, answer) {
        (Answer::Error(ours), Answer::Error(answer)) => sorted(ours) == sorted(answer),
        _ => false,
    }
}

/// Whether ours is Helm's answer; prints the difference.
fn agrees(case: &Case, answer: &Answer) -> Outcome<bool> {
    let ours = our_answer(case)?;
    if ours == *answer {
        return Ok(true);
    }
    println!("{}\n  Helm {}\n  ours {}", case.shown(), answer.shown(), ours.shown());
    Ok(false)
}
