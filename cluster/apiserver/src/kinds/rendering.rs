//! From stored entries to bytes for the client: the client's version, metadata alone, lists. It parses an object
//! only where a conversion needs it.

use bytes::{BufMut, Bytes, BytesMut};
use cluster_store::{Entry, Object, Revision};
use memchr::memchr2;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::kinds::custom::CustomKind;
use crate::kinds::kind::Kind;
use crate::kinds::registry::Served;
use crate::wire::negotiation::Meta;
use crate::wire::status::Status;

/// The object in `version`, with its resourceVersion.
pub(crate) fn object(served: &Served, version: &str, object: &Object, revision: Revision) -> Result<Bytes, Status> {
    match is_shown_as_stored(served, version, object, revision) {
        true => Ok(rendered(object, revision)),
        false => render_converted(served, version, object, revision),
    }
}

/// As [`object`], where `version` does not show the stored bytes.
fn render_converted(served: &Served, version: &str, object: &Object, revision: Revision) -> Result<Bytes, Status> {
    if let Some(custom) = &served.custom {
        return of_custom(served, custom, version, object, revision);
    }
    if is_older(served, revision) {
        return Ok(Bytes::from(
            in_version(served, version, object.value(revision), revision)?.to_string(),
        ));
    }
    let heads = (served.head(&served.storage_version), served.head(version));
    let bytes = rendered(object, revision);
    match heads {
        (Some(stored), Some(requested))
            if served.kind.same_shape(&served.storage_version, version) && bytes.starts_with(stored) =>
        {
            let mut out = BytesMut::with_capacity(bytes.len() + requested.len());
            out.put_slice(requested);
            out.put_slice(&bytes[stored.len()..]);
            Ok(out.freeze())
        }
        _ => Ok(Bytes::from(
            served
                .kind
                .convert(value_as_rendered(object, revision), version)?
                .to_string(),
        )),
    }
}

/// Whether `version` shows the stored bytes, with a resourceVersion in them.
fn is_shown_as_stored(served: &Served, version: &str, object: &Object, revision: Revision) -> bool {
    match &served.custom {
        Some(custom) => {
            let begins = || {
                served
                    .head(version)
                    .is_some_and(|head| object.bytes().starts_with(head))
            };
            begins() && !(is_older(served, revision) && custom.converter().is_none())
        }
        None => version == served.storage_version && !is_older(served, revision),
    }
}

/// Whether the object was stored before the kind got the fields it has.
fn is_older(served: &Served, revision: Revision) -> bool {
    revision < served.as_of && revision.0 > 0
}

/// A custom resource may be stored in a former storage version, which its bytes name.
fn of_custom(
    served: &Served,
    custom: &CustomKind,
    version: &str,
    object: &Object,
    revision: Revision,
) -> Result<Bytes, Status> {
    let old = is_older(served, revision) && custom.converter().is_none();
    let begins = |version: &str| served.head(version).filter(|head| object.bytes().starts_with(head));
    let mut versions = custom.resource().versions.iter().map(|version| version.name.as_ref());
    let alike = versions.find_map(|other| begins(other).filter(|_| custom.same_shape(other, version)));
    if let (Some(stored), Some(requested), false) = (alike, served.head(version), old) {
        let bytes = rendered(object, revision);
        let mut out = BytesMut::with_capacity(bytes.len() + requested.len());
        out.put_slice(requested);
        out.put_slice(&bytes[stored.len()..]);
        return Ok(out.freeze());
    }
    let value = value_as_rendered(object, revision);
    Ok(Bytes::from(in_version(served, version, value, revision)?.to_string()))
}

/// As [`rendered`], as a value.
fn value_as_rendered(object: &Object, revision: Revision) -> Value {
    let mut value = object.value(revision);
    if revision.0 == 0
        && let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut)
    {
        metadata.remove("resourceVersion");
    }
    value
}

/// Revision 0 stands for an object that was never stored (a dry run): it shows no resourceVersion.
fn rendered(object: &Object, revision: Revision) -> Bytes {
    if revision.0 == 0 {
        object.bytes().clone()
    } else {
        object.render(revision)
    }
}

/// The object in `version` as a value.
pub(crate) fn value(served: &Served, version: &str, entry: &Entry) -> Result<Value, Status> {
    in_version(served, version, entry.object.value(entry.revision), entry.revision)
}

fn in_version(served: &Served, version: &str, mut value: Value, revision: Revision) -> Result<Value, Status> {
    let stored = served.custom.as_ref().and_then(|custom| custom.version_of(&value));
    let stored = stored.unwrap_or_else(|| served.storage_version.clone());
    // Objects from a webhook are up to date.
    if revision < served.as_of && served.converter().is_none() {
        served.kind.refresh(&stored, &mut value);
    }
    if version == stored {
        Ok(value)
    } else {
        served.kind.convert(value, version)
    }
}

/// `PartialObjectMetadata` of an object's bytes.
pub(crate) fn metadata(bytes: &[u8], meta: Meta) -> Result<Bytes, Status> {
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
    let partial = Partial {
        kind: "PartialObjectMetadata",
        api_version: meta.api_version(),
        metadata: whole.metadata,
    };
    serde_json::to_vec(&partial).map(Bytes::from).map_err(Status::internal)
}

/// `metadata` of a list.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListMeta {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) resource_version: String,
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    pub(crate) continue_token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remaining_item_count: Option<usize>,
}

impl ListMeta {
    /// With an empty token where there is none, if `always`.
    pub(crate) fn with_continue(&self, always: bool) -> Self {
        let mut meta = self.clone();
        if always {
            meta.continue_token.get_or_insert_default();
        }
        meta
    }
}

/// Writes a list item by item.
pub(crate) struct ListWriter {
    out: BytesMut,
    empty: bool,
}

impl ListWriter {
    /// With room for items of so many bytes.
    pub(crate) fn new(api_version: &str, kind: &str, meta: &ListMeta, room: usize) -> Self {
        let meta = serde_json::to_string(meta).unwrap_or_else(|_| "{}".to_owned());
        let (kind, api_version) = (Value::from(kind), Value::from(api_version));
        let head = format!("{{\"kind\":{kind},\"apiVersion\":{api_version},\"metadata\":{meta},\"items\":[");
        let mut out = BytesMut::with_capacity(head.len() + room + "]}".len());
        out.put_slice(head.as_bytes());
        Self { out, empty: true }
    }

    /// Adds an object's bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.separate();
        self.out.put_slice(bytes);
    }

    /// Adds an object in `version`, without apiVersion and kind if the list is `typed`: its items carry neither.
    pub(crate) fn push_object(
        &mut self,
        (served, version): (&Served, &str),
        entry: &Entry,
        typed: bool,
    ) -> Result<(), Status> {
        self.separate();
        let start = self.out.len();
        // Most objects are shown as they are stored, and are copied once: into the list.
        let is_stored = entry.revision.0 > 0;
        match is_shown_as_stored(served, version, &entry.object, entry.revision) {
            true if is_stored => entry.object.render_into(entry.revision, &mut self.out),
            true => self.out.put_slice(entry.object.bytes()),
            false => {
                let bytes = render_converted(served, version, &entry.object, entry.revision)?;
                self.out.put_slice(&bytes);
            }
        }
        if typed {
            self.drop_type(start);
        }
        Ok(())
    }

    /// Takes apiVersion and kind from the item that begins at `start`.
    fn drop_type(&mut self, start: usize) {
        let item = &mut self.out[start..];
        let spans = type_spans(item);
        let starts = spans.iter().skip(1).map(|span| span.start).chain([item.len()]);
        let Some(mut to) = spans.first().map(|span| span.start) else {
            return;
        };
        for (span, next) in spans.iter().zip(starts) {
            item.copy_within(span.end..next, to);
            to += next - span.end;
        }
        self.out.truncate(start + to);
    }

    fn separate(&mut self) {
        if !std::mem::replace(&mut self.empty, false) {
            self.out.put_u8(b',');
        }
    }

    /// A list of nothing, as Go writes one that was never filled.
    pub(crate) fn finish_with_null(mut self) -> Bytes {
        self.out.truncate(self.out.len() - 1);
        self.out.put_slice(b"null}");
        self.out.freeze()
    }

    pub(crate) fn finish(mut self) -> Bytes {
        self.out.put_slice(b"]}");
        self.out.freeze()
    }
}

/// Where the top-level `"apiVersion":"...",` and `"kind":"...",` stand in canonical bytes. Both are texts and neither
/// is the last key: `metadata` sorts behind them.
fn type_spans(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    const KEYS: [&[u8]; 2] = [b"\"apiVersion\":\"", b"\"kind\":\""];
    let (mut spans, mut depth, mut at) = (Vec::new(), 0_usize, 0);
    while at < bytes.len() && spans.len() < KEYS.len() {
        match bytes[at] {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let key = (depth == 1)
                    .then(|| KEYS.iter().find(|key| bytes[at..].starts_with(key)))
                    .flatten();
                let start = at;
                // Over the key to its value's opening quote, or over a text of no interest.
                at = key.map_or(at, |key| at + key.len() - 1);
                at = end_of_text(bytes, at);
                if key.is_some() && bytes.get(at + 1) == Some(&b',') {
                    at += 1;
                    spans.push(start..at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
    spans
}

/// The closing quote of the text that opens at `at`.
fn end_of_text(bytes: &[u8], at: usize) -> usize {
    let mut here = at + 1;
    while let Some(found) = bytes.get(here..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        here += found;
        if bytes[here] == b'"' {
            return here;
        }
        // What stands behind a backslash does not end it.
        here += 2;
    }
    bytes.len()
}

/// The list's kind for a resource's plain lists.
pub(crate) fn list_kind<'a>(served: &'a Served, version: &str) -> (String, &'a str) {
    (served.info().api_version(version), &served.info().list_kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_lose_their_type_wherever_it_stands_and_nothing_else() {
        let untyped = |text: &str| {
            let mut writer = ListWriter::new("v1", "List", &ListMeta::default(), 0);
            writer.push(text.as_bytes());
            writer.drop_type(writer.out.len() - text.len());
            let list: Value = serde_json::from_slice(&writer.finish()).unwrap();
            list["items"][0].clone()
        };
        let texts = [
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"kind":"x"}}"#,
            r#"{"action":"\"kind\":\"a\",","apiVersion":"v1","data":{"kind":"z","apiVersion":"\\"},"kind":"ConfigMap","metadata":{}}"#,
            r#"{"apiVersion":"v1","kind":1,"metadata":{}}"#,
            r#"{"apiVersion":"v1","data":{"a":"\\\\\"","b":"\"kind\":\"x\",\\"},"kind":"Secret","metadata":{}}"#,
        ];
        for text in texts {
            let mut expected: Value = serde_json::from_str(text).unwrap();
            let fields = expected.as_object_mut().unwrap();
            fields.remove("apiVersion");
            if fields["kind"].is_string() {
                fields.remove("kind");
            }
            assert_eq!(untyped(text), expected);
        }
    }
}
