//! How long after it was asked for a change reaches those who watch.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tests_conformance::{Call, Connection};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::load::Target;

/// Connections that the changes are sent over.
const WRITERS: usize = 16;
/// So many of the watchers look at the times; the others only count.
const TIMED_MAX: usize = 20;
/// How long after the last change the last event may come.
const LINGER: Duration = Duration::from_secs(20);
/// What a line of the stream begins with that tells a change.
const CHANGE: &[u8] = br#"{"type":"MODIFIED""#;
/// What stands before the time of a change.
const MARK: &[u8] = br#""patched":"at-"#;

/// Makes the change of a number; a text of the object, `patched`, is the second argument.
pub(crate) type Change = Arc<dyn Fn(usize, &str) -> Call + Send + Sync>;

/// What is asked for.
pub(crate) struct Load {
    /// One watch for each watcher, from a version on, so that none receives what was there before.
    pub(crate) watches: Vec<Call>,
    /// How many of all changes each watcher receives.
    pub(crate) received: usize,
    pub(crate) per_second: usize,
    pub(crate) seconds: usize,
    pub(crate) change: Change,
}

impl Load {
    /// How many changes are made.
    pub(crate) fn changes(&self) -> usize {
        self.per_second * self.seconds
    }
}

/// What was found.
#[derive(Debug)]
pub(crate) struct Delivered {
    pub(crate) changes_per_second: f64,
    /// Which part of the events that should have come has come.
    pub(crate) fraction: f64,
    pub(crate) median: Duration,
    pub(crate) p99: Duration,
    pub(crate) processor_seconds: f64,
}

/// The version of a list.
pub(crate) async fn version(connection: &mut Connection, list: &Call) -> Result<String, String> {
    let answer = connection.send(list).await?;
    let list: serde_json::Value =
        serde_json::from_slice(&answer.body).map_err(|why| format!("a list is no JSON: {why}"))?;
    let version = list["metadata"]["resourceVersion"].as_str();
    Ok(version.ok_or("a list names no version")?.to_owned())
}

/// Changes objects at a steady pace while all watchers follow them. A watch that the server ends early lacks the events after it.
pub(crate) async fn deliver(target: &Target, load: &Load) -> Result<Delivered, String> {
    let received = load.received;
    let (begun, seen) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
    let opened = Arc::new(Barrier::new(load.watches.len() + 1));
    let mut watchers = JoinSet::new();
    for (number, watch) in load.watches.iter().enumerate() {
        let (endpoint, seen, opened) = (target.endpoint.clone(), seen.clone(), opened.clone());
        let watch = watch.clone();
        watchers.spawn(async move {
            let mut connection = endpoint.connect().await?;
            let answer = connection.open(&watch).await?;
            let times = (number < TIMED_MAX).then(Vec::new);
            opened.wait().await;
            follow(answer.into_body(), begun, received, &seen, times).await
        });
    }
    opened.wait().await;
    let (before, started) = (target.processor_seconds(), Instant::now());
    write(target, load, begun).await?;
    let changes_per_second = load.changes() as f64 / started.elapsed().as_secs_f64();
    let (mut times, mut cut_off) = (Vec::new(), Vec::new());
    let all = async {
        while let Some(ended) = watchers.join_next().await {
            let lines = ended.map_err(|error| error.to_string())??;
            if lines.changes < received {
                cut_off.push(lines.last);
            }
            times.extend(lines.times.into_iter().flatten());
        }
        Ok::<_, String>(())
    };
    match tokio::time::timeout(LINGER, all).await {
        Ok(ended) => ended?,
        Err(_) => watchers.abort_all(),
    }
    if let Some(last) = cut_off.first() {
        let (count, all) = (cut_off.len(), load.watches.len());
        eprintln!("  {count} of {all} watches were ended by the server, the first with {last:?}");
    }
    times.sort_unstable();
    let at = |part: f64| {
        let place = (times.len() as f64 * part) as usize;
        times
            .get(place.min(times.len().saturating_sub(1)))
            .copied()
            .unwrap_or(Duration::MAX)
    };
    Ok(Delivered {
        changes_per_second,
        fraction: seen.load(Ordering::Relaxed) as f64 / (received * load.watches.len()) as f64,
        median: at(0.5),
        p99: at(0.99),
        processor_seconds: target.processor_seconds() - before,
    })
}

async fn write(target: &Target, load: &Load, begun: Instant) -> Result<(), String> {
    let pause = Duration::from_secs_f64(WRITERS as f64 / load.per_second as f64);
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let mut connection = target.endpoint.connect().await?;
        let turns = (writer..load.changes()).step_by(WRITERS);
        let change = load.change.clone();
        writers.spawn(async move {
            let mut pace = tokio::time::interval(pause);
            for number in turns {
                pace.tick().await;
                let text = format!("at-{}", begun.elapsed().as_micros());
                let answer = connection.send(&change(number, &text)).await?;
                if !answer.status.is_success() {
                    return Err(format!("a change was answered by {}", answer.status));
                }
            }
            Ok(())
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended.map_err(|error| error.to_string())??;
    }
    Ok(())
}

/// Counts events until all changes have come, or the server ends the watch.
async fn follow(
    mut body: impl http_body_util::BodyExt<Data = bytes::Bytes, Error: std::fmt::Display> + Unpin,
    begun: Instant,
    changes: usize,
    seen: &AtomicUsize,
    times: Option<Vec<Duration>>,
) -> Result<Lines, String> {
    let mut lines = Lines {
        times,
        ..Lines::default()
    };
    while lines.changes < changes
        && let Some(frame) = body.frame().await
    {
        if let Ok(bytes) = frame.map_err(|error| error.to_string())?.into_data() {
            lines.read(&bytes, begun.elapsed())?;
        }
    }
    seen.fetch_add(lines.changes, Ordering::Relaxed);
    Ok(lines)
}

/// The lines of a stream, read as they come: one that is not whole yet is the only one that is kept.
#[derive(Default)]
struct Lines {
    changes: usize,
    /// How long each change took, where that is wanted.
    times: Option<Vec<Duration>>,
    begun: Vec<u8>,
    /// The last line without a change.
    last: String,
}

impl Lines {
    fn read(&mut self, mut bytes: &[u8], now: Duration) -> Result<(), String> {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at(end + 1);
            bytes = rest;
            if self.begun.is_empty() {
                self.line(line, now)?;
            } else {
                let mut whole = std::mem::take(&mut self.begun);
                whole.extend_from_slice(line);
                self.line(&whole, now)?;
            }
        }
        self.begun.extend_from_slice(bytes);
        Ok(())
    }

    fn line(&mut self, event: &[u8], now: Duration) -> Result<(), String> {
        if !event.starts_with(CHANGE) {
            self.last = String::from_utf8_lossy(event).into_owned();
            return Ok(());
        }
        self.changes += 1;
        if let Some(times) = &mut self.times {
            times.push(now.saturating_sub(sent_at(event)?));
        }
        Ok(())
    }
}

/// When the change was sent, as it says itself.
fn sent_at(event: &[u8]) -> Result<Duration, String> {
    let place = memchr::memmem::find(event, MARK).ok_or("a watch has delivered a change that was not sent")?;
    let digits = event[place + MARK.len()..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    let micros = digits.fold(0_u64, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    Ok(Duration::from_micros(micros))
}
