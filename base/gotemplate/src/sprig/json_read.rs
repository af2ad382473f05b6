//! JSON as Go's `encoding/json` of Go 1.26 reads it into an `interface {}`, with its errors. It never calls itself,
//! however values nest.

use super::args::{Answer, text};
use crate::environment::error::Fault;
use crate::environment::limits::MAP_STEPS;
use crate::text::{RUNE_ERROR, Str, push_rune, runes};
use crate::value::function::{Function, Scope};
use crate::value::{Type, Value};

/// Go reads no deeper (`maxNestingDepth`).
const DEPTH_MAX: usize = 10_000;
const END: &str = "unexpected end of JSON input";

pub(super) fn functions() -> Vec<Function> {
    vec![
        Function::new("fromJson", [Type::Str], |scope, args| {
            Ok(read(text(args, 0), scope)?.map_or(Value::Nil, |read| read.value))
        }),
        Function::new("mustFromJson", [Type::Str], |scope, args| -> Answer {
            let read = read(text(args, 0), scope)?.map_err(Fault::Message)?;
            read.unfit.map_or(Ok(read.value), |why| Err(Fault::Message(why)))
        }),
    ]
}

/// What was read.
pub(crate) struct Read {
    /// The value, with nothing in place of what does not fit
    pub(crate) value: Value,
    /// Go's error for the first number that does not fit
    pub(crate) unfit: Option<String>,
}

/// Reads one value. The inner error is Go's message about invalid JSON.
///
/// # Errors
/// The values in it take more steps than are left.
pub(crate) fn read(text: &[u8], scope: &Scope<'_>) -> Result<Result<Read, String>, Fault> {
    scope.spend(text.iter().map(|byte| steps_of(*byte)).sum())?;
    Ok(read_value(text))
}

/// Steps of a byte that may begin a value: `[{},{},` makes a large value of a short text.
fn steps_of(byte: u8) -> usize {
    match byte {
        b'[' | b',' => 1,
        b'{' => MAP_STEPS,
        _ => 0,
    }
}

fn read_value(text: &[u8]) -> Result<Read, String> {
    let mut reader = Reader {
        text,
        at: 0,
        open: Vec::new(),
        unfit: None,
    };
    let value = reader.document()?;
    Ok(Read {
        value,
        unfit: reader.unfit,
    })
}

/// A list or an object that has not ended.
enum Open {
    List(Vec<Value>),
    Object { entries: Vec<(Str, Value)>, key: Str },
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
    open: Vec<Open>,
    unfit: Option<String>,
}

impl Reader<'_> {
    fn document(&mut self) -> Result<Value, String> {
        loop {
            let Some(mut value) = self.begin()? else { continue };
            // A value that has ended may end the list or object around it.
            loop {
                match self.put(value)? {
                    Put::Next => break,
                    Put::Ended(ended) => value = ended,
                    Put::Whole(value) => return Ok(value),
                }
            }
        }
    }

    fn skip_space(&mut self) {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// The next byte that is no space.
    fn next(&mut self) -> Result<u8, String> {
        self.skip_space();
        self.byte_or_end()
    }

    fn byte_or_end(&mut self) -> Result<u8, String> {
        let byte = *self.text.get(self.at).ok_or(END)?;
        self.at += 1;
        Ok(byte)
    }

    /// The next byte. At the end it is a space, which Go reads to detect whether the value before it has ended.
    fn byte(&mut self) -> u8 {
        let byte = self.text.get(self.at).copied().unwrap_or(b' ');
        self.at += 1;
        byte
    }

    /// The beginning of a value: the whole of it, or nothing if a list or an object has been opened.
    fn begin(&mut self) -> Result<Option<Value>, String> {
        Ok(Some(match self.next()? {
            b'{' => {
                self.deeper(b'{')?;
                match self.next()? {
                    b'}' => Value::map::<Str>([]),
                    byte => {
                        let key = self.key(byte)?;
                        self.open.push(Open::Object {
                            entries: Vec::new(),
                            key,
                        });
                        return Ok(None);
                    }
                }
            }
            b'[' => {
                self.deeper(b'[')?;
                self.skip_space();
                if self.text.get(self.at) == Some(&b']') {
                    self.at += 1;
                    Value::list(Vec::new())
                } else {
                    self.open.push(Open::List(Vec::new()));
                    return Ok(None);
                }
            }
            b'"' => Value::Str(self.string()?),
            byte @ (b'-' | b'0'..=b'9') => self.number(byte)?,
            b't' => self.word("true", Value::Bool(true))?,
            b'f' => self.word("false", Value::Bool(false))?,
            b'n' => self.word("null", Value::Nil)?,
            byte => return Err(invalid(byte, "looking for beginning of value")),
        }))
    }

    fn deeper(&self, opened: u8) -> Result<(), String> {
        match self.open.len() < DEPTH_MAX {
            true => Ok(()),
            false => Err(invalid(opened, "exceeded max depth")),
        }
    }

    /// The key that begins with that byte, and the colon behind it.
    fn key(&mut self, byte: u8) -> Result<Str, String> {
        if byte != b'"' {
            return Err(invalid(byte, "looking for beginning of object key string"));
        }
        let key = self.string()?;
        match self.next()? {
            b':' => Ok(key),
            byte => Err(invalid(byte, "after object key")),
        }
    }

    /// Adds a value to the list or object around it.
    fn put(&mut self, value: Value) -> Result<Put, String> {
        match self.open.pop() {
            None => {
                self.skip_space();
                match self.text.get(self.at) {
                    None => Ok(Put::Whole(value)),
                    Some(byte) => Err(invalid(*byte, "after top-level value")),
                }
            }
            Some(Open::List(mut items)) => {
                items.push(value);
                match self.next()? {
                    b',' => self.open.push(Open::List(items)),
                    b']' => return Ok(Put::Ended(Value::list(items))),
                    byte => return Err(invalid(byte, "after array element")),
                }
                Ok(Put::Next)
            }
            Some(Open::Object { mut entries, key }) => {
                entries.push((key, value));
                match self.next()? {
                    b',' => {
                        let byte = self.next()?;
                        let key = self.key(byte)?;
                        self.open.push(Open::Object { entries, key });
                    }
                    b'}' => return Ok(Put::Ended(Value::map(entries))),
                    byte => return Err(invalid(byte, "after object key:value pair")),
                }
                Ok(Put::Next)
            }
        }
    }

    /// The rest of a word whose first letter has been read.
    fn word(&mut self, word: &str, value: Value) -> Result<Value, String> {
        for letter in word.bytes().skip(1) {
            let byte = self.byte();
            if byte != letter {
                let wanted = char::from(letter);
                return Err(invalid(byte, &format!("in literal {word} (expecting '{wanted}')")));
            }
        }
        Ok(value)
    }

    fn number(&mut self, first: u8) -> Result<Value, String> {
        let from = self.at - 1;
        let mut digit = first;
        if digit == b'-' {
            digit = self.byte();
            if !digit.is_ascii_digit() {
                return Err(invalid(digit, "in numeric literal"));
            }
        }
        if digit != b'0' {
            self.digits();
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.some_digits("after decimal point in numeric literal")?;
        }
        if matches!(self.text.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.text.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.some_digits("in exponent of numeric literal")?;
        }
        let written = String::from_utf8_lossy(self.text.get(from..self.at).unwrap_or_default());
        Ok(match written.parse::<f64>() {
            Ok(number) if number.is_finite() => Value::Float(number),
            _ => {
                let why = format!("json: cannot unmarshal number {written} into Go value of type float64");
                self.unfit.get_or_insert(why);
                Value::Nil
            }
        })
    }

    fn digits(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
    }

    fn some_digits(&mut self, place: &str) -> Result<(), String> {
        let byte = self.byte();
        if !byte.is_ascii_digit() {
            return Err(invalid(byte, place));
        }
        self.digits();
        Ok(())
    }

    /// The rest of a string whose first quote has been read.
    fn string(&mut self) -> Result<Str, String> {
        let mut out = Vec::new();
        loop {
            let from = self.at;
            while self
                .text
                .get(self.at)
                .is_some_and(|byte| !matches!(byte, b'"' | b'\\' | 0..b' '))
            {
                self.at += 1;
            }
            for (_, rune, _) in runes(self.text.get(from..self.at).unwrap_or_default()) {
                push_rune(&mut out, rune);
            }
            match self.byte_or_end()? {
                b'"' => return Ok(out.into()),
                b'\\' => {
                    let rune = self.escape()?;
                    push_rune(&mut out, rune);
                }
                byte => return Err(invalid(byte, "in string literal")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        Ok(match self.byte() {
            b'b' => '\x08',
            b'f' => '\x0c',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            byte @ (b'"' | b'\\' | b'/') => char::from(byte),
            b'u' => {
                let unit = self.unit()?;
                let behind = self.at;
                match char::from_u32(unit) {
                    Some(rune) => rune,
                    // Two surrogates make a rune; one alone is none.
                    None if self.text.get(self.at..self.at + 2) == Some(b"\\u") => {
                        self.at += 2;
                        let low = self.unit()?;
                        let pair = [unit, low].map(|unit| u16::try_from(unit).unwrap_or(0));
                        let rune = char::decode_utf16(pair).next().and_then(Result::ok);
                        if rune.is_none() {
                            self.at = behind;
                        }
                        rune.unwrap_or(RUNE_ERROR)
                    }
                    None => RUNE_ERROR,
                }
            }
            byte => return Err(invalid(byte, "in string escape code")),
        })
    }

    fn unit(&mut self) -> Result<u32, String> {
        let mut unit = 0;
        for _ in 0..4 {
            let byte = self.byte();
            let digit = char::from(byte).to_digit(16);
            unit = unit << 4 | digit.ok_or_else(|| invalid(byte, "in \\u hexadecimal character escape"))?;
        }
        Ok(unit)
    }
}

/// What became of a value.
enum Put {
    /// More values follow beside it.
    Next,
    /// It ended the list or object around it.
    Ended(Value),
    /// It is the whole document.
    Whole(Value),
}

/// Go shows a byte as the rune with that number.
fn invalid(byte: u8, place: &str) -> String {
    let shown = match byte {
        b'\'' => "\\'".to_owned(),
        b'"' => "\"".to_owned(),
        byte => {
            let quoted = crate::text::quote::quoted(char::from(byte).to_string().as_bytes());
            quoted.trim_matches('"').to_owned()
        }
    };
    format!("invalid character '{shown}' {place}")
}
