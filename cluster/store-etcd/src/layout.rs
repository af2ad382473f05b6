//! Where objects lie in etcd: `PREFIX/GROUP/PLURAL/NAMESPACE/NAME` as kube-apiserver lays out custom resources, without
//! the group for the core group and without the namespace for what has none. Plain values.

use std::sync::Arc;

use cluster_store::{Key, Range};
use prost::bytes::Bytes;

/// Keys of one prefix.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    prefix: String,
}

/// Keys from `first` to before `end`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) first: Bytes,
    /// Empty: only `first`.
    pub(crate) end: Bytes,
}

impl Span {
    fn of_prefix(prefix: String) -> Self {
        let mut end = prefix.clone().into_bytes();
        // Every prefix ends with a slash, and after a slash comes a zero.
        end.pop();
        end.push(b'0');
        Span {
            first: prefix.into(),
            end: end.into(),
        }
    }
}

impl Layout {
    /// `registry`, `/registry` and `/registry/` mean the same.
    pub(crate) fn new(prefix: &str) -> Self {
        let prefix = prefix.trim_matches('/');
        let prefix = if prefix.is_empty() {
            String::new()
        } else {
            format!("/{prefix}")
        };
        Layout { prefix }
    }

    pub(crate) fn key(&self, key: &Key) -> Bytes {
        format!("{}/{key}", self.prefix).into()
    }

    /// Everything.
    pub(crate) fn whole(&self) -> Span {
        Span::of_prefix(format!("{}/", self.prefix))
    }

    /// All of a resource.
    pub(crate) fn resource(&self, resource: &str) -> Span {
        Span::of_prefix(format!("{}/{resource}/", self.prefix))
    }

    /// The smallest span that holds the range. A name in all namespaces lies everywhere in its resource.
    pub(crate) fn range(&self, range: &Range) -> Span {
        match &range.namespace {
            Some(namespace) => Span::of_prefix(format!("{}/{}/{namespace}/", self.prefix, range.resource)),
            None => self.resource(&range.resource),
        }
    }

    /// The key of an object of this resource. `None`: it is something else's, whatever that is.
    pub(crate) fn parse(&self, resource: &Arc<str>, key: &[u8]) -> Option<Key> {
        let key = std::str::from_utf8(key).ok()?;
        let rest = key.strip_prefix(&self.prefix)?.strip_prefix('/')?;
        let rest = rest.strip_prefix(&**resource)?.strip_prefix('/')?;
        let (namespace, name) = match rest.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, rest),
        };
        let sound = !name.is_empty() && !name.contains('/') && namespace != Some("");
        sound.then(|| Key::new(resource.clone(), namespace, name))
    }
}

/// The first key behind this one.
pub(crate) fn behind(key: &Bytes) -> Bytes {
    let mut next = key.to_vec();
    next.push(0);
    next.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_lie_as_kube_apiserver_lays_them_out_and_come_back() {
        for prefix in ["registry", "/registry", "/registry/"] {
            let layout = Layout::new(prefix);
            for (key, expected) in [
                (Key::new("pods", Some("a"), "x"), "/registry/pods/a/x"),
                (Key::new("nodes", None, "x"), "/registry/nodes/x"),
                (
                    Key::new("example.com/widgets", Some("a-b"), "x"),
                    "/registry/example.com/widgets/a-b/x",
                ),
            ] {
                assert_eq!(layout.key(&key), expected);
                assert_eq!(layout.parse(&key.resource, expected.as_bytes()), Some(key));
            }
        }
    }

    #[test]
    fn keys_of_no_object_of_the_resource_are_ignored() {
        let layout = Layout::new("/registry");
        let pods = Arc::from("pods");
        for other in [
            "/registry/pods.x/a/x",
            "/registry/pods/a/b/c",
            "/registry/pods/",
            "/registry/pods//x",
            "/pods/x",
        ] {
            assert_eq!(layout.parse(&pods, other.as_bytes()), None, "{other}");
        }
        assert_eq!(layout.parse(&pods, b"/registry/pods/\xff"), None);
    }

    #[test]
    fn a_span_ends_before_whatever_shares_its_beginning() {
        let span = Layout::new("r").range(&Range::namespaced("pods", "a"));
        assert_eq!((&*span.first, &*span.end), (&b"/r/pods/a/"[..], &b"/r/pods/a0"[..]));
        assert!(!(span.first..span.end).contains(&Bytes::from("/r/pods/a-b/x")));
    }
}
