//! One stored object: canonical JSON bytes with a gap for the resource version, and its parsed metadata.
//!
//! Bytes are written once per write and shared by every reader; an answer to a client is two copies around the gap.
//! Canonical means sorted keys and no spaces, as kube-apiserver prints custom resources.

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};
use memchr::memchr2;
use serde::Deserialize;
use serde_json::Value;

use crate::{Revision, StoreError};

/// The longest resource version: a u64 has 20 digits.
const REVISION_DIGITS_MAX: usize = 20;
const RESOURCE_VERSION: &str = "resourceVersion";
/// How deep a stored object may be nested, its managed fields included. Readers stop at 128 levels, and an object is
/// read inside lists, watch events and other objects too.
pub const DEPTH_MAX: usize = 100;
/// How deep the parser reads.
const READABLE_DEPTH_MAX: usize = 127;

/// An owner reference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Owner {
    /// Group and version of the owner's kind.
    pub api_version: String,
    /// The owner's kind.
    pub kind: String,
    /// The owner's name, in the same namespace or cluster-scoped.
    pub name: String,
    /// The owner's uid; an owner of the same name and another uid is another owner.
    pub uid: String,
    /// Whether this owner is the managing controller.
    pub controller: Option<bool>,
    /// Whether foreground deletion of the owner waits for this object.
    pub block_owner_deletion: Option<bool>,
}

/// The part of `metadata` that servers need without reading the whole object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    /// The name.
    pub name: String,
    /// The namespace; none of cluster-scoped objects.
    pub namespace: Option<String>,
    /// The uid.
    pub uid: String,
    /// The generation; 0 where the kind has none.
    pub generation: i64,
    /// The labels.
    #[serde(deserialize_with = "null_as_empty")]
    pub labels: BTreeMap<String, String>,
    /// The owner references.
    #[serde(deserialize_with = "null_as_empty")]
    pub owner_references: Vec<Owner>,
    /// The finalizers.
    #[serde(deserialize_with = "null_as_empty")]
    pub finalizers: Vec<String>,
    /// RFC 3339, as written.
    pub creation_timestamp: Option<String>,
    /// RFC 3339, as written; set while the object waits for its finalizers.
    pub deletion_timestamp: Option<String>,
}

impl Meta {
    /// Without room to grow: objects stay for long and there are many.
    fn shrunk(mut self) -> Self {
        self.owner_references.shrink_to_fit();
        self.finalizers.shrink_to_fit();
        self
    }
}

/// The part of an object's bytes that is parsed when they are loaded.
#[derive(Deserialize)]
struct Stored {
    metadata: Meta,
}

fn null_as_empty<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// An object as a store holds it.
#[derive(Clone, PartialEq)]
pub struct Object {
    meta: Meta,
    bytes: Bytes,
    /// Where `"resourceVersion":"N"` belongs.
    gap: Gap,
}

/// The place in the bytes where the resource version is spliced in, in key order.
#[derive(Clone, Copy, PartialEq)]
struct Gap {
    at: usize,
    comma: Comma,
}

#[derive(Clone, Copy, PartialEq)]
enum Comma {
    Before,
    After,
    None,
}

impl std::fmt::Debug for Object {
    /// Names the object without its content, which may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Meta {
            name,
            namespace,
            generation,
            ..
        } = &self.meta;
        f.debug_struct("Object")
            .field("namespace", namespace)
            .field("name", name)
            .field("generation", generation)
            .field("bytes", &self.bytes.len())
            .finish()
    }
}

impl Object {
    /// The stored form of a JSON object; a resource version in it is dropped.
    ///
    /// Errors: [`StoreError::Malformed`] when it is not an object, is nested deeper than [`DEPTH_MAX`], or its metadata
    /// has fields of other types than Kubernetes gives them.
    pub fn from_value(mut value: Value) -> Result<Self, StoreError> {
        let Some(fields) = value.as_object_mut() else {
            return Err(StoreError::Malformed("it is not a JSON object".to_owned()));
        };
        let metadata = fields
            .entry("metadata")
            .or_insert_with(|| Value::Object(serde_json::Map::new()));
        let Some(metadata) = metadata.as_object_mut() else {
            return Err(StoreError::Malformed("metadata is not a JSON object".to_owned()));
        };
        metadata.remove(RESOURCE_VERSION);
        let meta = Meta::deserialize(&fields["metadata"])
            .map_err(|error| StoreError::Malformed(format!("metadata: {error}")))?
            .shrunk();
        let (bytes, gap) = print(fields);
        let depth = depth(&bytes);
        if depth > DEPTH_MAX {
            return Err(StoreError::Malformed(format!(
                "it is nested {depth} levels deep with its managed fields, at most {DEPTH_MAX} are allowed"
            )));
        }
        Ok(Object { meta, bytes, gap })
    }

    /// An object with nothing in it, as a placeholder.
    pub(crate) fn empty() -> Self {
        let mut fields = serde_json::Map::new();
        fields.insert("metadata".to_owned(), Value::Object(serde_json::Map::new()));
        let (bytes, gap) = print(&fields);
        Object {
            meta: Meta::default(),
            bytes,
            gap,
        }
    }

    /// Reads back what [`Object::bytes`] returned, for backends that store bytes elsewhere. Errors as
    /// [`Object::from_value`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StoreError> {
        let value = serde_json::from_slice(bytes).map_err(|error| StoreError::Malformed(error.to_string()))?;
        Object::from_value(value)
    }

    /// The stored form of the results of [`Object::bytes`] and [`Object::gap`]: only metadata is
    /// read, nothing is printed again. Errors: [`StoreError::Malformed`] when the bytes are not such an object or the
    /// place does not lie in them.
    pub(crate) fn from_stored(bytes: Bytes, (at, comma): (u32, u8)) -> Result<Self, StoreError> {
        let stored: Stored =
            serde_json::from_slice(&bytes).map_err(|error| StoreError::Malformed(error.to_string()))?;
        let comma = match comma {
            0 => Comma::None,
            1 => Comma::Before,
            2 => Comma::After,
            other => return Err(StoreError::Malformed(format!("{other} names no comma"))),
        };
        let at = at as usize;
        if at > bytes.len() {
            return Err(StoreError::Malformed(format!("the gap is at {at} of {}", bytes.len())));
        }
        if depth(&bytes) > READABLE_DEPTH_MAX {
            return Err(StoreError::Malformed("it is nested too deep to be read".to_owned()));
        }
        Ok(Object {
            meta: stored.metadata.shrunk(),
            bytes,
            gap: Gap { at, comma },
        })
    }

    /// Where the resource version belongs, as two numbers to be stored beside the bytes. Errors:
    /// [`StoreError::Malformed`] when the object is larger than 4 GiB.
    pub(crate) fn gap(&self) -> Result<(u32, u8), StoreError> {
        let at = u32::try_from(self.gap.at)
            .map_err(|_| StoreError::Malformed(format!("it has {} bytes, at most 4 GiB", self.bytes.len())))?;
        let comma = match self.gap.comma {
            Comma::None => 0,
            Comma::Before => 1,
            Comma::After => 2,
        };
        Ok((at, comma))
    }

    /// The parsed metadata.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The canonical bytes, without a resource version.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The canonical bytes with `metadata.resourceVersion` set.
    pub fn render(&self, revision: Revision) -> Bytes {
        let mut out = BytesMut::with_capacity(self.rendered_len_max());
        self.render_into(revision, &mut out);
        out.freeze()
    }

    /// As [`Object::render`], appended to a buffer.
    pub fn render_into(&self, revision: Revision, out: &mut BytesMut) {
        out.reserve(self.rendered_len_max());
        out.put_slice(&self.bytes[..self.gap.at]);
        if self.gap.comma == Comma::Before {
            out.put_u8(b',');
        }
        out.put_slice(b"\"resourceVersion\":\"");
        out.put_slice(revision.0.to_string().as_bytes());
        out.put_u8(b'"');
        if self.gap.comma == Comma::After {
            out.put_u8(b',');
        }
        out.put_slice(&self.bytes[self.gap.at..]);
    }

    /// The object as a value with `metadata.resourceVersion` set.
    pub fn value(&self, revision: Revision) -> Value {
        let mut value: Value = serde_json::from_slice(&self.bytes).expect("the bytes are JSON of a depth that is read");
        value["metadata"][RESOURCE_VERSION] = Value::String(revision.to_string());
        value
    }

    /// The object's content without resource version, parsed into a type.
    pub fn parse<T: serde::de::DeserializeOwned>(&self) -> Result<T, StoreError> {
        serde_json::from_slice(&self.bytes).map_err(|error| StoreError::Malformed(error.to_string()))
    }

    fn rendered_len_max(&self) -> usize {
        self.bytes.len() + RESOURCE_VERSION.len() + REVISION_DIGITS_MAX + r#""":"","#.len()
    }
}

/// How deep objects and lists are nested in JSON.
fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut rest = json;
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        match byte {
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => rest = after_string(rest),
            _ => {}
        }
    }
    deepest
}

/// What follows the string in which these bytes begin.
fn after_string(mut rest: &[u8]) -> &[u8] {
    while let Some(at) = memchr2(b'"', b'\\', rest) {
        if rest[at] == b'"' {
            return &rest[at + 1..];
        }
        // An escaped character does not end it.
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    &[]
}

/// Prints sorted and compact, remembering where in `metadata` the resource version belongs.
fn print(fields: &serde_json::Map<String, Value>) -> (Bytes, Gap) {
    let mut out = Vec::new();
    let mut gap = Gap {
        at: 0,
        comma: Comma::None,
    };
    out.push(b'{');
    for (position, (key, value)) in fields.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        print_value(&mut out, key);
        out.push(b':');
        match value {
            Value::Object(metadata) if key == "metadata" => gap = print_metadata(&mut out, metadata),
            other => print_value(&mut out, other),
        }
    }
    out.push(b'}');
    // Up to half the capacity of a vector that grew is unused.
    (Bytes::from(out.into_boxed_slice()), gap)
}

fn print_metadata(out: &mut Vec<u8>, metadata: &serde_json::Map<String, Value>) -> Gap {
    let mut gap = None;
    out.push(b'{');
    for (position, (key, value)) in metadata.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        if gap.is_none() && key.as_str() > RESOURCE_VERSION {
            gap = Some(Gap {
                at: out.len(),
                comma: Comma::After,
            });
        }
        print_value(out, key);
        out.push(b':');
        print_value(out, value);
    }
    let comma = if metadata.is_empty() {
        Comma::None
    } else {
        Comma::Before
    };
    let gap = gap.unwrap_or(Gap { at: out.len(), comma });
    out.push(b'}');
    gap
}

fn print_value<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value).expect("a JSON value prints into memory");
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn resource_version_is_spliced_in_key_order_wherever_it_belongs() {
        for metadata in [
            json!({}),
            json!({"name": "a"}),
            json!({"uid": "u"}),
            json!({"name": "a", "uid": "u"}),
            json!({"annotations": {"resourceVersion": "\"}"}, "name": "\",\"metadata\":{", "selfLink": "", "zzz": null}),
            json!({"resourceVersion": "7", "resourceVersio": 1, "resourceVersionX": 2}),
        ] {
            let mut value = json!({"apiVersion": "v1", "data": {"metadata": {"name": 1}}, "metadata": metadata, "z": [1.5, 9007199254740993u64]});
            if let Some(name) = value["metadata"].get("name").and_then(Value::as_str) {
                assert!(!name.is_empty());
            }
            let object = Object::from_value(value.clone()).expect("sound");
            value["metadata"]["resourceVersion"] = json!("18446744073709551615");
            let rendered = object.render(Revision(u64::MAX));
            assert_eq!(std::str::from_utf8(&rendered).unwrap(), value.to_string());
            assert!(rendered.len() <= object.rendered_len_max());
            assert_eq!(object.value(Revision(u64::MAX)), value);
            assert_eq!(
                Object::from_bytes(&rendered).unwrap(),
                object,
                "reading back drops the resource version"
            );
        }
    }

    #[test]
    fn object_that_is_nested_too_deep_is_refused() {
        let nested = |levels: usize| {
            let mut value = json!({"text": "[[[{{\\\"{["});
            for _ in 0..levels {
                value = json!([value]);
            }
            Object::from_value(json!({"metadata": {"name": "a"}, "spec": value}))
        };
        let deepest = nested(DEPTH_MAX - 2).unwrap();
        assert_eq!(Object::from_bytes(deepest.bytes()).unwrap(), deepest);
        let error = nested(DEPTH_MAX - 1).unwrap_err().to_string();
        assert!(error.contains("101 levels deep"), "{error}");
        assert!(error.contains("at most 100"), "{error}");
        assert!(nested(150).is_err());
    }

    #[test]
    fn metadata_of_wrong_types_is_refused_and_null_is_empty() {
        assert!(Object::from_value(json!([])).is_err());
        assert!(Object::from_value(json!({"metadata": []})).is_err());
        assert!(Object::from_value(json!({"metadata": {"labels": {"a": 1}}})).is_err());
        let object = Object::from_value(json!({"metadata": {"labels": null, "finalizers": null}})).unwrap();
        assert_eq!(object.meta(), &Meta::default());
    }

    #[test]
    fn debug_never_shows_content() {
        let secret = json!({"metadata": {"name": "s"}, "data": {"password": "aHVudGVyMg=="}});
        let shown = format!("{:?}", Object::from_value(secret).unwrap());
        assert!(!shown.contains("aHVudGVyMg"), "{shown}");
    }
}
