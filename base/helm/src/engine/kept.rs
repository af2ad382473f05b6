//! What is dear to make and wanted often: kept, and found again by what it was made of.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So many are kept of a kind: a seed has some dozens of charts, each in one or two forms by the conditions of its
/// dependencies.
const KEPT_MAX: usize = 128;

/// The latest that were used, the latest of all last.
#[derive(Debug)]
pub(super) struct Kept<T>(Mutex<VecDeque<Arc<T>>>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Kept<T> {
    /// The one that `is_wanted`, made by `make` if it is not kept. Others are not held up while it is made.
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
        if all.len() >= KEPT_MAX {
            all.pop_front();
        }
        all.push_back(Arc::clone(&fresh));
        Ok(fresh)
    }

    fn find(&self, is_wanted: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        let mut all = self.lock();
        let place = all.iter().rposition(|kept| is_wanted(kept))?;
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
