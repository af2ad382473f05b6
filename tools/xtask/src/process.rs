//! Runs other programs: prints what runs, and turns a failure into a sentence.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Outcome;

/// Runs a program with this terminal as its own.
pub(crate) fn call(command: &mut Command) -> Outcome {
    println!("> {}", describe(command));
    let began = Instant::now();
    let status = command.status().map_err(|error| missing(command, &error))?;
    print_time(command, began);
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{}` failed ({status})", describe(command)))
    }
}

/// Runs a program and returns what it printed.
pub(crate) fn output(command: &mut Command) -> Outcome<String> {
    let output = command
        .stderr(Stdio::piped())
        .output()
        .map_err(|error| missing(command, &error))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!(
            "`{}` failed ({}): {}",
            describe(command),
            output.status,
            stderr.trim()
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a program, shows each line of its standard output and hands it to `seen` as well.
pub(crate) fn call_watching(command: &mut Command, mut seen: impl FnMut(&str)) -> Outcome {
    println!("> {}", describe(command));
    let began = Instant::now();
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| missing(command, &error))?;
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            let line = line.map_err(|error| format!("cannot read from `{}`: {error}", describe(command)))?;
            println!("{line}");
            seen(&line);
        }
    }
    let status = child.wait().map_err(|error| missing(command, &error))?;
    print_time(command, began);
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{}` failed ({status})", describe(command)))
    }
}

/// The cargo that started this program, so that a chosen toolchain stays chosen.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Prints how long a program ran, if that was long enough to ask where the time of a whole run goes.
fn print_time(command: &Command, began: Instant) {
    const WORTH_A_LINE: Duration = Duration::from_secs(5);
    let took = began.elapsed();
    if took >= WORTH_A_LINE {
        println!("< {:.0} s: {}", took.as_secs_f64(), describe(command));
    }
}

fn describe(command: &Command) -> String {
    let program = command.get_program().to_string_lossy().into_owned();
    let program = program.rsplit('/').next().unwrap_or(&program).to_owned();
    command
        .get_args()
        .fold(program, |line, argument| line + " " + &argument.to_string_lossy())
}

fn missing(command: &Command, error: &std::io::Error) -> String {
    format!("cannot run `{}`: {error}", describe(command))
}
