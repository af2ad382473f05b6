//! serde's side of the writer.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde::ser::{self, Error as _, Impossible, Serializer};
use serde_json::Value;

use super::super::decode::as_json_text;
use super::super::read::DEPTH_MAX;
use super::super::resolve::Dialect;
use super::{
    Entry, MOMENT_NAME, Moment, TEXT_NAME, WriteError, Writer, float_text, is_short_enough_for_json, survives_json,
};

type Written<T = ()> = Result<T, WriteError>;

/// go.yaml.in/yaml breaks base64 behind so many characters.
const BASE64_LINE_CHARACTERS: usize = 70;

/// Where a value is written.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// The column of the collection that it is in, -1 for none.
    indent: isize,
    in_mapping: bool,
    simple_key: bool,
}

impl Place {
    pub(super) const ROOT: Self = Self {
        indent: -1,
        in_mapping: false,
        simple_key: false,
    };

    fn inside(self) -> isize {
        if self.indent < 0 { 0 } else { self.indent + 2 }
    }
}

pub(super) struct ValueSerializer<'w> {
    writer: &'w mut Writer,
    place: Place,
    /// Bytes are those of a text.
    text: bool,
    /// Whether the text is a [`Moment`], which is written as it is, or goes through JSON.
    moment: bool,
}

impl<'w> ValueSerializer<'w> {
    pub(super) fn new(writer: &'w mut Writer, place: Place) -> Self {
        Self {
            writer,
            place,
            text: false,
            moment: false,
        }
    }

    fn word(self, word: &str) -> Written {
        self.writer.emitter.write_word(word);
        Ok(())
    }

    fn collection(self) -> Written<Collection<'w>> {
        self.writer.depth += 1;
        if self.writer.depth > DEPTH_MAX {
            return Err(WriteError::custom(format!("exceeded max depth of {DEPTH_MAX}")));
        }
        Ok(Collection {
            first: self.writer.entries.len(),
            writer: self.writer,
            place: self.place,
            indent: None,
            written: (0, 0),
        })
    }

    /// A map of one entry, which a variant with content is.
    fn variant(self, name: &'static str) -> Written<Collection<'w>> {
        let mut map = self.collection()?;
        map.begin_entry(name)?;
        Ok(map)
    }
}

/// A sequence or a map that is being written.
pub(super) struct Collection<'w> {
    writer: &'w mut Writer,
    place: Place,
    /// Its own column, once it has an item.
    indent: Option<isize>,
    /// Its first entry in the writer's list.
    first: usize,
    /// The entry that is being written: where it begins, and its key.
    written: (usize, usize),
}

impl Collection<'_> {
    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
        let indent = match self.indent {
            Some(indent) => indent,
            None => {
                let emitter = &self.writer.emitter;
                // v2 does not indent a sequence below its key.
                let flat = emitter.dialect == Dialect::V2 && self.place.in_mapping && !emitter.state.indention;
                if flat {
                    self.place.indent.max(0)
                } else {
                    self.place.inside()
                }
            }
        };
        self.indent = Some(indent);
        self.writer.emitter.write_indent(indent);
        self.writer.emitter.write_indicator("-", true, true);
        let place = Place {
            indent,
            in_mapping: false,
            simple_key: false,
        };
        value.serialize(ValueSerializer::new(self.writer, place))
    }

    fn end_sequence(self) -> Written {
        if self.indent.is_none() {
            self.writer.emitter.write_indicator("[]", true, false);
        }
        self.writer.depth -= 1;
        Ok(())
    }

    fn begin_entry(&mut self, key: &str) -> Written {
        if self.writer.dialect() == Dialect::V2 {
            self.writer.is_lost_in_json |= !survives_json(key) || !is_short_enough_for_json(key);
        }
        let indent = self.place.inside();
        self.indent = Some(indent);
        let emitter = &mut self.writer.emitter;
        emitter.write_indent(indent);
        self.written = (emitter.out.len(), self.writer.keys.len());
        self.writer.keys.push_str(key);
        if emitter.is_simple_key(key) {
            emitter.write_text(key, indent, true);
            emitter.write_indicator(":", false, false);
        } else {
            emitter.write_indicator("?", true, true);
            emitter.write_text(key, indent, false);
            emitter.write_indent(indent);
            emitter.write_indicator(":", true, true);
        }
        Ok(())
    }

    fn end_entry<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
        let (begun, key) = self.written;
        let key = (key, self.writer.keys.len());
        let place = Place {
            indent: self.place.inside(),
            in_mapping: true,
            simple_key: false,
        };
        value.serialize(ValueSerializer::new(self.writer, place))?;
        let emitter = &self.writer.emitter;
        let written = (begun, emitter.out.len());
        let after = emitter.state;
        self.writer.entries.push(Entry { key, written, after });
        Ok(())
    }

    fn end_map(self, sorted: bool) -> Written {
        match self.indent {
            None => self.writer.emitter.write_indicator("{}", true, false),
            Some(indent) if sorted => self.writer.sort_entries(self.first, indent),
            Some(_) => self.writer.entries.truncate(self.first),
        }
        self.writer.depth -= 1;
        Ok(())
    }

    fn end_struct(self) -> Written {
        // JSON has no structs.
        let sorted = self.writer.dialect() == Dialect::V2;
        self.end_map(sorted)
    }
}

impl<'w> Serializer for ValueSerializer<'w> {
    type Ok = ();
    type Error = WriteError;
    type SerializeSeq = Collection<'w>;
    type SerializeTuple = Collection<'w>;
    type SerializeTupleStruct = Collection<'w>;
    type SerializeTupleVariant = Impossible<(), WriteError>;
    type SerializeMap = Collection<'w>;
    type SerializeStruct = Collection<'w>;
    type SerializeStructVariant = Impossible<(), WriteError>;

    fn serialize_bool(self, truth: bool) -> Written {
        self.word(if truth { "true" } else { "false" })
    }

    fn serialize_i8(self, number: i8) -> Written {
        self.serialize_i64(number.into())
    }

    fn serialize_i16(self, number: i16) -> Written {
        self.serialize_i64(number.into())
    }

    fn serialize_i32(self, number: i32) -> Written {
        self.serialize_i64(number.into())
    }

    fn serialize_i64(self, number: i64) -> Written {
        self.word(&number.to_string())
    }

    fn serialize_u8(self, number: u8) -> Written {
        self.serialize_u64(number.into())
    }

    fn serialize_u16(self, number: u16) -> Written {
        self.serialize_u64(number.into())
    }

    fn serialize_u32(self, number: u32) -> Written {
        self.serialize_u64(number.into())
    }

    fn serialize_u64(self, number: u64) -> Written {
        self.word(&number.to_string())
    }

    fn serialize_f32(self, number: f32) -> Written {
        self.serialize_f64(number.into())
    }

    fn serialize_f64(self, number: f64) -> Written {
        let text = float_text(number, self.writer.dialect())?;
        self.word(&text)
    }

    fn serialize_char(self, character: char) -> Written {
        self.serialize_str(character.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, text: &str) -> Written {
        if self.moment {
            match self.writer.dialect() {
                Dialect::V2 => Moment(text).check_json()?,
                Dialect::V3 => return self.word(text),
            }
        }
        let Place { indent, simple_key, .. } = self.place;
        if self.writer.dialect() == Dialect::V2 {
            self.writer.is_lost_in_json |= !survives_json(text);
        }
        self.writer.emitter.write_text(text, indent, simple_key);
        Ok(())
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Written {
        match (self.text, self.writer.dialect()) {
            (true, Dialect::V2) => self.serialize_str(&as_json_text(bytes)),
            (true, Dialect::V3) => {
                let base64 = broken_base64(bytes);
                let Place { indent, simple_key, .. } = self.place;
                self.writer.emitter.write_binary(&base64, indent, simple_key);
                Ok(())
            }
            (false, Dialect::V2) => self.serialize_str(&STANDARD.encode(bytes)),
            (false, Dialect::V3) => self.collect_seq(bytes),
        }
    }

    fn serialize_none(self) -> Written {
        self.word("null")
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Written {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Written {
        self.word("null")
    }

    fn serialize_unit_struct(self, _: &'static str) -> Written {
        self.word("null")
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Written {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(mut self, name: &'static str, value: &T) -> Written {
        self.text = name == TEXT_NAME;
        self.moment = name == MOMENT_NAME;
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Written {
        let mut map = self.variant(variant)?;
        map.end_entry(value)?;
        map.end_map(true)
    }

    fn serialize_seq(self, _: Option<usize>) -> Written<Collection<'w>> {
        self.collection()
    }

    fn serialize_tuple(self, _: usize) -> Written<Collection<'w>> {
        self.collection()
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Written<Collection<'w>> {
        self.collection()
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Written<Impossible<(), WriteError>> {
        Err(no_variant(variant))
    }

    fn serialize_map(self, _: Option<usize>) -> Written<Collection<'w>> {
        self.collection()
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Written<Collection<'w>> {
        self.collection()
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Written<Impossible<(), WriteError>> {
        Err(no_variant(variant))
    }
}

fn no_variant(variant: &str) -> WriteError {
    WriteError::custom(format!(
        "variant {variant} has more than one value, which Go has no form for"
    ))
}

/// A key as a text. Go's maps have other keys too, but none that a template can make.
fn key_text<T: Serialize + ?Sized>(key: &T) -> Written<String> {
    match serde_json::to_value(key) {
        Ok(Value::String(text)) => Ok(text),
        Ok(Value::Number(number)) => Ok(number.to_string()),
        Ok(Value::Bool(truth)) => Ok(truth.to_string()),
        // The bytes of a text.
        Ok(Value::Array(bytes)) => {
            let bytes: Vec<u8> = bytes
                .iter()
                .filter_map(|byte| u8::try_from(byte.as_u64()?).ok())
                .collect();
            Ok(as_json_text(&bytes))
        }
        Ok(Value::Null | Value::Object(_)) => Err(WriteError::custom("a key of a map is neither text nor number")),
        Err(error) => Err(WriteError::custom(error)),
    }
}

/// Base64 in lines: `encodeBase64` of go.yaml.in/yaml/v3.
fn broken_base64(bytes: &[u8]) -> String {
    let whole = STANDARD.encode(bytes);
    if whole.len() < BASE64_LINE_CHARACTERS {
        return whole;
    }
    let mut broken = String::with_capacity(whole.len() + whole.len() / BASE64_LINE_CHARACTERS + 1);
    let mut rest = whole.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(BASE64_LINE_CHARACTERS));
        broken.push_str(line);
        broken.push('\n');
        rest = after;
    }
    broken
}

impl ser::SerializeSeq for Collection<'_> {
    type Ok = ();
    type Error = WriteError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
        self.item(value)
    }

    fn end(self) -> Written {
        self.end_sequence()
    }
}

impl ser::SerializeTuple for Collection<'_> {
    type Ok = ();
    type Error = WriteError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
        self.item(value)
    }

    fn end(self) -> Written {
        self.end_sequence()
    }
}

impl ser::SerializeTupleStruct for Collection<'_> {
    type Ok = ();
    type Error = WriteError;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
        self.item(value)
    }

    fn end(self) -> Written {
        self.end_sequence()
    }
}

impl ser::SerializeMap for Collection<'_> {
    type Ok = ();
    type Error = WriteError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Written {
        let key = key_text(key)?;
        self.begin_entry(&key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
        self.end_entry(value)
    }

    fn end(self) -> Written {
        self.end_map(true)
    }
}

impl ser::SerializeStruct for Collection<'_> {
    type Ok = ();
    type Error = WriteError;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Written {
        self.begin_entry(key)?;
        self.end_entry(value)
    }

    fn end(self) -> Written {
        self.end_struct()
    }
}
