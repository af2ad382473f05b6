//! The part of JSON path that printer columns use: fields (dotted, escaped or quoted), indices, `[*]`, and filters that
//! compare one field. Never recursive descent, slices, unions or scripts: those are refused by name.

use serde_json::Value;

/// A path this printer does not understand.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the JSON path \"{path}\" is not supported at \"{rest}\": use fields, [n], [*] and [?(@.field==\"value\")]")]
pub struct PathError {
    /// The whole path.
    pub path: String,
    /// What was left when it was not understood.
    pub rest: String,
}

/// A parsed path, such as `.status.conditions[?(@.type=="Ready")].status`.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    /// Negative counts from the end.
    Index(i64),
    All,
    Filter {
        field: JsonPath,
        equal: bool,
        value: Value,
    },
    Exists(JsonPath),
}

impl JsonPath {
    /// Reads a path; the leading dot and a surrounding `{}` may be missing or there.
    ///
    /// # Errors
    /// [`PathError`] at the first thing that is not understood.
    pub fn parse(path: &str) -> Result<Self, PathError> {
        let trimmed = path.trim();
        let inner = trimmed
            .strip_prefix('{')
            .and_then(|inner| inner.strip_suffix('}'))
            .unwrap_or(trimmed);
        steps(inner.strip_prefix('$').unwrap_or(inner)).map_err(|rest| PathError {
            path: path.to_owned(),
            rest,
        })
    }

    /// Everything the path leads to.
    pub fn find<'a>(&self, object: &'a Value) -> Vec<&'a Value> {
        self.0.iter().fold(vec![object], |found, step| {
            found.into_iter().flat_map(|value| step.apply(value)).collect()
        })
    }
}

impl Step {
    fn apply<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let items = || value.as_array().map(Vec::as_slice).unwrap_or_default();
        match self {
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::Index(index) => {
                let length = i64::try_from(items().len()).unwrap_or(i64::MAX);
                let index = if *index < 0 { length + index } else { *index };
                usize::try_from(index)
                    .ok()
                    .and_then(|index| items().get(index))
                    .into_iter()
                    .collect()
            }
            Self::All => match value {
                Value::Object(map) => map.values().collect(),
                _ => items().iter().collect(),
            },
            Self::Filter {
                field,
                equal,
                value: wanted,
            } => items()
                .iter()
                .filter(|item| {
                    field
                        .find(item)
                        .first()
                        .is_some_and(|found| (*found == wanted) == *equal)
                })
                .collect(),
            Self::Exists(field) => items().iter().filter(|item| !field.find(item).is_empty()).collect(),
        }
    }
}

fn steps(text: &str) -> Result<JsonPath, String> {
    let mut found = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (step, tail) = match rest.strip_prefix('[') {
            Some(inner) => bracket(inner).ok_or_else(|| rest.to_owned())?,
            None => field(rest.strip_prefix('.').unwrap_or(rest)).ok_or_else(|| rest.to_owned())?,
        };
        found.extend(step);
        rest = tail;
    }
    Ok(JsonPath(found))
}

/// A dotted name; a backslash takes the next character as it is. A lone dot is the object itself.
fn field(text: &str) -> Option<(Option<Step>, &str)> {
    let mut name = String::new();
    let mut letters = text.char_indices();
    let end = loop {
        match letters.next() {
            None => break text.len(),
            Some((_, '\\')) => name.push(letters.next()?.1),
            Some((at, '.' | '[')) => break at,
            Some((_, letter)) if "()?@* \"'{}<>=!&|".contains(letter) => return None,
            Some((_, letter)) => name.push(letter),
        }
    };
    // Two dots in a row would be recursive descent.
    if name.is_empty() && text[end..].starts_with('.') {
        return None;
    }
    Some(((!name.is_empty()).then_some(Step::Field(name)), &text[end..]))
}

/// The step in brackets, and the text behind them.
fn bracket(text: &str) -> Option<(Option<Step>, &str)> {
    if let Some(filter) = text.strip_prefix("?(") {
        let end = outside_quotes(filter, ")]")?;
        return Some((Some(condition(filter[..end].trim())?), &filter[end + 2..]));
    }
    let end = outside_quotes(text, "]")?;
    let inner = text[..end].trim();
    let step = if inner == "*" {
        Step::All
    } else if let Some(name) = quoted(inner) {
        Step::Field(name)
    } else {
        Step::Index(inner.parse().ok()?)
    };
    Some((Some(step), &text[end + 1..]))
}

fn condition(text: &str) -> Option<Step> {
    let path = text.strip_prefix('@')?;
    for (operator, equal) in [("==", true), ("!=", false)] {
        if let Some(at) = outside_quotes(path, operator) {
            let literal = path[at + operator.len()..].trim();
            let value = quoted(literal)
                .map(Value::String)
                .or_else(|| serde_json::from_str(literal).ok())?;
            return Some(Step::Filter {
                field: steps(path[..at].trim()).ok()?,
                equal,
                value,
            });
        }
    }
    steps(path.trim()).ok().map(Step::Exists)
}

fn quoted(text: &str) -> Option<String> {
    let unquote = |mark: char| text.strip_prefix(mark)?.strip_suffix(mark);
    unquote('"')
        .or_else(|| unquote('\''))
        .filter(|inner| !inner.contains(['"', '\'']))
        .map(str::to_owned)
}

/// Where `wanted` begins outside of quotes.
fn outside_quotes(text: &str, wanted: &str) -> Option<usize> {
    let mut quote = None;
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), letter) if open == letter => quote = None,
            (None, _) if text[at..].starts_with(wanted) => return Some(at),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_of_printer_columns_find_what_they_name() {
        let object = json!({
            "spec": {"type": "local", "list": [1, 2, 3]},
            "metadata": {"labels": {"a.b/c": "x"}},
            "status": {"conditions": [{"type": "Other", "status": "a"}, {"type": "Re]a)dy", "status": "b", "n": 2}]},
        });
        let cases = [
            (".spec.type", json!(["local"])),
            ("spec.type", json!(["local"])),
            ("{.spec.type}", json!(["local"])),
            (".spec.nothing.more", json!([])),
            (".spec.list[0]", json!([1])),
            (".spec.list[-1]", json!([3])),
            (".spec.list[7]", json!([])),
            (".spec.list[*]", json!([1, 2, 3])),
            (r".metadata.labels.a\.b/c", json!(["x"])),
            (".metadata.labels['a.b/c']", json!(["x"])),
            (r#".status.conditions[?(@.type=="Re]a)dy")].status"#, json!(["b"])),
            (".status.conditions[?(@.type == 'Other')].status", json!(["a"])),
            (r#".status.conditions[?(@.type!="Other")].status"#, json!(["b"])),
            (".status.conditions[?(@.n==2)].status", json!(["b"])),
            (".status.conditions[?(@.n)].status", json!(["b"])),
        ];
        for (path, wanted) in cases {
            let found = JsonPath::parse(path).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(json!(found.find(&object)), wanted, "{path}");
        }
    }

    #[test]
    fn unsupported_paths_are_refused() {
        for path in [
            "..name",
            ".a[1:2]",
            ".a[0,1]",
            ".a[?(@.b>1)]",
            ".a[",
            ".a[?(@.b==x)]",
            ".a.b()",
        ] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
    }
}
