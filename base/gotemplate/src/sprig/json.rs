//! Values as JSON, as Go's `encoding/json` of Go 1.26 writes them.

use base_yaml::go::Moment;

use super::args::{Answer, at, non_finite};
use super::dates::time_of;
use super::encoding::encode;
use crate::environment::error::{Fault, LimitError, PrintError};
use crate::print::plain_float;
use crate::text::{RUNE_ERROR, push_rune, runes};
use crate::value::function::{Function, Scope};
use crate::value::{Type, Value};

/// How deep values may nest: a dictionary can hold itself.
const DEPTH_MAX: usize = 200;
/// Floats from here on, and those below its counterpart, have an exponent.
const EXPONENT_FROM: f64 = 1e21;
const EXPONENT_BELOW: f64 = 1e-6;

pub(super) fn functions() -> Vec<Function> {
    let forms = [
        ("toJson", "mustToJson", Form::Compact),
        ("toPrettyJson", "mustToPrettyJson", Form::Pretty),
        ("toRawJson", "mustToRawJson", Form::Raw),
    ];
    let named = |name: &str, form: Form, ignores_errors: bool| {
        Function::new(
            name,
            [Type::Any],
            move |scope: &mut Scope<'_>, args: &[Value]| -> Answer {
                match write(at(args, 0), form, scope) {
                    Err(Fault::Message(_)) if ignores_errors => Ok(Value::from("")),
                    Err(why) => Err(why),
                    Ok(text) => Ok(Value::string(text)),
                }
            },
        )
    };
    forms
        .into_iter()
        .flat_map(|(name, must, form)| [named(name, form, form != Form::Raw), named(must, form, false)])
        .collect()
}

/// How it is laid out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// In one line, with what is special in HTML escaped
    Compact,
    /// A line for each item
    Pretty,
    /// In one line, with only what is special in JSON escaped
    Raw,
}

struct Writer<'s> {
    out: Vec<u8>,
    form: Form,
    scope: &'s Scope<'s>,
}

fn write(value: &Value, form: Form, scope: &Scope<'_>) -> Result<Vec<u8>, Fault> {
    let mut writer = Writer {
        out: Vec::new(),
        form,
        scope,
    };
    let written = writer.value(value, 0);
    // Counted also if it ends with an error.
    scope.spend_bytes(writer.out.len())?;
    written.map(|()| writer.out)
}

impl Writer<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Fault> {
        if depth > DEPTH_MAX {
            return Err(Fault::Limit(LimitError::Value(PrintError::TooDeep)));
        }
        self.scope.check_length(self.out.len())?;
        match value {
            Value::Absent | Value::Nil => self.word("null"),
            Value::Bool(value) => self.word(if *value { "true" } else { "false" }),
            Value::Int(_, number) => self.word(&number.to_string()),
            Value::Uint(_, number) => self.word(&number.to_string()),
            Value::Float(number) => self.float(*number)?,
            Value::Complex(..) => return Err(Fault::from("json: unsupported type: complex128")),
            Value::Str(text) => self.string(text),
            Value::Bytes(bytes) => self.string(&encode(bytes)),
            Value::List(list) if list.is_nil() => self.word("null"),
            Value::List(list) => {
                let items = list.items().iter().map(|item| (None, item.clone()));
                self.items(items, (b'[', b']'), depth)?;
            }
            Value::Map(map) if map.is_nil() => self.word("null"),
            Value::Map(map) => {
                let entries = map.entries().into_iter();
                self.items(entries.map(|(key, value)| (Some(key), value)), (b'{', b'}'), depth)?;
            }
            Value::Object(object) => match (object.marshalled(), object.underlying()) {
                (Some(text), _) => {
                    if time_of(value).is_some() {
                        Moment(&text)
                            .check_json()
                            .map_err(|why| Fault::Message(why.to_string()))?;
                    }
                    self.string(text.as_bytes());
                }
                (None, Some(value)) => self.value(&value, depth)?,
                (None, None) => {
                    let fields = object.fields().into_iter();
                    self.items(
                        fields.map(|(name, value)| (Some(name.into()), value)),
                        (b'{', b'}'),
                        depth,
                    )?;
                }
            },
        }
        Ok(())
    }

    fn word(&mut self, word: &str) {
        self.out.extend_from_slice(word.as_bytes());
    }

    fn line(&mut self, depth: usize) {
        if self.form == Form::Pretty {
            self.out.push(b'\n');
            self.out.resize(self.out.len() + 2 * depth, b' ');
        }
    }

    fn items(
        &mut self,
        items: impl Iterator<Item = (Option<crate::text::Str>, Value)>,
        (open, close): (u8, u8),
        depth: usize,
    ) -> Result<(), Fault> {
        self.out.push(open);
        let mut is_empty = true;
        for (key, value) in items {
            if !is_empty {
                self.out.push(b',');
            }
            is_empty = false;
            self.line(depth + 1);
            if let Some(key) = key {
                self.string(&key);
                self.word(if self.form == Form::Pretty { ": " } else { ":" });
            }
            self.value(&value, depth + 1)?;
        }
        if !is_empty {
            self.line(depth);
        }
        self.out.push(close);
        Ok(())
    }

    fn float(&mut self, number: f64) -> Result<(), Fault> {
        if !number.is_finite() {
            let name = non_finite(number);
            return Err(Fault::Message(format!("json: unsupported value: {name}")));
        }
        if number.is_sign_negative() {
            self.out.push(b'-');
        }
        let size = number.abs();
        if size != 0.0 && !(EXPONENT_BELOW..EXPONENT_FROM).contains(&size) {
            // Go writes a negative exponent in JSON without a leading zero.
            self.word(&plain_float(number, 'e').replace("e-0", "e-"));
        } else {
            self.word(&plain_float(number, 'f'));
        }
        Ok(())
    }

    fn string(&mut self, text: &[u8]) {
        self.out.push(b'"');
        for (_, rune, width) in runes(text) {
            match rune {
                '"' | '\\' => self.out.extend([b'\\', rune as u8]),
                '\x08' => self.word("\\b"),
                '\x0c' => self.word("\\f"),
                '\n' => self.word("\\n"),
                '\r' => self.word("\\r"),
                '\t' => self.word("\\t"),
                '<' | '>' | '&' if self.form == Form::Raw => self.out.push(rune as u8),
                RUNE_ERROR if width == 1 => self.word("\\ufffd"),
                '\0'..' ' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                    self.word(&format!("\\u{:04x}", u32::from(rune)));
                }
                rune => push_rune(&mut self.out, rune),
            }
        }
        self.out.push(b'"');
    }
}
