//! Where objects live and in which order: keys, ranges of keys, revisions. Plain values.

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

/// The place of one object. Keys order by resource, then namespace (none first), then name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
