//! Requests that no library sends: bytes as they stand, to both servers, and the status of what comes back. It compares
//! nothing else: what a server says to a request that is none is for nobody to read.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::known::Table;
use crate::{Difference, Endpoint, Outcome};

/// How these cases are called in reports and in the table of known differences.
pub const FILE: &str = "raw";
/// A server that says nothing for so long waits for more.
const PATIENCE: Duration = Duration::from_secs(3);
/// What a client that does not care for an answer waits for it.
const GLANCE: Duration = Duration::from_millis(20);
/// How often each is sent before memory is looked at, and then once more as often.
const ROUNDS: usize = 12;
/// What the second half may add: what the first one did not need is not needed later either, but for allocators.
pub const GROWTH_BYTES_MAX: u64 = 16 << 20;
/// More of an answer than a status line needs.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Bytes, and what they are about.
struct Case {
    title: &'static str,
    bytes: Vec<u8>,
}

/// What came of all of them.
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
    cases().iter().map(Case::name).collect()
}

/// Sends all of them to both.
///
/// # Errors
/// A server cannot be reached.
pub async fn run(real: &Endpoint, ours: &Endpoint, table: &Table) -> Outcome<Tally> {
    let mut tally = Tally::default();
    for case in cases() {
        let (said, of_ours) = tokio::join!(exchange(real, &case.bytes), exchange(ours, &case.bytes));
        let (said, of_ours) = (said?, of_ours?);
        if said == of_ours {
            tally.agree += 1;
            continue;
        }
        let difference = Difference {
            at: "1/status".to_owned(),
            real: Some(Value::from(said.as_str())),
            ours: Some(Value::from(of_ours.as_str())),
        };
        match table.explain(&case.name(), &difference) {
            Some(_) => tally.known += 1,
            None => tally.differ.push((case.title, said, of_ours)),
        }
    }
    Ok(tally)
}

/// Sends all of them to ours again and again, and leaves. Returns how many connections that were, and the memory of this
/// process, in which the server runs, after the first half of them and after all, in bytes.
///
/// # Errors
/// The server cannot be reached, or the machine does not tell a process' memory.
pub async fn again(ours: &Endpoint) -> Outcome<(usize, u64, u64)> {
    let cases = cases();
    let mut after = [0; 2];
    for memory in &mut after {
        for _ in 0..ROUNDS {
            for case in &cases {
                let mut stream = ours.encrypted().await?;
                let _ = stream.write_all(&case.bytes).await;
                let mut answer = [0; 1024];
                let _ = tokio::time::timeout(GLANCE, stream.read(&mut answer)).await;
            }
        }
        *memory = resident()?;
    }
    Ok((2 * ROUNDS * cases.len(), after[0], after[1]))
}

/// The memory of this process that is in use.
fn resident() -> Outcome<u64> {
    let failed = |why: &dyn std::fmt::Display| format!("cannot read this process' memory: {why}");
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| failed(&error))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kibibytes
        .map(|size| size << 10)
        .ok_or_else(|| failed(&"it is not told"))
}

/// The status code, `closed` where a server hangs up without a word, or `silent`.
async fn exchange(endpoint: &Endpoint, bytes: &[u8]) -> Outcome<String> {
    let mut stream = endpoint.encrypted().await?;
    // Who hangs up early has said what it has to say.
    let _ = stream.write_all(bytes).await;
    let _ = stream.flush().await;
    let mut answer = Vec::new();
    let mut reader = stream.take(ANSWER_BYTES_MAX as u64);
    let done = tokio::time::timeout(PATIENCE, reader.read_to_end(&mut answer)).await;
    Ok(match status(&answer) {
        Some(code) => code,
        None if done.is_err() => "silent".to_owned(),
        None => "closed".to_owned(),
    })
}

/// The code of the first answer that is not only an encouragement.
fn status(answer: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(answer);
    let lines = text.lines().filter(|line| line.starts_with("HTTP/1."));
    let mut codes = lines.filter_map(|line| line.split(' ').nth(1));
    codes.find(|code| *code != "100").map(str::to_owned)
}

impl Case {
    fn name(&self) -> String {
        format!("{FILE} / {}", self.title)
    }
}

/// A request without a body.
fn get(title: &'static str, target: &[u8], headers: &[u8]) -> Case {
    let bytes = [
        b"GET ",
        target,
        b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n",
        headers,
        b"\r\n",
    ]
    .concat();
    Case { title, bytes }
}

/// An object that is to be made, with the headers that tell how long it is.
fn post(title: &'static str, headers: &str, body: &[u8]) -> Case {
    let head = format!(
        "POST /api/v1/namespaces/default/configmaps?dryRun=All HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\n{headers}\r\n"
    );
    let bytes = [head.as_bytes(), body].concat();
    Case { title, bytes }
}

/// The same with its true length.
fn sized(title: &'static str, body: &[u8]) -> Case {
    post(title, &format!("Content-Length: {}\r\n", body.len()), body)
}

const OBJECT: &[u8] = br#"{"metadata":{"name":"raw"}}"#;

fn cases() -> Vec<Case> {
    [targets(), heads(), lengths(), bodies()]
        .into_iter()
        .flatten()
        .collect()
}

fn targets() -> Vec<Case> {
    let long = [b"/api/v1/namespaces/".to_vec(), b"a".repeat(3000)].concat();
    vec![
        get("an ordinary request", b"/api/v1/namespaces", b""),
        get("a byte that is no UTF-8 in the path", b"/api/v1/namespaces/\xff", b""),
        get(
            "an encoded byte that is no UTF-8 in the path",
            b"/api/v1/namespaces/%ff",
            b"",
        ),
        get("an encoding that is none in the path", b"/api/v1/namespaces/%zz", b""),
        get("half an encoding in the path", b"/api/v1/namespaces/%f", b""),
        get("a NUL in the path", b"/api/v1/namespaces/a%00b", b""),
        get(
            "a byte that is no UTF-8 in the query",
            b"/api/v1/namespaces?a=\xff",
            b"",
        ),
        get(
            "an encoded byte that is no UTF-8 in the query",
            b"/api/v1/namespaces?a=%ff",
            b"",
        ),
        get(
            "an encoding that is none in the query",
            b"/api/v1/namespaces?a=%zz",
            b"",
        ),
        get("a semicolon in the query", b"/api/v1/namespaces?a=1;b=2", b""),
        get("dots in the path", b"/api/v1/namespaces/../nodes", b""),
        get("encoded dots in the path", b"/api/v1/namespaces/%2e%2e/nodes", b""),
        get("an encoded slash in the path", b"/api/v1/namespaces%2fdefault", b""),
        get("two slashes first", b"//api/v1/namespaces", b""),
        get("two slashes within", b"/api/v1//namespaces", b""),
        get("a backslash in the path", b"/api/v1\\namespaces", b""),
        get("a blank in the path", b"/api/v1/name spaces", b""),
        get("a fragment", b"/api/v1/namespaces#a", b""),
        get(
            "a target that is a whole URL",
            b"https://localhost/api/v1/namespaces",
            b"",
        ),
        get("a target without a slash", b"api/v1/namespaces", b""),
        get("a target that is a star", b"*", b""),
        get("a long name", &long, b""),
    ]
}

fn heads() -> Vec<Case> {
    let line = |title, line: &[u8]| Case {
        title,
        bytes: [line, b"\r\nHost: localhost\r\nConnection: close\r\n\r\n"].concat(),
    };
    let path = b"/api/v1/namespaces";
    let large = |count: usize| [b"X-A: ".to_vec(), b"a".repeat(count), b"\r\n".to_vec()].concat();
    let many: Vec<u8> = (0..90)
        .flat_map(|number| format!("X-{number}: a\r\n").into_bytes())
        .collect();
    vec![
        line("a method in small letters", b"get /api/v1/namespaces HTTP/1.1"),
        line("a method that nobody knows", b"BREW /api/v1/namespaces HTTP/1.1"),
        line("a method that is none", b"G(T /api/v1/namespaces HTTP/1.1"),
        line("a version to come", b"GET /api/v1/namespaces HTTP/3.0"),
        line("a version that is none", b"GET /api/v1/namespaces HTTP/x"),
        line("no version", b"GET /api/v1/namespaces"),
        line("a tunnel", b"CONNECT localhost:443 HTTP/1.1"),
        line("a trace", b"TRACE /api/v1/namespaces HTTP/1.1"),
        Case {
            title: "no host",
            bytes: b"GET /api/v1/namespaces HTTP/1.1\r\nConnection: close\r\n\r\n".to_vec(),
        },
        Case {
            title: "no host in a version that has none",
            bytes: b"GET /api/v1/namespaces HTTP/1.0\r\n\r\n".to_vec(),
        },
        Case {
            title: "ends of lines without a return",
            bytes: b"GET /api/v1/namespaces HTTP/1.1\nHost: localhost\nConnection: close\n\n".to_vec(),
        },
        Case {
            title: "nothing",
            bytes: Vec::new(),
        },
        Case {
            title: "half a head",
            bytes: b"GET /api/v1/namespaces HTTP/1.1\r\nHost: loc".to_vec(),
        },
        get("two hosts", path, b"Host: other\r\n"),
        get("a byte that is no UTF-8 in a header", path, b"User-Agent: \xff\r\n"),
        get("a NUL in a header", path, b"User-Agent: a\0b\r\n"),
        get("a name of a header that is none", path, b"User Agent: a\r\n"),
        get("a blank before the colon", path, b"User-Agent : a\r\n"),
        get("a header without a colon", path, b"User-Agent\r\n"),
        get("a header over two lines", path, b"User-Agent: a\r\n b\r\n"),
        get("a header of 60 KB", path, &large(60_000)),
        get("a header of 3 MB", path, &large(3_000_000)),
        get("ninety headers", path, &many),
        get("an expectation that nobody meets", path, b"Expect: tea\r\n"),
        get(
            "an upgrade to what nobody speaks",
            path,
            b"Connection: upgrade\r\nUpgrade: tea\r\n",
        ),
        get("credentials of another scheme", path, b"Authorization: Basic YTpi\r\n"),
        get("a token that is none", path, b"Authorization: Bearer a.b.c\r\n"),
        get(
            "a token without a signature",
            path,
            b"Authorization: Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.\r\n",
        ),
        get(
            "an encoding of answers that nobody knows",
            path,
            b"Accept-Encoding: tea\r\n",
        ),
    ]
}

fn lengths() -> Vec<Case> {
    let chunked = |title, chunks: &[u8]| post(title, "Transfer-Encoding: chunked\r\n", chunks);
    let whole = [b"1b\r\n", OBJECT, b"\r\n0\r\n\r\n"].concat();
    vec![
        sized("an ordinary body", OBJECT),
        chunked("an ordinary body in chunks", &whole),
        chunked("chunks that stop", b"1b\r\n{\"meta"),
        chunked("chunks without an end", &[b"1b\r\n", OBJECT, b"\r\n"].concat()),
        chunked("a chunk whose length is none", b"zz\r\n{}\r\n0\r\n\r\n"),
        chunked("a chunk without end", b"ffffffffffffffffff\r\n{}\r\n0\r\n\r\n"),
        chunked("a chunk that is longer than it says", b"2\r\n{}{}\r\n0\r\n\r\n"),
        post("a body that is shorter than it says", "Content-Length: 100\r\n", OBJECT),
        post("a body that is longer than it says", "Content-Length: 10\r\n", OBJECT),
        post("a length below zero", "Content-Length: -1\r\n", OBJECT),
        post("a length with a sign", "Content-Length: +27\r\n", OBJECT),
        post("a length that is none", "Content-Length: abc\r\n", OBJECT),
        post(
            "a length beyond 64 bits",
            "Content-Length: 99999999999999999999\r\n",
            OBJECT,
        ),
        post("two lengths", "Content-Length: 27\r\nContent-Length: 28\r\n", OBJECT),
        post(
            "one length twice",
            "Content-Length: 27\r\nContent-Length: 27\r\n",
            OBJECT,
        ),
        post("no length", "", OBJECT),
        post(
            "chunks and a length",
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            &whole,
        ),
        post("a transfer that nobody knows", "Transfer-Encoding: tea\r\n", OBJECT),
        post(
            "a transfer of two kinds",
            "Transfer-Encoding: gzip, chunked\r\n",
            &whole,
        ),
        post(
            "a body that is announced",
            "Expect: 100-continue\r\nContent-Length: 27\r\n",
            OBJECT,
        ),
        post("a body that says it is too large", "Content-Length: 3145729\r\n", b"{"),
        post(
            "a body that says it is packed",
            "Content-Encoding: gzip\r\nContent-Length: 27\r\n",
            OBJECT,
        ),
    ]
}

fn bodies() -> Vec<Case> {
    let map = |data: &[u8]| [br#"{"metadata":{"name":"raw"},"data":"#.as_slice(), data, b"}"].concat();
    let nested = |count: usize| [b"[".repeat(count), b"]".repeat(count)].concat();
    vec![
        sized("a text that is no UTF-8", &map(b"{\"k\":\"\xff\"}")),
        sized("half a pair of surrogates", &map(br#"{"k":"\ud800"}"#)),
        sized("a key that stands twice", &map(br#"{"k":"a","k":"b"}"#)),
        sized("a number beyond 64 bits", &map(b"123456789012345678901234567890")),
        sized("a number beyond all", &map(b"1e999")),
        sized("a number that is none", &map(b"01")),
        sized("not a number", &map(b"NaN")),
        sized("a body that ends early", &map(b"{")),
        sized("two bodies", &[OBJECT, OBJECT].concat()),
        sized("a mark before the body", &[b"\xef\xbb\xbf", OBJECT].concat()),
        sized("a control character in a text", &map(b"{\"k\":\"\x01\"}")),
        sized("10,001 lists in each other", &nested(10_001)),
        sized("zeros", &[0; 100]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encouragement_is_no_answer_and_no_title_stands_twice() {
        let both = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\n\r\n";
        assert_eq!(status(both).as_deref(), Some("201"));
        assert_eq!(status(b"HTTP/1.1 100 Continue\r\n\r\n"), None);
        let mut names = names();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
