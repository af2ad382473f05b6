//! Hashes by which an installation shows what it was made from. They only distinguish "changed" from "not changed".

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use api_core::v1beta1::ControllerDeployment;
use kube::ResourceExt;
use serde::Serialize;
use serde_json::json;
use sha2::{Digest, Sha256};

/// Hex digits of a hash in a label (as many as Gardener takes).
const DIGITS: usize = 16;

/// The first 16 hex digits of the SHA-256 of the value's JSON.
pub(crate) fn hash(value: &impl Serialize) -> String {
    let text = serde_json::to_vec(value).expect("our types print as JSON");
    let digest: [u8; 32] = Sha256::digest(&text).into();
    let mut hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    hex.truncate(DIGITS);
    hex
}

/// A ControllerDeployment with the hash of what is to be installed.
#[derive(Clone, Debug)]
pub(crate) struct Hashed {
    pub(crate) object: Arc<ControllerDeployment>,
    pub(crate) hash: String,
}

impl Hashed {
    pub(crate) fn new(object: Arc<ControllerDeployment>) -> Self {
        let content = json!({"type": object.type_, "providerConfig": object.provider_config.value()});
        Self {
            hash: hash(&content),
            object,
        }
    }

    /// Whether it is of this state of the object.
    fn is_of(&self, object: &ControllerDeployment) -> bool {
        let known = &self.object.metadata;
        known.uid == object.metadata.uid && known.resource_version == object.metadata.resource_version
    }
}

/// ControllerDeployments by name, as they were seen last. Each state is hashed once: it may hold a chart of a megabyte, and
/// every change of a seed looks at all of them.
#[derive(Debug, Default)]
pub(crate) struct Deployments(Mutex<BTreeMap<String, Hashed>>);

impl Deployments {
    /// These ones; all others are forgotten.
    pub(crate) fn hashed(&self, all: Vec<Arc<ControllerDeployment>>) -> BTreeMap<String, Hashed> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_one = |object: Arc<ControllerDeployment>| {
            let name = object.name_any();
            let hashed = match known.get(&name).filter(|known| known.is_of(&object)) {
                Some(known) => known.clone(),
                None => Hashed::new(object),
            };
            (name, hashed)
        };
        let hashed: BTreeMap<String, Hashed> = all.into_iter().map(of_one).collect();
        known.clone_from(&hashed);
        hashed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(uid: &str, version: &str, image: &str) -> Arc<ControllerDeployment> {
        let metadata = json!({"name": "d", "uid": uid, "resourceVersion": version});
        let object = json!({"metadata": metadata, "type": "builtin", "providerConfig": {"image": image}});
        Arc::new(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn a_deployment_is_hashed_again_only_when_it_is_another_object_or_version() {
        let deployments = Deployments::default();
        let hash_of = |uid, version, image| {
            let mut found = deployments.hashed(vec![deployment(uid, version, image)]);
            found.remove("d").unwrap().hash
        };
        let first = hash_of("u", "1", "one");
        assert_eq!(hash_of("u", "1", "never looked at"), first);
        let second = hash_of("u", "2", "two");
        assert_ne!(second, first);
        assert_eq!(hash_of("another", "2", "one"), first);
        deployments.hashed(Vec::new());
        assert_eq!(hash_of("another", "2", "two"), second, "it was forgotten");
    }
}
