//! A cache of verified credentials by digest. Bounded: the oldest entries are evicted first, used or not.

use std::collections::{BTreeMap, VecDeque};

/// Cached entries. Each node, controller and person has a certificate, each pod a token that it sends with every request.
pub(crate) const RECENT_MAX: usize = 1024;

/// A SHA-256 of all that was verified.
pub(crate) type Digest = [u8; 32];

/// The newest entries.
pub(crate) struct Recent<V> {
    entries: BTreeMap<Digest, V>,
    order: VecDeque<Digest>,
}

impl<V> Default for Recent<V> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            order: VecDeque::new(),
        }
    }
}

impl<V> Recent<V> {
    pub(crate) fn get(&self, digest: &Digest) -> Option<&V> {
        self.entries.get(digest)
    }

    /// Inserts or replaces an entry.
    pub(crate) fn put(&mut self, digest: Digest, value: V) {
        if self.entries.insert(digest, value).is_none() {
            self.order.push_back(digest);
        }
        if self.order.len() > RECENT_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.entries.remove(&oldest);
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;

    #[test]
    fn entries_are_bounded_and_the_oldest_go_first() {
        let mut known = Recent::default();
        let digest = |number: usize| -> Digest { Sha256::digest(number.to_le_bytes()).into() };
        for number in 0..=RECENT_MAX {
            known.put(digest(number), ());
            known.put(digest(number), ());
        }
        assert_eq!((known.entries.len(), known.order.len()), (RECENT_MAX, RECENT_MAX));
        assert!(known.get(&digest(0)).is_none() && known.get(&digest(RECENT_MAX)).is_some());
    }
}
