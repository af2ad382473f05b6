//! Objects that admission reads again and again (the CloudProfile, Seed and Project of a Shoot, all registrations), as they were
//! parsed last. A state of an object is parsed once while it is in use, and the cache is bounded.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use cluster_store::{Entry, Key, Revision};
use serde_json::Value;

/// Bytes of JSON whose trees each of the two generations holds at most. A tree takes about ten times its text.
const BYTES_MAX: usize = 512 * 1024;

/// The cache: what was read lately, and what was read before that. The older generation goes as a whole, so that nothing has to be
/// ordered by age.
#[derive(Default)]
pub(crate) struct ParsedObjects(Mutex<[Generation; 2]>);

#[derive(Default)]
struct Generation {
    /// Each with the length of its JSON in bytes.
    objects: HashMap<Key, (Revision, Arc<Value>, usize)>,
    bytes: usize,
}

impl Generation {
    fn get(&self, entry: &Entry) -> Option<Arc<Value>> {
        let (revision, value, _) = self.objects.get(&entry.key)?;
        (*revision == entry.revision).then(|| value.clone())
    }
}

impl ParsedObjects {
    /// The entry's object with `metadata.resourceVersion` set. One of more than [`BYTES_MAX`] bytes is parsed each time.
    pub(crate) fn value(&self, entry: &Entry) -> Arc<Value> {
        let cached = {
            let [recent, older] = &*self.lock();
            if let Some(value) = recent.get(entry) {
                return value;
            }
            older.get(entry)
        };
        let value = cached.unwrap_or_else(|| Arc::new(entry.object.value(entry.revision)));
        self.put(entry, &value);
        value
    }

    fn put(&self, entry: &Entry, value: &Arc<Value>) {
        let bytes = entry.object.bytes().len();
        if bytes > BYTES_MAX {
            return;
        }
        let [recent, older] = &mut *self.lock();
        if recent.bytes + bytes > BYTES_MAX {
            *older = std::mem::take(recent);
        }
        let replaced = recent
            .objects
            .insert(entry.key.clone(), (entry.revision, value.clone(), bytes));
        recent.bytes = recent.bytes + bytes - replaced.map_or(0, |(.., bytes)| bytes);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, [Generation; 2]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(name: &str, revision: u64, text: &str) -> Entry {
        let object = json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": name}, "text": text});
        Entry {
            key: Key::new("things", None, name),
            revision: Revision(revision),
            object: Arc::new(cluster_store::Object::from_value(object).unwrap()),
        }
    }

    #[test]
    fn state_of_an_object_is_parsed_once_and_another_state_again() {
        let cache = ParsedObjects::default();
        let first = cache.value(&entry("a", 1, "x"));
        assert!(Arc::ptr_eq(&first, &cache.value(&entry("a", 1, "x"))));
        let second = cache.value(&entry("a", 2, "y"));
        assert_eq!(second["metadata"]["resourceVersion"], "2");
        assert_eq!(second["text"], "y");
        let old = cache.value(&entry("a", 1, "x"));
        assert_eq!(
            old, first,
            "a listing that is older than the cache is not given newer objects"
        );
        assert_eq!(cache.value(&entry("b", 1, "z"))["text"], "z");
    }

    #[test]
    fn cache_is_bounded_and_retains_what_is_read_again() {
        let cache = ParsedObjects::default();
        let large = "x".repeat(BYTES_MAX / 4);
        let hot = cache.value(&entry("hot", 1, "x"));
        for number in 0..20 {
            cache.value(&entry(&format!("cold-{number}"), 1, &large));
            assert!(Arc::ptr_eq(&hot, &cache.value(&entry("hot", 1, "x"))), "{number}");
            let held: usize = cache.lock().iter().map(|generation| generation.bytes).sum();
            assert!(held <= 2 * BYTES_MAX, "{held}");
        }
        let held: usize = cache.lock().iter().map(|generation| generation.objects.len()).sum();
        assert!(held < 12, "{held} are held");
        let huge = entry("huge", 1, &"x".repeat(BYTES_MAX + 1));
        assert!(!Arc::ptr_eq(&cache.value(&huge), &cache.value(&huge)));
    }

    #[test]
    fn an_object_that_changes_often_evicts_no_other() {
        let cache = ParsedObjects::default();
        let unchanged = cache.value(&entry("unchanged", 1, "x"));
        for revision in 1..20 {
            cache.value(&entry("busy", revision, &"x".repeat(BYTES_MAX / 4)));
        }
        assert!(Arc::ptr_eq(&unchanged, &cache.value(&entry("unchanged", 1, "x"))));
    }
}
