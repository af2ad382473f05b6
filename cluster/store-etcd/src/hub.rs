//! The one stream of watches to etcd: a watch per resource, however many read from it. After a broken connection, each
//! resource resumes from its revision; a resource whose history was compacted meanwhile is loaded again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cluster_store::Revision;
use futures::{StreamExt, stream};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tonic::Streaming;

use crate::client::{Client, Failure};
use crate::layout::Layout;
use crate::repeater::Repeater;
use crate::wire::{
    Empty, RangeRequest, WatchCancelRequest, WatchCreateRequest, WatchRequest, WatchResponse, Watching, revision_of,
    to_wire,
};

/// Between two streams, when the first ended as soon as it began.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// The watch that etcd names when it reports the progress of all watches of a stream.
const ALL: i64 = -1;

/// Requests for progress that are sent at once: each is a few bytes.
const PROGRESS_AT_ONCE_MAX: u64 = 16;

/// An instruction to the hub.
pub(crate) enum Order {
    /// Repeat this resource too.
    Add(Arc<Repeater>),
    /// Request progress: a caller waits, and perhaps no change comes.
    Progress,
}

/// The hub's state.
pub(crate) struct Hub {
    client: Arc<Client>,
    layout: Layout,
    orders: mpsc::UnboundedReceiver<Order>,
    repeaters: Vec<Arc<Repeater>>,
    /// Whether the stream is open.
    connected: Arc<AtomicBool>,
}

/// An open stream.
struct Open {
    requests: mpsc::UnboundedSender<WatchRequest>,
    answers: Streaming<WatchResponse>,
    /// The watches that go on.
    live: BTreeMap<i64, Watched>,
    next: i64,
    /// Requests for the progress of all watches that have not been answered; some never are.
    unanswered: u64,
}

/// A watch of the stream.
struct Watched {
    repeater: Arc<Repeater>,
    standing: Standing,
}

/// Whether an answer about the progress of all watches of a stream counts for one of them. One that was requested before etcd
/// had this watch does not: events of the watch may still be to come although they are older than the answer.
///
/// etcd sends confirmations and everything else by two queues that it does not keep in order (etcd v3.6
/// server/etcdserver/api/v3rpc/watch.go, `sendLoop`), so that an older answer may come after the confirmation. But it takes
/// requests in order, answers each at most once, and keeps events and answers about progress in order. It answers none while
/// a watch of the stream is behind, in the future, or ended by a compaction and not cancelled
/// (server/storage/mvcc/watchable_store.go, `progressIfSync`).
struct Standing {
    /// At most so many answers are still to come that were requested before this watch.
    older_answers: u64,
    /// The revision of etcd when it created the watch; `None` until it has confirmed it.
    created_at: Option<Revision>,
}

impl Standing {
    fn new(older_answers: u64) -> Self {
        Self {
            older_answers,
            created_at: None,
        }
    }

    /// How many older answers never come, as an answer at `revision` shows: only one that was requested after this watch can
    /// have a later revision than that of its creation.
    fn lost(&self, revision: Revision) -> u64 {
        let is_newer = self.created_at.is_some_and(|created_at| revision > created_at);
        if is_newer { self.older_answers } else { 0 }
    }

    /// Takes an answer about all watches, when `lost` of those requested before are known never to come, and returns whether it
    /// counts for this one.
    fn takes(&mut self, lost: u64) -> bool {
        let is_newer = self.older_answers <= lost;
        self.older_answers = self.older_answers.saturating_sub(lost + 1);
        is_newer && self.created_at.is_some()
    }
}

/// Why a stream is no longer read.
enum End {
    /// All senders of orders are gone.
    Closed,
    Broken(String),
}

impl Hub {
    pub(crate) fn new(
        client: Arc<Client>,
        layout: Layout,
        orders: mpsc::UnboundedReceiver<Order>,
        connected: Arc<AtomicBool>,
    ) -> Self {
        Hub {
            client,
            layout,
            orders,
            repeaters: Vec::new(),
            connected,
        }
    }

    /// Repeats until all senders of orders are gone.
    pub(crate) async fn run(mut self) {
        let mut pause = PAUSE_MIN;
        loop {
            while self.repeaters.is_empty() {
                match self.orders.recv().await {
                    Some(Order::Add(repeater)) => self.repeaters.push(repeater),
                    Some(Order::Progress) => {}
                    None => return,
                }
            }
            let why = match self.open().await {
                Ok(mut open) => {
                    self.connected.store(true, Ordering::Relaxed);
                    let begun = tokio::time::Instant::now();
                    let end = self.follow(&mut open).await;
                    if begun.elapsed() > PAUSE_MAX {
                        pause = PAUSE_MIN;
                    }
                    match end {
                        End::Closed => return,
                        End::Broken(why) => why,
                    }
                }
                Err(failure) => failure.to_string(),
            };
            self.connected.store(false, Ordering::Relaxed);
            tracing::debug!(%why, "the watch of etcd broke, it resumes from its revision");
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Opens a stream on which every resource resumes from its revision.
    async fn open(&self) -> Result<Open, Failure> {
        let now = self.client.range(cheapest_read()).await?;
        let now = Revision(revision_of(now.header.as_ref()));
        for repeater in &self.repeaters {
            if repeater.mirror.revision() > now {
                tracing::error!(
                    resource = %repeater.resource, stood = %repeater.mirror.revision(), %now,
                    "etcd has gone back, as one restored from a backup does; all readers list again"
                );
                repeater.load_again(&self.client, &self.layout).await?;
            }
        }
        let (requests, waiting) = mpsc::unbounded_channel();
        let mut live = BTreeMap::new();
        for (id, repeater) in (1..).zip(&self.repeaters) {
            // It lives as long as this function holds the other end.
            let _ = requests.send(create(id, repeater));
            let watched = Watched {
                repeater: repeater.clone(),
                standing: Standing::new(0),
            };
            live.insert(id, watched);
        }
        let next = i64::try_from(live.len()).map_or(i64::MAX, |last| last + 1);
        let waiting = stream::unfold(waiting, |mut waiting| async move {
            let request = waiting.recv().await?;
            Some((request, waiting))
        });
        Ok(Open {
            answers: self.client.watch(waiting).await?,
            requests,
            live,
            next,
            unanswered: 0,
        })
    }

    async fn follow(&mut self, open: &mut Open) -> End {
        loop {
            let end = tokio::select! {
                order = self.orders.recv() => match order {
                    None => return End::Closed,
                    Some(order) => self.execute(open, order),
                },
                answer = open.answers.next() => match answer {
                    Some(Ok(answer)) => self.answer(open, answer).await,
                    Some(Err(status)) => Some(status.message().to_owned()),
                    None => Some("etcd ended it".to_owned()),
                },
            };
            if let Some(why) = end {
                return End::Broken(why);
            }
        }
    }

    /// Executes this order and all queued ones, and requests progress once for all that want it; returns why the stream has
    /// become useless, if it has.
    fn execute(&mut self, open: &mut Open, first: Order) -> Option<String> {
        let mut next = Some(first);
        let mut is_progress_wanted = false;
        while let Some(order) = next {
            match order {
                Order::Progress => is_progress_wanted = true,
                Order::Add(repeater) => {
                    self.repeaters.push(repeater.clone());
                    if let Some(why) = open.add(repeater) {
                        return Some(why);
                    }
                }
            }
            next = self.orders.try_recv().ok();
        }
        if is_progress_wanted {
            return open.request_progress();
        }
        None
    }

    /// Handles one answer; returns why the stream has become useless, if it has.
    async fn answer(&self, open: &mut Open, answer: WatchResponse) -> Option<String> {
        let revision = Revision(revision_of(answer.header.as_ref()));
        let is_ours = open.live.contains_key(&answer.watch_id);
        if answer.canceled && answer.compact_revision == 0 && answer.watch_id != ALL && !is_ours {
            // The end of one that was cancelled.
            return None;
        }
        if answer.canceled {
            let ended = open.live.remove(&answer.watch_id);
            let Some(Watched { repeater, .. }) = ended.filter(|_| answer.compact_revision > 0) else {
                return Some(format!("etcd ended a watch: {}", answer.cancel_reason));
            };
            // The changes since were compacted before they arrived here.
            return match repeater.load_again(&self.client, &self.layout).await {
                Ok(()) => open.cancel(answer.watch_id).or_else(|| open.add(repeater)),
                Err(failure) => Some(failure.to_string()),
            };
        }
        if answer.created {
            if let Some(watched) = open.live.get_mut(&answer.watch_id) {
                watched.standing.created_at = Some(revision);
            }
            // Earlier answers about all watches did not count for those that were not confirmed.
            let is_complete = open.live.values().all(|watched| watched.standing.created_at.is_some());
            return is_complete.then(|| open.request_progress()).flatten();
        }
        if !answer.events.is_empty() {
            // The revision in the header may lie beyond events that are still to come.
            if let Some(watched) = open.live.get(&answer.watch_id) {
                watched.repeater.show(&self.layout, answer.events).await;
            }
        } else if answer.watch_id == ALL {
            open.progressed(revision);
        } else if let Some(watched) = open.live.get(&answer.watch_id) {
            watched.repeater.advance(revision);
        }
        None
    }
}

impl Open {
    fn add(&mut self, repeater: Arc<Repeater>) -> Option<String> {
        let id = self.next;
        self.next += 1;
        let request = create(id, &repeater);
        let standing = Standing::new(self.unanswered);
        self.live.insert(id, Watched { repeater, standing });
        self.send(request)
    }

    /// Removes a watch that etcd has ended by itself: until then it counts as one that is behind.
    fn cancel(&self, watch_id: i64) -> Option<String> {
        self.send(WatchRequest {
            request: Some(Watching::Cancel(WatchCancelRequest { watch_id })),
        })
    }

    /// Takes an answer about all watches.
    fn progressed(&mut self, revision: Revision) {
        let standings = self.live.values().map(|watched| watched.standing.lost(revision));
        let lost = standings.max().unwrap_or_default();
        self.unanswered = self.unanswered.saturating_sub(lost + 1);
        for watched in self.live.values_mut() {
            if watched.standing.takes(lost) {
                watched.repeater.advance(revision);
            }
        }
    }

    /// Requests the progress of all watches, so often that an answer counts for each of them even if nothing is written
    /// meanwhile.
    fn request_progress(&mut self) -> Option<String> {
        let older = self.live.values().map(|watched| watched.standing.older_answers).max();
        let times = older.unwrap_or_default().min(PROGRESS_AT_ONCE_MAX) + 1;
        self.unanswered += times;
        (0..times).find_map(|_| {
            self.send(WatchRequest {
                request: Some(Watching::Progress(Empty {})),
            })
        })
    }

    fn send(&self, request: WatchRequest) -> Option<String> {
        let sent = self.requests.send(request);
        sent.is_err().then(|| "the connection is gone".to_owned())
    }
}

fn create(watch_id: i64, repeater: &Repeater) -> WatchRequest {
    WatchRequest {
        request: Some(Watching::Create(WatchCreateRequest {
            key: repeater.span.first.clone(),
            range_end: repeater.span.end.clone(),
            // Not the revision after it, which etcd may not have come to: what is known already changes nothing.
            start_revision: to_wire(repeater.mirror.revision().0.max(1)),
            progress_notify: true,
            watch_id,
        })),
    }
}

/// The cheapest request whose answer has the newest revision.
pub(crate) fn cheapest_read() -> RangeRequest {
    RangeRequest {
        key: prost::bytes::Bytes::from_static(crate::compact::COMPACT_KEY.as_bytes()),
        keys_only: true,
        ..RangeRequest::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn confirmed(older: u64) -> Standing {
        Standing {
            created_at: Some(Revision(7)),
            ..Standing::new(older)
        }
    }

    /// Which answers count for a watch that is alone on its stream.
    fn counting(mut standing: Standing, answers: &[u64]) -> Vec<bool> {
        let counts = |at: &u64| {
            let lost = standing.lost(Revision(*at));
            standing.takes(lost)
        };
        answers.iter().map(counts).collect()
    }

    #[test]
    fn answers_requested_before_a_watch_do_not_count_for_it() {
        assert_eq!(counting(Standing::new(0), &[6, 9]), [false, false], "not confirmed");
        assert_eq!(counting(confirmed(0), &[7]), [true]);
        assert_eq!(counting(confirmed(2), &[6, 7, 7]), [false, false, true]);
        // Only what was requested after it can know of a later revision, and nothing older comes behind that.
        assert_eq!(counting(confirmed(2), &[8, 8]), [true, true]);
    }

    #[test]
    fn answers_that_never_come_are_not_waited_for() {
        let (early, mut late) = (confirmed(2), confirmed(5));
        late.created_at = Some(Revision(9));
        // Two that were requested before the early watch are lost, so they are for the late one, which was behind five.
        let lost = early.lost(Revision(8));
        assert_eq!((lost, late.lost(Revision(8))), (2, 0));
        let counted: Vec<bool> = [lost, 0, 0, 0].into_iter().map(|lost| late.takes(lost)).collect();
        assert_eq!(counted, [false, false, false, true]);
    }
}
