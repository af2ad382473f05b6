//! Read access to the store for admission, in hub versions. It never writes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use cluster_access::{Attributes, ResourceTarget};
use cluster_store::{Entry, Key, Page, Range, Revision};
use futures::future::BoxFuture;
use serde_json::Value;

use crate::User;
use crate::access;
use crate::context::store_status;
use crate::kind::{Extract, Extracted, Objects};
use crate::query::Query;
use crate::server::Inner;
use crate::status::Status;

/// Texts of the objects in the store, as they were read last.
#[derive(Default)]
pub(crate) struct Extracts(Mutex<BTreeMap<(String, &'static str), Texts>>);

/// Those of one resource: the texts of an object at its revision.
type Texts = BTreeMap<Key, (Revision, Vec<String>)>;

impl Extracts {
    /// The first of `entries`, which are all of a resource, that passes the test. Reads those that have changed.
    fn find(
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

/// The objects of one server.
pub(crate) struct Reader(Arc<Inner>);

impl Reader {
    pub(crate) fn new(server: &Arc<Inner>) -> Self {
        Self(server.clone())
    }
}

pub(crate) fn store_name(group: &str, resource: &str) -> String {
    if group.is_empty() {
        resource.to_owned()
    } else {
        format!("{group}/{resource}")
    }
}

impl Objects for Reader {
    fn get<'a>(
        &'a self,
        group: &'a str,
        resource: &'a str,
        namespace: Option<&'a str>,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Arc<Value>>, Status>> {
        Box::pin(async move {
            let key = Key::new(store_name(group, resource), namespace, name);
            let entry = self.0.store.get(&key).await.map_err(store_status)?;
            Ok(entry.map(|entry| Arc::new(entry.object.value(entry.revision))))
        })
    }

    fn list<'a>(
        &'a self,
        group: &'a str,
        resource: &'a str,
        namespace: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Vec<Arc<Value>>, Status>> {
        Box::pin(async move {
            let range = Range {
                resource: store_name(group, resource).into(),
                namespace: namespace.map(Arc::from),
                name: None,
            };
            let listing = self.0.store.list(&range, Page::default()).await.map_err(store_status)?;
            Ok(listing
                .entries
                .iter()
                .map(|entry| Arc::new(entry.object.value(entry.revision)))
                .collect())
        })
    }

    fn find<'a>(
        &'a self,
        group: &'a str,
        resource: &'a str,
        extract: &'a Extract,
        test: &'a (dyn Fn(&Extracted<'_>) -> bool + Send + Sync),
    ) -> BoxFuture<'a, Result<Option<Arc<Value>>, Status>> {
        Box::pin(async move {
            let resource = store_name(group, resource);
            let range = Range::all(resource.as_str());
            let listing = self.0.store.list(&range, Page::default()).await.map_err(store_status)?;
            let found = self.0.extracts.find(&resource, extract, listing.entries, test);
            Ok(found.map(|entry| Arc::new(entry.object.value(entry.revision))))
        })
    }

    fn allowed<'a>(
        &'a self,
        user: &'a User,
        verb: &'a str,
        group: &'a str,
        resource: &'a str,
        namespace: Option<&'a str>,
        name: &'a str,
    ) -> BoxFuture<'a, Result<bool, Status>> {
        Box::pin(async move {
            let target = ResourceTarget {
                group: group.to_owned(),
                version: "*".to_owned(),
                resource: resource.to_owned(),
                subresource: String::new(),
                namespace: namespace.unwrap_or_default().to_owned(),
                name: name.to_owned(),
            };
            let attributes = Attributes::resource(&Arc::new(user.clone()), verb, target);
            let decision = access::decide(&self.0, &attributes, &Query::default()).await?;
            Ok(decision.is_allowed())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

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
