//! Requests that no library sends: raw bytes, to both servers, and the status and reason of the answers. It compares nothing
//! else: the message of an answer to a malformed request is not part of the API.

mod cases;

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use self::cases::Case;
use crate::known::Table;
use crate::{Difference, Endpoint, Outcome};

/// The name of these cases in reports and in the table of known differences.
pub const FILE: &str = "raw";
/// A server that sends nothing for so long waits for more.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a client that needs no answer waits for one.
const BRIEF_TIMEOUT: Duration = Duration::from_millis(20);
/// More of an answer than a status line needs.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// The results of all cases.
#[derive(Debug, Default)]
pub struct Tally {
    /// Both answered alike.
    pub agree: usize,
    /// They did not, and the table says why.
    pub known: usize,
    /// They did not: title, what real Kubernetes answered, what ours did.
    pub differ: Vec<(&'static str, String, String)>,
}

/// The names of all cases, as the table of known differences has them.
pub fn names() -> Vec<String> {
    cases::all().iter().map(Case::name).collect()
}

/// Sends all of them to both.
///
/// # Errors
/// A server cannot be reached.
pub async fn run(real: &Endpoint, ours: &Endpoint, table: &Table) -> Outcome<Tally> {
    let mut tally = Tally::default();
    for case in cases::all() {
        let (of_real, of_ours) = tokio::join!(exchange(real, &case.bytes), exchange(ours, &case.bytes));
        let (of_real, of_ours) = (of_real?, of_ours?);
        // Real Kubernetes refuses some requests without a `Status`: then only the code is compared.
        let is_code_alone = of_real.parse::<u16>().is_ok();
        let of_ours = match of_ours.split_once(' ') {
            Some((code, _)) if is_code_alone => code.to_owned(),
            _ => of_ours,
        };
        if of_real == of_ours {
            tally.agree += 1;
            continue;
        }
        let difference = Difference {
            at: "1/status".to_owned(),
            real: Some(Value::from(of_real.as_str())),
            ours: Some(Value::from(of_ours.as_str())),
        };
        match table.explain(&case.name(), &difference) {
            Some(_) => tally.known += 1,
            None => tally.differ.push((case.title, of_real, of_ours)),
        }
    }
    Ok(tally)
}

/// The bytes of all cases, by their kind.
pub(crate) fn kinds() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let mut kinds: Vec<(&'static str, Vec<Vec<u8>>)> = Vec::new();
    for case in cases::all() {
        match kinds.last_mut() {
            Some((kind, all)) if *kind == case.kind => all.push(case.bytes),
            _ => kinds.push((case.kind, vec![case.bytes])),
        }
    }
    kinds
}

/// Sends one to ours, waits briefly for the answer, and closes the connection.
pub(crate) async fn send(ours: &Endpoint, bytes: &[u8]) -> Outcome {
    let mut stream = ours.encrypted().await?;
    let exchange = async {
        let _ = stream.write_all(bytes).await;
        let mut answer = [0; 1024];
        let _ = stream.read(&mut answer).await;
    };
    let _ = tokio::time::timeout(BRIEF_TIMEOUT, exchange).await;
    Ok(())
}

/// The status code and, if a `Status` has it, the reason; `closed` if the server closes the connection without an answer, or
/// `silent`.
async fn exchange(endpoint: &Endpoint, bytes: &[u8]) -> Outcome<String> {
    let mut stream = endpoint.encrypted().await?;
    // A server that closes the connection early may have answered before.
    let _ = stream.write_all(bytes).await;
    let _ = stream.flush().await;
    let mut answer = Vec::new();
    let mut reader = stream.take(ANSWER_BYTES_MAX as u64);
    let done = tokio::time::timeout(SILENCE_TIMEOUT, reader.read_to_end(&mut answer)).await;
    Ok(match status(&answer) {
        Some(code) => match reason(&answer) {
            Some(reason) => format!("{code} {reason}"),
            None => code,
        },
        None if done.is_err() => "silent".to_owned(),
        None => "closed".to_owned(),
    })
}

/// The code of the first answer that is not `100 Continue`.
fn status(answer: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(answer);
    let lines = text.lines().filter(|line| line.starts_with("HTTP/1."));
    let mut codes = lines.filter_map(|line| line.split(' ').nth(1));
    codes.find(|code| *code != "100").map(str::to_owned)
}

/// The reason of the `Status` in an answer.
fn reason(answer: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(answer);
    let (_, status) = text.split_once("\"kind\":\"Status\"")?;
    let (_, reason) = status.split_once("\"reason\":\"")?;
    reason.split('"').next().map(str::to_owned)
}

impl Case {
    fn name(&self) -> String {
        format!("{FILE} / {}", self.title)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continue_is_skipped_and_titles_are_unique() {
        let both = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\n\r\n";
        assert_eq!(status(both).as_deref(), Some("201"));
        assert_eq!(status(b"HTTP/1.1 100 Continue\r\n\r\n"), None);
        let refused = br#"HTTP/1.1 400 Bad Request\r\n\r\n{"kind":"Status","message":"m","reason":"BadRequest"}"#;
        assert_eq!(reason(refused).as_deref(), Some("BadRequest"));
        let mut names = names();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
