//! From Secrets to objects. Pure: never queries an API server for a kind.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use api_meta::{Classified, FaultClass};
use k8s_openapi::api::core::v1::Secret;
use kube::core::GroupVersion;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::naming::{is_true, wish};

/// Bytes of YAML in one entry. Secrets hold 1 MiB; this leaves room for nothing else.
const ENTRY_BYTES_MAX: usize = 1024 * 1024;
/// Suffix of the keys whose values are compressed.
const BROTLI_SUFFIX: &str = ".br";
/// Bytes of YAML of all entries of one ManagedResource, after decompression. The largest sets of custom resource
/// definitions are about 5 MB of text; brotli makes 1 GB of a Secret's 1 MiB, and a Secret has room for thousands of
/// entries, which must not end up in memory.
const TEXT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Objects of one ManagedResource. Its status lists them all with their labels, in about 350 bytes each, and etcd takes
/// 1.5 MB.
const OBJECTS_MAX: usize = 4_000;
/// Bytes that are decompressed at once, as brotli's own tools do.
const BROTLI_BUFFER_BYTES: usize = 4096;

/// An object that is wanted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Desired {
    pub(crate) api_version: String,
    pub(crate) group: String,
    pub(crate) kind: String,
    /// As written; whether the kind has namespaces at all is not known here.
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) value: Value,
}

impl Desired {
    /// Its annotations as written.
    pub(crate) fn annotations(&self) -> BTreeMap<String, String> {
        self.texts("annotations")
    }

    /// Its labels as written.
    pub(crate) fn labels(&self) -> BTreeMap<String, String> {
        self.texts("labels")
    }

    /// Whether it is left alone once it exists.
    pub(crate) fn is_ignored(&self) -> bool {
        is_true(Some(&self.annotations()), wish::IGNORE)
    }

    /// Entries of a member of its metadata that are text, as all of them must be.
    fn texts(&self, member: &str) -> BTreeMap<String, String> {
        let metadata = self.value.get("metadata");
        let entries = metadata.and_then(|metadata| metadata.get(member)?.as_object());
        let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
        entries.into_iter().flatten().filter_map(text).collect()
    }
}

/// Why objects could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecodeError {
    #[error("secret \"{secret}\", key \"{key}\": not compressed with brotli, as its suffix {BROTLI_SUFFIX} requires")]
    NotBrotli { secret: String, key: String },
    #[error("secret \"{secret}\", key \"{key}\": the entries up to here have more than {TEXT_BYTES_MAX} bytes in all")]
    TooLongInAll { secret: String, key: String },
    #[error("secret \"{secret}\", key \"{key}\": the entries up to here have more than {OBJECTS_MAX} objects in all")]
    TooMany { secret: String, key: String },
    #[error("secret \"{secret}\", key \"{key}\": more than {ENTRY_BYTES_MAX} bytes")]
    TooLong { secret: String, key: String },
    #[error("secret \"{secret}\", key \"{key}\": not UTF-8 text")]
    NotText { secret: String, key: String },
    #[error("secret \"{secret}\", key \"{key}\": not YAML: {problem}")]
    Yaml {
        secret: String,
        key: String,
        problem: base_yaml::YamlError,
    },
    #[error("secret \"{secret}\", key \"{key}\": document {document}: {field} is missing or not text")]
    Incomplete {
        secret: String,
        key: String,
        document: usize,
        field: &'static str,
    },
    #[error("secret \"{secret}\", key \"{key}\": {object} is given twice")]
    Duplicate {
        secret: String,
        key: String,
        object: String,
    },
}

impl Classified for DecodeError {
    fn class(&self) -> FaultClass {
        FaultClass::User
    }

    fn hint(&self) -> String {
        match self {
            Self::TooLongInAll { .. } | Self::TooMany { .. } => "spread the objects over several ManagedResources",
            _ => "correct the named entry of the named Secret",
        }
        .to_owned()
    }
}

/// All objects of the Secrets, in the order of the references and, within a Secret, of its keys.
pub(crate) fn decode(secrets: &[&Secret]) -> Result<Vec<Desired>, DecodeError> {
    let mut all = Vec::new();
    let mut known = BTreeSet::new();
    let mut bytes_left = TEXT_BYTES_MAX;
    for secret in secrets {
        let secret_name = secret.metadata.name.clone().unwrap_or_default();
        for (key, bytes) in secret.data.iter().flatten() {
            let place = || (secret_name.clone(), key.clone());
            for object in entry(place, &bytes.0, &mut bytes_left)? {
                let identity = (
                    object.group.clone(),
                    object.kind.clone(),
                    object.namespace.clone(),
                    object.name.clone(),
                );
                if !known.insert(identity) {
                    let (secret, key) = place();
                    let namespace = object
                        .namespace
                        .as_ref()
                        .map(|namespace| format!("{namespace}/"))
                        .unwrap_or_default();
                    return Err(DecodeError::Duplicate {
                        secret,
                        key,
                        object: format!("{} \"{namespace}{}\"", object.kind, object.name),
                    });
                }
                if all.len() == OBJECTS_MAX {
                    let (secret, key) = place();
                    return Err(DecodeError::TooMany { secret, key });
                }
                all.push(object);
            }
        }
    }
    Ok(all)
}

/// The objects of an entry, whose text is counted against `bytes_left`.
fn entry(
    place: impl Fn() -> (String, String),
    bytes: &[u8],
    bytes_left: &mut usize,
) -> Result<Vec<Desired>, DecodeError> {
    let (secret, key) = place();
    if bytes.len() > ENTRY_BYTES_MAX {
        return Err(DecodeError::TooLong { secret, key });
    }
    let bytes = if key.ends_with(BROTLI_SUFFIX) {
        match decompress(bytes, *bytes_left) {
            Ok(text) => Cow::Owned(text),
            Err(_) => return Err(DecodeError::NotBrotli { secret, key }),
        }
    } else {
        Cow::Borrowed(bytes)
    };
    let Some(left) = bytes_left.checked_sub(bytes.len()) else {
        return Err(DecodeError::TooLongInAll { secret, key });
    };
    *bytes_left = left;
    let Ok(text) = std::str::from_utf8(&bytes) else {
        return Err(DecodeError::NotText { secret, key });
    };
    let documents: Vec<Value> = base_yaml::read_all_strict(text).map_err(|problem| DecodeError::Yaml {
        secret: secret.clone(),
        key: key.clone(),
        problem,
    })?;
    let documents = documents
        .into_iter()
        .enumerate()
        .filter(|(_, document)| !document.is_null());
    documents
        .map(|(index, document)| {
            let incomplete = |field| DecodeError::Incomplete {
                secret: secret.clone(),
                key: key.clone(),
                document: index + 1,
                field,
            };
            object(document).map_err(incomplete)
        })
        .collect()
}

/// What is compressed; of one that is longer than `bytes_max`, one byte more.
fn decompress(bytes: &[u8], bytes_max: usize) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let mut limited = brotli::Decompressor::new(bytes, BROTLI_BUFFER_BYTES).take(bytes_max as u64 + 1);
    limited.read_to_end(&mut text)?;
    Ok(text)
}

fn object(mut value: Value) -> Result<Desired, &'static str> {
    let text = |pointer: &str| {
        value
            .pointer(pointer)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    };
    let api_version = text("/apiVersion").ok_or("apiVersion")?;
    let kind = text("/kind").ok_or("kind")?;
    let name = text("/metadata/name").ok_or("metadata.name")?;
    let namespace = text("/metadata/namespace");
    // `namespace: no` is false in YAML; taken for "none" it would put the object elsewhere.
    if namespace.is_none()
        && value
            .pointer("/metadata/namespace")
            .is_some_and(|given| !given.is_null() && given != "")
    {
        return Err("metadata.namespace");
    }
    let group = api_version.parse::<GroupVersion>().map_err(|_| "apiVersion")?.group;
    strip(&mut value);
    Ok(Desired {
        api_version,
        group,
        kind,
        namespace,
        name,
        value,
    })
}

/// Removes the fields that the server sets.
fn strip(value: &mut Value) {
    if let Some(object) = value.as_object_mut() {
        object.remove("status");
    }
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in [
            "creationTimestamp",
            "managedFields",
            "resourceVersion",
            "uid",
            "generation",
            "selfLink",
        ] {
            metadata.remove(field);
        }
    }
    drop_empty_times(value);
}

/// Go writes `creationTimestamp: null` into every embedded metadata.
fn drop_empty_times(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|key, value| !(key == "creationTimestamp" && value.is_null()));
            object.values_mut().for_each(drop_empty_times);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_empty_times),
        _ => {}
    }
}

/// SHA-256 over the data of the Secrets.
pub(crate) fn checksum(secrets: &[&Secret]) -> String {
    let mut hash = Sha256::new();
    for secret in secrets {
        for (key, bytes) in secret.data.iter().flatten() {
            for part in [key.as_bytes(), &bytes.0] {
                hash.update(part.len().to_be_bytes());
                hash.update(part);
            }
        }
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    fn secret(entries: &[(&str, &str)]) -> Secret {
        let mut secret = Secret {
            data: Some(
                entries
                    .iter()
                    .map(|(key, text)| ((*key).to_owned(), ByteString(text.as_bytes().to_vec())))
                    .collect(),
            ),
            ..Secret::default()
        };
        secret.metadata.name = Some("s".to_owned());
        secret
    }

    #[test]
    fn objects_come_in_order_of_keys_and_documents_without_server_fields() {
        let text = "---\n# only a comment\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: b, namespace: ns, creationTimestamp: null, uid: x}\nspec: {template: {metadata: {creationTimestamp: null, labels: {a: b}}}}\nstatus: {}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {mode: \"0777\"}\ncount: 0777\n";
        let given = secret(&[
            ("z.yaml", text),
            (
                "a.json",
                r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}"#,
            ),
        ]);
        let all = decode(&[&given]).unwrap();
        let names: Vec<_> = all
            .iter()
            .map(|object| {
                (
                    object.group.as_str(),
                    object.kind.as_str(),
                    object.namespace.as_deref(),
                    object.name.as_str(),
                )
            })
            .collect();
        assert_eq!(
            names,
            [
                ("", "Namespace", None, "a"),
                ("apps", "Deployment", Some("ns"), "b"),
                ("", "ConfigMap", None, "c")
            ]
        );
        assert_eq!(
            all[1].value,
            serde_json::json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "b", "namespace": "ns"}, "spec": {"template": {"metadata": {"labels": {"a": "b"}}}}})
        );
        assert_eq!(
            (&all[2].value["data"]["mode"], &all[2].value["count"]),
            (&serde_json::json!("0777"), &serde_json::json!(511))
        );
    }

    fn compressed(text: &[u8]) -> Secret {
        let mut bytes = Vec::new();
        brotli::BrotliCompress(&mut &*text, &mut bytes, &brotli::enc::BrotliEncoderParams::default()).unwrap();
        let mut secret = secret(&[]);
        secret.data = Some([("data.yaml.br".to_owned(), ByteString(bytes))].into());
        secret
    }

    #[test]
    fn compressed_entries_are_read_like_others() {
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n";
        assert_eq!(
            decode(&[&compressed(text.as_bytes())]),
            decode(&[&secret(&[("data.yaml", text)])])
        );
        // More than an entry may have without compression.
        let long = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {{a: {}}}\n",
            "x".repeat(2 * ENTRY_BYTES_MAX)
        );
        assert_eq!(decode(&[&compressed(long.as_bytes())]).unwrap().len(), 1);
    }

    #[test]
    fn decompression_stops_at_its_limit_and_refuses_half_of_an_entry() {
        let too_long = |key: &str| {
            Err(DecodeError::TooLongInAll {
                secret: "s".to_owned(),
                key: key.to_owned(),
            })
        };
        let bomb = compressed(&vec![b' '; TEXT_BYTES_MAX + 1]);
        assert_eq!(decode(&[&bomb]), too_long("data.yaml.br"));
        // The limit is one for all entries of all Secrets.
        let half = compressed(&vec![b' '; TEXT_BYTES_MAX / 2]);
        assert_eq!(decode(&[&half, &half]), Ok(Vec::new()));
        let more = secret(&[("more", " ")]);
        assert_eq!(decode(&[&half, &half, &more]), too_long("more"));
        let mut cut = compressed(b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n");
        for bytes in cut.data.iter_mut().flat_map(|data| data.values_mut()) {
            bytes.0.pop();
        }
        assert!(matches!(decode(&[&cut]), Err(DecodeError::NotBrotli { .. })));
    }

    #[test]
    fn more_objects_than_a_status_can_list_are_refused() {
        let of = |count: usize| -> String {
            let maps = (0..count)
                .map(|number| format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: n{number}}}\n"));
            maps.collect()
        };
        assert_eq!(
            decode(&[&secret(&[("x", &of(OBJECTS_MAX))])]).unwrap().len(),
            OBJECTS_MAX
        );
        let error = decode(&[&secret(&[("x", &of(OBJECTS_MAX + 1))])]).unwrap_err();
        assert!(error.to_string().ends_with("more than 4000 objects in all"), "{error}");
    }

    #[test]
    fn what_cannot_be_read_is_named_with_its_place() {
        let cases = [
            (
                secret(&[("x.yaml.br", "apiVersion: v1\n")]),
                "secret \"s\", key \"x.yaml.br\": not compressed with brotli, as its suffix .br requires",
            ),
            (
                secret(&[("x", "apiVersion: v1\nkind: Pod\n")]),
                "secret \"s\", key \"x\": document 1: metadata.name is missing or not text",
            ),
            (
                secret(&[("x", "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: no}\n")]),
                "secret \"s\", key \"x\": document 1: metadata.namespace is missing or not text",
            ),
            (
                secret(&[("x", "kind: Pod\nmetadata: {name: a}\n")]),
                "secret \"s\", key \"x\": document 1: apiVersion is missing or not text",
            ),
            (
                secret(&[
                    ("x", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"),
                    ("y", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"),
                ]),
                "secret \"s\", key \"y\": Pod \"a\" is given twice",
            ),
        ];
        for (secret, wanted) in cases {
            assert_eq!(decode(&[&secret]).unwrap_err().to_string(), wanted);
        }
        let broken = "apiVersion: v1\nkind: Secret\npassword: hunter2\nother: [oops\n";
        let reported = decode(&[&secret(&[("x", broken)])]).unwrap_err().to_string();
        assert!(
            reported.starts_with("secret \"s\", key \"x\": not YAML: line "),
            "{reported}"
        );
        assert!(
            !reported.contains("hunter2") && reported.lines().count() == 1,
            "{reported}"
        );
    }

    #[test]
    fn the_checksum_distinguishes_different_splits() {
        let (a, b) = (secret(&[("ab", "c")]), secret(&[("a", "bc")]));
        assert_ne!(checksum(&[&a]), checksum(&[&b]));
        assert_eq!(checksum(&[&a]), checksum(&[&a.clone()]));
    }
}
