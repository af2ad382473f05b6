//! What an inventory looks like in `status.state`: read strictly and written in one form. Pure; it never repairs a state that
//! it does not understand, because that state may be the only place that names what exists in a cloud.

use api_meta::{Fault, RawJson};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Version of the format.
const API_VERSION: &str = "inventory.sdk.orangery.dev/v1";
/// Kind of the document.
const KIND: &str = "Inventory";
/// Resources of one object. A state goes into one object of an API server, which takes about 1.5 MB; an entry has at most
/// some 400 bytes.
pub(super) const ENTRIES_MAX: usize = 2_000;
/// Characters of a slot: it stands in every error about its resource.
const SLOT_BYTES_MAX: usize = 128;

/// One resource. Fields stand in the order in which an API server prints them, so that what is written comes back the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Entry {
    /// How often its creation may have been requested under this tag.
    pub(super) attempts: u32,
    /// Whether its removal has begun: it is never used again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) deleting: bool,
    /// The cloud's name for it; none while it is only announced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    /// When its creation was announced last, or its id was saved.
    pub(super) since: Timestamp,
    /// The author's name for it, once per object.
    pub(super) slot: String,
    /// What it is found by.
    pub(super) tag: String,
}

impl Entry {
    pub(super) fn announced(slot: &str, tag: String, now: Timestamp) -> Self {
        Self {
            attempts: 1,
            deleting: false,
            id: None,
            since: now,
            slot: slot.to_owned(),
            tag,
        }
    }
}

/// The whole state, fields in the order of [`Entry`]'s reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Document {
    api_version: String,
    kind: String,
    /// What the author stores beside the resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) own: Option<RawJson>,
    /// In the order of their first announcement.
    pub(super) resources: Vec<Entry>,
}

impl Default for Document {
    fn default() -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            own: None,
            resources: Vec::new(),
        }
    }
}

/// What is read before anything else: a document of another version may have any other fields.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Head {
    api_version: Option<String>,
    kind: Option<String>,
}

impl Document {
    /// Reads `status.state`; no state and an empty one are an empty inventory. `title`: kind and name of the object.
    ///
    /// # Errors
    /// Any other text: of another format, of another version, with unknown fields, with a slot twice. A dependency fault, so
    /// that it is tried again once the right version of the extension runs.
    pub(super) fn read(state: Option<&RawJson>, title: &str) -> Result<Self, Fault> {
        let Some(raw) = state else {
            return Ok(Self::default());
        };
        let refused = |why: String| {
            Fault::dependency(format!("status.state of {title} cannot be used: {why}")).hint(
                "run the version of the extension that has written this state, or migrate the state by hand; it is left as \
                 it is, because it names what exists in the cloud",
            )
        };
        let head: Head = raw
            .decode()
            .map_err(|_| refused("it is no inventory, but JSON of another form".to_owned()))?;
        match (head.api_version.as_deref(), head.kind.as_deref()) {
            (Some(API_VERSION), Some(KIND)) => {}
            (None, None) if raw.value().as_object().is_some_and(serde_json::Map::is_empty) => {
                return Ok(Self::default());
            }
            (version, kind) => {
                let shown = |text: Option<&str>| text.map_or("none".to_owned(), |text| format!("{text:?}"));
                return Err(refused(format!(
                    "apiVersion is {} and kind is {}; {API_VERSION:?} and {KIND:?} are understood",
                    shown(version),
                    shown(kind)
                )));
            }
        }
        let document: Self = raw.decode().map_err(|error| refused(error.to_string()))?;
        document.check().map_err(refused)?;
        Ok(document)
    }

    fn check(&self) -> Result<(), String> {
        for (at, entry) in self.resources.iter().enumerate() {
            let wrong = |what: &str| Err(format!("resources[{at}] (slot {:?}): {what}", entry.slot));
            if self.resources[..at].iter().any(|other| other.slot == entry.slot) {
                return wrong("the slot stands there twice");
            }
            if entry.tag.is_empty() {
                return wrong("tag is empty");
            }
            if entry.id.as_deref() == Some("") {
                return wrong("id is empty");
            }
        }
        Ok(())
    }

    /// The state as text.
    ///
    /// # Errors
    /// A bug: more resources than a state may name.
    pub(super) fn write(&self) -> Result<RawJson, Fault> {
        if self.resources.len() > ENTRIES_MAX {
            return Err(Fault::bug(format!(
                "an inventory has {} resources; {ENTRIES_MAX} are allowed",
                self.resources.len()
            ))
            .hint("divide the resources among several objects"));
        }
        RawJson::of(self).map_err(Fault::bug)
    }

    pub(super) fn entry(&self, slot: &str) -> Option<&Entry> {
        self.resources.iter().find(|entry| entry.slot == slot)
    }

    /// Changes the entry of a slot; nothing without one.
    pub(super) fn change(&mut self, slot: &str, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.resources.iter_mut().find(|entry| entry.slot == slot) {
            change(entry);
        }
    }

    pub(super) fn drop_entry(&mut self, slot: &str) {
        self.resources.retain(|entry| entry.slot != slot);
    }
}

/// Whether a slot may be used.
///
/// # Errors
/// A bug of the extension: it is empty, too long, or has other characters than letters, digits, `-`, `_`, `.` and `/`.
pub(super) fn check_slot(slot: &str) -> Result<(), Fault> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    if (1..=SLOT_BYTES_MAX).contains(&slot.len()) && slot.bytes().all(fits) {
        return Ok(());
    }
    let shown: String = slot.chars().take(SLOT_BYTES_MAX).collect();
    Err(Fault::bug(format!(
        "{shown:?} is no slot: 1 to {SLOT_BYTES_MAX} characters of letters, digits, -, _, . and / are allowed"
    ))
    .hint("correct Resource::slot in the extension"))
}

#[cfg(test)]
mod tests {
    use api_meta::FaultClass;

    use super::*;

    fn read(text: &str) -> Result<Document, Fault> {
        Document::read(Some(&RawJson::parse(text).unwrap()), "Infrastructure a")
    }

    fn refused(text: &str, expected: &str) {
        let fault = read(text).unwrap_err();
        assert_eq!(fault.class, FaultClass::Dependency);
        assert!(fault.to_string().contains(expected), "{fault}");
        assert!(
            fault.to_string().starts_with("status.state of Infrastructure a"),
            "{fault}"
        );
    }

    #[test]
    fn what_was_written_is_read_and_prints_its_keys_in_order() {
        let mut document = Document {
            own: Some(RawJson::parse(r#"{"a":1}"#).unwrap()),
            ..Document::default()
        };
        let mut entry = Entry::announced("vpc", "t-1".to_owned(), Timestamp::UNIX_EPOCH);
        document.resources.push(entry.clone());
        entry.slot = "subnet/a".to_owned();
        entry.id = Some("subnet-1".to_owned());
        entry.deleting = true;
        document.resources.push(entry);
        let raw = document.write().unwrap();
        assert_eq!(Document::read(Some(&raw), "x").unwrap(), document);
        // A generic value has its keys sorted, as an API server has.
        assert_eq!(raw.get(), raw.value().to_string());
    }

    #[test]
    fn a_missing_and_an_empty_state_are_empty_inventories() {
        assert_eq!(Document::read(None, "x").unwrap(), Document::default());
        assert_eq!(read("{}").unwrap(), Document::default());
    }

    #[test]
    fn another_format_another_version_and_unknown_fields_are_refused() {
        refused(r#""terraform""#, "JSON of another form");
        refused(r#"{"vpc":"v-1"}"#, "apiVersion is none and kind is none");
        refused(
            r#"{"apiVersion":"inventory.sdk.orangery.dev/v2","kind":"Inventory","resources":[],"more":1}"#,
            r#"apiVersion is "inventory.sdk.orangery.dev/v2""#,
        );
        let with = |resources: &str, more: &str| {
            format!(r#"{{"apiVersion":"{API_VERSION}","kind":"{KIND}","resources":{resources}{more}}}"#)
        };
        refused(&with("[]", r#","extra":1"#), "unknown field `extra`");
        let entry = |slot: &str, tag: &str, id: &str| {
            format!(r#"{{"slot":"{slot}","tag":"{tag}","attempts":1,"since":"2026-01-01T00:00:00Z"{id}}}"#)
        };
        refused(
            &with(&format!("[{},{}]", entry("a", "t", ""), entry("a", "u", "")), ""),
            "resources[1] (slot \"a\"): the slot stands there twice",
        );
        refused(&with(&format!("[{}]", entry("a", "", "")), ""), "tag is empty");
        refused(
            &with(&format!("[{}]", entry("a", "t", r#","id":"""#)), ""),
            "id is empty",
        );
        refused(
            &with(&format!("[{}]", entry("a", "t", r#","zone":"z""#)), ""),
            "unknown field `zone`",
        );
    }

    #[test]
    fn a_slot_with_blanks_or_without_characters_is_refused() {
        for slot in ["vpc", "subnet/zone-1_a.b", &"a".repeat(SLOT_BYTES_MAX)] {
            check_slot(slot).unwrap();
        }
        for slot in ["", "a b", "ä", &"a".repeat(SLOT_BYTES_MAX + 1)] {
            assert!(check_slot(slot).unwrap_err().to_string().contains("is no slot"));
        }
    }
}
