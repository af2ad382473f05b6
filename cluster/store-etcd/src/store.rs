//! The store itself: the requests to etcd for each call, and what its answers mean.

mod turn;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use cluster_store::{Changes, Entry, Key, Link, Listing, Object, Page, Range, Revision, Store, StoreError};
use prost::bytes::Bytes;
use tokio::sync::{OnceCell, mpsc};
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};
use tonic::Code;

use self::turn::InTurn;
use crate::client::{CALL_TIMEOUT, Client, Failure};
use crate::compact;
use crate::hub::{Hub, Order};
use crate::layout::{Layout, behind};
use crate::leases::Leases;
use crate::newest::Newest;
use crate::options::{EtcdError, EtcdOptions};
use crate::repeater::{Repeater, entry, entry_or_none, unavailable};
use crate::wire::{
    Compare, PutRequest, RangeRequest, Request, RequestOp, Response, TARGET_MOD, Target, TxnRequest, TxnResponse,
    number, revision_of, to_wire,
};

/// How often a watch's progress is requested again while a caller waits for it: etcd answers only when it has no
/// other event to send.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);
/// How long a write that has happened waits until memory shows it. Reads ask etcd anyway; a watch that broke at this
/// moment is no reason to hold the writer.
const SHOWN_WITHIN: Duration = Duration::from_secs(1);

/// Objects in etcd.
///
/// [`StoreError::Unavailable`] from a write means that etcd did not answer: the write may have happened, and a read
/// shows whether. A call waits up to ten seconds for an etcd that is away; watches wait as long as it takes and go on where
/// they were. A watch ends with [`StoreError::Expired`] when etcd compacted changes that it had still to send, or lost data.
///
/// Dropping the store ends its watches with [`StoreError::Unavailable`].
pub struct EtcdStore {
    inner: Arc<Inner>,
    /// The connection that all callers share, so that watchers are notified when it ends.
    link: Link,
    /// Aborted when the store is dropped.
    _tasks: JoinSet<()>,
}

struct Inner {
    client: Arc<Client>,
    layout: Layout,
    leases: Leases,
    newest: Newest,
    orders: mpsc::UnboundedSender<Order>,
    repeaters: Mutex<Repeaters>,
    connected: Arc<AtomicBool>,
}

/// By resource; empty until the resource is read for the first time.
type Repeaters = BTreeMap<Arc<str>, Arc<OnceCell<Arc<Repeater>>>>;

impl Drop for EtcdStore {
    fn drop(&mut self) {
        self.link.cut();
    }
}

impl EtcdStore {
    /// A store on the etcd of these options. No request is sent yet. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// The options cannot be used: see [`EtcdError`].
    pub fn new(options: &EtcdOptions) -> Result<Self, EtcdError> {
        let client = Arc::new(Client::new(options)?);
        let layout = Layout::new(&options.prefix);
        let (newest, answers) = Newest::new(client.clone());
        let (orders, taken) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(answers);
        let connected = Arc::new(AtomicBool::new(true));
        tasks.spawn(Hub::new(client.clone(), layout.clone(), taken, connected.clone()).run());
        if let Some(every) = options.compact_every {
            tasks.spawn(compact::run(client.clone(), every));
        }
        let inner = Arc::new(Inner {
            client,
            layout,
            leases: Leases::new(options),
            newest,
            orders,
            repeaters: Mutex::default(),
            connected,
        });
        Ok(EtcdStore {
            link: Link::new(inner.clone()),
            inner,
            _tasks: tasks,
        })
    }

    /// The first key under the prefix, of any writer; `None` while there is no key. Sends one request, and so reports wrong
    /// addresses and certificates.
    ///
    /// # Errors
    /// etcd does not answer or refuses.
    pub async fn first_key(&self) -> Result<Option<String>, StoreError> {
        let span = self.inner.layout.whole();
        let request = RangeRequest {
            key: span.first,
            range_end: span.end,
            limit: 1,
            keys_only: true,
            ..RangeRequest::default()
        };
        let answer = self.inner.client.range(request).await.map_err(unavailable)?;
        let first = answer.kvs.into_iter().next();
        Ok(first.map(|kv| String::from_utf8_lossy(&kv.key).into_owned()))
    }

    /// Whether the watches of etcd are open, as far as is known without a request: `false` since they broke. Nothing was read
    /// yet: `true`.
    pub fn is_connected(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        let connected = self.inner.connected.clone();
        move || connected.load(Ordering::Relaxed)
    }

    /// Compacts the history before this revision, once and whatever other clients need of it. For tests and tools; servers
    /// set [`EtcdOptions::compact_every`].
    ///
    /// # Errors
    /// etcd does not answer or refuses, as it does for a revision that it has not come to.
    pub async fn compact(&self, revision: Revision) -> Result<(), StoreError> {
        let revision = to_wire(revision.0);
        let request = crate::wire::CompactionRequest { revision };
        self.inner.client.compact(request).await.map_err(unavailable)
    }
}

impl Inner {
    /// The repeater of a resource, which begins with the first request for it.
    async fn repeater(&self, resource: &Arc<str>) -> Result<Arc<Repeater>, StoreError> {
        let cell = self.cells().entry(resource.clone()).or_default().clone();
        let repeater = cell
            .get_or_try_init(|| async {
                let repeater = Arc::new(Repeater::load(&self.client, &self.layout, resource).await?);
                self.order(Order::Add(repeater.clone()))?;
                Ok::<_, StoreError>(repeater)
            })
            .await?;
        Ok(repeater.clone())
    }

    fn cells(&self) -> std::sync::MutexGuard<'_, Repeaters> {
        self.repeaters
            .lock()
            .expect("no holder of this lock panics: it only moves pointers")
    }

    /// The repeater of a resource if it has begun.
    fn begun(&self, resource: &Arc<str>) -> Option<Arc<Repeater>> {
        self.cells().get(resource)?.get().cloned()
    }

    fn order(&self, order: Order) -> Result<(), StoreError> {
        let sent = self.orders.send(order);
        sent.map_err(|_| StoreError::Unavailable("the store was closed".to_owned()))
    }

    /// Returns once memory shows a resource as far as a revision that etcd has come to.
    async fn shows(&self, repeater: &Repeater, revision: Revision) -> Result<(), StoreError> {
        if repeater.mirror.revision() >= revision {
            return Ok(());
        }
        let shown = async {
            let mut again = interval(PROGRESS_EVERY);
            let mut shown = std::pin::pin!(repeater.has_come_to(revision));
            loop {
                tokio::select! {
                    biased;
                    () = &mut shown => return Ok(()),
                    _ = again.tick() => self.order(Order::Progress)?,
                }
            }
        };
        timeout(CALL_TIMEOUT, shown).await.unwrap_or_else(|_| {
            let resource = &repeater.resource;
            Err(StoreError::Unavailable(format!(
                "etcd is at revision {revision}, but its watch of {resource} did not come there within {CALL_TIMEOUT:?}"
            )))
        })
    }

    /// The repeater of a resource, showing everything that was written before this call.
    async fn current(&self, resource: &Arc<str>) -> Result<(Arc<Repeater>, Revision), StoreError> {
        let repeater = self.repeater(resource).await?;
        let newest = self.newest.revision().await?;
        self.shows(&repeater, newest).await?;
        Ok((repeater, newest))
    }

    /// A page of a revision that memory has forgotten and etcd may still have.
    async fn list_in_etcd(&self, range: &Range, page: &Page, at: Revision) -> Result<Listing, StoreError> {
        let span = self.layout.range(range);
        let mut first = match &page.after {
            Some(after) => behind(&self.layout.key(after)).max(span.first),
            None => span.first,
        };
        // Etcd cannot count one name in many namespaces; only the reader of all keys can.
        let limit = if range.name.is_none() { page.limit } else { None };
        let mut entries = Vec::new();
        let mut remaining = loop {
            // What is left out does not count, or else a page of nothing else would be the end of the list.
            let wanted = limit.map_or(0, |limit| to_wire((limit.get() - entries.len()) as u64));
            let request = RangeRequest {
                key: first,
                range_end: span.end.clone(),
                limit: wanted,
                revision: to_wire(at.0),
                keys_only: false,
            };
            let answer = match self.client.range(request).await {
                Err(Failure::Refused {
                    code: Code::OutOfRange, ..
                }) => {
                    let oldest = self
                        .begun(&range.resource)
                        .map_or(at, |repeater| repeater.mirror.revision());
                    return Err(StoreError::Expired { requested: at, oldest });
                }
                answer => answer.map_err(unavailable)?,
            };
            let keyed = answer.kvs.iter().filter_map(|kv| {
                let key = self.layout.parse(&range.resource, &kv.key)?;
                range.contains(&key).then_some((key, kv))
            });
            entries.extend(keyed.filter_map(|(key, kv)| entry_or_none(key, kv)));
            match (answer.kvs.last(), limit) {
                (Some(last), Some(limit)) if answer.more && entries.len() < limit.get() => first = behind(&last.key),
                // Keys of no objects among them are counted: only reading them could tell.
                _ => {
                    let read = answer.kvs.len() as u64;
                    break usize::try_from(number(answer.count).saturating_sub(read)).unwrap_or(usize::MAX);
                }
            }
        };
        if let Some(limit) = page.limit.filter(|limit| entries.len() > limit.get()) {
            remaining += entries.len() - limit.get();
            entries.truncate(limit.get());
        }
        Ok(Listing {
            entries,
            revision: at,
            remaining,
        })
    }

    /// Executes the write if the key was last written at `expected` (0: if there is no key), and reads the key otherwise.
    /// Within a turn, it also requires that no other process has taken the turn since.
    async fn transact(
        &self,
        key: &Key,
        expected: Revision,
        write: Request,
        turn: Option<Revision>,
    ) -> Result<TxnResponse, Failure> {
        let unchanged = |place: &Bytes, since: Revision| Compare {
            target: TARGET_MOD,
            key: place.clone(),
            value: Some(Target::ModRevision(to_wire(since.0))),
        };
        let read = |place: Bytes| {
            Request::Range(RangeRequest {
                key: place,
                ..RangeRequest::default()
            })
        };
        let op = |request| RequestOp { request: Some(request) };
        let place = self.layout.key(key);
        let mut transaction = TxnRequest {
            compare: vec![unchanged(&place, expected)],
            success: vec![op(write)],
            failure: vec![op(read(place))],
        };
        if let Some(seen) = turn {
            let place = self.turn_key();
            transaction.compare.push(unchanged(&place, seen));
            transaction.failure.push(op(read(place.clone())));
            transaction.success.push(op(Request::Put(PutRequest {
                key: place,
                value: Bytes::from_static(b"{}"),
                lease: 0,
            })));
        }
        self.client.transact(transaction).await
    }

    async fn put(
        &self,
        key: Key,
        expected: Revision,
        object: Object,
        turn: Option<Revision>,
    ) -> Result<Result<Entry, Option<Entry>>, StoreError> {
        let mut lease_was_unknown = false;
        let answer = loop {
            let lease = self.leases.of(&self.client, &key.resource).await.map_err(unavailable)?;
            let put = PutRequest {
                key: self.layout.key(&key),
                value: object.bytes().clone(),
                lease,
            };
            match self.transact(&key, expected, Request::Put(put), turn).await {
                Err(Failure::Refused {
                    code: Code::NotFound, ..
                }) if lease != 0 && !lease_was_unknown => {
                    lease_was_unknown = true;
                    self.leases.forget(&key.resource, lease).await;
                }
                answer => break answer.map_err(|failure| write_failed(&key, failure))?,
            }
        };
        if !answer.succeeded {
            return Ok(Err(found(&key, answer, turn)?));
        }
        let entry = Entry {
            revision: Revision(revision_of(answer.header.as_ref())),
            object: object.into(),
            key,
        };
        self.written(&entry).await;
        Ok(Ok(entry))
    }

    /// Waits until memory shows a write that has happened, as far as memory knows the resource.
    async fn written(&self, entry: &Entry) {
        if let Some(repeater) = self.begun(&entry.key.resource) {
            // When it takes longer, reads wait for it themselves.
            let _ = timeout(SHOWN_WITHIN, repeater.has_come_to(entry.revision)).await;
        }
    }

    /// Why a write that replaces `expected` may not happen.
    fn refusal(key: &Key, expected: Revision, current: Option<Entry>) -> StoreError {
        match current {
            Some(current) => StoreError::Conflict { expected, current },
            None => StoreError::Missing { key: key.clone() },
        }
    }
}

/// What stands at the key of a write that did not happen. Errors: another writer has taken a turn since.
fn found(key: &Key, answer: TxnResponse, turn: Option<Revision>) -> Result<Option<Entry>, StoreError> {
    let mut read = answer.responses.into_iter().map(|op| match op.response {
        Some(Response::Range(range)) => range.kvs.into_iter().next(),
        _ => None,
    });
    let (at_key, at_turn) = (read.next().flatten(), read.next().flatten());
    let last = at_turn.map_or(0, |kv| number(kv.mod_revision));
    if turn.is_some_and(|seen| seen.0 != last) {
        return Err(StoreError::Overtaken);
    }
    at_key.map(|kv| entry(key.clone(), &kv)).transpose()
}

fn write_failed(key: &Key, failure: Failure) -> StoreError {
    match failure {
        Failure::Refused { text, .. } if text.contains("too large") || text.contains("larger than max") => {
            StoreError::Malformed(format!("{key} is larger than etcd takes ({text})"))
        }
        Failure::Unknown(text) => StoreError::Unavailable(format!(
            "etcd did not answer whether {key} is written ({text}): read it before you try again"
        )),
        failure => StoreError::Unavailable(format!("{key} is not written: {failure}")),
    }
}

#[async_trait]
impl Store for Inner {
    async fn get(&self, key: &Key) -> Result<Option<Entry>, StoreError> {
        let request = RangeRequest {
            key: self.layout.key(key),
            ..RangeRequest::default()
        };
        let answer = self.client.range(request).await.map_err(unavailable)?;
        let Some(kv) = answer.kvs.first() else {
            return Ok(None);
        };
        // What memory knows already need not be parsed again.
        let known = self.begun(&key.resource).and_then(|repeater| repeater.mirror.get(key));
        match known {
            Some(known) if known.revision == Revision(number(kv.mod_revision)) => Ok(Some(known)),
            _ => entry(key.clone(), kv).map(Some),
        }
    }

    async fn list(&self, range: &Range, page: Page) -> Result<Listing, StoreError> {
        let Some(at) = page.at else {
            let (repeater, _) = self.current(&range.resource).await?;
            return repeater.mirror.list(range, page).await;
        };
        let mut repeater = self.repeater(&range.resource).await?;
        if repeater.mirror.revision() < at {
            let newest;
            (repeater, newest) = self.current(&range.resource).await?;
            if at > newest {
                return Err(StoreError::Ahead {
                    requested: at,
                    current: newest,
                });
            }
        }
        match repeater.mirror.list(range, page.clone()).await {
            Err(StoreError::Expired { .. }) => self.list_in_etcd(range, &page, at).await,
            listing => listing,
        }
    }

    async fn create(&self, key: Key, object: Object) -> Result<Entry, StoreError> {
        self.create_in(key, object, None).await
    }

    async fn update(&self, key: &Key, expected: Revision, object: Object) -> Result<Entry, StoreError> {
        self.update_in(key, expected, object, None).await
    }

    async fn delete(&self, key: &Key, expected: Revision) -> Result<Entry, StoreError> {
        self.delete_in(key, expected, None).await
    }

    async fn watch(&self, range: &Range, from: Revision) -> Result<Changes, StoreError> {
        let mut repeater = self.repeater(&range.resource).await?;
        if repeater.mirror.revision() < from {
            let newest;
            (repeater, newest) = self.current(&range.resource).await?;
            if from > newest {
                return Err(StoreError::Ahead {
                    requested: from,
                    current: newest,
                });
            }
        }
        repeater.mirror.watch(range, from).await
    }

    async fn revision(&self) -> Result<Revision, StoreError> {
        let newest = self.newest.revision().await?;
        // A caller that gets this revision may rely on every watch having delivered the changes before it.
        let begun: Vec<_> = self.cells().values().filter_map(|cell| cell.get().cloned()).collect();
        for repeater in begun {
            self.shows(&repeater, newest).await?;
        }
        Ok(newest)
    }
}

#[async_trait]
impl Store for EtcdStore {
    async fn get(&self, key: &Key) -> Result<Option<Entry>, StoreError> {
        self.link.get(key).await
    }

    async fn list(&self, range: &Range, page: Page) -> Result<Listing, StoreError> {
        self.link.list(range, page).await
    }

    async fn create(&self, key: Key, object: Object) -> Result<Entry, StoreError> {
        self.link.create(key, object).await
    }

    async fn update(&self, key: &Key, expected: Revision, object: Object) -> Result<Entry, StoreError> {
        self.link.update(key, expected, object).await
    }

    async fn delete(&self, key: &Key, expected: Revision) -> Result<Entry, StoreError> {
        self.link.delete(key, expected).await
    }

    async fn watch(&self, range: &Range, from: Revision) -> Result<Changes, StoreError> {
        self.link.watch(range, from).await
    }

    async fn revision(&self) -> Result<Revision, StoreError> {
        self.link.revision().await
    }

    async fn turn(&self) -> Result<Option<Arc<dyn Store>>, StoreError> {
        let view = InTurn::begin(self.inner.clone()).await?;
        Ok(Some(Arc::new(view)))
    }
}
