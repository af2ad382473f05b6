//! How one write is encoded in the file: with a checksum of its own, because the database underneath checks its
//! pages when it opens but not while it copies them. Plain functions: no files, no store.
//!
//! A row is: kind (1), checksum (4), previous revision (8, 0: none), gap (4) and its comma (1), the lengths of
//! resource, namespace (all ones: none) and name (4 each), these three texts, the object's bytes (of a deletion: none).
//! All numbers are little-endian. The checksum is CRC-32 over the row's revision and everything else in the row.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;

use crate::write::{Decided, DecidedKind};
use crate::{Entry, Key, Object, Revision, StoreError};

const PUT: u8 = 1;
const DELETE: u8 = 2;
const CHECKSUM_AT: std::ops::Range<usize> = 1..5;
const NO_NAMESPACE: u32 = u32::MAX;

/// Appends the row of a write. Errors: [`StoreError::Malformed`] when something in it is larger than 4 GiB.
pub(super) fn encode(decided: &Decided, out: &mut Vec<u8>) -> Result<(), StoreError> {
    let start = out.len();
    let Key {
        resource,
        namespace,
        name,
    } = &decided.entry.key;
    let (kind, gap, body) = match decided.kind {
        DecidedKind::Put => (PUT, decided.entry.object.gap()?, decided.entry.object.bytes().as_ref()),
        DecidedKind::Delete => (DELETE, (0, 0), [].as_slice()),
    };
    out.reserve(64 + resource.len() + name.len() + body.len());
    out.push(kind);
    out.extend([0; 4]);
    out.extend(decided.previous.map_or(0, |previous| previous.0).to_le_bytes());
    out.extend(gap.0.to_le_bytes());
    out.push(gap.1);
    out.extend(length(resource)?.to_le_bytes());
    let namespace_length = match namespace {
        Some(namespace) => length(namespace)?,
        None => NO_NAMESPACE,
    };
    out.extend(namespace_length.to_le_bytes());
    out.extend(length(name)?.to_le_bytes());
    out.extend(resource.as_bytes());
    out.extend(namespace.as_deref().unwrap_or("").as_bytes());
    out.extend(name.as_bytes());
    out.extend(body);
    let row = &mut out[start..];
    let checksum = checksum(decided.entry.revision, row).to_le_bytes();
    row[CHECKSUM_AT].copy_from_slice(&checksum);
    Ok(())
}

fn length(text: &str) -> Result<u32, StoreError> {
    u32::try_from(text.len())
        .ok()
        .filter(|length| *length != NO_NAMESPACE)
        .ok_or_else(|| StoreError::Malformed(format!("a part of its key has {} bytes, at most 4 GiB", text.len())))
}

/// Over everything but the checksum itself.
fn checksum(revision: Revision, row: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&revision.0.to_le_bytes());
    hasher.update(&row[..CHECKSUM_AT.start]);
    hasher.update(&row[CHECKSUM_AT.end..]);
    hasher.finalize()
}

/// Decodes rows; texts that thousands of keys share are stored once.
#[derive(Default)]
pub(super) struct Reader {
    texts: HashSet<Arc<str>>,
}

impl Reader {
    /// The write that left this row. A deletion's entry has an empty object: the last state is in an earlier row.
    /// Errors: what is wrong with the row.
    pub(super) fn decode(&mut self, revision: Revision, row: &[u8]) -> Result<Decided, String> {
        let mut rest = Rest(row);
        let kind = match rest.array::<1>()? {
            [PUT] => DecidedKind::Put,
            [DELETE] => DecidedKind::Delete,
            [other] => return Err(format!("{other} is no kind of row")),
        };
        let stored = u32::from_le_bytes(rest.array()?);
        let counted = checksum(revision, row);
        if stored != counted {
            return Err(format!(
                "the row's checksum is {counted:08x}, it should be {stored:08x}"
            ));
        }
        let previous = u64::from_le_bytes(rest.array()?);
        let gap = (u32::from_le_bytes(rest.array()?), u8::from_le_bytes(rest.array()?));
        let resource_length = u32::from_le_bytes(rest.array()?);
        let namespace_length = u32::from_le_bytes(rest.array()?);
        let name_length = u32::from_le_bytes(rest.array()?);
        let resource = rest.text(resource_length)?;
        let namespace = match namespace_length {
            NO_NAMESPACE => None,
            length => Some(rest.text(length)?),
        };
        let name = rest.text(name_length)?;
        let object = match kind {
            DecidedKind::Put => Object::from_stored(Bytes::copy_from_slice(rest.0), gap),
            DecidedKind::Delete => Object::from_value(serde_json::json!({})),
        };
        let object = object.map_err(|error| error.to_string())?;
        let key = Key {
            resource: self.shared(resource),
            namespace: namespace.map(|namespace| self.shared(namespace)),
            name: name.into(),
        };
        Ok(Decided {
            kind,
            entry: Entry {
                key,
                revision,
                object: Arc::new(object),
            },
            previous: (previous > 0).then_some(Revision(previous)),
        })
    }

    fn shared(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let text = Arc::<str>::from(text);
        self.texts.insert(text.clone());
        text
    }
}

/// What has not been read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let Some((taken, rest)) = self.0.split_at_checked(length) else {
            return Err(format!("the row ends {} bytes too early", length - self.0.len()));
        };
        self.0 = rest;
        Ok(taken)
    }

    fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], String> {
        let taken = self.take(LENGTH)?;
        taken.try_into().map_err(|_| "the row ends too early".to_owned())
    }

    fn text(&mut self, length: u32) -> Result<&'a str, String> {
        let taken = self.take(length as usize)?;
        std::str::from_utf8(taken).map_err(|error| format!("the key is no text: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(kind: DecidedKind, namespace: Option<&str>, previous: Option<Revision>) -> (Decided, Vec<u8>) {
        let object = Object::from_value(json!({"metadata": {"name": "x", "uid": "u"}, "spec": [1, "ü"]})).unwrap();
        let decided = Decided {
            kind,
            entry: Entry {
                key: Key::new("apps/deployments", namespace, "x"),
                revision: Revision(300),
                object: Arc::new(object),
            },
            previous,
        };
        let mut bytes = Vec::new();
        encode(&decided, &mut bytes).unwrap();
        (decided, bytes)
    }

    #[test]
    fn a_row_is_read_back_unchanged() {
        for (namespace, previous) in [(None, None), (Some("n"), Some(Revision(7))), (Some(""), None)] {
            let (written, bytes) = row(DecidedKind::Put, namespace, previous);
            let read = Reader::default().decode(Revision(300), &bytes).unwrap();
            assert_eq!(read.entry, written.entry);
            assert_eq!((read.kind, read.previous), (written.kind, written.previous));
            assert_eq!(
                read.entry.object.render(Revision(300)),
                written.entry.object.render(Revision(300))
            );
        }
        let (written, bytes) = row(DecidedKind::Delete, Some("n"), Some(Revision(299)));
        let read = Reader::default().decode(Revision(300), &bytes).unwrap();
        assert_eq!((read.kind, &read.entry.key), (DecidedKind::Delete, &written.entry.key));
        assert_eq!(read.previous, written.previous);
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let (_, bytes) = row(DecidedKind::Put, Some("n"), Some(Revision(7)));
        for place in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[place] ^= 1 << bit;
                assert!(
                    Reader::default().decode(Revision(300), &damaged).is_err(),
                    "bit {bit} of byte {place}"
                );
            }
            assert!(Reader::default().decode(Revision(300), &bytes[..place]).is_err());
        }
        assert!(
            Reader::default().decode(Revision(301), &bytes).is_err(),
            "a row belongs to its revision"
        );
    }
}
