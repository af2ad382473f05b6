//! Attacks over HTTP/2: on both servers, where the outcome of the connection is compared; then on one of ours with short
//! time-outs, by several connections at once. There, each connection must be closed, another client must be served all the
//! while, and memory must not grow.

mod attempts;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cluster_front::Timeouts;
use futures::stream::{self, StreamExt};
use http::Method;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use self::attempts::Attempt;
use crate::flood::resident;
use crate::http2::Received;
use crate::known::Table;
use crate::ours::{Ours, Storage};
use crate::{Call, Difference, Endpoint, Outcome};

/// The name of these cases in reports and in the table of known differences.
pub const FILE: &str = "attacks";
/// A server that does not close a connection within this tolerates the attack.
const OBSERVED_FOR: Duration = Duration::from_secs(2);
/// Far longer than a server with short time-outs takes to close a connection.
const END_TIMEOUT: Duration = Duration::from_secs(30);
/// All time-outs of the attacked server.
const SHORT_TIMEOUT: Duration = Duration::from_millis(500);
/// Connections that attack in the same way at once.
const ATTACKERS: usize = 8;
/// How long a client that does not read waits before it does.
const READ_DELAY: Duration = Duration::from_secs(3);
/// Attacks that are compared at once: most of them wait.
const AT_ONCE: usize = 8;
/// The memory that all attackers together may take: each may have the bodies and headers of 250 requests.
pub const TAKEN_BYTES_MAX: u64 = 64 << 20;

/// The results of all attacks.
#[derive(Debug, Default)]
pub struct Tally {
    /// Both did the same.
    pub agree: usize,
    /// They did not, and the table says why.
    pub known: usize,
    /// What went wrong.
    pub differ: Vec<String>,
    /// The most that an attack took of this process' memory, in bytes, and which it was.
    pub most: (u64, &'static str),
}

/// The names of all cases, as the table of known differences has them.
pub fn names() -> Vec<String> {
    let all = attempts::all();
    let compared = all.iter().filter(|attempt| is_compared(attempt));
    compared.map(|attempt| name(attempt.title)).collect()
}

/// Without reading there is no answer to compare.
fn is_compared(attempt: &Attempt) -> bool {
    attempt.reads_answers && attempt.is_deterministic
}

fn name(title: &str) -> String {
    format!("{FILE} / {title}")
}

/// Compares what both do.
///
/// # Errors
/// A server cannot be reached.
pub async fn compare(real: &Endpoint, ours: &Endpoint, table: &Table) -> Outcome<Tally> {
    let (real, ours) = (real.by_http2(), ours.by_http2());
    let mut tally = Tally::default();
    let all: Vec<Attempt> = attempts::all().into_iter().filter(is_compared).collect();
    let (real, ours) = (&real, &ours);
    let both = |attempt| async move { tokio::try_join!(once(real, attempt), once(ours, attempt)) };
    let outcomes: Vec<_> = stream::iter(all.iter().map(both)).buffered(AT_ONCE).collect().await;
    for (attempt, outcome) in all.iter().zip(outcomes) {
        let (of_real, of_ours) = outcome?;
        if of_real == of_ours {
            tally.agree += 1;
            continue;
        }
        let difference = Difference {
            at: "1/end".to_owned(),
            real: Some(Value::from(of_real)),
            ours: Some(Value::from(of_ours)),
        };
        match table.explain(&name(attempt.title), &difference) {
            Some(_) => tally.known += 1,
            None => tally.differ.push(format!("{}\n{difference}", name(attempt.title))),
        }
    }
    Ok(tally)
}

/// The outcome of a connection with this attack, after [`OBSERVED_FOR`] at most.
async fn once(endpoint: &Endpoint, attempt: &Attempt) -> Outcome<&'static str> {
    let mut received = Received::default();
    let ended = tokio::time::timeout(OBSERVED_FOR, attack(endpoint, attempt, &mut received)).await;
    if let Ok(outcome) = &ended {
        outcome.clone()?;
    }
    Ok(received.summary(ended.is_ok()))
}

/// Sends it, and reads until the server closes the connection.
async fn attack(endpoint: &Endpoint, attempt: &Attempt, received: &mut Received) -> Outcome {
    let (mut reader, mut writer) = tokio::io::split(endpoint.encrypted().await?);
    let sending = async {
        // An error means that the server has closed the connection. Otherwise it is left open.
        let _ = writer.write_all(&attempt.bytes).await;
        let _ = writer.flush().await;
        std::future::pending::<()>().await;
    };
    let reading = async {
        if !attempt.reads_answers {
            tokio::time::sleep(READ_DELAY).await;
        }
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = reader.read(&mut buffer).await {
            received.read(buffer.get(..count).unwrap_or_default());
        }
    };
    tokio::select! {
        () = sending => {}
        () = reading => {}
    }
    Ok(())
}

/// Attacks one of ours with short time-outs, by several connections at once.
///
/// # Errors
/// The server does not start, or the machine does not report the memory of a process.
pub async fn attack_ours() -> Outcome<Tally> {
    let timeouts = Timeouts {
        handshake: SHORT_TIMEOUT,
        headers: SHORT_TIMEOUT,
        body: SHORT_TIMEOUT,
        answer: SHORT_TIMEOUT,
        stream: SHORT_TIMEOUT,
        idle: SHORT_TIMEOUT,
        ping_every: SHORT_TIMEOUT,
        ping_answer: SHORT_TIMEOUT,
    };
    let ours = Ours::start_with_timeouts(Storage::Memory, timeouts).await?;
    let endpoint = ours.endpoint.by_http2();
    let mut tally = Tally::default();
    for attempt in attempts::all().into_iter().filter(|attempt| attempt.is_expensive) {
        let before = resident()?;
        let is_over = AtomicBool::new(false);
        let attackers = async {
            let each = (0..ATTACKERS).map(|_| async {
                let mut received = Received::default();
                tokio::time::timeout(END_TIMEOUT, attack(&endpoint, &attempt, &mut received)).await
            });
            let ended = futures::future::join_all(each).await;
            is_over.store(true, Ordering::Relaxed);
            ended
        };
        let (ended, most) = tokio::join!(attackers, bystander(&ours.endpoint, &is_over));
        let taken = most?.saturating_sub(before);
        if taken > tally.most.0 {
            tally.most = (taken, attempt.title);
        }
        let open = ended.iter().filter(|ended| ended.is_err()).count();
        let title = name(attempt.title);
        if open > 0 {
            tally.differ.push(format!("{title}: {open} connections were not ended"));
        }
        if taken > TAKEN_BYTES_MAX {
            tally.differ.push(format!("{title}: {} MiB of memory", taken >> 20));
        }
        tally.agree += usize::from(open == 0 && taken <= TAKEN_BYTES_MAX);
    }
    Ok(tally)
}

/// A client that sends requests all the while, which must be served. Returns the highest memory seen.
async fn bystander(endpoint: &Endpoint, is_over: &AtomicBool) -> Outcome<u64> {
    let mut most = 0;
    while !is_over.load(Ordering::Relaxed) {
        let mut connection = endpoint.connect().await?;
        let answer = connection.send(&Call::new(Method::GET, "/api/v1/namespaces")).await?;
        if !answer.status.is_success() {
            return Err(format!("a bystander was answered with {}", answer.status));
        }
        most = most.max(resident()?);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(most)
}
