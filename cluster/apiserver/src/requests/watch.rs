//! Watches: a stream of changes as JSON lines, from a version on or after a first list, with bookmarks.
//! It copies no object per watcher beyond the line it sends, and where many watch, that line is encoded once.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/storage/cacher)

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use cluster_schema::Schema;
use cluster_store::{Change, Changes, Entry, Object, Page, Revision, StoreError};
use futures::{FutureExt, StreamExt, stream};
use tokio::task::unconstrained;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::kinds::event_cache::EventCache;
use crate::kinds::filter::Filter;
use crate::kinds::registry::Served;
use crate::kinds::{conversion, rendering};
use crate::requests::list::not_older_than;
use crate::requests::tables::{self, Tables};
use crate::state::context::Context;
use crate::state::server_state::ServerState;
use crate::storage::errors::store_status;
use crate::wire::answer::Answer;
use crate::wire::negotiation::{Expected, Meta, Shape};
use crate::wire::query::{ListOptions, Purpose, ReadVersion};
use crate::wire::status::Status;

/// Open watches per server. A laptop's landscape has a few hundred; a thousand watchers are a goal of the bench.
const WATCHES_MAX: usize = 20_000;
/// Kinds whose replicas are a plain number in upstream's internal types, and so are printed even if they are not set.
const HOLD_REPLICAS: [&str; 4] = ["Deployment", "ReplicaSet", "ReplicationController", "StatefulSet"];
/// How often a watch that has requested bookmarks gets one.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// How long before its end a watch gets its last one, as kube-apiserver: the client begins again from there.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// How long a watch without `timeoutSeconds` lasts at least; as kube-apiserver's --min-request-timeout, up to twice.
const TIMEOUT_MIN: Duration = Duration::from_secs(1800);
/// Changes put into one chunk when they are ready at once.
const CHUNK_CHANGES_MAX: usize = 64;

pub(crate) async fn watch(context: &Context) -> Result<Answer, Status> {
    let shape = context.shape(Expected::Watch)?;
    let options = ListOptions::parse(&context.query, Purpose::Watch)?;
    let filter = Filter::new(&context.served, context.version(), &options)?;
    let meta = match shape {
        Shape::Table(meta) => meta,
        _ => Meta::V1,
    };
    if let (Some(true), ReadVersion::NotOlderThan(version)) = (options.send_initial_events, options.version)
        && let Err(status) = not_older_than(context, version).await
    {
        // kube-apiserver has begun to answer by then.
        let event = framed("ERROR", &status.to_json());
        return Ok(Answer::stream("application/json", base_client::full_body(event)));
    }
    let ticket = Ticket::take(context)?;
    let (first, from) = begin(context, &options, &filter).await?;
    let changes = match context.server.store.watch(&context.range(), from).await {
        Ok(changes) => changes,
        Err(StoreError::Expired { .. } | StoreError::Ahead { .. }) => {
            return Err(Status::expired(format!("too old resource version: {from}")));
        }
        Err(error) => return Err(store_status(error)),
    };
    let jitter = context.server.entropy.below(TIMEOUT_MIN.as_secs());
    let timeout = options.timeout.unwrap_or(TIMEOUT_MIN + Duration::from_secs(jitter));
    let now = Instant::now();
    let bookmark = next_bookmark(now, now + timeout).filter(|_| options.bookmarks);
    let mut watcher = Watcher {
        server: context.server.clone(),
        served: context.served.clone(),
        version: context.version().to_owned(),
        shape,
        event_cache: context.served.event_caches.join(context.version()),
        tables: Tables::new(&context.served, context.version(), &context.query, meta)?,
        filter,
        changes,
        from,
        seen: from,
        deadline: now + timeout,
        end: Box::pin(end(context.server.clone(), context.served.clone(), now + timeout)),
        bookmark: bookmark.map(|at| Box::pin(sleep_until(at))),
        header_sent: false,
        chunks: VecDeque::new(),
        pause: None,
        ended: false,
        ticket,
    };
    watcher.initial(first, &options)?;
    let chunks = stream::unfold(watcher, |mut watcher| async move {
        let chunk = watcher.next().await?;
        Some((Ok::<_, std::convert::Infallible>(chunk), watcher))
    });
    Ok(Answer::stream("application/json", base_client::stream_body(chunks)))
}

/// Counts an open watch.
struct Ticket {
    server: Arc<ServerState>,
    flow: u64,
    /// Where the events that are sent are counted.
    sent: Arc<AtomicU64>,
}

impl Ticket {
    fn take(context: &Context) -> Result<Self, Status> {
        let server = &context.server;
        if server.watches.fetch_add(1, Ordering::Relaxed) >= WATCHES_MAX {
            server.watches.fetch_sub(1, Ordering::Relaxed);
            return Err(Status::too_many_requests(
                "too many open watches, please try again later",
                1,
            ));
        }
        let ticket = |flow| Self {
            server: server.clone(),
            flow,
            sent: server
                .store_metrics
                .of(&context.served.store_name)
                .sent(context.version()),
        };
        let counted = server.fairness.watch(&context.user).map(ticket);
        if counted.is_err() {
            server.watches.fetch_sub(1, Ordering::Relaxed);
        }
        counted
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.server.watches.fetch_sub(1, Ordering::Relaxed);
        self.server.fairness.unwatch(self.flow);
    }
}

/// What is sent before any change, and the version that changes follow.
async fn begin(context: &Context, options: &ListOptions, filter: &Filter) -> Result<(Vec<Entry>, Revision), Status> {
    if options.send_initial_events != Some(true) {
        let from = match options.version {
            ReadVersion::NotOlderThan(revision) | ReadVersion::Exact(revision) => Revision(revision),
            _ => {
                let resource = &context.served.store_name;
                context.server.store.revision(resource).await.map_err(store_status)?
            }
        };
        return Ok((Vec::new(), from));
    }
    let listing = context
        .server
        .store
        .list(&context.range(), Page::default())
        .await
        .map_err(store_status)?;
    let (network, version) = (&context.server.network, context.version());
    let mut entries = conversion::convert_entries(network, &context.served, version, listing.entries).await?;
    entries.retain(|entry| filter.passes(&entry.key, &entry.object));
    Ok((entries, listing.revision))
}

/// When the next bookmark is due: soon, and once more before the watch ends. None: it ends before.
fn next_bookmark(now: Instant, deadline: Instant) -> Option<Instant> {
    let last = deadline.checked_sub(BOOKMARK_BEFORE_END)?;
    (last > now).then(|| last.min(now + BOOKMARK_EVERY))
}

/// Never ready if nothing is due.
async fn due(time: &mut Option<Pin<Box<Sleep>>>) {
    match time {
        Some(time) => time.await,
        None => std::future::pending().await,
    }
}

/// Why a watch ends by itself.
enum End {
    /// The server stops.
    Stopped,
    /// The kind is not served any more.
    Gone,
    TimeIsUp,
}

async fn end(server: Arc<ServerState>, served: Arc<Served>, deadline: Instant) -> End {
    tokio::select! {
        biased;
        () = server.stop.cancelled() => End::Stopped,
        () = served.period.ended() => End::Gone,
        () = sleep_until(deadline) => End::TimeIsUp,
    }
}

struct Watcher {
    server: Arc<ServerState>,
    served: Arc<Served>,
    version: String,
    shape: Shape,
    event_cache: Arc<EventCache>,
    tables: Tables,
    filter: Filter,
    changes: Changes,
    /// Where the watch began.
    from: Revision,
    /// The newest version that was processed.
    seen: Revision,
    deadline: Instant,
    // What a watch waits for beside changes is made once: there may be thousands of watches and of changes a second.
    end: Pin<Box<dyn Future<Output = End> + Send>>,
    bookmark: Option<Pin<Box<Sleep>>>,
    /// Column definitions go with the first table only.
    header_sent: bool,
    chunks: VecDeque<Bytes>,
    /// Changes are collected until it is over. Created when it is first needed: most watches have few beside them.
    pause: Option<Pin<Box<Sleep>>>,
    ended: bool,
    ticket: Ticket,
}

impl Watcher {
    fn initial(&mut self, entries: Vec<Entry>, options: &ListOptions) -> Result<(), Status> {
        let mut lines = Vec::new();
        for entry in entries {
            self.line(&mut lines, "ADDED", &entry.object, entry.revision)?;
            if lines.len() == CHUNK_CHANGES_MAX {
                self.push(std::mem::take(&mut lines));
            }
        }
        if options.send_initial_events == Some(true) && options.bookmarks {
            self.bookmark(&mut lines, true)?;
        }
        self.push(lines);
        Ok(())
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(chunk) = self.chunks.pop_front() {
                return Some(chunk);
            }
            if self.ended {
                return None;
            }
            let pauses = self.pause.as_ref().is_some_and(|pause| !pause.is_elapsed());
            let bookmark_due = due(&mut self.bookmark);
            let pause_over = due(&mut self.pause);
            tokio::select! {
                biased;
                end = &mut self.end => match end {
                    End::Stopped => return None,
                    End::Gone => {
                        self.rest().await;
                        self.ended = true;
                    }
                    End::TimeIsUp => self.ended = true,
                },
                () = pause_over, if pauses => {}
                change = self.changes.next(), if !pauses => {
                    self.take(change).await;
                    self.begin_pause();
                }
                () = bookmark_due => {
                    self.bookmark = next_bookmark(Instant::now(), self.deadline).map(|at| Box::pin(sleep_until(at)));
                    self.progress().await;
                }
            }
        }
    }

    /// Lets changes collect for a moment if so many clients watch that waking each of them for each change is most of the work.
    fn begin_pause(&mut self) {
        let Some(length) = self.event_cache.pause() else { return };
        let until = Instant::now() + length;
        match &mut self.pause {
            Some(pause) => pause.as_mut().reset(until),
            None => self.pause = Some(Box::pin(sleep_until(until))),
        }
    }

    /// Turns a change and those that are ready behind it into one chunk.
    async fn take(&mut self, first: Option<Result<Arc<Change>, StoreError>>) {
        let (mut lines, mut next) = (Vec::new(), first);
        for taken in 1.. {
            self.change_or_end(&mut lines, next).await;
            if self.ended || taken == CHUNK_CHANGES_MAX {
                break;
            }
            match unconstrained(self.changes.next()).now_or_never() {
                Some(change) => next = change,
                None => break,
            }
        }
        self.push(lines);
    }

    async fn change_or_end(&mut self, lines: &mut Vec<Bytes>, change: Option<Result<Arc<Change>, StoreError>>) {
        if let Err(status) = self.change(lines, change).await {
            lines.push(framed("ERROR", &status.to_json()));
            self.ended = true;
        }
    }

    async fn change(
        &mut self,
        lines: &mut Vec<Bytes>,
        change: Option<Result<Arc<Change>, StoreError>>,
    ) -> Result<(), Status> {
        let change = match change {
            Some(Ok(change)) => change,
            Some(Err(StoreError::Expired { requested, .. })) => {
                return Err(Status::expired(format!("too old resource version: {requested}")));
            }
            Some(Err(error)) => return Err(store_status(error)),
            None => {
                self.ended = true;
                return Ok(());
            }
        };
        if self.served.converter().is_none() {
            return self.event(lines, &change, &change.entry.object, change.previous());
        }
        let (server, served) = (self.server.clone(), self.served.clone());
        let shown = tokio::select! {
            biased;
            () = server.stop.cancelled() => None,
            // Boxed, because most watches never need the memory of a webhook call.
            shown = Box::pin(converted(&server, &served, self.version.clone(), &change)) => shown,
        };
        match shown {
            Some((object, previous)) => self.event(lines, &change, &object, previous.as_ref()),
            None => {
                self.ended = true;
                Ok(())
            }
        }
    }

    fn event(
        &mut self,
        lines: &mut Vec<Bytes>,
        change: &Change,
        object: &Arc<Object>,
        previous: Option<&Arc<Object>>,
    ) -> Result<(), Status> {
        let entry = &change.entry;
        if self.served.period.is_over_at(entry.revision) {
            self.ended = true;
            return Ok(());
        }
        self.seen = entry.revision;
        let now = !change.is_delete() && self.filter.passes(&entry.key, object);
        let before = previous.filter(|previous| self.filter.passes(&entry.key, previous));
        match (before, now) {
            (None, true) => self.line(lines, "ADDED", object, entry.revision),
            (Some(_), true) => self.line(lines, "MODIFIED", object, entry.revision),
            // A watch with a selector gets the last state that matched, at the version of the change.
            (Some(previous), false) => self.line(lines, "DELETED", previous, entry.revision),
            (None, false) => Ok(()),
        }
    }

    fn line(
        &mut self,
        lines: &mut Vec<Bytes>,
        event: &'static str,
        object: &Arc<Object>,
        revision: Revision,
    ) -> Result<(), Status> {
        let rendered = || rendering::object(&self.served, &self.version, object, revision);
        let line = match self.shape {
            Shape::Object => {
                let encode = || Ok(framed(event, &rendered()?));
                self.event_cache.get_or_encode(event, object, revision, encode)?
            }
            _ => {
                let bytes = rendered()?;
                framed(event, &self.shaped(bytes)?)
            }
        };
        lines.push(line);
        self.ticket.sent.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Sends a bookmark with the newest version of the store. Changes up to there that are ready go first.
    async fn progress(&mut self) {
        let Ok(revision) = self.server.store.revision(&self.served.store_name).await else {
            return;
        };
        // Writes are visible to a watch as soon as they are to `revision`, so that nothing at or before it can
        // follow once the stream has nothing ready.
        self.rest().await;
        self.seen = self.seen.max(revision);
        // Nothing has happened since the watch began.
        if self.seen <= self.from {
            return;
        }
        let mut lines = Vec::new();
        if self.bookmark(&mut lines, false).is_err() {
            self.ended = true;
        }
        self.push(lines);
    }

    /// Takes all changes that are ready (polled outside tokio's budget, which could pretend that there are none).
    async fn rest(&mut self) {
        let mut lines = Vec::new();
        while !self.ended {
            let Some(change) = unconstrained(self.changes.next()).now_or_never() else {
                break;
            };
            self.change_or_end(&mut lines, change).await;
        }
        self.push(lines);
    }

    /// One chunk of all these lines. A single one is not copied.
    fn push(&mut self, mut lines: Vec<Bytes>) {
        if lines.len() < 2 {
            self.chunks.extend(lines.pop());
            return;
        }
        let mut chunk = BytesMut::with_capacity(lines.iter().map(Bytes::len).sum());
        lines.iter().for_each(|line| chunk.put_slice(line));
        self.chunks.push_back(chunk.freeze());
    }

    fn bookmark(&mut self, lines: &mut Vec<Bytes>, initial_end: bool) -> Result<(), Status> {
        let info = self.served.info();
        let mut metadata = serde_json::json!({"resourceVersion": self.seen.to_string()});
        if initial_end {
            metadata["annotations"] = serde_json::json!({tables::INITIAL_END: "true"});
        }
        let api_version = info.api_version(&self.version);
        let mut object = serde_json::json!({"kind": info.kind, "apiVersion": api_version, "metadata": metadata});
        // An object of a Go type in which nothing is set.
        if let Some(schema) = self.served.kind.schema(&self.version).filter(Schema::is_of_go) {
            schema.fill_zeros(&mut object);
            // They are optional here, but a plain number in upstream's internal types.
            if HOLD_REPLICAS.contains(&&*info.kind) {
                object["spec"]["replicas"] = 0.into();
            }
        }
        let bytes = self.shaped(object.to_string().into())?;
        lines.push(framed("BOOKMARK", &bytes));
        Ok(())
    }

    /// An object's bytes in the requested shape.
    fn shaped(&mut self, bytes: Bytes) -> Result<Bytes, Status> {
        match self.shape {
            Shape::Object => Ok(bytes),
            Shape::Metadata(meta) | Shape::MetadataList(meta) => rendering::metadata(&bytes, meta),
            Shape::Table(_) => {
                let header = !std::mem::replace(&mut self.header_sent, true);
                self.tables.event(&bytes, self.server.clock.now(), header)
            }
        }
    }
}

/// The objects of a change, in the version that is watched. None: the webhook has failed. Then the watch ends without an error,
/// as it does in kube-apiserver: a client that lists again gets the error.
async fn converted(
    server: &ServerState,
    served: &Served,
    version: String,
    change: &Change,
) -> Option<(Arc<Object>, Option<Arc<Object>>)> {
    let warn = |status: &Status| {
        tracing::warn!(server = %server.name, kind = %served.info().kind, why = status.message(),
            "a watch ends because an object cannot be converted");
    };
    let (entry, network) = (&change.entry, &server.network);
    let object = conversion::convert_change(network, served, &version, &entry.object, entry.revision).await;
    let object = object.inspect_err(warn).ok()?;
    let previous = match change.previous() {
        None => None,
        Some(previous) if Arc::ptr_eq(previous, &entry.object) => Some(object.clone()),
        Some(previous) => {
            let previous = conversion::convert_change(network, served, &version, previous, entry.revision).await;
            Some(previous.inspect_err(warn).ok()?)
        }
    };
    Some((object, previous))
}

fn framed(event: &str, object: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(object.len() + event.len() + 32);
    out.put_slice(b"{\"type\":\"");
    out.put_slice(event.as_bytes());
    out.put_slice(b"\",\"object\":");
    out.put_slice(object);
    out.put_slice(b"}\n");
    out.freeze()
}
