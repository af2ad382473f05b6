//! Values of every type, as each verb prints them.

use std::borrow::Cow;

use super::Printer;
use super::number::Integer;
use crate::environment::error::{PRINT_DEPTH_MAX, PrintError};
use crate::text::quote::{can_backquote, quote_with};
use crate::text::{Str, runes};
use crate::value::{List, Map, Object, Type, UintKind, Value, is_pointer};

const NIL: &str = "<nil>";

impl Printer<'_> {
    /// One argument of a print function.
    pub(super) fn argument(&mut self, value: &Value, verb: char) {
        if self.is_full() {
            return;
        }
        match (verb, value) {
            ('T' | 'v', Value::Absent | Value::Nil) => self.pad(NIL.as_bytes()),
            ('T', value) => self.string(value.type_name().as_bytes(), 's'),
            ('v', Value::Bytes(bytes)) if self.flags.sharp_v => self.bytes_in_go(bytes, "[]byte"),
            (_, value) => self.value(value, verb, 0),
        }
    }

    /// A value at some depth.
    fn value(&mut self, value: &Value, verb: char, depth: usize) {
        if self.is_full() {
            return;
        }
        if depth > PRINT_DEPTH_MAX {
            self.failed = Some(PrintError::TooDeep);
            return;
        }
        match value {
            Value::Absent | Value::Nil => self.nil(verb, depth),
            Value::Bool(value) => match verb {
                't' | 'v' => self.pad(if *value { b"true" } else { b"false" }),
                _ => self.bad_verb(Some(&Value::Bool(*value)), verb),
            },
            Value::Int(_, number) => self.integer(value, Integer::signed(*number), verb),
            Value::Uint(_, number) => self.integer(value, Integer::unsigned(*number), verb),
            Value::Float(number) => match verb {
                'v' | 'b' | 'g' | 'G' | 'x' | 'X' | 'f' | 'F' | 'e' | 'E' => self.float(*number, verb),
                _ => self.bad_verb(Some(value), verb),
            },
            Value::Complex(real, imaginary) => self.complex(value, (*real, *imaginary), verb),
            Value::Str(text) => match verb {
                'v' | 's' | 'x' | 'X' | 'q' => self.string(text, verb),
                _ => self.bad_verb(Some(value), verb),
            },
            Value::Bytes(bytes) => self.bytes(bytes, verb, depth),
            Value::List(_) | Value::Map(_) | Value::Object(_) if verb == 'w' && !self.is_erroring => {
                self.bad_verb(Some(value), verb);
            }
            // An address of Go's heap, which no test can compare.
            Value::List(_) | Value::Map(_) if verb == 'p' => self.text("0xc000000000"),
            Value::List(list) => self.list(list, verb, depth),
            Value::Map(map) => self.map(map, verb, depth),
            Value::Object(object) => self.object(object.as_ref(), verb, depth),
        }
    }

    fn nil(&mut self, verb: char, depth: usize) {
        if depth == 0 {
            self.bad_verb(None, verb);
        } else if self.flags.sharp_v {
            self.text("interface {}(nil)");
        } else {
            self.text(NIL);
        }
    }

    /// What Go prints for a verb that a value does not have.
    pub(super) fn bad_verb(&mut self, value: Option<&Value>, verb: char) {
        self.is_erroring = true;
        self.text("%!");
        crate::text::push_rune(self.out, verb);
        self.out.push(b'(');
        match value {
            Some(value) => {
                self.text(&value.type_name());
                self.out.push(b'=');
                self.argument(value, 'v');
            }
            None => self.text(NIL),
        }
        self.out.push(b')');
        self.is_erroring = false;
    }

    fn complex(&mut self, value: &Value, (real, imaginary): (f64, f64), verb: char) {
        if !matches!(verb, 'v' | 'b' | 'g' | 'G' | 'x' | 'X' | 'f' | 'F' | 'e' | 'E') {
            return self.bad_verb(Some(value), verb);
        }
        let plus = self.flags.plus;
        self.out.push(b'(');
        self.float(real, verb);
        self.flags.plus = true;
        self.float(imaginary, verb);
        self.text("i)");
        self.flags.plus = plus;
    }

    /// A string by one of the verbs that strings have.
    pub(super) fn string(&mut self, text: &[u8], verb: char) {
        match verb {
            'x' | 'X' => self.hex(text, verb),
            'q' => self.quoted(text),
            'v' if self.flags.sharp_v => self.quoted(text),
            _ => {
                let text = self.truncated(text);
                self.pad(text);
            }
        }
    }

    fn truncated<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        let end = self.precision.and_then(|precision| runes(text).nth(precision));
        end.and_then(|(end, ..)| text.get(..end)).unwrap_or(text)
    }

    fn quoted(&mut self, text: &[u8]) {
        let text = self.truncated(text);
        if self.flags.sharp && can_backquote(text) {
            let mut quoted = vec![b'`'];
            quoted.extend_from_slice(text);
            quoted.push(b'`');
            return self.pad(&quoted);
        }
        let quoted = quote_with(text, '"', self.flags.plus);
        self.pad(&quoted);
    }

    fn hex(&mut self, text: &[u8], verb: char) {
        let digits: &[u8; 16] = if verb == 'X' {
            b"0123456789ABCDEF"
        } else {
            b"0123456789abcdef"
        };
        let length = self.precision.map_or(text.len(), |precision| precision.min(text.len()));
        let prefix = [b'0', verb as u8];
        let mut out = Vec::with_capacity(2 * length + 2);
        for (at, byte) in text.iter().take(length).enumerate() {
            if at > 0 && self.flags.space {
                out.push(b' ');
            }
            if self.flags.sharp && (at == 0 || self.flags.space) {
                out.extend_from_slice(&prefix);
            }
            out.extend([byte >> 4, byte & 0xF].map(|nibble| digits[usize::from(nibble & 0xF)]));
        }
        self.pad(&out);
    }

    fn bytes(&mut self, bytes: &Str, verb: char, depth: usize) {
        match verb {
            's' | 'x' | 'X' | 'q' => self.string(bytes, verb),
            'v' if self.flags.sharp_v => self.bytes_in_go(bytes, "[]uint8"),
            'p' => self.text("0xc000000000"),
            _ => {
                self.out.push(b'[');
                for (at, byte) in bytes.iter().enumerate() {
                    if at > 0 {
                        self.out.push(b' ');
                    }
                    self.value(&Value::Uint(UintKind::Uint8, u64::from(*byte)), verb, depth + 1);
                }
                self.out.push(b']');
            }
        }
    }

    fn bytes_in_go(&mut self, bytes: &[u8], name: &str) {
        self.text(name);
        self.out.push(b'{');
        for (at, byte) in bytes.iter().enumerate() {
            if at > 0 {
                self.text(", ");
            }
            self.hex_number(u64::from(*byte));
        }
        self.out.push(b'}');
    }

    fn between(&mut self, at: usize) {
        if at > 0 {
            self.text(if self.flags.sharp_v { ", " } else { " " });
        }
    }

    /// What Go's source has for a slice or map that is nil.
    fn nil_of(&mut self, type_of: &Type) {
        self.text(&format!("{type_of}(nil)"));
    }

    fn list(&mut self, list: &List, verb: char, depth: usize) {
        if self.flags.sharp_v && list.is_nil() {
            return self.nil_of(&list.type_of());
        }
        let (open, close) = self.brackets(|| list.type_of(), "[");
        self.text(&open);
        for (at, item) in list.items().iter().enumerate() {
            self.between(at);
            self.value(item, verb, depth + 1);
        }
        self.text(close);
    }

    fn map(&mut self, map: &Map, verb: char, depth: usize) {
        if self.flags.sharp_v && map.is_nil() {
            return self.nil_of(&map.type_of());
        }
        let (open, close) = self.brackets(|| map.type_of(), "map[");
        self.text(&open);
        for (at, (key, value)) in map.entries().into_iter().enumerate() {
            self.between(at);
            self.value(&Value::Str(key), verb, depth + 1);
            self.out.push(b':');
            self.value(&value, verb, depth + 1);
        }
        self.text(close);
    }

    fn brackets(&self, type_of: impl FnOnce() -> Type, open: &'static str) -> (Cow<'static, str>, &'static str) {
        if self.flags.sharp_v {
            (format!("{}{{", type_of()).into(), "}")
        } else {
            (open.into(), "]")
        }
    }

    fn object(&mut self, object: &dyn Object, verb: char, depth: usize) {
        if !self.is_erroring
            && !self.flags.sharp_v
            && matches!(verb, 'v' | 's' | 'x' | 'X' | 'q')
            && let Some(text) = object.text()
        {
            return self.string(text.as_bytes(), verb);
        }
        if !self.is_erroring
            && self.flags.sharp_v
            && let Some(text) = object.in_go()
        {
            return self.string(text.as_bytes(), 's');
        }
        if let Some(value) = object.underlying() {
            return self.value(&value, verb, depth);
        }
        let type_name = object.type_name();
        if is_pointer(type_name) && depth > 0 {
            // An address of Go's heap.
            return self.text("0xc000000000");
        }
        if is_pointer(type_name) {
            self.out.push(b'&');
        }
        if self.flags.sharp_v {
            self.text(type_name.trim_start_matches('*'));
        }
        self.out.push(b'{');
        for (at, (name, value)) in object.fields().into_iter().enumerate() {
            self.between(at);
            if self.flags.plus_v || self.flags.sharp_v {
                self.text(name);
                self.out.push(b':');
            }
            self.value(&value, verb, depth + 1);
        }
        self.out.push(b'}');
    }
}
