//! A watch that never gives up: it resumes where its stream ended, lists again when the server was away or refuses to
//! resume, and pauses between failures in a row. It never takes the mere beginning of an attempt for success.

use std::time::Duration;

use futures::stream::{BoxStream, unfold};
use futures::{Stream, StreamExt};
use kube::core::ApiResource;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Error, Resource};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::raw::watch_raw;

/// An attempt that lasted this long was admitted: a server that refuses a watch does so at once.
const STEADY: Duration = Duration::from_secs(1);

/// Watches what `api` and `config` name, for ever. After an error the stream pauses, by [`WatchPause`], until a change
/// has come or an attempt has lasted a second; a list that was answered proves nothing, since its watch may still be
/// refused.
pub fn watch<K>(api: Api<K>, config: watcher::Config) -> impl Stream<Item = watcher::Result<Event<K>>> + Send
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Send + 'static,
{
    unending(move || watch_raw(api.clone(), config.clone()).boxed())
}

/// As [`watch`], of a kind that is known only at run time: its objects or their metadata alone.
pub fn watch_dynamic<K>(api: Api<K>, config: watcher::Config) -> impl Stream<Item = watcher::Result<Event<K>>> + Send
where
    K: Resource<DynamicType = ApiResource> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    unending(move || watcher(api.clone(), config.clone()).boxed())
}

fn unending<K: Send + 'static>(
    begin: impl Fn() -> Events<K> + Send + 'static,
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send {
    let watching = Watching {
        events: begin(),
        begin: Box::new(begin),
        pause: WatchPause::default(),
        pending_pause: None,
        since: Instant::now(),
    };
    unfold(watching, Watching::next)
}

type Events<K> = BoxStream<'static, watcher::Result<Event<K>>>;

struct Watching<K> {
    events: Events<K>,
    begin: Box<dyn Fn() -> Events<K> + Send>,
    pause: WatchPause,
    /// The pause before the next attempt.
    pending_pause: Option<Duration>,
    /// When the present attempt began.
    since: Instant,
}

impl<K> Watching<K> {
    async fn next(mut self) -> Option<(watcher::Result<Event<K>>, Self)> {
        if let Some(pause) = self.pending_pause.take() {
            tokio::time::sleep(pause).await;
            self.since = Instant::now();
        }
        let event = self.events.next().await?;
        match &event {
            Ok(Event::Apply(_) | Event::Delete(_)) => self.pause.reset(),
            Ok(Event::Init | Event::InitApply(_) | Event::InitDone) => {}
            Err(error) => {
                if self.since.elapsed() >= STEADY {
                    self.pause.reset();
                }
                self.pending_pause = self.pause.next();
                if needs_list(error) {
                    self.events = (self.begin)();
                }
            }
        }
        Some((event, self))
    }
}

/// Whether to list again instead of resuming, as kube's watcher would. A server that was away or refused us may come back
/// without its data; its versions then count from the beginning, and soon one that we remember stands for something
/// else. 429 asks only for a pause.
fn needs_list(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::WatchStartFailed(Error::Api(status)) | watcher::Error::WatchError(status) => status.code != 429,
        watcher::Error::WatchStartFailed(_) => true,
        _ => false,
    }
}

/// Pauses between attempts to watch again: doubling, and without jitter so that a run can be repeated.
#[derive(Debug, Default)]
pub struct WatchPause {
    failures: u32,
}

/// The first pause: an API server that restarts in this process is back by then.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest pause: a server that is down for long is looked for this often.
const PAUSE_MAX: Duration = Duration::from_secs(15);

impl WatchPause {
    /// It works: the next failure is the first again.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

impl Iterator for WatchPause {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = PAUSE_MIN.saturating_mul(1 << self.failures.min(10)).min(PAUSE_MAX);
        self.failures = self.failures.saturating_add(1);
        Some(pause)
    }
}
