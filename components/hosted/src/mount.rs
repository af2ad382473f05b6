//! A Secret mounted into a pod, and the annotation that rolls the pod when its content changes.

use k8s_openapi::api::core::v1::Secret;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// A Secret to mount: its name and a checksum of what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// The Secret's name.
    pub secret: String,
    /// 8 hex digits that change with its data.
    pub checksum: String,
}

impl Mounted {
    /// The name and checksum of a Secret as it was read or is about to be written.
    #[must_use]
    pub fn of(secret: &Secret) -> Self {
        let mut digest = Sha256::new();
        for (key, value) in secret.data.iter().flatten() {
            // Lengths first, so that no two maps run into the same bytes.
            digest.update((key.len() as u64).to_be_bytes());
            digest.update(key);
            digest.update((value.0.len() as u64).to_be_bytes());
            digest.update(&value.0);
        }
        Self {
            secret: secret.metadata.name.clone().unwrap_or_default(),
            checksum: shown(digest),
        }
    }
}

/// 8 hex digits that change with the text.
pub(crate) fn checksum_of_text(text: &str) -> String {
    shown(Sha256::new_with_prefix(text))
}

fn shown(digest: Sha256) -> String {
    let digest = digest.finalize();
    digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

/// Secrets of one pod: volume name, Secret, path.
pub(crate) struct Mounts<'a>(pub(crate) Vec<(&'static str, &'a Mounted, &'static str)>);

impl Mounts<'_> {
    pub(crate) fn volumes(&self) -> Vec<Value> {
        self.0
            .iter()
            // 0640: readable by the container's group alone.
            .map(|(name, mounted, _)| json!({"name": name, "secret": {"secretName": mounted.secret, "defaultMode": 0o640}}))
            .collect()
    }

    pub(crate) fn volume_mounts(&self) -> Vec<Value> {
        self.0
            .iter()
            .map(|(name, _, path)| json!({"name": name, "mountPath": path, "readOnly": true}))
            .collect()
    }

    pub(crate) fn annotations(&self) -> Value {
        let annotations: Map<String, Value> = self
            .0
            .iter()
            .map(|(name, mounted, _)| (format!("checksum/secret-{name}"), mounted.checksum.clone().into()))
            .collect();
        Value::Object(annotations)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    fn checksum(data: &[(&str, &str)]) -> String {
        let data = data
            .iter()
            .map(|(key, value)| ((*key).to_owned(), ByteString((*value).into())))
            .collect();
        Mounted::of(&Secret {
            data: Some(data),
            ..Secret::default()
        })
        .checksum
    }

    #[test]
    fn the_checksum_changes_with_keys_and_values_and_with_nothing_else() {
        assert_eq!(checksum(&[("a", "1"), ("b", "2")]), checksum(&[("b", "2"), ("a", "1")]));
        assert_ne!(checksum(&[("a", "1")]), checksum(&[("a", "2")]));
        assert_ne!(checksum(&[("a", "1b"), ("c", "")]), checksum(&[("a", "1"), ("bc", "")]));
    }
}
