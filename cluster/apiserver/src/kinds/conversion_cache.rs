//! Recent conversions by a webhook, so that watches and lists of a version do not convert each object again. Bounded by
//! bytes; the oldest go first. It never caches a failure.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use cluster_store::Object;
use tokio::sync::OnceCell;

use crate::wire::status::Status;

/// Bytes of objects before their conversion that are cached. With the converted objects it is about twice as much.
const BYTES_MAX: usize = 8 << 20;

/// An object by its address in memory, and the version that it was converted to.
type Place = (usize, String);
type Outcome = Arc<OnceCell<Result<Arc<Object>, Status>>>;

/// The newest conversions of one kind.
#[derive(Default)]
pub(crate) struct Recent(Mutex<Slots>);

#[derive(Default)]
struct Slots {
    all: HashMap<Place, Slot>,
    order: VecDeque<Place>,
    bytes: usize,
}

struct Slot {
    /// Held, so that no other object can get its address.
    source: Arc<Object>,
    outcome: Outcome,
}

impl Recent {
    /// The converted object, if it is cached.
    pub(crate) fn get(&self, source: &Arc<Object>, version: &str) -> Option<Arc<Object>> {
        let slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = slots.all.get(&place(source, version))?;
        slot.outcome.get()?.as_ref().ok().cloned()
    }

    /// Caches a converted object.
    pub(crate) fn put(&self, source: &Arc<Object>, version: &str, object: &Arc<Object>) {
        let _ = self.slot(source, version).set(Ok(object.clone()));
    }

    /// The converted object, by `convert` if it is not cached. Callers at the same time wait for the same answer.
    pub(crate) async fn get_or_convert(
        &self,
        source: &Arc<Object>,
        version: &str,
        convert: impl Future<Output = Result<Arc<Object>, Status>> + Send,
    ) -> Result<Arc<Object>, Status> {
        let outcome = self.slot(source, version);
        let result = outcome.get_or_init(|| convert).await.clone();
        if result.is_err() {
            self.forget(source, version, &outcome);
        }
        result
    }

    fn slot(&self, source: &Arc<Object>, version: &str) -> Outcome {
        let place = place(source, version);
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.all.get(&place) {
            return slot.outcome.clone();
        }
        let outcome = Outcome::default();
        let slot = Slot {
            source: source.clone(),
            outcome: outcome.clone(),
        };
        slots.bytes += source.bytes().len();
        slots.all.insert(place.clone(), slot);
        slots.order.push_back(place);
        while slots.bytes > BYTES_MAX
            && let Some(oldest) = slots.order.pop_front()
        {
            slots.remove(&oldest);
        }
        outcome
    }

    fn forget(&self, source: &Arc<Object>, version: &str, outcome: &Outcome) {
        let place = place(source, version);
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |slot: &Slot| Arc::ptr_eq(&slot.outcome, outcome);
        if slots.all.get(&place).is_some_and(same) {
            slots.order.retain(|other| *other != place);
            slots.remove(&place);
        }
    }
}

impl Slots {
    fn remove(&mut self, place: &Place) {
        if let Some(slot) = self.all.remove(place) {
            self.bytes -= slot.source.bytes().len();
        }
    }
}

fn place(source: &Arc<Object>, version: &str) -> Place {
    (Arc::as_ptr(source).addr(), version.to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use serde_json::json;

    use super::*;

    fn object(name: &str, bytes: usize) -> Arc<Object> {
        Arc::new(Object::from_value(json!({"metadata": {"name": name}, "text": "x".repeat(bytes)})).unwrap())
    }

    #[tokio::test]
    async fn answer_is_requested_once_and_a_failure_each_time() {
        let (recent, source, requests) = (Recent::default(), object("a", 1), AtomicU32::new(0));
        let fail = async || {
            requests.fetch_add(1, Ordering::Relaxed);
            Err(Status::failed("no"))
        };
        assert!(recent.get_or_convert(&source, "v2", fail()).await.is_err());
        assert!(recent.get_or_convert(&source, "v2", fail()).await.is_err());
        let convert = async || {
            requests.fetch_add(1, Ordering::Relaxed);
            Ok(object("b", 1))
        };
        for _ in 0..3 {
            assert_eq!(
                recent
                    .get_or_convert(&source, "v2", convert())
                    .await
                    .unwrap()
                    .meta()
                    .name,
                "b"
            );
        }
        assert!(recent.get(&source, "v1").is_none());
        assert_eq!(requests.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn the_cache_evicts_the_oldest_beyond_its_size() {
        let recent = Recent::default();
        let first = object("a", BYTES_MAX / 2);
        recent.put(&first, "v2", &first);
        assert!(recent.get(&first, "v2").is_some());
        let second = object("b", BYTES_MAX * 3 / 4);
        recent.put(&second, "v2", &second);
        assert!(recent.get(&first, "v2").is_none() && recent.get(&second, "v2").is_some());
        let slots = recent.0.lock().unwrap();
        assert_eq!(
            (slots.all.len(), slots.order.len(), slots.bytes),
            (1, 1, second.bytes().len())
        );
    }
}
