//! Watches: a stream of changes as JSON lines, from a version on or after a first list, with bookmarks.
//! It copies no object per watcher beyond the line it sends.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/storage/cacher)

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use cluster_store::{Change, Changes, Entry, Page, Revision, StoreError};
use futures::{FutureExt, StreamExt, stream};
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep_until};

use crate::answer::Answer;
use crate::context::{Context, store_status};
use crate::filter::Filter;
use crate::negotiate::{Shape, shape};
use crate::query::{ListOptions, ReadVersion};
use crate::registry::Served;
use crate::render;
use crate::server::Inner;
use crate::status::Status;
use crate::tables::Tables;

/// Open watches per server. A laptop's landscape has a few hundred; a thousand watchers are a goal of the bench.
const WATCHES_MAX: usize = 20_000;
/// How often a watch that asked for bookmarks gets one.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// How long a watch without `timeoutSeconds` lasts at least; as kube-apiserver's --min-request-timeout, up to twice.
const TIMEOUT_MIN: Duration = Duration::from_secs(1800);
/// Changes put into one chunk when they are ready at once.
const CHUNK_CHANGES_MAX: usize = 64;

pub(crate) async fn watch(context: &Context) -> Result<Answer, Status> {
    let shape = shape(&context.headers)?;
    let options = ListOptions::parse(&context.query)?;
    let filter = Filter::new(&context.served, &options)?;
    let ticket = Ticket::take(&context.server)?;
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
    let mut watcher = Watcher {
        server: context.server.clone(),
        served: context.served.clone(),
        version: context.version().to_owned(),
        shape,
        tables: Tables::new(&context.served, context.version(), &context.query)?,
        filter,
        changes,
        seen: from,
        deadline: now + timeout,
        bookmark_at: options.bookmarks.then(|| now + BOOKMARK_EVERY),
        header_sent: false,
        chunks: VecDeque::new(),
        ended: false,
        _ticket: ticket,
    };
    watcher.initial(first, &options)?;
    let chunks = stream::unfold(watcher, |mut watcher| async move {
        let chunk = watcher.next().await?;
        Some((Ok::<_, std::convert::Infallible>(chunk), watcher))
    });
    Ok(Answer::stream("application/json", base_client::stream_body(chunks)))
}

/// Counts an open watch.
struct Ticket(Arc<Inner>);

impl Ticket {
    fn take(server: &Arc<Inner>) -> Result<Self, Status> {
        if server.watches.fetch_add(1, Ordering::Relaxed) >= WATCHES_MAX {
            server.watches.fetch_sub(1, Ordering::Relaxed);
            return Err(Status::too_many_requests(
                "too many open watches, please try again later",
                1,
            ));
        }
        Ok(Self(server.clone()))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.watches.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What is sent before any change, and the version that changes follow.
async fn begin(context: &Context, options: &ListOptions, filter: &Filter) -> Result<(Vec<Entry>, Revision), Status> {
    let initial = match (options.send_initial_events, options.version) {
        (Some(initial), _) => initial,
        (None, ReadVersion::Newest | ReadVersion::Any) => true,
        (None, ReadVersion::NotOlderThan(_) | ReadVersion::Exact(_)) => false,
    };
    if !initial {
        let from = match options.version {
            ReadVersion::NotOlderThan(revision) | ReadVersion::Exact(revision) => Revision(revision),
            _ => context.server.store.revision().await.map_err(store_status)?,
        };
        return Ok((Vec::new(), from));
    }
    let listing = context
        .server
        .store
        .list(&context.range(), Page::default())
        .await
        .map_err(store_status)?;
    let mut entries = listing.entries;
    entries.retain(|entry| filter.passes(&entry.key, &entry.object));
    Ok((entries, listing.revision))
}

struct Watcher {
    server: Arc<Inner>,
    served: Arc<Served>,
    version: String,
    shape: Shape,
    tables: Tables,
    filter: Filter,
    changes: Changes,
    /// The newest version the client knows of.
    seen: Revision,
    deadline: Instant,
    bookmark_at: Option<Instant>,
    /// Column definitions go with the first table only.
    header_sent: bool,
    chunks: VecDeque<Bytes>,
    ended: bool,
    _ticket: Ticket,
}

impl Watcher {
    fn initial(&mut self, entries: Vec<Entry>, options: &ListOptions) -> Result<(), Status> {
        let mut out = BytesMut::new();
        for entry in entries {
            self.line(&mut out, "ADDED", &entry.object, entry.revision)?;
        }
        if options.send_initial_events == Some(true) && options.bookmarks {
            self.bookmark(&mut out, true);
        }
        if !out.is_empty() {
            self.chunks.push_back(out.freeze());
        }
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
            let bookmark_at = self.bookmark_at;
            let bookmark_due = async {
                match bookmark_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.server.stop.cancelled() => return None,
                () = self.served.life.ended() => {
                    self.rest();
                    self.ended = true;
                }
                () = sleep_until(self.deadline) => {
                    if self.bookmark_at.is_some() {
                        self.progress().await;
                    }
                    self.ended = true;
                }
                change = self.changes.next() => self.take(change),
                () = bookmark_due => {
                    self.bookmark_at = Some(Instant::now() + BOOKMARK_EVERY);
                    self.progress().await;
                }
            }
        }
    }

    /// Turns a change and those that are ready behind it into one chunk.
    fn take(&mut self, first: Option<Result<Arc<Change>, StoreError>>) {
        let (mut out, mut next) = (BytesMut::new(), first);
        for taken in 1.. {
            self.change_or_error(&mut out, next);
            if self.ended || taken == CHUNK_CHANGES_MAX {
                break;
            }
            match unconstrained(self.changes.next()).now_or_never() {
                Some(change) => next = change,
                None => break,
            }
        }
        if !out.is_empty() {
            self.chunks.push_back(out.freeze());
        }
    }

    fn change_or_error(&mut self, out: &mut BytesMut, change: Option<Result<Arc<Change>, StoreError>>) {
        if let Err(status) = self.change(out, change) {
            frame(out, "ERROR", &status.to_json());
            self.ended = true;
        }
    }

    fn change(&mut self, out: &mut BytesMut, change: Option<Result<Arc<Change>, StoreError>>) -> Result<(), Status> {
        let change = match change {
            Some(Ok(change)) => change,
            Some(Err(StoreError::Expired { asked, .. })) => {
                return Err(Status::expired(format!("too old resource version: {asked}")));
            }
            Some(Err(error)) => return Err(store_status(error)),
            None => {
                self.ended = true;
                return Ok(());
            }
        };
        let entry = &change.entry;
        if self.served.life.is_over_at(entry.revision) {
            self.ended = true;
            return Ok(());
        }
        self.seen = entry.revision;
        let now = !change.is_delete() && self.filter.passes(&entry.key, &entry.object);
        let before = change
            .previous()
            .filter(|previous| self.filter.passes(&entry.key, previous));
        match (before, now) {
            (None, true) => self.line(out, "ADDED", &entry.object, entry.revision),
            (Some(_), true) => self.line(out, "MODIFIED", &entry.object, entry.revision),
            // Whoever watches a part sees the last state that was in it, at the version of the change.
            (Some(previous), false) => self.line(out, "DELETED", previous, entry.revision),
            (None, false) => Ok(()),
        }
    }

    fn line(
        &mut self,
        out: &mut BytesMut,
        event: &str,
        object: &cluster_store::Object,
        revision: Revision,
    ) -> Result<(), Status> {
        let bytes = render::object(&self.served, &self.version, object, revision)?;
        let bytes = match self.shape {
            Shape::Object => bytes,
            Shape::Metadata => render::metadata(&bytes)?,
            Shape::Table => {
                let header = !std::mem::replace(&mut self.header_sent, true);
                self.tables.event(&bytes, self.server.clock.now(), header)?
            }
        };
        frame(out, event, &bytes);
        Ok(())
    }

    /// Tells the client how far the store has come. Changes up to there that are ready go first.
    async fn progress(&mut self) {
        let Ok(revision) = self.server.store.revision().await else {
            return;
        };
        // Writes are visible to a watch as soon as they are to `revision`, so that nothing at or before it can
        // follow once the stream has nothing ready.
        self.rest();
        let mut out = BytesMut::new();
        self.seen = self.seen.max(revision);
        self.bookmark(&mut out, false);
        self.chunks.push_back(out.freeze());
    }

    /// Takes all changes that are ready (asked for outside tokio's budget, which would feign that there are none).
    fn rest(&mut self) {
        let mut out = BytesMut::new();
        while !self.ended {
            let Some(change) = unconstrained(self.changes.next()).now_or_never() else {
                break;
            };
            self.change_or_error(&mut out, change);
        }
        if !out.is_empty() {
            self.chunks.push_back(out.freeze());
        }
    }

    fn bookmark(&self, out: &mut BytesMut, initial_end: bool) {
        let (api_version, kind) = match self.shape {
            Shape::Metadata => ("meta.k8s.io/v1".to_owned(), "PartialObjectMetadata"),
            Shape::Object => (self.served.info().api_version(&self.version), &*self.served.info().kind),
            Shape::Table => ("meta.k8s.io/v1".to_owned(), "Table"),
        };
        let mut metadata = serde_json::json!({"creationTimestamp": null, "resourceVersion": self.seen.to_string()});
        if initial_end {
            metadata["annotations"] = serde_json::json!({"k8s.io/initial-events-end": "true"});
        }
        let mut object = serde_json::json!({"kind": kind, "apiVersion": api_version, "metadata": metadata});
        if self.shape == Shape::Table {
            object["columnDefinitions"] = serde_json::json!([]);
            object["rows"] = serde_json::json!([]);
        }
        frame(out, "BOOKMARK", object.to_string().as_bytes());
    }
}

fn frame(out: &mut BytesMut, event: &str, object: &[u8]) {
    out.reserve(object.len() + event.len() + 32);
    out.put_slice(b"{\"type\":\"");
    out.put_slice(event.as_bytes());
    out.put_slice(b"\",\"object\":");
    out.put_slice(object);
    out.put_slice(b"}\n");
}
