//! What is remembered of objects between their turns. It is bounded by the objects that exist.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use base_controller::ObjectKey;

/// Entries that are not looked through for objects that have gone.
const UNSWEPT: usize = 64;

type Exists = Box<dyn Fn(&ObjectKey) -> bool + Send + Sync>;

pub(crate) struct Remembered<T> {
    exists: Exists,
    entries: Mutex<Entries<T>>,
}

struct Entries<T> {
    of: BTreeMap<ObjectKey, T>,
    /// How many they may be before they are looked through.
    sweep_at: usize,
}

impl<T: Clone> Remembered<T> {
    /// `exists` is whether there may be such an object; it is called while the entries are locked.
    pub(crate) fn new(exists: impl Fn(&ObjectKey) -> bool + Send + Sync + 'static) -> Self {
        Self {
            exists: Box::new(exists),
            entries: Mutex::new(Entries {
                of: BTreeMap::new(),
                sweep_at: UNSWEPT,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries<T>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, key: &ObjectKey) -> Option<T> {
        self.lock().of.get(key).cloned()
    }

    pub(crate) fn put(&self, key: &ObjectKey, value: T) {
        if !(self.exists)(key) {
            return;
        }
        let mut entries = self.lock();
        entries.of.insert(key.clone(), value);
        if entries.of.len() > entries.sweep_at {
            entries.of.retain(|key, _| (self.exists)(key));
            entries.sweep_at = entries.of.len() * 2 + UNSWEPT;
        }
    }

    pub(crate) fn take(&self, key: &ObjectKey) -> Option<T> {
        self.lock().of.remove(key)
    }

    /// Forgets the entry unless it has changed.
    pub(crate) fn forget(&self, key: &ObjectKey, value: &T)
    where
        T: PartialEq,
    {
        let mut entries = self.lock();
        if entries.of.get(key) == Some(value) {
            entries.of.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn entries_of_objects_that_have_gone_are_dropped_in_time() {
        let alive_from = Arc::new(AtomicUsize::new(0));
        let from = alive_from.clone();
        let number = |key: &ObjectKey| key.name.parse::<usize>().unwrap_or_default();
        let all = Remembered::new(move |key| number(key) >= from.load(Ordering::Relaxed));
        for n in 0..10_000_usize {
            all.put(&ObjectKey::cluster(n.to_string()), n);
            alive_from.store(n.saturating_sub(10), Ordering::Relaxed);
        }
        assert!(all.lock().of.len() < 200, "{}", all.lock().of.len());
        let last = ObjectKey::cluster("9999");
        assert_eq!(all.get(&last), Some(9999));
        all.forget(&last, &1_usize);
        assert_eq!(all.get(&last), Some(9999));
        all.forget(&last, &9999);
        assert_eq!(all.get(&last), None);
        all.put(&ObjectKey::cluster("1"), 1);
        assert_eq!(all.get(&ObjectKey::cluster("1")), None);
    }
}
