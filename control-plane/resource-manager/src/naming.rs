//! Names of the wire: annotations, labels, finalizers, references. Pure.

use std::collections::BTreeMap;

use api_meta::{annotations, finalizers, labels};
use api_resources::{ManagedResource, ObjectReference};
use base_controller::ObjectKey;
use kube::core::{DynamicObject, GroupVersion};

/// Our field manager.
pub(crate) const MANAGER: &str = "gardener-resource-manager";
/// On every applied object: which ManagedResource asked for it.
pub(crate) const ORIGIN: &str = "resources.gardener.cloud/origin";
/// On every applied object: a word to whoever edits it.
pub(crate) const DESCRIPTION: &str = "resources.gardener.cloud/description";
/// The word.
pub(crate) const DESCRIPTION_TEXT: &str = "DO NOT EDIT - This resource is managed by gardener-resource-manager.\nAny modifications are discarded and the resource is returned to the original state.";
/// Label of every applied object, with [`MANAGED_BY_GARDENER`].
pub(crate) const MANAGED_BY: &str = labels::RESOURCES_MANAGED_BY;
/// Value of [`MANAGED_BY`].
pub(crate) const MANAGED_BY_GARDENER: &str = "gardener";

/// Beginning of the annotations that name Secrets and ConfigMaps in use: see [`crate::collect`].
pub(crate) const REFERENCE_PREFIX: &str = "reference.resources.gardener.cloud/";

/// Annotations by which an object, or a ManagedResource, asks for special treatment.
pub(crate) mod wish {
    pub(crate) const IGNORE: &str = "resources.gardener.cloud/ignore";
    pub(crate) const MODE: &str = "resources.gardener.cloud/mode";
    pub(crate) const MODE_IGNORE: &str = "Ignore";
    pub(crate) const KEEP_OBJECT: &str = "resources.gardener.cloud/keep-object";
    pub(crate) const DELETE_ON_INVALID_UPDATE: &str = "resources.gardener.cloud/delete-on-invalid-update";
    pub(crate) const DELETION_PROPAGATION: &str = "resources.gardener.cloud/deletion-propagation-on-invalid-update";
    pub(crate) const FINALIZE_DELETION_AFTER: &str = "resources.gardener.cloud/finalize-deletion-after";
    pub(crate) const PRESERVE_REPLICAS: &str = "resources.gardener.cloud/preserve-replicas";
    pub(crate) const PRESERVE_RESOURCES: &str = "resources.gardener.cloud/preserve-resources";
    pub(crate) const SKIP_HEALTH_CHECK: &str = "resources.gardener.cloud/skip-health-check";
}

/// The finalizer of a class.
pub(crate) fn finalizer(class: Option<&str>) -> String {
    match class.filter(|class| !class.is_empty()) {
        Some(class) => format!("{}-{class}", finalizers::RESOURCE_MANAGER),
        None => finalizers::RESOURCE_MANAGER.to_owned(),
    }
}

/// Whether the ManagedResource is of this class; an empty class is none.
pub(crate) fn is_of_class(resource: &ManagedResource, class: Option<&str>) -> bool {
    let filled = |class: Option<&str>| class.map(str::to_owned).filter(|class| !class.is_empty());
    filled(resource.spec.class.as_deref()) == filled(class)
}

/// Whether the manager of this class has objects of the ManagedResource in its target: it removes its finalizer only when
/// they are gone.
pub(crate) fn is_held(resource: &ManagedResource, class: Option<&str>) -> bool {
    let own = finalizer(class);
    resource.metadata.finalizers.iter().flatten().any(|held| *held == own)
}

/// Whether the manager of another class still has objects of the ManagedResource, which was of that class before.
pub(crate) fn is_held_by_another(resource: &ManagedResource, class: Option<&str>) -> bool {
    let own = finalizer(class);
    let is_another = |held: &String| held.starts_with(finalizers::RESOURCE_MANAGER) && *held != own;
    resource.metadata.finalizers.iter().flatten().any(is_another)
}

/// The origin that a ManagedResource writes on its objects.
pub(crate) fn origin(cluster_id: &str, resource: &ManagedResource) -> String {
    let key = ObjectKey::of(resource);
    if cluster_id.is_empty() {
        key.to_string()
    } else {
        format!("{cluster_id}:{key}")
    }
}

/// The ManagedResource that an origin names; `None` for one of another source.
pub(crate) fn resource_of_origin(cluster_id: &str, origin: &str) -> Option<ObjectKey> {
    let own = match origin.split_once(':') {
        Some((id, rest)) => Some(rest).filter(|_| id == cluster_id),
        None => Some(origin).filter(|_| cluster_id.is_empty()),
    }?;
    let (namespace, name) = own.split_once('/')?;
    Some(ObjectKey::namespaced(namespace, name))
}

/// Whether a label or annotation has a value that Go's `strconv.ParseBool` takes for true, as upstream reads most of
/// them.
pub(crate) fn is_true(entries: Option<&BTreeMap<String, String>>, key: &str) -> bool {
    let value = entries.and_then(|entries| entries.get(key));
    value.is_some_and(|value| annotations::is_true(value))
}

/// Whether the object is a Secret or ConfigMap that goes when nothing refers to it any more.
pub(crate) fn is_collectable(object: &DynamicObject, reference: &ObjectReference) -> bool {
    is_true(object.metadata.labels.as_ref(), labels::GARBAGE_COLLECTABLE_REFERENCE)
        && reference.api_version.as_deref() == Some("v1")
        && matches!(reference.kind.as_deref(), Some("Secret" | "ConfigMap"))
}

/// The API group of a reference.
pub(crate) fn group_of(reference: &ObjectReference) -> String {
    reference
        .api_version
        .as_deref()
        .and_then(|version| version.parse::<GroupVersion>().ok())
        .map(|version| version.group)
        .unwrap_or_default()
}

/// `Deployment "kube-system/coredns"`, for people.
pub(crate) fn shown(reference: &ObjectReference) -> String {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let namespace = reference
        .namespace
        .as_ref()
        .map(|namespace| format!("{namespace}/"))
        .unwrap_or_default();
    format!("{} \"{namespace}{}\"", text(&reference.kind), text(&reference.name))
}

/// A list for people.
pub(crate) fn all_shown<'a>(references: impl IntoIterator<Item = &'a ObjectReference>) -> String {
    listed(references.into_iter().map(shown), ", ")
}

/// The first few of many texts, each cut to a length, and how many more there are.
pub(crate) fn listed(texts: impl IntoIterator<Item = String>, separator: &str) -> String {
    /// A message is for a reader, and goes into the status of objects that may have 1.5 MB in all.
    const TEXTS_MAX: usize = 10;
    /// Enough for an API server's answer with a few fields.
    const CHARS_MAX: usize = 1000;
    let mut texts = texts.into_iter();
    let cut = |text: String| match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    };
    let mut shown: Vec<String> = texts.by_ref().take(TEXTS_MAX).map(cut).collect();
    let more = texts.count();
    if more > 0 {
        shown.push(format!("and {more} more"));
    }
    shown.join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_managed_resource_is_held_by_the_class_of_its_finalizer() {
        let mut resource = ManagedResource::default();
        assert!(!is_held(&resource, None) && !is_held_by_another(&resource, None));
        resource.metadata.finalizers = Some(vec!["other".to_owned(), finalizer(Some("seed"))]);
        assert!(is_held(&resource, Some("seed")) && !is_held_by_another(&resource, Some("seed")));
        assert!(!is_held(&resource, None) && is_held_by_another(&resource, None));
    }

    #[test]
    fn lists_name_ten_and_count_the_rest() {
        let of = |count: usize| listed((0..count).map(|number| number.to_string()), ", ");
        assert_eq!((of(0).as_str(), of(2).as_str()), ("", "0, 1"));
        assert_eq!(of(10), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9");
        assert_eq!(of(5000), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, and 4990 more");
        let long = listed(["\u{e9}".repeat(2000)], ", ");
        assert_eq!((long.chars().count(), long.ends_with("\u{e9}...")), (1003, true));
    }

    #[test]
    fn values_are_true_as_go_parses_them() {
        let of = |value: &str| is_true(Some(&BTreeMap::from([("key".to_owned(), value.to_owned())])), "key");
        assert!(["1", "t", "T", "true", "TRUE", "True"].into_iter().all(of));
        assert!(!["", "0", "f", "false", "yes", "tRUE", " true"].into_iter().any(of));
        assert!(!is_true(None, "key") && !is_true(Some(&BTreeMap::new()), "key"));
    }
}
