//! Writing TOML: the encoder of github.com/BurntSushi/toml 1.6.

use super::key_text::{DEPTH_MAX, push_key, push_path, push_quoted};
use crate::environment::error::{Fault, LimitError, PrintError};
use crate::print::plain_float;
use crate::sprig::dates::{self, DURATION, Form};
use crate::text::Str;
use crate::value::function::Scope;
use crate::value::{List, Object, Value};

/// The indentation of a table for each part of its key but the first.
const INDENT: &[u8] = b"  ";
/// Numbers that small or large have an exponent.
const EXPONENT_BELOW: f64 = 1e-4;
const EXPONENT_FROM: f64 = 1e6;
const NIL_ELEMENT: &str = "toml: cannot encode array with nil element";
const NO_KEY: &str = "toml: top-level values must be Go maps or structs";

/// What a value is in TOML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Nothing, which is left out
    None,
    Table,
    Tables,
    Other,
}

/// A value as TOML. An error of the encoder is the text, as in Helm.
///
/// # Errors
/// A limit is met, or Go would panic.
pub(crate) fn write(value: &Value, scope: &Scope<'_>) -> Result<Vec<u8>, Fault> {
    if value.is_nil() {
        return Err(Fault::from("reflect: call of reflect.Value.Type on zero Value"));
    }
    let mut writer = Writer {
        out: Vec::new(),
        key: Vec::new(),
        nested: 0,
        scope,
    };
    let written = writer.value(value);
    scope.spend_bytes(writer.out.len())?;
    match written {
        Ok(()) => Ok(writer.out),
        Err(Fault::Message(why)) => Ok(why.into_bytes()),
        Err(limit) => Err(limit),
    }
}

struct Writer<'s> {
    out: Vec<u8>,
    /// Where what is written stands
    key: Vec<Str>,
    /// In how many tables that is
    nested: usize,
    scope: &'s Scope<'s>,
}

type Step<T = ()> = Result<T, Fault>;

/// An object's underlying value; the value itself if it is a struct, marshals itself or is no object.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(object) if object.marshalled().is_none() => object.underlying().unwrap_or_else(|| value.clone()),
        value => value.clone(),
    }
}

/// A struct's fields or a map's entries, in their order.
fn entries(value: &Value) -> Vec<(Str, Value)> {
    match value {
        Value::Map(map) => map.entries(),
        Value::Object(object) => {
            // Go exports no field that begins with a small letter.
            let is_exported = |(name, _): &(&str, Value)| name.starts_with(char::is_uppercase);
            let fields = object.fields().into_iter().filter(is_exported);
            fields.map(|(name, value)| (name.into(), value)).collect()
        }
        _ => Vec::new(),
    }
}

impl Writer<'_> {
    fn check(&self, depth: usize) -> Step {
        self.scope.spend(1)?;
        self.scope.check_length(self.out.len())?;
        if self.nested + depth > DEPTH_MAX {
            return Err(Fault::Limit(LimitError::Value(PrintError::TooDeep)));
        }
        Ok(())
    }

    /// The encoder's `tomlTypeOfGo`.
    fn kind(&self, value: &Value, depth: usize) -> Step<Kind> {
        self.check(depth)?;
        let value = plain(value);
        if value.is_go_nil() {
            return Ok(Kind::None);
        }
        Ok(match &value {
            Value::Map(_) => Kind::Table,
            Value::Object(object) if object.marshalled().is_none() => Kind::Table,
            Value::List(list) => self.kind_of_list(list, depth)?,
            Value::Complex(..) => return Err(Fault::from("unsupported type: complex128")),
            _ => Kind::Other,
        })
    }

    fn kind_of_list(&self, list: &List, depth: usize) -> Step<Kind> {
        let mut kind = if list.is_empty() { Kind::Other } else { Kind::Tables };
        for item in list.items() {
            match self.kind(item, depth + 1)? {
                Kind::None => return Err(Fault::from(NIL_ELEMENT)),
                Kind::Table => {}
                Kind::Tables | Kind::Other => kind = Kind::Other,
            }
        }
        Ok(kind)
    }

    /// The encoder's `encode`: what stands under the key.
    fn value(&mut self, value: &Value) -> Step {
        self.check(0)?;
        // The element is written from the value itself: a length of time is a text there.
        let bottom = plain(value);
        if bottom.is_go_nil() {
            return Ok(());
        }
        match &bottom {
            Value::Complex(..) => {
                let mut what = b"unsupported type for key '".to_vec();
                push_path(&mut what, &self.key);
                what.extend_from_slice(b"': complex128");
                Err(Fault::Message(String::from_utf8_lossy(&what).into_owned()))
            }
            Value::List(_) if self.kind(&bottom, 0)? == Kind::Tables => self.tables(&bottom),
            Value::Map(_) => self.table(&bottom),
            Value::Object(object) if object.marshalled().is_none() => self.table(&bottom),
            _ => self.key_and_value(value, false),
        }
    }

    fn line(&mut self) {
        if !self.out.is_empty() {
            self.out.push(b'\n');
        }
    }

    fn indent(&mut self) {
        for _ in 1..self.key.len() {
            self.out.extend_from_slice(INDENT);
        }
    }

    fn tables(&mut self, list: &Value) -> Step {
        if self.key.is_empty() {
            return Err(Fault::from(NO_KEY));
        }
        for item in list.items().unwrap_or_default() {
            let item = plain(&item);
            if item.is_go_nil() {
                continue;
            }
            self.line();
            self.indent();
            self.out.extend_from_slice(b"[[");
            push_path(&mut self.out, &self.key);
            self.out.extend_from_slice(b"]]");
            self.line();
            self.entries(&item, false)?;
        }
        Ok(())
    }

    fn table(&mut self, value: &Value) -> Step {
        if self.key.len() == 1 {
            self.line();
        }
        if !self.key.is_empty() {
            self.indent();
            self.out.push(b'[');
            push_path(&mut self.out, &self.key);
            self.out.push(b']');
            self.line();
        }
        self.entries(value, false)
    }

    /// The entries of a table: those that are no tables come first.
    fn entries(&mut self, value: &Value, is_inline: bool) -> Step {
        self.check(0)?;
        self.nested += 1;
        let is_struct = matches!(value, Value::Object(_));
        let (mut direct, mut sub) = (Vec::new(), Vec::new());
        let all = entries(value);
        let count = all.len();
        for (place, (key, value)) in all.into_iter().enumerate() {
            match self.kind(&value, 0)? {
                Kind::Table | Kind::Tables => sub.push((place, key, value)),
                Kind::None | Kind::Other => direct.push((place, key, value)),
            }
        }
        if is_inline {
            self.out.push(b'{');
        }
        let has_sub = !sub.is_empty();
        for (entries, is_followed) in [(direct, has_sub), (sub, false)] {
            let last = entries.len();
            for (at, (place, key, value)) in entries.into_iter().enumerate() {
                if plain(&value).is_go_nil() {
                    continue;
                }
                if !is_inline {
                    self.key.push(key);
                    self.value(&value)?;
                    self.key.pop();
                    continue;
                }
                let outer = std::mem::replace(&mut self.key, vec![key]);
                self.key_and_value(&value, true)?;
                self.key = outer;
                // A comma stands behind all but the last, even if the last is left out.
                let is_last = match is_struct {
                    true => place + 1 == count,
                    false => !is_followed && at + 1 == last,
                };
                if !is_last {
                    self.out.extend_from_slice(b", ");
                }
            }
        }
        if is_inline {
            self.out.push(b'}');
        }
        self.nested -= 1;
        Ok(())
    }

    fn key_and_value(&mut self, value: &Value, is_inline: bool) -> Step {
        let Some(key) = self.key.last().cloned() else {
            return self.element(value, 0);
        };
        self.indent();
        push_key(&mut self.out, &key);
        self.out.extend_from_slice(b" = ");
        self.element(value, 0)?;
        if !is_inline {
            self.line();
        }
        Ok(())
    }

    /// The encoder's `eElement`.
    fn element(&mut self, value: &Value, depth: usize) -> Step {
        self.check(depth)?;
        if let Value::Object(object) = value
            && let Some(text) = as_text(object.as_ref(), value)
        {
            match text {
                Written::Plain(text) => self.out.extend_from_slice(&text),
                Written::Quoted(text) => push_quoted(&mut self.out, text.as_bytes()),
            }
            return Ok(());
        }
        let value = plain(value);
        match &value {
            Value::Str(text) => push_quoted(&mut self.out, text),
            Value::Bool(value) => self.out.extend_from_slice(if *value { b"true" } else { b"false" }),
            Value::Int(_, number) => self.out.extend_from_slice(number.to_string().as_bytes()),
            Value::Uint(_, number) => self.out.extend_from_slice(number.to_string().as_bytes()),
            Value::Float(number) => self.float(*number),
            Value::List(_) | Value::Bytes(_) => {
                self.out.push(b'[');
                for (at, item) in value.items().unwrap_or_default().iter().enumerate() {
                    if at > 0 {
                        self.out.extend_from_slice(b", ");
                    }
                    self.element(item, depth + 1)?;
                }
                self.out.push(b']');
            }
            Value::Map(_) | Value::Object(_) => {
                self.nested += depth;
                self.entries(&value, true)?;
                self.nested -= depth;
            }
            Value::Complex(..) => return Err(Fault::from("unexpected type: complex128")),
            Value::Absent | Value::Nil => return Err(Fault::from(NIL_ELEMENT)),
        }
        Ok(())
    }

    fn float(&mut self, number: f64) {
        if !number.is_finite() {
            let sign = if number.is_sign_negative() { "-" } else { "" };
            let name = if number.is_nan() { "nan" } else { "inf" };
            return self.out.extend_from_slice(format!("{sign}{name}").as_bytes());
        }
        let size = number.abs();
        let is_plain = size == 0.0 || (EXPONENT_BELOW..EXPONENT_FROM).contains(&size);
        let written = plain_float(number, if is_plain { 'f' } else { 'e' });
        if number.is_sign_negative() {
            self.out.push(b'-');
        }
        self.out.extend_from_slice(written.as_bytes());
        if !written.contains(['.', 'e']) {
            self.out.extend_from_slice(b".0");
        }
    }
}

/// The text of a type that writes itself.
enum Written {
    Plain(Vec<u8>),
    Quoted(String),
}

fn as_text(object: &dyn Object, value: &Value) -> Option<Written> {
    if let Some(time) = dates::time_of(value) {
        let layout: &[u8] = match time.form() {
            Form::Zoned => dates::RFC3339_NANO,
            Form::DateTime => b"2006-01-02T15:04:05.999999999",
            Form::Date => b"2006-01-02",
            Form::Time => b"15:04:05.999999999",
        };
        let time = match time.form() {
            Form::Zoned => time.clone(),
            _ => time.within(dates::Zone::Utc),
        };
        return Some(Written::Plain(dates::format(&time, layout, usize::MAX)));
    }
    if object.type_name() == DURATION {
        return object.text().map(Written::Quoted);
    }
    object.marshalled().map(Written::Quoted)
}
