//! Where objects of a resource are on the API server in front: paths, and entries made of its answers. It sends no
//! request.

use cluster_store::{Entry, Key, Object, Revision, StoreError};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::storage::stores::store_name;
use crate::wire::version_order::version_priority;

/// What is encoded within a path: all but the unreserved characters of RFC 3986, and `:`.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b':');

/// A resource in one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Empty for core.
    pub(crate) group: String,
    pub(crate) version: String,
    /// Empty where it is unknown.
    pub(crate) kind: String,
    pub(crate) plural: String,
    pub(crate) namespaced: bool,
}

impl Place {
    /// The place of a resource of Kubernetes' own, in its most stable version.
    pub(crate) fn built_in(resource: &str) -> Option<Self> {
        let (group, plural) = resource.split_once('/').unwrap_or(("", resource));
        let tables = cluster_builtin::kinds().iter();
        let own = tables.filter(|table| table.group == group && table.resource == plural);
        let best = own.max_by_key(|table| version_priority(&table.version))?;
        Some(Self {
            group: best.group.clone(),
            version: best.version.clone(),
            kind: best.kind.clone(),
            plural: best.resource.clone(),
            namespaced: best.namespaced,
        })
    }

    pub(crate) fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The path of all objects, or of one. None: no object can have this name.
    pub(crate) fn path(&self, namespace: Option<&str>, name: Option<&str>) -> Option<String> {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let mut path = format!("{root}/{}", self.api_version());
        if let Some(namespace) = namespace {
            path.push_str(&format!("/namespaces/{}", name_segment(namespace)?));
        }
        path.push_str(&format!("/{}", segment(&self.plural)));
        if let Some(name) = name {
            path.push_str(&format!("/{}", name_segment(name)?));
        }
        Some(path)
    }

    /// An entry from an object in an answer, which has no kind in lists.
    pub(crate) fn entry(&self, mut object: Value) -> Result<Entry, StoreError> {
        let revision = revision(&object);
        if let Some(fields) = object.as_object_mut().filter(|_| !self.kind.is_empty()) {
            fields.insert("apiVersion".to_owned(), self.api_version().into());
            fields.insert("kind".to_owned(), self.kind.clone().into());
        }
        let object = Object::from_value(object)?;
        let meta = object.meta();
        let key = Key::new(
            store_name(&self.group, &self.plural),
            meta.namespace.as_deref().filter(|namespace| !namespace.is_empty()),
            meta.name.as_str(),
        );
        Ok(Entry {
            key,
            revision,
            object: object.into(),
        })
    }
}

/// The version of an object or of a list; 0 for one that is no number.
pub(crate) fn revision(object: &Value) -> Revision {
    let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    Revision(version.parse().unwrap_or_default())
}

/// A name as a segment of a path. Users may have written it into an object: it must not lead to another path.
fn name_segment(name: &str) -> Option<String> {
    let leads_away = name.is_empty() || name == "." || name == "..";
    (!leads_away).then(|| segment(name))
}

/// A text within a path, percent-encoded.
pub(crate) fn segment(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_never_leads_to_another_place() {
        let secrets = Place::built_in("secrets").unwrap();
        let path = |name| secrets.path(Some("a"), Some(name));
        assert_eq!(path("b").as_deref(), Some("/api/v1/namespaces/a/secrets/b"));
        assert_eq!(
            path("../../b/secrets/c?x").as_deref(),
            Some("/api/v1/namespaces/a/secrets/..%2F..%2Fb%2Fsecrets%2Fc%3Fx")
        );
        for name in ["", ".", ".."] {
            assert_eq!(path(name), None, "{name}");
        }
    }

    #[test]
    fn an_entry_has_the_kind_that_a_list_leaves_out() {
        let hooks = Place::built_in("admissionregistration.k8s.io/validatingwebhookconfigurations").unwrap();
        assert_eq!(
            hooks.path(None, None).as_deref(),
            Some("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations")
        );
        let entry = hooks
            .entry(json!({"metadata": {"name": "h", "resourceVersion": "7"}}))
            .unwrap();
        assert_eq!(entry.revision, Revision(7));
        assert_eq!(
            entry.key.to_string(),
            "admissionregistration.k8s.io/validatingwebhookconfigurations/h"
        );
        assert_eq!(
            entry.object.value(entry.revision)["kind"],
            "ValidatingWebhookConfiguration"
        );
    }
}
