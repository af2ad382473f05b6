//! One resource of the store: a mirror of it, and the revision that it has reached. The hub feeds it.

use std::sync::Arc;

use cluster_store::{Entry, Key, Mirror, Object, Repeated, Revision, StoreError};
use tokio::sync::watch;
use tonic::Code;

use crate::client::{Client, Failure};
use crate::hub::cheapest_read;
use crate::layout::{Layout, Span, behind};
use crate::wire::{EVENT_PUT, Event, KeyValue, RangeRequest, number, revision_of, to_wire};

/// Objects per call while a resource is read whole; as kube-apiserver's.
const PAGE: i64 = 500;
/// How far back the history of a resource is read at its beginning, so that watches resume after a restart of the server:
/// about what a mirror retains of a busy resource. Writes to all resources count.
const HISTORY_REVISIONS: u64 = 1000;
/// Changes that are shown at once: far below what the mirror's history holds, so that watchers keep up.
const SHOWN_AT_ONCE_MAX: usize = 256;

/// A resource that is repeated.
pub(crate) struct Repeater {
    pub(crate) resource: Arc<str>,
    pub(crate) span: Span,
    pub(crate) mirror: Mirror,
    /// The mirror's revision, published after the mirror shows it.
    come_to: watch::Sender<Revision>,
}

/// All objects of a resource at a revision.
struct Whole {
    revision: Revision,
    entries: Vec<Entry>,
}

impl Repeater {
    /// Reads a resource as it was a while ago; its watch delivers what has happened since.
    pub(crate) async fn load(client: &Client, layout: &Layout, resource: &Arc<str>) -> Result<Self, StoreError> {
        let now = client.range(cheapest_read()).await.map_err(unavailable)?;
        let now = revision_of(now.header.as_ref());
        let at = now.saturating_sub(HISTORY_REVISIONS).max(1);
        let whole = match read(client, layout, resource, at).await {
            Err(Failure::Refused {
                code: Code::OutOfRange, ..
            }) => {
                let oldest = client.oldest(to_wire(at)).await.map_err(unavailable)?;
                match read(client, layout, resource, oldest.map_or(0, number)).await {
                    // It was compacted further meanwhile.
                    Err(Failure::Refused { .. }) => read(client, layout, resource, 0).await,
                    whole => whole,
                }
            }
            whole => whole,
        };
        let Whole { revision, entries } = whole.map_err(unavailable)?;
        Ok(Repeater {
            resource: resource.clone(),
            span: layout.resource(resource),
            mirror: Mirror::new(revision, entries),
            come_to: watch::Sender::new(revision),
        })
    }

    /// Lists the resource again, because etcd no longer has the changes since then.
    pub(crate) async fn load_again(&self, client: &Client, layout: &Layout) -> Result<(), Failure> {
        let Whole { revision, entries } = read(client, layout, &self.resource, 0).await?;
        self.mirror.reset(revision, entries);
        self.come_to.send_replace(revision);
        Ok(())
    }

    /// Shows changes in the order in which etcd sent them.
    pub(crate) async fn show(&self, layout: &Layout, events: Vec<Event>) {
        let mut batch: Vec<Repeated> = Vec::new();
        for event in events {
            let Some(kv) = event.kv else { continue };
            let revision = Revision(number(kv.mod_revision));
            if batch.len() >= SHOWN_AT_ONCE_MAX && batch.last().is_some_and(|last| last.revision < revision) {
                self.mirror.repeat(std::mem::take(&mut batch));
                tokio::task::yield_now().await;
            }
            batch.extend(repeated(layout, &self.resource, event.kind, &kv));
        }
        if !batch.is_empty() {
            self.mirror.repeat(batch);
        }
        self.come_to.send_replace(self.mirror.revision());
    }

    /// Notes that everything up to a revision has been shown.
    pub(crate) fn advance(&self, to: Revision) {
        self.mirror.advance(to);
        self.come_to.send_if_modified(|come_to| {
            let is_newer = *come_to < to;
            *come_to = (*come_to).max(to);
            is_newer
        });
    }

    /// Returns once the mirror has come to a revision.
    pub(crate) async fn has_come_to(&self, revision: Revision) {
        let mut come_to = self.come_to.subscribe();
        // It fails when the sender is gone, which lives in `self`.
        let _ = come_to.wait_for(|come_to| *come_to >= revision).await;
    }
}

fn repeated(layout: &Layout, resource: &Arc<str>, kind: i32, kv: &KeyValue) -> Option<Repeated> {
    let key = layout.parse(resource, &kv.key)?;
    let object = if kind == EVENT_PUT {
        match Object::from_bytes(&kv.value) {
            Ok(object) => Some(Arc::new(object)),
            Err(error) => {
                tracing::error!(%key, revision = kv.mod_revision, %error, "what stands in etcd is no object of this store");
                None
            }
        }
    } else {
        None
    };
    Some(Repeated {
        key,
        revision: Revision(number(kv.mod_revision)),
        object,
    })
}

/// The object in etcd at this key. Errors: it is none.
pub(crate) fn entry(key: Key, kv: &KeyValue) -> Result<Entry, StoreError> {
    let object = Object::from_bytes(&kv.value)
        .map_err(|error| StoreError::Malformed(format!("what stands in etcd at {key} is no object: {error}")))?;
    Ok(Entry {
        key,
        revision: Revision(number(kv.mod_revision)),
        object: object.into(),
    })
}

/// As [`entry`], for lists: what is no object is logged and left out of them.
pub(crate) fn entry_or_none(key: Key, kv: &KeyValue) -> Option<Entry> {
    let read = entry(key, kv);
    read.inspect_err(|error| tracing::error!(%error, "an object is left out"))
        .ok()
}

/// All of a resource at a revision; 0 is the newest.
async fn read(client: &Client, layout: &Layout, resource: &Arc<str>, at: u64) -> Result<Whole, Failure> {
    let span = layout.resource(resource);
    let (mut first, mut at, mut entries) = (span.first.clone(), at, Vec::new());
    loop {
        let page = client
            .range(RangeRequest {
                key: first,
                range_end: span.end.clone(),
                limit: PAGE,
                revision: to_wire(at),
                keys_only: false,
            })
            .await?;
        if at == 0 {
            at = revision_of(page.header.as_ref());
        }
        let keyed = page.kvs.iter();
        let keyed = keyed.filter_map(|kv| Some((layout.parse(resource, &kv.key)?, kv)));
        entries.extend(keyed.filter_map(|(key, kv)| entry_or_none(key, kv)));
        match page.kvs.last() {
            Some(last) if page.more => first = behind(&last.key),
            _ => {
                let revision = Revision(at);
                return Ok(Whole { revision, entries });
            }
        }
    }
}

/// The store's error for a read that failed.
pub(crate) fn unavailable(failure: Failure) -> StoreError {
    StoreError::Unavailable(failure.to_string())
}
