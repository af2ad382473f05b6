//! A secondary index of a cache: its objects by a value that is computed from each, so that a search for one of many does
//! not look at all of them. It never calls the API and holds nothing that the cache does not hold.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use crate::key::ObjectKey;

/// The values of one object.
type Values<K> = Box<dyn Fn(&K) -> Vec<String> + Send + Sync>;
type ByValue<K> = BTreeMap<String, BTreeMap<ObjectKey, Arc<K>>>;

/// Objects by value; the cache keeps it up to date.
pub(crate) struct Entries<K> {
    of: Values<K>,
    by_value: RwLock<ByValue<K>>,
}

impl<K> Entries<K> {
    pub(crate) fn new(of: impl Fn(&K) -> Vec<String> + Send + Sync + 'static) -> Self {
        Self {
            of: Box::new(of),
            by_value: RwLock::default(),
        }
    }

    /// Puts `new` in the place of `old` under the values of each.
    pub(crate) fn replace(&self, key: &ObjectKey, old: Option<&Arc<K>>, new: Option<&Arc<K>>) {
        let before = old.map_or_else(Vec::new, |old| (self.of)(old));
        let after = new.map_or_else(Vec::new, |new| (self.of)(new));
        let mut by_value = self.by_value.write().unwrap_or_else(PoisonError::into_inner);
        for value in before.iter().filter(|value| !after.contains(value)) {
            if let Some(objects) = by_value.get_mut(value) {
                objects.remove(key);
                if objects.is_empty() {
                    by_value.remove(value);
                }
            }
        }
        for value in after {
            if let Some(new) = new {
                by_value.entry(value).or_default().insert(key.clone(), new.clone());
            }
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, ByValue<K>> {
        self.by_value.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A secondary index, made by [`Cache::index`](crate::Cache::index). Clones are handles to the same one. Like the cache, it
/// is incomplete before the cache is ready.
pub struct Index<K>(Arc<Entries<K>>);

impl<K> Clone for Index<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> Debug for Index<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Index")
    }
}

impl<K> Index<K> {
    pub(crate) fn new(entries: Arc<Entries<K>>) -> Self {
        Self(entries)
    }

    /// The object with this value; of several the first by namespace and name.
    pub fn get(&self, value: &str) -> Option<Arc<K>> {
        self.0.read().get(value)?.values().next().cloned()
    }

    /// The key of the object with this value; of several the first by namespace and name.
    pub fn key(&self, value: &str) -> Option<ObjectKey> {
        self.0.read().get(value)?.keys().next().cloned()
    }

    /// All objects with this value, ordered by namespace and name.
    pub fn list(&self, value: &str) -> Vec<Arc<K>> {
        let by_value = self.0.read();
        let found = by_value.get(value).into_iter().flat_map(BTreeMap::values);
        found.cloned().collect()
    }

    /// The keys of all objects with this value, in order.
    pub fn keys(&self, value: &str) -> Vec<ObjectKey> {
        let by_value = self.0.read();
        let found = by_value.get(value).into_iter().flat_map(BTreeMap::keys);
        found.cloned().collect()
    }

    /// Whether any object has this value.
    pub fn contains(&self, value: &str) -> bool {
        self.0.read().contains_key(value)
    }

    /// Every value that an object has, in order, with the number of objects that have it. Its time grows with the number
    /// of values, not of objects.
    pub fn counts(&self) -> BTreeMap<String, usize> {
        let by_value = self.0.read();
        let counted = by_value.iter().map(|(value, objects)| (value.clone(), objects.len()));
        counted.collect()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::ResourceExt;

    use super::*;

    fn map(name: &str, team: Option<&str>) -> Arc<ConfigMap> {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.to_owned());
        if let Some(team) = team {
            map.labels_mut().insert("team".to_owned(), team.to_owned());
        }
        Arc::new(map)
    }

    fn by_team() -> Index<ConfigMap> {
        let team = |map: &ConfigMap| map.labels().get("team").cloned().into_iter().collect();
        Index::new(Arc::new(Entries::new(team)))
    }

    fn put(index: &Index<ConfigMap>, old: Option<&Arc<ConfigMap>>, new: Option<&Arc<ConfigMap>>) {
        let key = ObjectKey::of(&**old.or(new).unwrap());
        index.0.replace(&key, old, new);
    }

    fn names(index: &Index<ConfigMap>, value: &str) -> Vec<String> {
        index.keys(value).into_iter().map(|key| key.name).collect()
    }

    #[test]
    fn index_follows_insertion_change_of_value_and_deletion() {
        let index = by_team();
        let (b, a, without) = (map("b", Some("x")), map("a", Some("x")), map("c", None));
        for new in [&b, &a, &without] {
            put(&index, None, Some(new));
        }
        assert_eq!(names(&index, "x"), ["a", "b"]);
        assert_eq!(index.get("x").unwrap().name_any(), "a");
        let (moved, gained) = (map("a", Some("y")), map("c", Some("y")));
        put(&index, Some(&a), Some(&moved));
        put(&index, Some(&without), Some(&gained));
        assert_eq!(
            (names(&index, "x"), names(&index, "y")),
            (vec!["b".into()], vec!["a".into(), "c".into()])
        );
        assert_eq!(index.counts(), BTreeMap::from([("x".into(), 1), ("y".into(), 2)]));
        put(&index, Some(&b), None);
        assert!(!index.contains("x") && index.get("x").is_none() && index.counts().len() == 1);
    }

    #[test]
    fn object_of_unchanged_value_is_replaced_by_its_new_state() {
        let index = by_team();
        let old = map("a", Some("x"));
        put(&index, None, Some(&old));
        let mut new = (*old).clone();
        new.metadata.resource_version = Some("2".into());
        put(&index, Some(&old), Some(&Arc::new(new)));
        assert_eq!(index.get("x").unwrap().resource_version().as_deref(), Some("2"));
        assert_eq!(index.list("x").len(), 1);
    }

    #[test]
    fn object_with_several_values_is_found_by_each() {
        let keys = |map: &ConfigMap| map.labels().values().cloned().collect();
        let index = Index::new(Arc::new(Entries::new(keys)));
        let mut both = (*map("a", Some("x"))).clone();
        both.labels_mut().insert("second".into(), "y".into());
        let both = Arc::new(both);
        put(&index, None, Some(&both));
        assert!(index.contains("x") && index.contains("y"));
        let one = map("a", Some("y"));
        put(&index, Some(&both), Some(&one));
        assert_eq!((index.contains("x"), names(&index, "y")), (false, vec!["a".to_owned()]));
    }
}
