//! From any bytes to the parts of an input: sections between lines of `---`, and JSON read so tolerantly that every text is
//! some value. So inputs are readable, and nearly every mutation has an effect. It never fails.

use serde_json::{Map, Number, Value};

/// Levels of a value: fewer than the server reads, so that what is read here could have been sent.
const DEPTH_MAX: usize = 100;

/// The sections of an input.
pub(crate) struct Sections<'a>(std::str::Split<'a, &'static str>);

impl<'a> Sections<'a> {
    pub(crate) fn of(input: &'a str) -> Self {
        Self(input.split("\n---\n"))
    }

    /// The next section; empty when there is none.
    pub(crate) fn text(&mut self) -> &'a str {
        self.0.next().unwrap_or_default()
    }

    /// The next section as JSON; none when there is none.
    pub(crate) fn json(&mut self) -> Option<Value> {
        self.0.next().map(tolerant)
    }
}

/// Reads JSON. Open objects and lists are closed at the end, missing values are null, words without quotes are texts.
pub(crate) fn tolerant(text: &str) -> Value {
    Reader { rest: text }.value(0)
}

/// The first place at which two values differ, and both values there.
pub(crate) fn first_difference(one: &Value, other: &Value) -> Option<String> {
    let below = |key: &dyn std::fmt::Display, one: Option<&Value>, other: Option<&Value>| match (one, other) {
        (Some(one), Some(other)) => first_difference(one, other).map(|found| format!("/{key}{found}")),
        (one, other) => Some(format!("/{key}: {one:?} and {other:?}")),
    };
    match (one, other) {
        _ if one == other => None,
        (Value::Object(fields), Value::Object(others)) => {
            let keys = fields.keys().chain(others.keys());
            keys.into_iter()
                .find_map(|key| match (fields.get(key), others.get(key)) {
                    (one, other) if one == other => None,
                    (one, other) => below(key, one, other),
                })
        }
        (Value::Array(items), Value::Array(others)) => {
            let most = items.len().max(others.len());
            (0..most).find_map(|index| match (items.get(index), others.get(index)) {
                (one, other) if one == other => None,
                (one, other) => below(&index, one, other),
            })
        }
        _ => Some(format!(": {one} and {other}")),
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n', ',', ':']);
        self.rest.chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let first = self.rest.chars().next()?;
        self.rest = &self.rest[first.len_utf8()..];
        Some(first)
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.peek() {
            None => Value::Null,
            Some('{') if depth < DEPTH_MAX => self.object(depth + 1),
            Some('[') if depth < DEPTH_MAX => self.list(depth + 1),
            Some('"') => Value::String(self.string()),
            Some('{' | '[' | '}' | ']') => {
                self.take();
                Value::Null
            }
            Some(_) => plain(self.word()),
        }
    }

    fn object(&mut self, depth: usize) -> Value {
        self.take();
        let mut fields = Map::new();
        loop {
            match self.peek() {
                None => break,
                Some('}') => {
                    self.take();
                    break;
                }
                Some('{' | '[' | ']') => {
                    self.take();
                }
                Some(first) => {
                    let key = if first == '"' {
                        self.string()
                    } else {
                        self.word().to_owned()
                    };
                    let value = match self.peek() {
                        None | Some('}') => Value::Null,
                        Some(_) => self.value(depth),
                    };
                    fields.insert(key, value);
                }
            }
        }
        Value::Object(fields)
    }

    fn list(&mut self, depth: usize) -> Value {
        self.take();
        let mut items = Vec::new();
        loop {
            match self.peek() {
                None => break,
                Some(']') => {
                    self.take();
                    break;
                }
                Some(_) => items.push(self.value(depth)),
            }
        }
        Value::Array(items)
    }

    fn string(&mut self) -> String {
        self.take();
        let mut out = String::new();
        while let Some(character) = self.take() {
            match character {
                '"' => break,
                '\\' => match self.take() {
                    Some('n') => out.push('\n'),
                    Some('t') => out.push('\t'),
                    Some('u') => out.extend(self.escape()),
                    other => out.extend(other),
                },
                other => out.push(other),
            }
        }
        out
    }

    fn escape(&mut self) -> Option<char> {
        let code = u32::from_str_radix(self.rest.get(..4)?, 16).ok()?;
        self.rest = &self.rest[4..];
        char::from_u32(code)
    }

    /// Never empty: the caller has seen a character of a word.
    fn word(&mut self) -> &str {
        let ends = |c: char| c.is_whitespace() || matches!(c, '{' | '}' | '[' | ']' | ',' | ':' | '"');
        let end = self.rest.find(ends).unwrap_or(self.rest.len()).max(
            // Whitespace that `peek` does not skip.
            self.rest.chars().next().map_or(0, char::len_utf8),
        );
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }
}

fn plain(word: &str) -> Value {
    match word {
        "null" => return Value::Null,
        "true" => return Value::Bool(true),
        "false" => return Value::Bool(false),
        _ => {}
    }
    if let Ok(number) = word.parse::<i64>() {
        return Value::from(number);
    }
    if let Ok(number) = word.parse::<u64>() {
        return Value::from(number);
    }
    let number = word.parse::<f64>().ok().and_then(Number::from_f64);
    number.map_or_else(|| Value::from(word), Value::Number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_difference_is_reported_at_its_path() {
        let difference = |one: Value, other: Value| first_difference(&one, &other).unwrap_or_default();
        assert_eq!(
            difference(json!({"a": [1, {"b": 2}]}), json!({"a": [1, {"b": 3}]})),
            "/a/1/b: 2 and 3"
        );
        assert_eq!(difference(json!([1]), json!([1, 2])), "/1: None and Some(Number(2))");
        assert_eq!(difference(json!({"a": 1}), json!({"a": 1})), "");
    }

    #[test]
    fn json_is_read_as_json_and_any_other_text_as_some_value() {
        let whole = json!({"a": [1, -2.5, "x\n\u{e9}\"", null, true], "b": {"c": {}}});
        assert_eq!(tolerant(&whole.to_string()), whole);
        for (text, value) in [
            ("", json!(null)),
            ("}{", json!(null)),
            ("{a: [b c 1", json!({"a": ["b", "c", 1]})),
            ("{\"a\" }", json!({"a": null})),
            ("{]a:1[b}", json!({"a": 1, "b": null})),
            ("\"\\u00e9\\ud800x", json!("\u{e9}x")),
            ("\u{a0}", json!("\u{a0}")),
        ] {
            assert_eq!(tolerant(text), value, "{text}");
        }
        let mut deepest = &tolerant(&"[".repeat(1000));
        let mut depth = 0;
        while let Some(inner) = deepest.get(0) {
            (deepest, depth) = (inner, depth + 1);
        }
        assert_eq!(depth, DEPTH_MAX);
    }
}
