//! Asks Go for its answers to all cases and to templates drawn from a seed, and compares ours with them. Started by
//! `cargo xtask test gotemplate`, which builds Go's program.
#![expect(clippy::print_stdout, reason = "a command line tool speaks on its standard streams")]

use std::process::ExitCode;

use clap::Parser;
use tests_gotemplate::{Answer, Case, Oracle, Outcome, case, forms, generate, our_answer};
use tests_parts::{Comparing, ended};

/// So many drawn templates that differ are shown; the others are counted.
const SHOWN_MAX: u64 = 20;

#[derive(Parser)]
#[command(about = "Compares our templates with Go's; start it with `cargo xtask test gotemplate`")]
struct Arguments {
    #[command(flatten)]
    compared: Comparing,
}

fn main() -> ExitCode {
    ended(&compare(&Arguments::parse().compared))
}

fn compare(options: &Comparing) -> Outcome<bool> {
    let mut oracle = Oracle::start()?;
    let (mut passed, mut failed) = (0_u64, 0);
    for mut file in case::files()? {
        for case in &mut file.cases {
            if !options.is_meant(&case.name) {
                continue;
            }
            let answer = oracle.answer(case)?;
            let is_stale = case.answer.as_ref() != Some(&answer) && !options.update;
            if is_stale {
                println!("{}: the answer in the file is not Go's: run with --update", case.name);
            }
            case.answer = Some(answer);
            let agrees = match case.is_random {
                true => is_as_good(case, &mut oracle, options.update)?,
                false => agrees(case)?,
            };
            if is_stale || !agrees {
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

/// How many drawn templates differ. Each is shown as small as it gets.
fn drawn(options: &Comparing, oracle: &mut Oracle) -> Outcome<u64> {
    let mut differ = 0;
    let mut errors = 0;
    for number in 0..options.drawn {
        // One after the other: a template of Go's own functions, a call of one of Sprig's, values as YAML, dates, TOML.
        let mut case = match number % 5 {
            0 => generate::draw(options.seed, number),
            1 => generate::draw_call(options.seed, number),
            2 => forms::draw_date(options.seed, number),
            3 => forms::draw_toml(options.seed, number),
            _ => generate::draw_yaml(options.seed, number),
        };
        let answer = oracle.answer(&case)?;
        errors += u64::from(matches!(answer, Answer::Error(_)));
        case.answer = Some(answer);
        if case.agrees_with(&our_answer(&case)?) {
            continue;
        }
        differ += 1;
        if differ > SHOWN_MAX {
            continue;
        }
        case = generate::shrink(&case, |smaller| {
            let (Ok(answer), Ok(ours)) = (oracle.answer(smaller), our_answer(smaller)) else {
                return false;
            };
            let answered = Case {
                answer: Some(answer),
                ..smaller.clone()
            };
            !answered.agrees_with(&ours)
        });
        case.answer = Some(oracle.answer(&case)?);
        agrees(&case)?;
    }
    if options.drawn > 0 {
        println!("of {} drawn templates {errors} end in an error", options.drawn);
    }
    Ok(differ)
}

/// Whether Go says of what we make of randomness the same as of its own.
fn is_as_good(case: &mut Case, oracle: &mut Oracle, is_updating: bool) -> Outcome<bool> {
    let ours = our_answer(case)?;
    let seen = Case::seen_of(&ours);
    let described = match &ours {
        Answer::Output(text) => oracle.inspect(case, text)?,
        Answer::Error(_) => ours,
    };
    let is_as_good = case.answer.as_ref() == Some(&described);
    if !is_as_good {
        show(case, &described);
        return Ok(false);
    }
    if is_updating {
        case.seen = seen;
    } else if case.seen != seen {
        println!("{}: this is not what Go has looked at: run with --update", case.name);
        return Ok(false);
    }
    Ok(true)
}

/// Whether ours is the answer of the case; says what differs.
fn agrees(case: &Case) -> Outcome<bool> {
    let ours = our_answer(case)?;
    let agrees = case.agrees_with(&ours);
    if !agrees {
        show(case, &ours);
    }
    Ok(agrees)
}

fn show(case: &Case, ours: &Answer) {
    if let Some(answer) = &case.answer {
        println!(
            "{} (missingkey {})\n  template {:?}\n  data {}\n  Go   {}\n  ours {}",
            case.name,
            case.missing_key,
            case.template,
            case.data,
            answer.shown(),
            ours.shown()
        );
    }
}
