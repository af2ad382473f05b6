//! Bad input by the hundred or thousand, to ours alone, and the memory that it leaves behind. Allocators and tables grow the
//! first time only; what grows the second time, too, grows for ever.

use std::time::Duration;

use futures::stream::{self, TryStreamExt};
use tokio::io::AsyncWriteExt;

use crate::ours::Ours;
use crate::{Outcome, credentials, raw};

/// Their name in reports.
pub const FILE: &str = "flood";
/// The memory that all kinds may leave behind the second time. With a thousand of each it is about 1.3 KiB for each.
pub const GROWTH_BYTES_MAX: u64 = 16 << 20;
/// The kind that needs some twenty megabytes for a moment: how many allocators retain that memory varies. It comes last,
/// because in that variation a smaller growth of others would not be seen.
const DEEP: &str = "depth";
const DEEP_GROWTH_BYTES_MAX: u64 = 96 << 20;
/// Connections at once. Each may need some megabytes for a moment: with more of them the memory that the process retains
/// varies too much.
const AT_ONCE: usize = 4;
/// How often all is sent before memory is measured; then it is sent once more.
const FIRST_TIMES: usize = 2;
/// Slow clients at once: they only wait.
const SLOW_AT_ONCE: usize = 200;
/// How long a slow client waits after half of a request.
const SLOWNESS: Duration = Duration::from_millis(100);

/// What was sent of one kind, and the memory of this process, in which the server runs, in bytes.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Which kind.
    pub kind: &'static str,
    /// How many the second time; the first time it was twice as many.
    pub sent: usize,
    /// After the first time.
    pub first: u64,
    /// After the second time.
    pub second: u64,
}

/// Kinds that are measured together: memory before the second time and after it, in bytes, and what it may add.
#[derive(Clone, Debug)]
pub struct Round {
    /// Each kind of them.
    pub figures: Vec<Figures>,
    /// Before the second time.
    pub before: u64,
    /// After it.
    pub after: u64,
    growth_bytes_max: u64,
}

impl Round {
    /// Whether what was left behind is too much.
    #[must_use]
    pub fn has_grown(&self) -> bool {
        self.after > self.before + self.growth_bytes_max
    }
}

/// One kind of bad input.
enum Kind {
    /// Bytes that are sent and answered.
    Raw(Vec<Vec<u8>>),
    /// The first part of a request.
    Slow(Vec<&'static [u8]>),
    /// Certificates or tokens.
    Credentials(Vec<credentials::Credential>),
}

/// Sends so many of each kind twice, and then once more: first those that need little memory, then the deep ones.
///
/// # Errors
/// The server cannot be reached, or the machine does not report the memory of a process.
pub async fn run(ours: &Ours, each: usize) -> Outcome<[Round; 2]> {
    let mut kinds: Vec<(&'static str, Kind)> = raw::kinds()
        .into_iter()
        .map(|(name, all)| (name, Kind::Raw(all)))
        .collect();
    let halves: [&[u8]; 4] = [
        b"",
        b"GET /api/v1/names",
        b"GET /api/v1/namespaces HTTP/1.1\r\nHost: localhost\r\nX-A: ",
        b"POST /api/v1/namespaces HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000000\r\n\r\n{\"metadata\":",
    ];
    kinds.push(("slow clients", Kind::Slow(halves.to_vec())));
    let (certificates, tokens) = credentials::refused(ours).await?;
    kinds.push(("certificates", Kind::Credentials(certificates)));
    kinds.push(("tokens", Kind::Credentials(tokens)));
    let (deep, others): (Vec<_>, Vec<_>) = kinds.into_iter().partition(|(name, _)| *name == DEEP);
    Ok([
        round(ours, &others, each, GROWTH_BYTES_MAX).await?,
        round(ours, &deep, each, DEEP_GROWTH_BYTES_MAX).await?,
    ])
}

async fn round(ours: &Ours, kinds: &[(&'static str, Kind)], each: usize, growth_bytes_max: u64) -> Outcome<Round> {
    let mut figures: Vec<Figures> = Vec::new();
    for (name, kind) in kinds {
        for _ in 0..FIRST_TIMES {
            send(ours, kind, each).await?;
        }
        figures.push(Figures {
            kind: name,
            sent: each,
            first: resident()?,
            second: 0,
        });
    }
    let before = resident()?;
    for ((_, kind), figures) in kinds.iter().zip(&mut figures) {
        send(ours, kind, each).await?;
        figures.second = resident()?;
    }
    Ok(Round {
        figures,
        before,
        after: resident()?,
        growth_bytes_max,
    })
}

/// Sends the inputs in turn until there were so many.
async fn send(ours: &Ours, kind: &Kind, each: usize) -> Outcome {
    let endpoint = &ours.endpoint;
    match kind {
        Kind::Raw(all) => {
            let sent = all
                .iter()
                .cycle()
                .take(each)
                .map(|bytes| Ok(raw::send(endpoint, bytes)));
            stream::iter(sent).try_buffer_unordered(AT_ONCE).try_collect().await
        }
        Kind::Slow(all) => {
            let sent = all.iter().cycle().take(each).map(|bytes| {
                Ok(async {
                    let mut stream = endpoint.encrypted().await?;
                    let _ = stream.write_all(bytes).await;
                    tokio::time::sleep(SLOWNESS).await;
                    Ok(())
                })
            });
            stream::iter(sent)
                .try_buffer_unordered(SLOW_AT_ONCE)
                .try_collect()
                .await
        }
        Kind::Credentials(all) => {
            let target = credentials::Target::new(endpoint, &ours.pki).await?;
            let target = &target;
            let sent = all.iter().cycle().take(each).map(|credential| {
                Ok(async move {
                    let status = target.answer_to(credential).await?["status"].as_u64();
                    match status {
                        Some(401 | 403) => Ok(()),
                        _ => Err(format!("a bad credential was answered with {status:?}")),
                    }
                })
            });
            stream::iter(sent).try_buffer_unordered(AT_ONCE).try_collect().await
        }
    }
}

/// The resident memory of this process.
///
/// # Errors
/// The machine does not report it.
pub(crate) fn resident() -> Outcome<u64> {
    let resident = tests_parts::memory_kib(std::process::id(), "VmRSS");
    resident
        .map(|size| size << 10)
        .ok_or_else(|| "the machine does not tell this process' memory".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(before: u64, after: u64) -> Round {
        Round {
            figures: Vec::new(),
            before,
            after,
            growth_bytes_max: GROWTH_BYTES_MAX,
        }
    }

    #[test]
    fn a_leaked_page_per_request_is_noticed() {
        let page = 4 << 10;
        assert!(round(100 << 20, (100 << 20) + 12_000 * page).has_grown());
        assert!(!round(100 << 20, 100 << 20).has_grown());
        assert!(!round(100 << 20, 50 << 20).has_grown(), "memory that is given back");
    }

    #[test]
    fn allocated_memory_is_noticed() {
        let before = resident().unwrap();
        let held = std::hint::black_box(vec![1_u8; 4 * GROWTH_BYTES_MAX as usize]);
        let seen = round(before, resident().unwrap()).has_grown();
        assert!(seen, "{} bytes are not seen", held.len());
    }
}
