//! From stored entries to bytes for the client: the client's version, metadata alone, lists. It parses an object
//! only where a conversion asks for it.

use bytes::{BufMut, Bytes, BytesMut};
use cluster_store::{Entry, Object, Revision};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::registry::{Role, Served};
use crate::status::Status;

/// The object in `version`, with its resourceVersion.
pub(crate) fn object(served: &Served, version: &str, object: &Object, revision: Revision) -> Result<Bytes, Status> {
    if version == served.storage_version {
        return Ok(rendered(object, revision));
    }
    let heads = (served.head(&served.storage_version), served.head(version));
    let bytes = rendered(object, revision);
    match heads {
        // Versions of custom resources differ in nothing but the name (other conversions are refused).
        (Some(stored), Some(asked)) if served.role == Role::Custom && bytes.starts_with(stored) => {
            let mut out = BytesMut::with_capacity(bytes.len() + asked.len());
            out.put_slice(asked);
            out.put_slice(&bytes[stored.len()..]);
            Ok(out.freeze())
        }
        _ => Ok(Bytes::from(served.kind.convert(object.value(revision), version)?.to_string())),
    }
}

/// Revision 0 stands for an object that was never stored (a dry run): it shows no resourceVersion.
fn rendered(object: &Object, revision: Revision) -> Bytes {
    if revision.0 == 0 { object.bytes().clone() } else { object.render(revision) }
}

/// The object in `version` as a value.
pub(crate) fn value(served: &Served, version: &str, entry: &Entry) -> Result<Value, Status> {
    let value = entry.object.value(entry.revision);
    if version == served.storage_version { Ok(value) } else { served.kind.convert(value, version) }
}

/// `PartialObjectMetadata` of an object's bytes.
pub(crate) fn metadata(bytes: &[u8]) -> Result<Bytes, Status> {
    #[derive(Deserialize)]
    struct Whole<'a> {
        #[serde(borrow)]
        metadata: &'a RawValue,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Partial<'a> {
        kind: &'static str,
        api_version: &'static str,
        metadata: &'a RawValue,
    }
    let whole: Whole<'_> = serde_json::from_slice(bytes).map_err(Status::internal)?;
    let partial =
        Partial { kind: "PartialObjectMetadata", api_version: "meta.k8s.io/v1", metadata: whole.metadata };
    serde_json::to_vec(&partial).map(Bytes::from).map_err(Status::internal)
}

/// `metadata` of a list.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListMeta {
    pub(crate) resource_version: String,
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    pub(crate) continue_token: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remaining_item_count: Option<usize>,
}

/// Writes a list item by item.
pub(crate) struct ListWriter {
    out: BytesMut,
    empty: bool,
}

impl ListWriter {
    pub(crate) fn new(api_version: &str, kind: &str, meta: &ListMeta) -> Self {
        let meta = serde_json::to_string(meta).unwrap_or_else(|_| "{}".to_owned());
        let (kind, api_version) = (Value::from(kind), Value::from(api_version));
        let head = format!("{{\"kind\":{kind},\"apiVersion\":{api_version},\"metadata\":{meta},\"items\":[");
        Self { out: BytesMut::from(head.as_bytes()), empty: true }
    }

    /// Adds an object's bytes without the `strip` they begin with, if they do: the items of typed lists carry
    /// neither apiVersion nor kind.
    pub(crate) fn push(&mut self, bytes: &[u8], strip: Option<&Bytes>) {
        if !std::mem::replace(&mut self.empty, false) {
            self.out.put_u8(b',');
        }
        match strip.and_then(|strip| bytes.strip_prefix(&strip[..])) {
            Some(rest) => {
                self.out.put_u8(b'{');
                self.out.put_slice(rest);
            }
            None => self.out.put_slice(bytes),
        }
    }

    pub(crate) fn finish(mut self) -> Bytes {
        self.out.put_slice(b"]}");
        self.out.freeze()
    }
}

/// The list's kind for a resource's plain lists.
pub(crate) fn list_kind<'a>(served: &'a Served, version: &str) -> (String, &'a str) {
    (served.info().api_version(version), &served.info().list_kind)
}
