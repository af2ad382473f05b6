//! Reads the fields of an object one by one: what has the wrong type is noted, what no call reads is unknown. The same calls
//! describe the fields for the reference page.

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use api_meta::GoDuration;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::Described;

/// Longest text of a wrong value in a message, in characters.
const SHOWN_MAX: usize = 60;

/// A value that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path of the field.
    pub path: String,
    /// What stands there, as JSON.
    pub value: String,
    /// What is allowed.
    pub allowed: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, value, allowed } = self;
        let path = if path.is_empty() { "the document" } else { path };
        write!(f, "{path} is {value}, allowed is {allowed}")
    }
}

/// What is found on the way through a document.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) problems: Vec<Problem>,
    pub(crate) unknown: Vec<String>,
    pub(crate) without_effect: Vec<String>,
    pub(crate) described: Vec<Described>,
}

/// The form of a field that has no effect here: its type is checked all the same.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    Flag,
    Whole,
    Number,
    Text,
    Span,
    Object,
    List,
}

impl Form {
    fn allowed(self) -> &'static str {
        match self {
            Self::Flag => FLAG,
            Self::Whole => "a whole number",
            Self::Number => "a number",
            Self::Text => TEXT,
            Self::Span => SPAN,
            Self::Object => OBJECT,
            Self::List => LIST,
        }
    }

    fn is(self, value: &Value) -> bool {
        match self {
            Self::Flag => value.is_boolean(),
            Self::Whole => value.is_i64() || value.is_u64(),
            Self::Number => value.is_number(),
            Self::Text => value.is_string(),
            Self::Span => value.as_str().is_some_and(|text| GoDuration::from_str(text).is_ok()),
            Self::Object => value.is_object(),
            Self::List => value.is_array(),
        }
    }
}

const FLAG: &str = "true or false";
const TEXT: &str = "a text";
const SPAN: &str = "a duration such as 30s, 5m or 1h30m";
const OBJECT: &str = "an object";
const LIST: &str = "a list";

/// The object at a path, and what is left of it.
#[doc(hidden)]
pub struct Fields<'a> {
    path: String,
    object: Map<String, Value>,
    notes: &'a mut Notes,
}

impl<'a> Fields<'a> {
    pub(crate) fn whole<T>(document: Value, notes: &'a mut Notes, read: impl FnOnce(&mut Fields<'_>) -> T) -> T {
        Self::within(String::new(), document, notes, read)
    }

    fn within<T>(path: String, value: Value, notes: &mut Notes, read: impl FnOnce(&mut Fields<'_>) -> T) -> T {
        let object = match value {
            Value::Object(object) => object,
            Value::Null => Map::new(),
            other => {
                notes.problems.push(problem(path.clone(), &other, OBJECT));
                Map::new()
            }
        };
        let mut fields = Fields { path, object, notes };
        let result = read(&mut fields);
        let left: Vec<String> = fields.object.keys().map(|name| fields.at(name)).collect();
        notes.unknown.extend(left);
        result
    }

    fn at(&self, name: &str) -> String {
        match self.path.is_empty() {
            true => name.to_owned(),
            false => format!("{}.{name}", self.path),
        }
    }

    /// Takes a field away; null counts as absent, as in Kubernetes' API.
    fn take(&mut self, name: &str) -> Option<Value> {
        self.object.remove(name).filter(|value| !value.is_null())
    }

    fn describe(&mut self, name: &str, allowed: &str, default: impl fmt::Display, purpose: &'static str) {
        let (path, default) = (self.at(name), default.to_string());
        let allowed = allowed.to_owned();
        self.notes.described.push(Described {
            path,
            allowed,
            default,
            purpose,
        });
    }

    pub(crate) fn refuse(&mut self, name: &str, value: &Value, allowed: &str) {
        let path = self.at(name);
        self.notes.problems.push(problem(path, value, allowed));
    }

    /// A field that is present, if `parse` takes it.
    fn parsed<T>(&mut self, name: &str, allowed: &str, parse: impl FnOnce(&Value) -> Option<T>) -> Option<T> {
        let value = self.take(name)?;
        let found = parse(&value);
        if found.is_none() {
            self.refuse(name, &value, allowed);
        }
        found
    }

    /// One that has a single value.
    pub(crate) fn fixed(&mut self, name: &str, only: &str) {
        let found = self.take(name).unwrap_or(Value::Null);
        if found != *only {
            self.refuse(name, &found, only);
        }
    }

    /// A text, empty when absent.
    pub(crate) fn text(&mut self, name: &str, default: &str, purpose: &'static str) -> String {
        self.describe(name, TEXT, default, purpose);
        let found = self.parsed(name, TEXT, |value| value.as_str().map(str::to_owned));
        found
            .filter(|text| !text.is_empty())
            .unwrap_or_else(|| default.to_owned())
    }

    /// A text; nothing when absent or empty.
    pub(crate) fn optional_text(&mut self, name: &str, purpose: &'static str) -> Option<String> {
        Some(self.text(name, "", purpose)).filter(|text| !text.is_empty())
    }

    pub(crate) fn flag(&mut self, name: &str, default: bool, purpose: &'static str) -> bool {
        self.describe(name, FLAG, default, purpose);
        self.parsed(name, FLAG, Value::as_bool).unwrap_or(default)
    }

    /// A whole number in this range; zero counts as absent where the range begins above it, as in Gardener's defaults.
    pub(crate) fn count(&mut self, name: &str, range: RangeInclusive<u64>, default: u64, purpose: &'static str) -> u64 {
        let allowed = format!("a whole number from {} to {}", range.start(), range.end());
        self.describe(name, &allowed, default, purpose);
        if self.object.get(name).and_then(Value::as_u64) == Some(0) && *range.start() > 0 {
            self.object.remove(name);
        }
        let found = self.parsed(name, &allowed, |value| {
            value.as_u64().filter(|count| range.contains(count))
        });
        found.unwrap_or(default)
    }

    /// A duration of at least nothing. In the reference, no default is shown for none.
    pub(crate) fn span(&mut self, name: &str, default: Duration, purpose: &'static str) -> Duration {
        self.describe(name, SPAN, GoDuration::from(default), purpose);
        let found = self.parsed(name, SPAN, |value| {
            let span = GoDuration::from_str(value.as_str()?).ok()?;
            (span.as_nanos() >= 0).then(|| span.to_std())
        });
        found.unwrap_or(default)
    }

    /// An IP address, or nothing for all addresses of the machine.
    pub(crate) fn address(&mut self, name: &str, purpose: &'static str) -> Option<IpAddr> {
        const ALLOWED: &str = "an IP address";
        self.describe(name, ALLOWED, "", purpose);
        self.parsed(name, ALLOWED, |value| match value.as_str()? {
            "" => Some(None),
            text => text.parse().ok().map(Some),
        })
        .flatten()
    }

    /// One of a few words.
    pub(crate) fn choice<T: Copy>(
        &mut self,
        name: &str,
        words: &[(&'static str, T)],
        default: &str,
        purpose: &'static str,
    ) -> Option<T> {
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let allowed = format!("one of {}", names.join(", "));
        self.describe(name, &allowed, default, purpose);
        let of = |text: &str| words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        let found = self.parsed(name, &allowed, |value| match value.as_str()? {
            "" => Some(of(default)),
            text => of(text).map(Some),
        });
        found.unwrap_or_else(|| of(default))
    }

    /// An object whose fields `read` takes; an absent one has none.
    pub(crate) fn object<T>(&mut self, name: &str, read: impl FnOnce(&mut Fields<'_>) -> T) -> T {
        let (path, value) = (self.at(name), self.take(name).unwrap_or_default());
        Fields::within(path, value, self.notes, read)
    }

    /// Whether a field is there.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.object.get(name).is_some_and(|value| !value.is_null())
    }

    /// A list of objects; nothing for an absent one.
    pub(crate) fn objects<T>(&mut self, name: &str, mut read: impl FnMut(&mut Fields<'_>) -> T) -> Option<Vec<T>> {
        let path = self.at(name);
        let Some(value) = self.take(name) else {
            // Once without a value, for the reference.
            let mut empty = Notes::default();
            Fields::within(format!("{path}[]"), Value::Null, &mut empty, &mut read);
            self.notes.described.extend(empty.described);
            return None;
        };
        let Value::Array(items) = value else {
            self.refuse(name, &value, LIST);
            return None;
        };
        let items = items.into_iter().enumerate();
        let read = items.map(|(place, item)| Fields::within(format!("{path}[{place}]"), item, self.notes, &mut read));
        Some(read.collect())
    }

    /// A list of texts.
    pub(crate) fn texts(&mut self, name: &str, purpose: &'static str) -> Vec<String> {
        const ALLOWED: &str = "a list of texts";
        self.describe(name, ALLOWED, "", purpose);
        let texts = self.parsed(name, ALLOWED, |value| serde_json::from_value(value.clone()).ok());
        texts.unwrap_or_default()
    }

    /// A value of a type of Kubernetes' or Gardener's API.
    pub(crate) fn typed<T: DeserializeOwned>(
        &mut self,
        name: &str,
        allowed: &'static str,
        purpose: &'static str,
    ) -> Option<T> {
        self.describe(name, allowed, "", purpose);
        let value = self.take(name)?;
        match serde_json::from_value(value.clone()) {
            Ok(found) => Some(found),
            Err(error) => {
                self.refuse(name, &value, &format!("{allowed} ({error})"));
                None
            }
        }
    }

    /// Fields of the kind that have no effect here.
    pub(crate) fn without_effect(&mut self, fields: &[(&str, Form)]) {
        for (name, form) in fields {
            self.describe(name, form.allowed(), "", "");
            let Some(value) = self.take(name) else { continue };
            match form.is(&value) {
                true => {
                    let path = self.at(name);
                    self.notes.without_effect.push(path);
                }
                false => self.refuse(name, &value, form.allowed()),
            }
        }
    }

    /// Reports a field that was read already and does not fit another.
    pub(crate) fn contradicts(&mut self, name: &str, value: impl fmt::Display, allowed: &str) {
        let path = self.at(name);
        self.notes.problems.push(Problem {
            path,
            value: value.to_string(),
            allowed: allowed.to_owned(),
        });
    }
}

fn problem(path: String, value: &Value, allowed: &str) -> Problem {
    let mut text = match value {
        Value::Null => "absent".to_owned(),
        other => other.to_string(),
    };
    if let Some((cut, _)) = text.char_indices().nth(SHOWN_MAX) {
        text.truncate(cut);
        text.push('…');
    }
    Problem {
        path,
        value: text,
        allowed: allowed.to_owned(),
    }
}
