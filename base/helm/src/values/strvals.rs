//! Values given on a command line, `a.b[0]=c,d={e,f}`, in the five ways of `--set`, `--set-string`, `--set-file`, `--set-json`
//! and `--set-literal`: `pkg/strvals` of Helm 4.1.

use base_yaml::go;
use serde_json::{Map, Value};

/// Helm's limits: of an index ...
const INDEX_MAX: i64 = 65_536;
/// ... and of names in each other.
const NAME_LEVEL_MAX: u32 = 30;
/// Lists in lists, which Helm does not limit: each takes stack.
const LIST_DEPTH_MAX: u32 = 100;
/// Empty items that one argument makes by large indices. Helm's limit is memory.
const ITEMS_MADE_MAX: usize = 1 << 20;

/// How a value is read.
#[derive(Clone, Copy)]
pub(super) enum Mode<'r> {
    /// A boolean, null or a whole number, otherwise a text
    Typed,
    /// A text
    Text,
    /// JSON
    Json,
    /// The value that a function returns for it, such as the text of the file that it names
    Read(&'r dyn Fn(&str) -> Result<Value, String>),
    /// A text up to the end, in which nothing is special
    Literal,
}

/// Why the parser stops.
enum Stop {
    /// The argument ends here, which is no error.
    End,
    Fault(String),
}

type Parsed<T = ()> = Result<T, Stop>;

fn fault<T>(problem: String) -> Parsed<T> {
    Err(Stop::Fault(problem))
}

/// Sets in `values` what `argument` assigns.
///
/// # Errors
/// Helm's error.
pub(super) fn parse_into(argument: &str, mode: Mode<'_>, values: &mut Map<String, Value>) -> Result<(), String> {
    let mut parser = Parser {
        rest: argument,
        mode,
        made: 0,
    };
    loop {
        match parser.key(values, 0, 0) {
            Ok(()) => {}
            Err(Stop::End) => return Ok(()),
            Err(Stop::Fault(problem)) => return Err(problem),
        }
    }
}

struct Parser<'a, 'r> {
    rest: &'a str,
    mode: Mode<'r>,
    made: usize,
}

impl Parser<'_, '_> {
    fn next(&mut self) -> Option<char> {
        let next = self.rest.chars().next()?;
        self.rest = &self.rest[next.len_utf8()..];
        Some(next)
    }

    /// The text up to one of `stops`, and which; none at the end. A backslash escapes the next character.
    fn until(&mut self, stops: &[char]) -> (String, Option<char>) {
        let mut text = String::new();
        while let Some(next) = self.next() {
            if stops.contains(&next) {
                return (text, Some(next));
            }
            if next == '\\' && !matches!(self.mode, Mode::Literal) {
                match self.next() {
                    Some(escaped) => text.push(escaped),
                    None => return (text, None),
                }
            } else {
                text.push(next);
            }
        }
        (text, None)
    }

    /// A key with its value, set in `data`.
    fn key(&mut self, data: &mut Map<String, Value>, level: u32, depth: u32) -> Parsed {
        let stops: &[char] = match self.mode {
            Mode::Literal => &['=', '[', '.'],
            _ => &['=', '[', ',', '.'],
        };
        let (key, last) = self.until(stops);
        match last {
            None if key.is_empty() => Err(Stop::End),
            None => fault(format!("key {} has no value", go::quoted(&key))),
            Some('[') => self.key_of_list(key, data, level, depth),
            Some('=') => self.key_of_value(key, data),
            Some(',') => {
                let shown = go::quoted(&key);
                set(data, key, "".into());
                fault(format!("key {shown} has no value (cannot end with ,)"))
            }
            Some(_) => self.key_of_map(key, data, level + 1, depth),
        }
    }

    fn key_of_list(&mut self, key: String, data: &mut Map<String, Value>, level: u32, depth: u32) -> Parsed {
        let index = self.index()?;
        let mut list = match data.remove(&key) {
            None => Vec::new(),
            Some(Value::Array(list)) => list,
            Some(other) => return fault(wrong_type(&other, "[]interface {}")),
        };
        let set_in = self.item(&mut list, index, level, depth);
        set(data, key, Value::Array(list));
        set_in
    }

    fn key_of_value(&mut self, key: String, data: &mut Map<String, Value>) -> Parsed {
        let (value, ends) = self.value()?;
        set(data, key, value);
        if ends { Err(Stop::End) } else { Ok(()) }
    }

    fn key_of_map(&mut self, key: String, data: &mut Map<String, Value>, level: u32, depth: u32) -> Parsed {
        if level > NAME_LEVEL_MAX {
            return fault(format!(
                "value name nested level is greater than maximum supported nested level of {NAME_LEVEL_MAX}"
            ));
        }
        let mut inner = match data.remove(&key) {
            None => Map::new(),
            Some(Value::Object(inner)) => inner,
            Some(other) => return fault(wrong_type(&other, "map[string]interface {}")),
        };
        let set_in = self.key(&mut inner, level, depth);
        if inner.is_empty() {
            set_in?;
            return fault(format!("key map {} has no value", go::quoted(&key)));
        }
        set(data, key, Value::Object(inner));
        set_in
    }

    /// The number between brackets.
    fn index(&mut self) -> Parsed<i64> {
        let (text, Some(_)) = self.until(&[']']) else {
            return Err(Stop::End);
        };
        let problem = match text.parse::<i64>() {
            Ok(index) => return Ok(index),
            Err(error) => match error.kind() {
                std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => "value out of range",
                _ => "invalid syntax",
            },
        };
        let shown = go::quoted(&text);
        fault(format!("error parsing index: strconv.Atoi: parsing {shown}: {problem}"))
    }

    /// Reads what follows the brackets, and sets it in `list`.
    fn item(&mut self, list: &mut Vec<Value>, index: i64, level: u32, depth: u32) -> Parsed {
        if index < 0 {
            return fault(format!("negative {index} index not allowed"));
        }
        if depth > LIST_DEPTH_MAX {
            return fault(format!("lists lie more than {LIST_DEPTH_MAX} deep in each other"));
        }
        let (text, last) = self.until(&['[', '.', '=']);
        if !text.is_empty() {
            let characters: Vec<String> = text.chars().map(quoted_character).collect();
            let shown = characters.join(" ");
            return fault(format!("unexpected data at end of array index: [{shown}]"));
        }
        match last {
            None => Err(Stop::End),
            Some('=') => {
                let (value, _) = self.value()?;
                self.set_item(list, index, value)
            }
            Some('[') => {
                let next = self.index()?;
                let mut inner = match item_mut(list, index).map(Value::take) {
                    None | Some(Value::Null) => Vec::new(),
                    Some(Value::Array(inner)) => inner,
                    Some(other) => return fault(wrong_type(&other, "[]interface {}")),
                };
                self.item(&mut inner, next, level, depth + 1)?;
                self.set_item(list, index, Value::Array(inner))
            }
            Some(_) => {
                let found = item_mut(list, index).map(Value::take);
                let known = found.is_some();
                let mut inner = match found {
                    Some(Value::Object(inner)) => inner,
                    _ => Map::new(),
                };
                let set_in = self.key(&mut inner, level, depth + 1);
                if set_in.is_ok() || known {
                    self.set_item(list, index, Value::Object(inner))?;
                }
                set_in
            }
        }
    }

    fn set_item(&mut self, list: &mut Vec<Value>, index: i64, value: Value) -> Parsed {
        if index > INDEX_MAX {
            return fault(format!(
                "index of {index} is greater than maximum supported index of {INDEX_MAX}"
            ));
        }
        let index = usize::try_from(index).unwrap_or(0);
        if list.len() <= index {
            self.made += index + 1 - list.len();
            if self.made > ITEMS_MADE_MAX {
                return fault(format!("indices make more than {ITEMS_MADE_MAX} items"));
            }
            list.resize(index + 1, Value::Null);
        }
        list[index] = value;
        Ok(())
    }

    /// The value behind `=`, and whether the argument ends before it.
    fn value(&mut self) -> Parsed<(Value, bool)> {
        match self.mode {
            Mode::Literal => {
                let text = std::mem::take(&mut self.rest);
                return Ok((text.into(), false));
            }
            Mode::Json => return self.json().map(|value| (value, false)),
            _ => {}
        }
        match self.rest.chars().next() {
            None => Ok(("".into(), true)),
            Some('{') => {
                self.next();
                self.list().map(|list| (list, false))
            }
            Some(_) => {
                let (text, _) = self.until(&[',']);
                self.typed(text).map(|value| (value, false))
            }
        }
    }

    fn list(&mut self) -> Parsed<Value> {
        let mut list = Vec::new();
        loop {
            let (text, last) = self.until(&[',', '}']);
            match last {
                None => return fault("list must terminate with '}'".to_owned()),
                Some(last) => {
                    list.push(self.typed(text)?);
                    if last == '}' {
                        self.rest = self.rest.strip_prefix(',').unwrap_or(self.rest);
                        return Ok(Value::Array(list));
                    }
                }
            }
        }
    }

    fn typed(&self, text: String) -> Parsed<Value> {
        match self.mode {
            Mode::Read(read) => read(&text).map_err(Stop::Fault),
            Mode::Typed => Ok(typed(text)),
            Mode::Text | Mode::Json | Mode::Literal => Ok(text.into()),
        }
    }

    /// JSON up to the next comma behind it; null where there is none.
    fn json(&mut self) -> Parsed<Value> {
        if self.is_empty_value() {
            return Ok(Value::Null);
        }
        let mut values = serde_json::Deserializer::from_str(self.rest).into_iter::<Value>();
        let mut value = match values.next() {
            Some(Ok(value)) => value,
            Some(Err(error)) => return fault(error.to_string()),
            None => Value::Null,
        };
        self.rest = &self.rest[values.byte_offset()..];
        go::as_floats(&mut value);
        self.is_empty_value();
        Ok(value)
    }

    /// Skips blanks and a comma behind them, and returns whether there was a comma or the end.
    fn is_empty_value(&mut self) -> bool {
        self.rest = self.rest.trim_start();
        let before = self.rest.len();
        self.rest = self.rest.strip_prefix(',').unwrap_or(self.rest);
        self.rest.is_empty() || self.rest.len() < before
    }
}

fn item_mut(list: &mut [Value], index: i64) -> Option<&mut Value> {
    list.get_mut(usize::try_from(index).ok()?)
}

/// A key without a name is not set.
fn set(data: &mut Map<String, Value>, key: String, value: Value) {
    if !key.is_empty() {
        data.insert(key, value);
    }
}

fn typed(text: String) -> Value {
    // In Go's strings.EqualFold, U+017F equals an s.
    let word = text.replace('\u{17F}', "s");
    if word.eq_ignore_ascii_case("true") {
        return true.into();
    }
    if word.eq_ignore_ascii_case("false") {
        return false.into();
    }
    if word.eq_ignore_ascii_case("null") {
        return Value::Null;
    }
    // A text that begins with 0 may be a phone number or a commit.
    match text.parse::<i64>() {
        Ok(number) if text == "0" || !text.starts_with('0') => number.into(),
        _ => text.into(),
    }
}

/// Go's error for a value of another type than expected.
fn wrong_type(value: &Value, wanted: &str) -> String {
    let found = match value {
        Value::Null => "nil",
        value => go::go_type(value),
    };
    format!("unable to parse key: interface conversion: interface {{}} is {found}, not {wanted}")
}

/// `strconv.QuoteRune`.
fn quoted_character(character: char) -> String {
    match character {
        '\'' => "'\\''".to_owned(),
        '"' => "'\"'".to_owned(),
        _ => {
            let quoted = go::quoted(character.encode_utf8(&mut [0; 4]));
            format!("'{}'", &quoted[1..quoted.len() - 1])
        }
    }
}
