//! A store whose requests are counted and timed, by operation and resource, for `/metrics`. It changes nothing of what the
//! store returns. The names are those of kube-apiserver for its etcd, whatever the store is
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/storage/etcd3/metrics/metrics.go).

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use cluster_store::{Changes, Entry, Key, Listing, Object, Page, Range, Revision, Store, StoreError};
use tokio::time::Instant;

use crate::wire::metrics_text::{BOUNDS_MS, describe, histogram};

/// Resources that are counted apart. Definitions of custom resources come and go; those beyond share one row.
const RESOURCES_MAX: usize = 2000;
/// Versions of one resource that are counted apart.
const VERSIONS_MAX: usize = 20;
/// What resources and versions beyond that are called.
const OTHERS: &str = "others";
const OPERATIONS: [&str; 5] = ["create", "delete", "get", "list", "update"];

/// Selects a counter of an operation.
type Counter = fn(&Times) -> &AtomicU64;

/// An operation of a store: its place in [`OPERATIONS`].
#[derive(Clone, Copy)]
enum Operation {
    Create,
    Delete,
    Get,
    List,
    Update,
}

/// Times and counts of one operation on one resource.
#[derive(Default)]
struct Times {
    within: [AtomicU64; BOUNDS_MS.len()],
    count: AtomicU64,
    sum_micros: AtomicU64,
    failed: AtomicU64,
}

/// Metrics of one resource.
#[derive(Default)]
pub(crate) struct ResourceMetrics {
    operations: [Times; OPERATIONS.len()],
    /// Events that were sent to watchers, by the version that they requested.
    sent: RwLock<BTreeMap<String, Arc<AtomicU64>>>,
}

/// Metrics of all resources, by their names in the store.
#[derive(Default)]
pub(crate) struct StoreMetrics(RwLock<HashMap<Arc<str>, Arc<ResourceMetrics>>>);

impl ResourceMetrics {
    /// The counter of events that are sent to watchers of a served version.
    pub(crate) fn sent(&self, version: &str) -> Arc<AtomicU64> {
        if let Some(found) = self.sent.read().unwrap_or_else(PoisonError::into_inner).get(version) {
            return found.clone();
        }
        let mut all = self.sent.write().unwrap_or_else(PoisonError::into_inner);
        let name = if all.len() < VERSIONS_MAX { version } else { OTHERS };
        all.entry(name.to_owned()).or_default().clone()
    }
}

impl StoreMetrics {
    /// The metrics of a resource.
    pub(crate) fn of(&self, resource: &Arc<str>) -> Arc<ResourceMetrics> {
        if let Some(found) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(resource) {
            return found.clone();
        }
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let name = match all.len() < RESOURCES_MAX {
            true => resource.clone(),
            false => Arc::from(OTHERS),
        };
        all.entry(name).or_default().clone()
    }

    /// The metrics in Prometheus' text format.
    pub(crate) fn show(&self, text: &mut String) {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<(String, Arc<ResourceMetrics>)> = all
            .iter()
            .map(|(resource, of)| (labels(resource), of.clone()))
            .collect();
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        let name = "etcd_request_duration_seconds";
        let help = "Store request latency in seconds for each operation and object type.";
        describe(text, (name, "histogram"), help);
        for (labels, of) in &all {
            for (operation, times) in OPERATIONS.iter().zip(&of.operations) {
                show_times(text, name, &format!("operation=\"{operation}\",{labels}"), times);
            }
        }
        let counters: [(&str, &str, Counter); 2] = [
            (
                "etcd_requests_total",
                "Store request counts for each operation and object type.",
                |times| &times.count,
            ),
            (
                "etcd_request_errors_total",
                "Store failed request counts for each operation and object type.",
                |times| &times.failed,
            ),
        ];
        for (name, help, value) in counters {
            describe(text, (name, "counter"), help);
            for (labels, of) in &all {
                for (operation, times) in OPERATIONS.iter().zip(&of.operations) {
                    let value = value(times).load(Ordering::Relaxed);
                    if value > 0 {
                        let _ = writeln!(text, "{name}{{operation=\"{operation}\",{labels}}} {value}");
                    }
                }
            }
        }
        let name = "apiserver_watch_events_total";
        describe(text, (name, "counter"), "Number of events sent in watch clients.");
        for (labels, of) in &all {
            for (version, sent) in &*of.sent.read().unwrap_or_else(PoisonError::into_inner) {
                let sent = sent.load(Ordering::Relaxed);
                let _ = writeln!(text, "{name}{{{labels},version=\"{version}\"}} {sent}");
            }
        }
    }
}

fn show_times(text: &mut String, name: &str, labels: &str, times: &Times) {
    let count = times.count.load(Ordering::Relaxed);
    if count == 0 {
        return;
    }
    let within = times.within.iter().map(|within| within.load(Ordering::Relaxed));
    let sum = Duration::from_micros(times.sum_micros.load(Ordering::Relaxed));
    histogram(text, name, labels, within, (count, sum));
}

/// `group="apps",resource="deployments"` of `apps/deployments`.
fn labels(resource: &str) -> String {
    let (group, resource) = resource.rsplit_once('/').unwrap_or(("", resource));
    format!("group=\"{group}\",resource=\"{resource}\"")
}

/// A store with its metrics.
pub(crate) struct Metered {
    store: Arc<dyn Store>,
    metrics: Arc<StoreMetrics>,
}

impl Metered {
    pub(crate) fn new(store: Arc<dyn Store>, metrics: Arc<StoreMetrics>) -> Self {
        Self { store, metrics }
    }

    async fn timed<T>(
        &self,
        operation: Operation,
        resource: &Arc<str>,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let begun = Instant::now();
        let outcome = work.await;
        let took = begun.elapsed();
        let of = self.metrics.of(resource);
        let Some(times) = of.operations.get(operation as usize) else {
            return outcome;
        };
        let bound = BOUNDS_MS.iter().position(|bound| took <= Duration::from_millis(*bound));
        if let Some(within) = bound.and_then(|bound| times.within.get(bound)) {
            within.fetch_add(1, Ordering::Relaxed);
        }
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        times.sum_micros.fetch_add(micros, Ordering::Relaxed);
        times.count.fetch_add(1, Ordering::Relaxed);
        // A missing or changed object is an answer, not a failure.
        if matches!(outcome, Err(StoreError::Unavailable(_))) {
            times.failed.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }
}

#[async_trait]
impl Store for Metered {
    async fn get(&self, key: &Key) -> Result<Option<Entry>, StoreError> {
        self.timed(Operation::Get, &key.resource, self.store.get(key)).await
    }

    async fn list(&self, range: &Range, page: Page) -> Result<Listing, StoreError> {
        self.timed(Operation::List, &range.resource, self.store.list(range, page))
            .await
    }

    async fn create(&self, key: Key, object: Object) -> Result<Entry, StoreError> {
        let resource = key.resource.clone();
        self.timed(Operation::Create, &resource, self.store.create(key, object))
            .await
    }

    async fn update(&self, key: &Key, expected: Revision, object: Object) -> Result<Entry, StoreError> {
        let work = self.store.update(key, expected, object);
        self.timed(Operation::Update, &key.resource, work).await
    }

    async fn delete(&self, key: &Key, expected: Revision) -> Result<Entry, StoreError> {
        self.timed(Operation::Delete, &key.resource, self.store.delete(key, expected))
            .await
    }

    async fn watch(&self, range: &Range, from: Revision) -> Result<Changes, StoreError> {
        self.store.watch(range, from).await
    }

    async fn revision(&self) -> Result<Revision, StoreError> {
        self.store.revision().await
    }

    async fn turn(&self) -> Result<Option<Arc<dyn Store>>, StoreError> {
        let view = self.store.turn().await?;
        Ok(view.map(|view| Arc::new(Self::new(view, self.metrics.clone())) as Arc<dyn Store>))
    }
}

#[cfg(test)]
mod tests {
    use cluster_store::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn requests_are_counted_by_operation_and_resource_without_failing_for_missing_objects() {
        let metrics = Arc::new(StoreMetrics::default());
        let store = Metered::new(Arc::new(MemoryStore::new()), metrics.clone());
        let key = Key::new("apps/deployments", Some("a"), "b");
        for _ in 0..3 {
            assert!(store.get(&key).await.unwrap().is_none());
        }
        store.list(&Range::all("pods"), Page::default()).await.unwrap();
        metrics
            .of(&Arc::from("pods"))
            .sent("v1")
            .fetch_add(2, Ordering::Relaxed);
        let mut text = String::new();
        metrics.show(&mut text);
        for line in [
            "etcd_request_duration_seconds_count{operation=\"get\",group=\"apps\",resource=\"deployments\"} 3",
            "etcd_requests_total{operation=\"list\",group=\"\",resource=\"pods\"} 1",
            "apiserver_watch_events_total{group=\"\",resource=\"pods\",version=\"v1\"} 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("etcd_request_errors_total{"), "{text}");
    }

    #[test]
    fn metrics_of_any_number_of_resources_take_bounded_memory() {
        let metrics = StoreMetrics::default();
        for number in 0..RESOURCES_MAX + 10 {
            metrics
                .of(&Arc::from(format!("g/{number}")))
                .sent("v1")
                .fetch_add(1, Ordering::Relaxed);
        }
        assert_eq!(metrics.0.read().unwrap().len(), RESOURCES_MAX + 1);
        assert_eq!(metrics.of(&Arc::from(OTHERS)).sent("v1").load(Ordering::Relaxed), 10);
    }
}
