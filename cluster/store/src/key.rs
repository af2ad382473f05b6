//! Where objects live and in which order: keys, ranges of keys, revisions. Plain values.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// The number of a write. Numbers grow by at least one per write and are never used twice by one store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The place of one object. Keys order by resource, then by the bytes of `NAMESPACE/NAME` or of `NAME` alone, as
/// kube-apiserver's keys do in etcd: `a-b/x` comes before `a/x`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// `<group>/<plural>`, of the core group `<plural>` alone.
    pub resource: Arc<str>,
    /// None for cluster-scoped kinds.
    pub namespace: Option<Arc<str>>,
    /// The object's name.
    pub name: Arc<str>,
}

impl Key {
    /// A key of these three parts.
    pub fn new(resource: impl Into<Arc<str>>, namespace: Option<&str>, name: impl Into<Arc<str>>) -> Self {
        Key {
            resource: resource.into(),
            namespace: namespace.map(Arc::from),
            name: name.into(),
        }
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.resource
            .cmp(&other.resource)
            .then_with(|| match (&self.namespace, &other.namespace) {
                (Some(one), Some(another)) if one != another => {
                    one.bytes().chain([b'/']).cmp(another.bytes().chain([b'/']))
                }
                (None, Some(namespace)) => self.name.bytes().cmp(path(namespace, &other.name)),
                (Some(namespace), None) => path(namespace, &self.name).cmp(other.name.bytes()),
                (None, None) | (Some(_), Some(_)) => self.name.cmp(&other.name),
            })
            // Different keys are equal up to here only when a name has a slash in it, which no object's has.
            .then_with(|| self.namespace.cmp(&other.namespace))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn path<'a>(namespace: &'a str, name: &'a str) -> impl Iterator<Item = u8> {
    namespace.bytes().chain([b'/']).chain(name.bytes())
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{}/{namespace}/{}", self.resource, self.name),
            None => write!(f, "{}/{}", self.resource, self.name),
        }
    }
}

/// A part of the key space: one resource, or one namespace of it, or one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// As in [`Key::resource`].
    pub resource: Arc<str>,
    /// Only this namespace; `None` gives all of them, cluster-scoped objects included.
    pub namespace: Option<Arc<str>>,
    /// Only objects of this name.
    pub name: Option<Arc<str>>,
}

impl Range {
    /// Every object of a resource.
    pub fn all(resource: impl Into<Arc<str>>) -> Self {
        Range {
            resource: resource.into(),
            namespace: None,
            name: None,
        }
    }

    /// Every object of a resource in one namespace.
    pub fn namespaced(resource: impl Into<Arc<str>>, namespace: impl Into<Arc<str>>) -> Self {
        Range {
            resource: resource.into(),
            namespace: Some(namespace.into()),
            name: None,
        }
    }

    /// One object.
    pub fn one(key: &Key) -> Self {
        Range {
            resource: key.resource.clone(),
            namespace: key.namespace.clone(),
            name: Some(key.name.clone()),
        }
    }

    /// Whether the key lies in the range.
    pub fn contains(&self, key: &Key) -> bool {
        self.resource == key.resource
            && self
                .namespace
                .as_ref()
                .is_none_or(|namespace| key.namespace.as_ref() == Some(namespace))
            && self.name.as_ref().is_none_or(|name| *name == key.name)
    }
}

#[cfg(test)]
mod tests {
    use super::Key;

    #[test]
    fn keys_order_as_their_paths_do() {
        let places = [
            (None, "a"),
            (None, "a-b"),
            (None, "b"),
            (Some("a"), "x"),
            (Some("a"), "y"),
        ];
        let more = [
            (Some("a-b"), "x"),
            (Some("a.b"), "x"),
            (Some("ab"), "a"),
            (Some(""), "x"),
        ];
        let keys: Vec<Key> = places
            .into_iter()
            .chain(more)
            .map(|(namespace, name)| Key::new("pods", namespace, name))
            .collect();
        for one in &keys {
            for another in &keys {
                assert_eq!(
                    one.cmp(another),
                    one.to_string().cmp(&another.to_string()),
                    "{one} and {another}"
                );
            }
        }
        assert!(Key::new("pods", None, "z") < Key::new("pods.x", None, "a"));
    }
}
