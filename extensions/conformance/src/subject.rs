//! Which extension is validated, and what its objects need: kind, type, class, and fragments that an author adds to the
//! kit's own objects. It reads texts and no files.

use std::collections::BTreeMap;

use api_extensions::{ExtensionClass, ExtensionKind};
use api_meta::Fault;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// What is validated: an extension that is primary for objects of this kind, type and class.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The kind of its objects.
    pub kind: ExtensionKind,
    /// Their `spec.type`.
    pub type_: String,
    /// Their `spec.class`.
    pub class: ExtensionClass,
    /// Further classes that it works on: objects of these are not expected to be left alone.
    pub other_classes: Vec<ExtensionClass>,
    /// A kind and type that it is registered for with `primary: false`.
    pub secondary: Option<(ExtensionKind, String)>,
    /// What its objects hold beside what the kit puts there.
    pub fragments: Fragments,
    /// Data of the Secret that `spec.secretRef` names, and that is called `cloudprovider` otherwise.
    pub credentials: BTreeMap<String, ByteString>,
}

impl Subject {
    /// An extension for objects of class shoot, without anything of its own in them.
    #[must_use]
    pub fn new(kind: ExtensionKind, type_: impl Into<String>) -> Self {
        Self {
            kind,
            type_: type_.into(),
            class: ExtensionClass::Shoot,
            other_classes: Vec::new(),
            secondary: None,
            fragments: Fragments::default(),
            credentials: BTreeMap::new(),
        }
    }
}

/// Parts of objects, from an author's file. Mappings are merged into those of the kit, everything else replaces what the
/// kit has.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Fragments {
    /// Merged into the spec of each object.
    pub spec: Map<String, Value>,
    /// Merged into the spec later: another spec that the extension accepts. Without it the spec changes only when a
    /// spec that is refused is corrected.
    pub changed_spec: Option<Map<String, Value>>,
    /// Merged into the spec: one that the extension must refuse with ERR_CONFIGURATION_PROBLEM.
    pub bad_spec: BadSpec,
    /// Merged into the three parts of the Cluster.
    pub cluster: ClusterFragments,
    /// Secrets and ConfigMaps of core/v1 that are made in the namespace before the first object.
    pub objects: Vec<Value>,
}

/// Which spec the extension is expected to refuse.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum BadSpec {
    /// A `providerConfig` of a kind that no extension has. An extension that accepts it reads no providerConfig.
    #[default]
    OfTheKit,
    /// This one, which it must not accept.
    Given(Map<String, Value>),
    /// There is none: the extension accepts every spec.
    None,
}

impl<'de> Deserialize<'de> for BadSpec {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::<Map<String, Value>>::deserialize(deserializer)?.map_or(Self::None, Self::Given))
    }
}

impl BadSpec {
    /// The fragment, if there is one.
    pub(crate) fn fragment(&self) -> Option<Map<String, Value>> {
        match self {
            Self::Given(fragment) => Some(fragment.clone()),
            Self::None => None,
            Self::OfTheKit => {
                let config = json!({
                    "apiVersion": "conformance.orangery.dev/v1alpha1", "kind": "NoSuchConfig", "noSuchField": true,
                });
                Some(Map::from_iter([("providerConfig".to_owned(), config)]))
            }
        }
    }
}

/// Parts of the Cluster.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ClusterFragments {
    /// Merged into the Shoot.
    pub shoot: Map<String, Value>,
    /// Merged into the Seed.
    pub seed: Map<String, Value>,
    /// Merged into the CloudProfile.
    pub cloud_profile: Map<String, Value>,
}

impl Fragments {
    /// Reads an author's file.
    ///
    /// # Errors
    /// Text that is no YAML of this form: place and kind of what is wrong, never the value.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        const FIELDS: &str =
            "the file has the fields spec, changedSpec, badSpec, cluster (shoot, seed, cloudProfile) and objects";
        let fragments: Self = base_yaml::read_strict(text).map_err(|error| Fault::user(error).hint(FIELDS))?;
        for (at, object) in fragments.objects.iter().enumerate() {
            let kind = (object["apiVersion"].as_str(), object["kind"].as_str());
            if !matches!(kind, (Some("v1"), Some("Secret" | "ConfigMap"))) {
                return Err(
                    Fault::user(format!("objects[{at}]: only a Secret or a ConfigMap of v1 is allowed"))
                        .hint("create other objects before, in the cluster itself"),
                );
            }
        }
        Ok(fragments)
    }
}

/// Reads credentials from a manifest of a Secret, with `data`, `stringData` or both.
///
/// # Errors
/// Text that is no Secret.
pub fn credentials(text: &str) -> Result<BTreeMap<String, ByteString>, Fault> {
    const FORM: &str = "the file is the manifest of a Secret with data or stringData";
    let secret: Secret = base_yaml::read_strict(text).map_err(|error| Fault::user(error).hint(FORM))?;
    let texts = secret.string_data.unwrap_or_default();
    let mut data = secret.data.unwrap_or_default();
    data.extend(
        texts
            .into_iter()
            .map(|(key, text)| (key, ByteString(text.into_bytes()))),
    );
    match data.is_empty() {
        true => Err(Fault::user("the Secret has no data").hint(FORM)),
        false => Ok(data),
    }
}

/// Merges `from` into `into`: mappings key by key, all else by replacing; null removes a key.
pub(crate) fn merge(into: &mut Map<String, Value>, from: &Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(key), value) {
            (_, Value::Null) => {
                into.remove(key);
            }
            (Some(Value::Object(present)), Value::Object(more)) => merge(present, more),
            _ => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_are_read_with_and_without_a_bad_spec() {
        let bad = |text: &str| Fragments::parse(text).unwrap().bad_spec;
        assert_eq!(bad("spec: {region: west}"), BadSpec::OfTheKit);
        assert_eq!(bad("badSpec: null"), BadSpec::None);
        let given = bad("badSpec: {providerConfig: {size: huge}}");
        assert_eq!(given.fragment().unwrap()["providerConfig"]["size"], "huge");
    }

    #[test]
    fn a_wrong_file_is_refused_with_what_is_allowed() {
        let refusal = |text: &str| Fragments::parse(text).unwrap_err().text_with_hint();
        assert!(refusal("specs: {}").contains("changedSpec"), "{}", refusal("specs: {}"));
        let pod = refusal("objects: [{apiVersion: v1, kind: Pod}]");
        assert!(pod.starts_with("objects[0]: only a Secret or a ConfigMap"), "{pod}");
    }

    #[test]
    fn credentials_are_those_of_both_fields_of_a_secret() {
        let read = credentials("apiVersion: v1\nkind: Secret\ndata: {a: Yg==}\nstringData: {c: d}").unwrap();
        assert_eq!(read["a"].0, b"b");
        assert_eq!(read["c"].0, b"d");
        assert!(credentials("apiVersion: v1\nkind: Secret").is_err());
    }

    #[test]
    fn mappings_are_merged_and_everything_else_is_replaced() {
        let map = |value: Value| value.as_object().cloned().unwrap();
        let mut into = map(json!({"a": {"b": 1, "c": [1, 2]}, "d": 1}));
        merge(&mut into, &map(json!({"a": {"c": [3]}, "d": null, "e": {}})));
        assert_eq!(Value::Object(into), json!({"a": {"b": 1, "c": [3]}, "e": {}}));
    }
}
