//! A real program that answers one line after the other. Its standard input ends with its owner, and it with that.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::{Outcome, cache_folder};

/// The running program. Dropping it kills it.
#[derive(Debug)]
pub struct Answering {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Answering {
    /// Starts the program at `place` below the cache folder, where `cargo xtask real PART` has put it.
    ///
    /// # Errors
    /// It is not there, or cannot be started.
    pub fn start(place: &str, part: &str) -> Outcome<Self> {
        let program = cache_folder().ok_or("no home folder is known")?.join(place);
        let started = Command::new(&program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = started.map_err(|error| {
            format!(
                "cannot start {}: {error}; `cargo xtask real {part}` prepares it",
                program.display()
            )
        })?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(format!("{} has no streams", program.display()));
        };
        Ok(Self {
            child,
            input,
            output: BufReader::new(output),
        })
    }

    /// Its answer, a line, to a line; neither line break is part of the request.
    ///
    /// # Errors
    /// It does not answer.
    pub fn exchange(&mut self, line: &str) -> Outcome<String> {
        let mut answer = String::new();
        let exchanged = self
            .input
            .write_all(format!("{line}\n").as_bytes())
            .and_then(|()| self.output.read_line(&mut answer));
        match exchanged {
            Ok(_) => Ok(answer),
            Err(error) => Err(format!("the oracle does not answer: {error}")),
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
