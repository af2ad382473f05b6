//! What has a settled object reconciled though nothing of it has changed: a change of something else that its extension
//! watches. Marks of such changes are in memory; credentials are also compared with those that the last success has used.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use api_extensions::ExtensionObject;
use base_controller::{Cache, Change, Controller, ObjectKey};
use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;
use kube::core::NamespaceResourceScope;
use kube::runtime::watcher;
use kube::{Resource, ResourceExt};
use serde::{Deserialize, Deserializer};
use sha2::{Digest, Sha256};
use std::sync::Arc;

use crate::credentials::referenced;
use crate::remembered::Remembered;

/// On an extension object: the checksum of the Secret in `spec.secretRef` with which its last operation succeeded.
pub(crate) const SECRET_CHECKSUM: &str = "status.orangery.dev/secret-checksum";
/// Bytes of a checksum: enough to see a change, and nothing to find a value by that is not guessed anyway.
const CHECKSUM_LENGTH: usize = 8;

/// The objects that are to be reconciled though they may be settled.
pub(crate) struct Due {
    marks: Remembered<u64>,
    made: AtomicU64,
}

impl Due {
    /// `exists` as in [`Remembered::new`].
    pub(crate) fn new(exists: impl Fn(&ObjectKey) -> bool + Send + Sync + 'static) -> Self {
        Self {
            marks: Remembered::new(exists),
            made: AtomicU64::new(0),
        }
    }

    pub(crate) fn mark(&self, key: &ObjectKey) {
        self.marks.put(key, self.made.fetch_add(1, Ordering::Relaxed));
    }

    /// The mark of an object.
    pub(crate) fn of(&self, key: &ObjectKey) -> Option<u64> {
        self.marks.get(key)
    }

    /// The object is seen to; a mark that was made since then stays.
    pub(crate) fn done(&self, key: &ObjectKey, mark: Option<u64>) {
        if let Some(mark) = mark {
            self.marks.forget(key, &mark);
        }
    }
}

/// A Secret of which nothing is retained but its name and a checksum of its data.
#[derive(Clone, Debug)]
pub(crate) struct SecretChecksum {
    metadata: ObjectMeta,
    pub(crate) checksum: String,
}

impl<'de> Deserialize<'de> for SecretChecksum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Whole {
            #[serde(default)]
            metadata: ObjectMeta,
            #[serde(default)]
            data: Option<BTreeMap<String, Option<String>>>,
        }
        let Whole { metadata, data } = Whole::deserialize(deserializer)?;
        Ok(Self {
            metadata: ObjectMeta {
                name: metadata.name,
                namespace: metadata.namespace,
                uid: metadata.uid,
                resource_version: metadata.resource_version,
                ..ObjectMeta::default()
            },
            checksum: checksum_of(&data.unwrap_or_default()),
        })
    }
}

/// A checksum of keys and values in base64.
fn checksum_of(data: &BTreeMap<String, Option<String>>) -> String {
    let mut hash = Sha256::new();
    for text in data
        .iter()
        .flat_map(|(key, value)| [key.as_str(), value.as_deref().unwrap_or_default()])
    {
        hash.update(text.len().to_be_bytes());
        hash.update(text);
    }
    let mut text = String::new();
    for byte in hash.finalize().iter().take(CHECKSUM_LENGTH) {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

impl Resource for SecretChecksum {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        Secret::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        Secret::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        Secret::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        Secret::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The Secret of an object, by its `spec.secretRef`.
fn secret_of<K: ExtensionObject>(object: &K) -> Option<ObjectKey> {
    referenced(object.secret_ref()?, object.meta().namespace.as_deref())
}

/// The checksum of the Secret that `object` names; none while that is not known to exist.
pub(crate) fn checksum_for<K: ExtensionObject>(secrets: Option<&Cache<SecretChecksum>>, object: &K) -> Option<String> {
    let secret = secrets?.get(&secret_of(object)?)?;
    Some(secret.checksum.clone())
}

/// Whether the last success of `object` has used another Secret than the one of this checksum.
pub(crate) fn differs<K: ExtensionObject>(object: &K, checksum: Option<&str>) -> bool {
    let used = object.annotations().get(SECRET_CHECKSUM).map(String::as_str);
    checksum.is_some_and(|checksum| used != Some(checksum))
}

/// Lets changes of credentials call for the objects in `objects` that name them.
pub(crate) fn watch_secrets<K: ExtensionObject>(
    controller: Controller<K>,
    secrets: &Cache<SecretChecksum>,
    objects: &Cache<K>,
    due: Arc<Due>,
) -> Controller<K> {
    let users = objects.index(|object| secret_of(object).map(|key| key.to_string()));
    controller.watches(secrets, move |change: &Change<SecretChecksum>| {
        let Some(new) = change.new() else { return Vec::new() };
        let old = change.old.as_deref().map(|old| old.checksum.as_str());
        if old == Some(new.checksum.as_str()) {
            return Vec::new();
        }
        let users = users.keys(&ObjectKey::of(new).to_string());
        // One that is seen for the first time is compared with what its users remember.
        if old.is_some() {
            users.iter().for_each(|key| due.mark(key));
        }
        users
    })
}

/// The selection of Secrets by labels; empty selects all.
pub(crate) fn labelled(labels: &str) -> watcher::Config {
    match labels {
        "" => watcher::Config::default(),
        labels => watcher::Config::default().labels(labels),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_checksum_is_of_the_data_alone_and_nothing_of_them_is_retained() {
        let of = |data: serde_json::Value| -> SecretChecksum {
            let secret = json!({"metadata": {"name": "s", "namespace": "n", "labels": {"a": "hunter2"}}, "data": data});
            serde_json::from_value(secret).unwrap()
        };
        let first = of(json!({"a": "aHVudGVyMg=="}));
        assert_eq!(ObjectKey::of(&first), ObjectKey::namespaced("n", "s"));
        assert!(!format!("{first:?}").contains("aHVudGVy") && !format!("{first:?}").contains("hunter2"));
        assert_eq!(first.checksum.len(), 16);
        let different = [
            json!({"a": "aA=="}),
            json!({"b": "aHVudGVyMg=="}),
            json!({"aaHV": "udGVyMg=="}),
            json!(null),
        ];
        for data in different {
            assert_ne!(of(data).checksum, first.checksum);
        }
    }

    #[test]
    fn a_mark_made_meanwhile_outlives_the_turn() {
        let due = Due::new(|_| true);
        let key = ObjectKey::cluster("a");
        due.mark(&key);
        let seen = due.of(&key);
        due.mark(&key);
        due.done(&key, seen);
        assert!(due.of(&key).is_some());
        due.done(&key, due.of(&key));
        assert_eq!(due.of(&key), None);
    }
}
