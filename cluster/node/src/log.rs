//! Logs of containers: the newest lines of each run, in memory. Writers never wait, and readers get what is left.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use base_clock::Clock;
use bytes::Bytes;
use futures::{Stream, stream};
use jiff::Timestamp;
use tokio::sync::watch;

/// What is retained of one run, in bytes of text: some thousand lines. A full node's containers, all logging, stay below the
/// memory of one of their programs.
const LOG_BYTES_MAX: usize = 256 << 10;
/// The longest line; what is longer goes on in the next one, as container runtimes write it.
const LINE_BYTES_MAX: usize = 16 << 10;

/// What a line takes beside its text.
const LINE_BYTES: usize = size_of::<Line>();

/// Where a container's code writes what `kubectl logs` shows. Clones write to the same log.
#[derive(Clone, Debug)]
pub struct LogWriter(Arc<Log>);

impl LogWriter {
    pub(crate) fn new(log: Arc<Log>) -> Self {
        LogWriter(log)
    }

    /// Adds a line, or several; an empty text is an empty line. Never secrets.
    pub fn line(&self, text: impl AsRef<str>) {
        let text = text.as_ref();
        self.0.write(if text.is_empty() { "\n" } else { text });
    }
}

tokio::task_local! {
    /// The log of the container whose code runs.
    static CURRENT: LogWriter;
}

/// The log of the container whose own task this is; none in tasks that it starts beside its own. For a collector
/// of the process's log that copies the lines of a container to its log.
pub fn current_log() -> Option<LogWriter> {
    CURRENT.try_with(LogWriter::clone).ok()
}

/// Runs a container's future with this as its current log.
pub(crate) async fn logging<F: Future>(log: LogWriter, container: F) -> F::Output {
    CURRENT.scope(log, container).await
}

#[derive(Debug)]
struct Line {
    at: Timestamp,
    text: Bytes,
}

#[derive(Debug, Default)]
struct Retained {
    /// The number of the first line that is left.
    first: u64,
    lines: VecDeque<Line>,
    bytes: usize,
}

/// The log of one run of a container.
#[derive(Debug)]
pub(crate) struct Log {
    clock: Clock,
    retained: Mutex<Retained>,
    /// The number of the next line, and whether there will be any.
    progress: watch::Sender<(u64, bool)>,
}

impl Log {
    pub(crate) fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Log {
            clock,
            retained: Mutex::default(),
            progress: watch::Sender::new((0, true)),
        })
    }

    /// Adds lines; none for an empty text.
    pub(crate) fn write(&self, text: &str) {
        let at = self.clock.now();
        let mut retained = self.retained.lock().unwrap_or_else(PoisonError::into_inner);
        for line in text.lines() {
            let mut rest = line;
            loop {
                let (part, behind) = rest.split_at(rest.floor_char_boundary(LINE_BYTES_MAX));
                retained.bytes += part.len() + LINE_BYTES;
                let text = Bytes::copy_from_slice(part.as_bytes());
                retained.lines.push_back(Line { at, text });
                rest = behind;
                if rest.is_empty() {
                    break;
                }
            }
        }
        while retained.bytes > LOG_BYTES_MAX {
            let Some(gone) = retained.lines.pop_front() else { break };
            retained.bytes -= gone.text.len() + LINE_BYTES;
            retained.first += 1;
        }
        let next = retained.first + retained.lines.len() as u64;
        drop(retained);
        self.progress.send_modify(|(known, _)| *known = next);
    }

    /// Its last lines, and of these the last bytes.
    pub(crate) fn tail(&self, lines: usize, bytes: usize) -> String {
        let (text, _) = self.from(self.begin(Some(lines as u64)), &Reading::default());
        let text = String::from_utf8_lossy(&text);
        let start = text.ceil_char_boundary(text.len().saturating_sub(bytes));
        text[start..].to_owned()
    }

    /// The run is over.
    pub(crate) fn close(&self) {
        self.progress.send_modify(|(_, open)| *open = false);
    }

    /// The number of the line that a reading begins with.
    fn begin(&self, tail: Option<u64>) -> u64 {
        let retained = self.retained.lock().unwrap_or_else(PoisonError::into_inner);
        let count = retained.lines.len() as u64;
        retained.first + count - tail.unwrap_or(count).min(count)
    }

    /// All lines from this number on, as they are sent, and the number behind them.
    fn from(&self, number: u64, options: &Reading) -> (Vec<u8>, u64) {
        let retained = self.retained.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = Vec::new();
        let skipped = usize::try_from(number.saturating_sub(retained.first)).unwrap_or(usize::MAX);
        for line in retained.lines.iter().skip(skipped) {
            if options.since.is_some_and(|since| line.at < since) {
                continue;
            }
            if options.timestamps {
                text.extend_from_slice(format!("{:.9} ", line.at).as_bytes());
            }
            text.extend_from_slice(&line.text);
            text.push(b'\n');
        }
        (text, (retained.first + retained.lines.len() as u64).max(number))
    }
}

/// Which part of a log is requested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Go on until the run is over.
    pub(crate) follow: bool,
    /// Each line begins with its time.
    pub(crate) timestamps: bool,
    /// Nothing older.
    pub(crate) since: Option<Timestamp>,
    /// Begin with so many of the last lines.
    pub(crate) tail: Option<u64>,
    /// So many bytes and no more.
    pub(crate) limit: Option<u64>,
}

/// The log as it is sent. It holds nothing up: lines that are gone before they are read are left out.
pub(crate) fn read(log: Arc<Log>, options: Reading) -> impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static {
    let progress = log.progress.subscribe();
    let state = (log.begin(options.tail), options.limit);
    stream::unfold(Some((log, options, progress, state)), |reader| async move {
        let (log, options, mut progress, (mut next, mut left)) = reader?;
        loop {
            let (_, open) = *progress.borrow_and_update();
            let (mut text, behind) = log.from(next, &options);
            next = behind;
            if let Some(left) = &mut left {
                text.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= text.len() as u64;
            }
            let goes_on = options.follow && open && left != Some(0);
            if !text.is_empty() {
                let rest = goes_on.then_some((log, options, progress, (next, left)));
                return Some((Ok(Bytes::from(text)), rest));
            }
            // Its sender is in `log`.
            if !goes_on || progress.changed().await.is_err() {
                return None;
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, StreamExt};

    use super::*;

    async fn whole(log: &Arc<Log>, options: Reading) -> String {
        let chunks: Vec<Bytes> = read(log.clone(), options).map(|chunk| chunk.unwrap()).collect().await;
        String::from_utf8(chunks.concat()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn reading_returns_exactly_the_requested_lines() {
        let log = Log::new(Clock::simulated(Timestamp::UNIX_EPOCH));
        log.write("a\nb");
        tokio::time::advance(std::time::Duration::from_secs(60)).await;
        let later = log.clock.now();
        log.write("c");
        let all = Reading::default();
        assert_eq!(whole(&log, all.clone()).await, "a\nb\nc\n");
        for (options, expected) in [
            (
                Reading {
                    tail: Some(2),
                    ..all.clone()
                },
                "b\nc\n",
            ),
            (
                Reading {
                    tail: Some(0),
                    ..all.clone()
                },
                "",
            ),
            (
                Reading {
                    tail: Some(9),
                    ..all.clone()
                },
                "a\nb\nc\n",
            ),
            (
                Reading {
                    since: Some(later),
                    ..all.clone()
                },
                "c\n",
            ),
            (
                Reading {
                    tail: Some(1),
                    since: Some(later),
                    ..all.clone()
                },
                "c\n",
            ),
            (
                Reading {
                    limit: Some(3),
                    ..all.clone()
                },
                "a\nb",
            ),
        ] {
            assert_eq!(whole(&log, options.clone()).await, expected, "{options:?}");
        }
        assert_eq!(log.tail(2, 100), "b\nc\n");
        assert_eq!(log.tail(80, 3), "\nc\n");
        let stamped = Reading {
            timestamps: true,
            tail: Some(1),
            ..all
        };
        assert_eq!(whole(&log, stamped).await, format!("{later:.9} c\n"));
    }

    #[tokio::test]
    async fn a_follower_gets_all_lines_until_the_run_is_over() {
        let log = Log::new(Clock::real());
        log.write("before");
        let follow = Reading {
            follow: true,
            tail: Some(0),
            ..Reading::default()
        };
        let mut reader = Box::pin(read(log.clone(), follow));
        assert!(reader.next().now_or_never().is_none(), "nothing is written yet");
        let writer = LogWriter::new(log.clone());
        writer.line("one");
        assert_eq!(reader.next().await.unwrap().unwrap(), "one\n");
        writer.line("");
        writer.line("two");
        log.close();
        assert_eq!(reader.next().await.unwrap().unwrap(), "\ntwo\n");
        assert!(reader.next().await.is_none());
    }

    #[tokio::test]
    async fn it_is_bounded_in_bytes_and_lines_in_length() {
        let log = Log::new(Clock::real());
        let long = "ä".repeat(LINE_BYTES_MAX);
        for _ in 0..100 {
            log.write(&long);
        }
        log.write("last");
        let retained = whole(&log, Reading::default()).await;
        assert!(retained.len() <= LOG_BYTES_MAX, "{}", retained.len());
        assert!(retained.ends_with("\nlast\n"));
        assert!(retained.lines().all(|line| line.len() <= LINE_BYTES_MAX));
        for _ in 0..LOG_BYTES_MAX {
            log.write("\n");
        }
        let retained = log.retained.lock().unwrap();
        assert_eq!(retained.lines.len(), LOG_BYTES_MAX / LINE_BYTES, "empty lines count");
        assert!(retained.lines.iter().all(|line| line.text.is_empty()));
    }
}
