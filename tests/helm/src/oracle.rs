//! Helm as a program that runs one case after the other.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tests_parts::Answering;

use crate::case::{Answer, Case};
use crate::{Outcome, ours};

/// Where `cargo xtask real helm` puts the program, below the cache folder.
const PROGRAM: &str = "real/helm-oracle/oracle";

/// The running program.
#[derive(Debug)]
pub struct Oracle(Answering);

#[derive(Serialize)]
struct Request<'c> {
    #[serde(rename = "do")]
    action: &'c str,
    text: String,
    value: &'c Value,
}

#[derive(Deserialize)]
struct Response {
    output: String,
    #[serde(default)]
    error: String,
    failed: bool,
}

impl Oracle {
    /// Starts it.
    ///
    /// # Errors
    /// It is missing, or cannot be started.
    pub fn start() -> Outcome<Self> {
        Answering::start(PROGRAM, "helm").map(Self)
    }

    /// Helm's answer to a case.
    ///
    /// # Errors
    /// The oracle does not answer, or the case is invalid.
    pub fn answer(&mut self, case: &Case) -> Outcome<Answer> {
        let request = Request {
            action: &case.action,
            text: STANDARD.encode(ours::bytes_of(case)?),
            value: &case.value,
        };
        let line = serde_json::to_string(&request).map_err(|error| error.to_string())?;
        let answer = self
            .0
            .exchange(&line)
            .map_err(|why| format!("{}: {why}", case.shown()))?;
        let response: Response = serde_json::from_str(&answer)
            .map_err(|error| format!("{}: the oracle has answered {answer:?}: {error}", case.shown()))?;
        Ok(match response.failed {
            true => Answer::Error(response.error),
            false => Answer::Output(response.output),
        })
    }
}
