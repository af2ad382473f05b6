//! Writes what can be serialized as Go's YAML writes it. What is written for Helm's `toYaml` goes through JSON on its way,
//! which is seen where it makes a difference: in numbers, in keys, in characters that YAML cannot read.

mod emit;
mod order;
mod scalar;
mod serialize;

use serde::Serialize;
use serde::ser::{Error as _, Serializer};

use super::number::{Decimal, Whole, format_float, parse_whole};
use super::resolve::Dialect;
use super::{DuplicateKeys, GoYamlError, read_exact, to_json};
use emit::Emitter;
use serialize::{Place, ValueSerializer};

/// Why a value cannot be written, in Go's words where they are Go's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WriteError(String);

impl serde::ser::Error for WriteError {
    fn custom<T: std::fmt::Display>(problem: T) -> Self {
        Self(problem.to_string())
    }
}

/// A text of Go, whose bytes need not be UTF-8. Other serializers see bytes.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a>(pub &'a [u8]);

/// The name under which [`Text`] is serialised; no other type has it.
const TEXT_NAME: &str = "$base_yaml::go::Text";

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Bytes<'a>(&'a [u8]);
        impl Serialize for Bytes<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_bytes(self.0)
            }
        }
        match std::str::from_utf8(self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => serializer.serialize_newtype_struct(TEXT_NAME, &Bytes(self.0)),
        }
    }
}

/// A `time.Time` of Go as it writes itself, which [`write_pretty`] writes without quotes. Other serializers see a text.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a>(pub &'a str);

impl Moment<'_> {
    /// Go's `MarshalJSON` of it: years have four digits, zones are less than a day away.
    ///
    /// # Errors
    /// They are not, with Go's message.
    pub fn check_json(&self) -> Result<(), WriteError> {
        let bytes = self.0.as_bytes();
        let hours = bytes
            .len()
            .checked_sub("07:00".len())
            .and_then(|at| bytes.get(at..at + 2));
        let what = if bytes.get(4) != Some(&b'-') || bytes.first() == Some(&b'-') {
            "year outside of range [0,9999]"
        } else if !bytes.ends_with(b"Z") && hours.is_some_and(|hours| hours >= b"24") {
            "timezone hour outside of range [0,23]"
        } else {
            return Ok(());
        };
        let what = format!("json: error calling MarshalJSON for type time.Time: Time.MarshalJSON: {what}");
        Err(WriteError(what))
    }
}

/// The name under which [`Moment`] is serialised; no other type has it.
const MOMENT_NAME: &str = "$base_yaml::go::Moment";

impl Serialize for Moment<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct(MOMENT_NAME, self.0)
    }
}

/// sigs.k8s.io/yaml `Marshal`: what `toYaml` writes, with a line break at its end. Maps are sorted.
///
/// # Errors
/// A value that JSON cannot hold, or a text with a character that YAML does not allow; more than 500 collections in each
/// other.
pub fn write<T: Serialize + ?Sized>(value: &T) -> Result<String, WriteError> {
    write_as(value, Dialect::V2)
}

/// go.yaml.in/yaml/v3's encoder with an indent of 2: what `toYamlPretty` writes, with a line break at its end. Maps are
/// sorted, structs are not.
///
/// # Errors
/// More than 500 collections in each other.
pub fn write_pretty<T: Serialize + ?Sized>(value: &T) -> Result<String, WriteError> {
    write_as(value, Dialect::V3)
}

fn write_as<T: Serialize + ?Sized>(value: &T, dialect: Dialect) -> Result<String, WriteError> {
    let mut writer = Writer::new(dialect);
    value.serialize(ValueSerializer::new(&mut writer, Place::ROOT))?;
    if writer.is_lost_in_json {
        return write_through_json(value);
    }
    writer.emitter.write_indent(-1);
    Ok(writer.emitter.out)
}

/// The way that Go takes with all values: JSON, which is read as YAML.
fn write_through_json<T: Serialize + ?Sized>(value: &T) -> Result<String, WriteError> {
    let value = serde_json::to_value(value).map_err(WriteError::custom)?;
    let value = read_exact(to_json(&value).as_bytes(), DuplicateKeys::Allowed).map_err(|error| match error {
        GoYamlError::Yaml(problem) => WriteError(problem),
        error @ GoYamlError::Form { .. } => WriteError::custom(error),
    })?;
    let mut writer = Writer::new(Dialect::V2);
    value.serialize(ValueSerializer::new(&mut writer, Place::ROOT))?;
    writer.emitter.write_indent(-1);
    Ok(writer.emitter.out)
}

/// All that is written, and the keys of the maps that are being written.
struct Writer {
    emitter: Emitter,
    /// The keys of open maps, one behind the other.
    keys: String,
    entries: Vec<Entry>,
    depth: usize,
    /// JSON can hold it all, but YAML reads something else from that, or nothing.
    is_lost_in_json: bool,
}

/// An entry of a map that is being written.
#[derive(Clone, Copy)]
struct Entry {
    /// Its range in `keys`.
    key: (usize, usize),
    /// Its range in the output, without the indentation before it.
    written: (usize, usize),
    after: emit::State,
}

impl Writer {
    fn new(dialect: Dialect) -> Self {
        Self {
            emitter: Emitter::new(dialect),
            keys: String::new(),
            entries: Vec::new(),
            depth: 0,
            is_lost_in_json: false,
        }
    }

    fn dialect(&self) -> Dialect {
        self.emitter.dialect
    }

    /// Puts the entries from `first` on in order.
    fn sort_entries(&mut self, first: usize, indent: isize) {
        let dialect = self.dialect();
        let keys = &self.keys;
        let key = |entry: &Entry| &keys[entry.key.0..entry.key.1];
        let less = |a: &Entry, b: &Entry| order::less(key(a), key(b), dialect);
        let entries = &mut self.entries;
        if !entries[first..].windows(2).all(|pair| less(&pair[0], &pair[1])) {
            let mut sorted = entries[first..].to_vec();
            order::sort(&mut sorted, &less);
            // The last of several equal keys counts; the sort has left them in their order.
            let mut unique: Vec<Entry> = Vec::with_capacity(sorted.len());
            for entry in sorted {
                match unique.last_mut() {
                    Some(last) if key(last) == key(&entry) => *last = entry,
                    _ => unique.push(entry),
                }
            }
            self.emitter.rearrange(entries[first].written.0, &unique, indent);
        }
        self.keys.truncate(entries[first].key.0);
        self.entries.truncate(first);
    }
}

impl Emitter {
    /// Rewrites all from byte `start` on, in the order of `entries`.
    fn rearrange(&mut self, start: usize, entries: &[Entry], indent: isize) {
        let mut sorted = String::with_capacity(self.out.len() - start);
        for (at, entry) in entries.iter().enumerate() {
            if at > 0 {
                // A literal text may have ended its last line itself.
                if entries[at - 1].after.column > 0 {
                    sorted.push('\n');
                }
                sorted.extend(std::iter::repeat_n(' ', indent.max(0) as usize));
            }
            sorted.push_str(&self.out[entry.written.0..entry.written.1]);
            self.state = entry.after;
        }
        self.out.truncate(start);
        self.out.push_str(&sorted);
    }
}

/// Whether YAML reads all of `text` as JSON writes it: U+0085 is a line break, other control characters are not allowed.
fn survives_json(text: &str) -> bool {
    text.is_ascii() && !text.contains('\x7F')
        || !text.contains(|character| matches!(character, '\x7F'..'\u{A0}' | '\u{FFFE}' | '\u{FFFF}'))
}

/// A key has its `:` within so many characters of the JSON.
const JSON_KEY_CHARACTERS_MAX: usize = 1024;

/// Whether YAML finds the `:` behind a key that encoding/json writes.
fn is_short_enough_for_json(key: &str) -> bool {
    // Escapes are six times as long at most.
    key.len() <= JSON_KEY_CHARACTERS_MAX / 6 - 2 || {
        let characters = key.chars().map(|character| match character {
            '"' | '\\' | '\n' | '\r' | '\t' | '\x08' | '\x0C' => 2,
            '\0'..' ' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => 6,
            _ => 1,
        });
        characters.sum::<usize>() + 2 <= JSON_KEY_CHARACTERS_MAX
    }
}

/// A float as it is written.
fn float_text(number: f64, dialect: Dialect) -> Result<String, WriteError> {
    if !number.is_finite() {
        let text = format_float(number);
        return match (dialect, text.as_str()) {
            (Dialect::V2, _) => Err(WriteError(format!(
                "error marshaling into JSON: json: unsupported value: {text}"
            ))),
            (Dialect::V3, "+Inf") => Ok(".inf".to_owned()),
            (Dialect::V3, "-Inf") => Ok("-.inf".to_owned()),
            (Dialect::V3, _) => Ok(".nan".to_owned()),
        };
    }
    // JSON writes whole numbers of up to 21 digits in full, and YAML reads them as such if they fit.
    if dialect == Dialect::V2 && number.fract() == 0.0 && number.abs() < 1e21 {
        match parse_whole(&Decimal::of(number).plain()) {
            Some(Whole::Signed(whole)) => return Ok(whole.to_string()),
            Some(Whole::Unsigned(whole)) => return Ok(whole.to_string()),
            None => {}
        }
    }
    Ok(format_float(number))
}
