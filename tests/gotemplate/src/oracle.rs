//! Go's text/template, as a program that answers one case after the other.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tests_parts::cache_folder;

use crate::case::{Answer, Case};
use crate::{Outcome, ours};

/// Where `cargo xtask real helm` puts the program, below the cache folder.
const PROGRAM: &str = "real/gotemplate/oracle";

/// The running program.
#[derive(Debug)]
pub struct Oracle {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

#[derive(Serialize)]
struct Request<'c> {
    name: &'c str,
    text: &'c str,
    data: &'c RawValue,
    missingkey: &'c str,
    sprig: bool,
    helm: bool,
}

#[derive(Deserialize)]
struct Response {
    #[serde(default)]
    output: String,
    #[serde(default)]
    error: String,
    failed: bool,
}

impl Oracle {
    /// Starts it.
    ///
    /// # Errors
    /// It is not there, or cannot be started.
    pub fn start() -> Outcome<Self> {
        let program = cache_folder().ok_or("no home folder is known")?.join(PROGRAM);
        let started = Command::new(&program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = started.map_err(|error| {
            format!(
                "cannot start {}: {error}; `cargo xtask real helm` prepares it",
                program.display()
            )
        })?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the oracle has no streams".to_owned());
        };
        Ok(Self {
            child,
            input,
            output: BufReader::new(output),
        })
    }

    /// What Go makes of a case.
    ///
    /// # Errors
    /// The oracle does not answer, or the case is none.
    pub fn answer(&mut self, case: &Case) -> Outcome<Answer> {
        let data = RawValue::from_string(case.data.clone()).map_err(|error| format!("data {}: {error}", case.data))?;
        let request = Request {
            name: ours::NAME,
            text: &case.template,
            data: &data,
            missingkey: &case.missing_key,
            sprig: case.sprig,
            helm: case.helm,
        };
        let mut line = serde_json::to_string(&request).map_err(|error| error.to_string())?;
        line = line.replace('\n', " ") + "\n";
        let mut said = String::new();
        let asked = self
            .input
            .write_all(line.as_bytes())
            .and_then(|()| self.output.read_line(&mut said));
        asked.map_err(|error| format!("case {}: the oracle does not answer: {error}", case.name))?;
        let response: Response = serde_json::from_str(&said).map_err(|error| {
            format!(
                "case {} {:?}: the oracle says {said:?}: {error}",
                case.name, case.template
            )
        })?;
        let decode = |text: &str| BASE64_STANDARD.decode(text).map_err(|error| format!("{text}: {error}"));
        if response.failed {
            let why = decode(&response.error)?;
            return Ok(Answer::Error(String::from_utf8_lossy(&why).into_owned()));
        }
        Ok(Answer::Output(decode(&response.output)?))
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
