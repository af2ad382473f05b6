//! A cache of values that are expensive to make and needed often, looked up by their sources.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of cached values: a seed has some dozens of charts, each in one or two variants by the conditions of its
/// dependencies.
const CACHED_MAX: usize = 128;

/// The values used last, the latest at the end.
#[derive(Debug)]
pub(super) struct Cache<T>(Mutex<VecDeque<Arc<T>>>);

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Cache<T> {
    /// The one that `is_wanted`, made by `make` if it is not cached. The lock is not held while it is made.
    pub(super) fn find_or_make<E>(
        &self,
        is_wanted: impl Fn(&T) -> bool,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        if let Some(found) = self.find(is_wanted) {
            return Ok(found);
        }
        let fresh = Arc::new(make()?);
        let mut all = self.lock();
        if all.len() >= CACHED_MAX {
            all.pop_front();
        }
        all.push_back(Arc::clone(&fresh));
        Ok(fresh)
    }

    fn find(&self, is_wanted: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        let mut all = self.lock();
        let place = all.iter().rposition(|cached| is_wanted(cached))?;
        let found = all.remove(place)?;
        all.push_back(Arc::clone(&found));
        Some(found)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
