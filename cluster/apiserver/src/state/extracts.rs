//! Texts of the objects in the store, as they were read last. Each state of an object is read once.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use cluster_store::{Entry, Key, Revision};

use crate::kinds::other_objects::{Extract, Extracted};

/// Texts of the objects in the store, as they were read last.
#[derive(Default)]
pub(crate) struct Extracts(Mutex<BTreeMap<(String, &'static str), Texts>>);

/// The texts of one resource, each of an object at its revision.
type Texts = BTreeMap<Key, (Revision, Vec<String>)>;

impl Extracts {
    /// The first of `entries`, which are all of a resource, that passes the test. Reads those that have changed.
    pub(crate) fn find(
        &self,
        resource: &str,
        extract: &Extract,
        entries: Vec<Entry>,
        test: &(dyn Fn(&Extracted<'_>) -> bool + Send + Sync),
    ) -> Option<Entry> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let texts = all.entry((resource.to_owned(), extract.name)).or_default();
        let mut known = std::mem::take(texts);
        let mut found = None;
        for entry in entries {
            let before = known
                .remove(&entry.key)
                .filter(|(revision, _)| *revision == entry.revision);
            let read = || (entry.revision, (extract.read)(&entry.object.value(entry.revision)));
            let (revision, of_one) = before.unwrap_or_else(read);
            let extracted = Extracted {
                namespace: entry.key.namespace.as_deref(),
                name: &entry.key.name,
                texts: &of_one,
            };
            if found.is_none() && test(&extracted) {
                found = Some(entry.clone());
            }
            texts.insert(entry.key, (revision, of_one));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    thread_local! {
        static READS: Cell<usize> = const { Cell::new(0) };
    }

    const DOMAIN: Extract = Extract {
        name: "domain",
        read: |object| {
            READS.set(READS.get() + 1);
            object["spec"]["domain"]
                .as_str()
                .map(str::to_owned)
                .into_iter()
                .collect()
        },
    };

    fn entry(name: &str, revision: u64, domain: Option<&str>) -> Entry {
        let object = json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": name, "namespace": "n"},
            "spec": {"domain": domain}});
        Entry {
            key: Key::new("things", Some("n"), name),
            revision: Revision(revision),
            object: Arc::new(cluster_store::Object::from_value(object).unwrap()),
        }
    }

    /// The name of what is found, and how many objects were read for it.
    fn find(extracts: &Extracts, entries: &[Entry], domain: &str) -> (Option<String>, usize) {
        READS.set(0);
        let test = |extracted: &Extracted<'_>| extracted.texts == [domain];
        let found = extracts.find("things", &DOMAIN, entries.to_vec(), &test);
        (found.map(|entry| entry.key.name.to_string()), READS.get())
    }

    #[test]
    fn each_state_of_an_object_is_read_once() {
        let extracts = Extracts::default();
        let mut entries = vec![entry("a", 1, Some("x")), entry("b", 2, Some("x")), entry("c", 3, None)];
        assert_eq!(find(&extracts, &entries, "x"), (Some("a".to_owned()), 3));
        assert_eq!(find(&extracts, &entries, "y"), (None, 0));
        entries[0] = entry("a", 4, Some("y"));
        assert_eq!(find(&extracts, &entries, "x"), (Some("b".to_owned()), 1));
        assert_eq!(find(&extracts, &entries, "y"), (Some("a".to_owned()), 0));
        let gone = entries.remove(0);
        assert_eq!(find(&extracts, &entries, "y"), (None, 0));
        entries.insert(0, gone);
        assert_eq!(
            find(&extracts, &entries, "y"),
            (Some("a".to_owned()), 1),
            "it was forgotten"
        );
    }

    #[test]
    fn older_listing_does_not_hide_a_newer_state() {
        let extracts = Extracts::default();
        let (old, new) = ([entry("a", 1, Some("x"))], [entry("a", 2, Some("y"))]);
        assert_eq!(find(&extracts, &new, "y"), (Some("a".to_owned()), 1));
        assert_eq!(find(&extracts, &old, "x"), (Some("a".to_owned()), 1));
        assert_eq!(find(&extracts, &new, "y"), (Some("a".to_owned()), 1));
    }
}
