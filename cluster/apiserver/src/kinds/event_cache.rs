//! Encoded events that watches share: while many watch a version of a kind, the first of them encodes a change and the others
//! copy it. An event is cached for a moment only; a watch that lags encodes its own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use cluster_store::{Object, Revision};

use crate::wire::status::Status;

/// From this many watches on, a cache is worth its memory. The servers of a landscape's clusters, of which one process has
/// hundreds, have fewer of any kind.
const WATCHES_MIN: usize = 8;
/// Events in a cache: as many as a thousand writes a second make until the slowest of a thousand watches has read them.
const EVENTS: usize = 256;
/// Longer events are encoded by each watch, so that a cache takes at most four megabytes.
const EVENT_BYTES_MAX: usize = 16 << 10;
/// What each of many watches adds to the pause between two chunks: twice what it takes to wake one and to write to it, so that
/// they leave time for other work.
const PAUSE_EACH: Duration = Duration::from_micros(20);
/// Shorter pauses are below the timer's resolution; fifty watches and fewer get their events at once.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// No watch gets a change later than this because of other watches.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// The caches of a kind as it is served at one time.
#[derive(Default)]
pub(crate) struct EventCaches {
    by_version: Mutex<BTreeMap<String, Weak<EventCache>>>,
}

impl EventCaches {
    /// The cache of a version, for one more watch until the result is dropped.
    pub(crate) fn join(&self, version: &str) -> Arc<EventCache> {
        let mut by_version = self.by_version.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cache) = by_version.get(version).and_then(Weak::upgrade) {
            return cache;
        }
        let cache = Arc::default();
        by_version.insert(version.to_owned(), Arc::downgrade(&cache));
        cache
    }
}

/// Events of one version of a kind. Each of its watches holds it, so its references are their number.
#[derive(Default)]
pub(crate) struct EventCache {
    /// Empty until there are enough watches.
    slots: OnceLock<Box<[Mutex<Option<CachedEvent>>]>>,
}

struct CachedEvent {
    event: &'static str,
    object: Arc<Object>,
    revision: Revision,
    bytes: Bytes,
}

impl EventCache {
    /// How long changes are gathered after some were sent; none where there are few watches.
    pub(crate) fn pause(self: &Arc<Self>) -> Option<Duration> {
        let watchers = u32::try_from(Arc::strong_count(self)).unwrap_or(u32::MAX);
        let pause = PAUSE_EACH.saturating_mul(watchers).min(PAUSE_MAX);
        (pause > PAUSE_MIN).then_some(pause)
    }

    /// The encoded event, by `encode` if it is not cached.
    pub(crate) fn get_or_encode(
        self: &Arc<Self>,
        event: &'static str,
        object: &Arc<Object>,
        revision: Revision,
        encode: impl FnOnce() -> Result<Bytes, Status>,
    ) -> Result<Bytes, Status> {
        if Arc::strong_count(self) < WATCHES_MIN {
            return encode();
        }
        let slots = self
            .slots
            .get_or_init(|| (0..EVENTS).map(|_| Mutex::default()).collect());
        let place = usize::try_from(revision.0 % EVENTS as u64).unwrap_or_default();
        // Held while it is encoded: others wait for the same event.
        let mut slot = slots[place].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cached) = slot.as_ref()
            && cached.revision == revision
            && cached.event == event
            && Arc::ptr_eq(&cached.object, object)
        {
            return Ok(cached.bytes.clone());
        }
        let bytes = encode()?;
        if bytes.len() <= EVENT_BYTES_MAX {
            *slot = Some(CachedEvent {
                event,
                object: object.clone(),
                revision,
                bytes: bytes.clone(),
            });
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn object(name: &str) -> Arc<Object> {
        let object = Object::from_value(serde_json::json!({"metadata": {"name": name}}));
        Arc::new(object.unwrap())
    }

    /// How often an event is encoded when each of the watches reads it.
    fn encodings(watches: &[Arc<EventCache>], event: &'static str, object: &Arc<Object>, length: usize) -> usize {
        let count = Cell::new(0);
        for cache in watches {
            let bytes = cache.get_or_encode(event, object, Revision(7), || {
                count.set(count.get() + 1);
                Ok(Bytes::from(vec![b'x'; length]))
            });
            assert_eq!(bytes.unwrap().len(), length);
        }
        count.get()
    }

    #[test]
    fn many_watches_encode_an_event_once_and_few_each_for_itself() {
        let caches = EventCaches::default();
        let mut watches: Vec<_> = (1..WATCHES_MIN).map(|_| caches.join("v1")).collect();
        let one = object("one");
        assert_eq!(encodings(&watches, "ADDED", &one, 10), WATCHES_MIN - 1);
        assert!(watches[0].slots.get().is_none(), "nothing is cached for few");

        watches.push(caches.join("v1"));
        assert_eq!(encodings(&watches, "ADDED", &one, 10), 1);
        assert_eq!(encodings(&watches, "ADDED", &one, 10), 0);
        assert_eq!(encodings(&watches, "MODIFIED", &one, 10), 1);
        assert_eq!(
            encodings(&watches, "MODIFIED", &object("one"), 10),
            1,
            "another object of the revision"
        );
        assert_eq!(
            encodings(&watches, "ADDED", &one, EVENT_BYTES_MAX + 1),
            WATCHES_MIN,
            "too long to be cached"
        );

        let other = caches.join("v1beta1");
        assert!(!Arc::ptr_eq(&other, &watches[0]));
    }

    #[test]
    fn more_watches_pause_longer() {
        let caches = EventCaches::default();
        let mut watches: Vec<_> = (0..50).map(|_| caches.join("v1")).collect();
        assert_eq!(watches[0].pause(), None);
        watches.extend((50..1_000).map(|_| caches.join("v1")));
        assert_eq!(watches[0].pause(), Some(Duration::from_millis(20)));
        watches.extend((1_000..20_000).map(|_| caches.join("v1")));
        assert_eq!(watches[0].pause(), Some(PAUSE_MAX));
    }

    #[test]
    fn a_watch_after_the_last_has_ended_has_a_new_cache() {
        let caches = EventCaches::default();
        let first = caches.join("v1");
        let gone = Arc::downgrade(&first);
        drop(first);
        assert!(gone.upgrade().is_none());
        assert_eq!(Arc::strong_count(&caches.join("v1")), 1);
    }
}
