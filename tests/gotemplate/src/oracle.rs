//! Go's text/template, as a program that answers one case after the other.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tests_parts::Answering;

use crate::case::{Answer, Case};
use crate::{Outcome, ours};

/// Where `cargo xtask real helm` puts the program, below the cache folder.
const PROGRAM: &str = "real/gotemplate/oracle";

/// The running program.
#[derive(Debug)]
pub struct Oracle(Answering);

#[derive(Serialize)]
struct Request<'c> {
    name: &'c str,
    text: &'c str,
    data: &'c RawValue,
    missingkey: &'c str,
    sprig: bool,
    helm: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    inspect: Option<String>,
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
        Answering::start(PROGRAM, "helm").map(Self)
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
            inspect: None,
        };
        let answer = self.exchange(&request, case)?;
        match answer {
            Answer::Output(text) if case.is_random => self.inspect(case, &text),
            answer => Ok(answer),
        }
    }

    /// What Go says of a text that the template of a case makes.
    ///
    /// # Errors
    /// As [`Self::answer`].
    pub fn inspect(&mut self, case: &Case, text: &[u8]) -> Outcome<Answer> {
        let data = RawValue::from_string("null".to_owned()).map_err(|error| error.to_string())?;
        let request = Request {
            name: ours::NAME,
            text: "",
            data: &data,
            missingkey: &case.missing_key,
            sprig: case.sprig,
            helm: case.helm,
            inspect: Some(BASE64_STANDARD.encode(text)),
        };
        self.exchange(&request, case)
    }

    fn exchange(&mut self, request: &Request<'_>, case: &Case) -> Outcome<Answer> {
        let mut line = serde_json::to_string(request).map_err(|error| error.to_string())?;
        // Data may have lines.
        line = line.replace('\n', " ");
        let answer = self
            .0
            .exchange(&line)
            .map_err(|why| format!("case {}: {why}", case.name))?;
        let response: Response = serde_json::from_str(&answer).map_err(|error| {
            format!(
                "case {} {:?}: the oracle says {answer:?}: {error}",
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
