//! Cases drawn from a seed, and the reduction of a case that differs.

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Map, Value, json};

use crate::case::Case;

/// How deep values nest.
const DEPTH_MAX: u32 = 4;
/// How many pieces a text of YAML has.
const PIECES_MAX: u32 = 14;
/// How many smaller cases a reduction tries.
const SHRINKS_MAX: u32 = 4000;

/// Parts of texts: what has a meaning in YAML.
const WORDS: &[&str] = &[
    "a",
    "b",
    "key",
    "x y",
    "0",
    "1",
    "10",
    "2",
    "007",
    "0x1F",
    "1e3",
    "1_000",
    "-1",
    "+2",
    "1.5",
    ".5",
    "12:30:45",
    "2001-01-01",
    "2001-12-14t21:59:43.10-05:00",
    "true",
    "yes",
    "No",
    "on",
    "null",
    "~",
    "y",
    "n",
    ".inf",
    "-.INF",
    "<<",
    "=",
    "é",
    "日本",
    "😀",
    "\u{85}",
    "\u{a0}",
    "\u{2028}",
    "\u{feff}",
    "\t",
    "\r",
    "\u{7f}",
    "\u{1}",
    "'",
    "\"",
    "\\",
    "a-long-word-without-any-blank-in-it",
    "words that go on and on",
    "{{ .x }}",
    "%",
    "@",
    "`",
    "`a",
    "18446744073709551615",
    "9223372036854775808",
    "http://a:80/b?c=d#e",
    "a: b",
    "a #b",
    "- a",
    "? a",
    "[a]",
    "{a}",
    "!a",
    "&a",
    "*a",
    "|",
    ">",
    "...",
    "---",
];
const GLUE: &[&str] = &[
    "", "", " ", " ", "  ", "\n", "\n", "\n\n", " \n", "\n ", "-", "_", ":", ": ", " #", ",", ", ",
];

/// Parts of documents.
const TOKENS: &[&str] = &[
    "a",
    "b",
    "c",
    "1",
    "01",
    "1.5",
    "true",
    "yes",
    "~",
    "",
    "'q'",
    "\"d\"",
    "'it''s'",
    "\"\\x41\\n\"",
    "\"\\",
    "'",
    "\"",
    "a b",
    "<<",
    "*x",
    "*y",
    "&x",
    "&y",
    "&x ",
    "&y ",
    "!!str ",
    "!!int ",
    "!!float ",
    "!!binary ",
    "!t ",
    "! ",
    "!<a> ",
    "!!",
    "|",
    ">",
    "|-",
    ">+",
    "|2",
    "|+\n",
    ">-\n",
    "# c",
    " # c",
    "#",
    "---",
    "...",
    "--- ",
    "%YAML 1.1",
    "%TAG ! a",
    "%X",
    "\u{85}",
    "\u{2028}",
    "\u{7f}",
    "\u{feff}",
    "é",
    "2001-01-01",
    "0o7",
    "1:20",
    ".inf",
    "-",
];
const JOINTS: &[&str] = &[
    "\n", "\n", "\n", "\n  ", "\n  ", "\n    ", "\n- ", "\n- ", "\n  - ", "- ", "- - ", ": ", ": ", ": ", ":", ":\n",
    ":\n  ", ":\n- ", "? ", "\n? ", "\n: ", "[", "]", "{", "}", ", ", ",", "[", "]", "{", "}", " ", "  ", "\t", "\r\n",
    "\r", "\n\n", "\n\t", " \n", "\n---\n", "\n...\n", "\n\n  ",
];

/// Drawn case `number` of a seed.
pub fn draw(seed: u64, number: u64) -> Case {
    let mut rng = StdRng::seed_from_u64(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(number));
    match rng.random_range(0..10) {
        0..3 => Case::of_value("write", value(&mut rng, DEPTH_MAX)),
        3..5 => Case::of_value("pretty", value(&mut rng, DEPTH_MAX)),
        5 => Case::of_text("readStrict", &document(&mut rng)),
        6 => Case::of_text("readMap", &document(&mut rng)),
        _ => Case::of_text("read", &document(&mut rng)),
    }
}

fn pick<'t>(rng: &mut StdRng, from: &[&'t str]) -> &'t str {
    from[rng.random_range(0..from.len())]
}

fn text(rng: &mut StdRng) -> String {
    let mut text = String::new();
    let pieces = match rng.random_range(0..10) {
        0..6 => 1,
        6..9 => rng.random_range(0..4),
        _ => rng.random_range(0..40),
    };
    for _ in 0..pieces {
        text.push_str(pick(rng, WORDS));
        text.push_str(pick(rng, GLUE));
    }
    text
}

fn value(rng: &mut StdRng, depth: u32) -> Value {
    let kinds = if depth == 0 { 7 } else { 12 };
    match rng.random_range(0..kinds) {
        0 => Value::Null,
        1 => Value::Bool(rng.random()),
        2 => json!(rng.random_range(-20_i64..2000)),
        3 => json!({"$float": float(rng)}),
        4..7 => Value::String(text(rng)),
        7..9 => (0..rng.random_range(0..4)).map(|_| value(rng, depth - 1)).collect(),
        _ => {
            let entries = (0..rng.random_range(0..5)).map(|_| (text(rng), value(rng, depth - 1)));
            let entries: Map<String, Value> = entries.filter(|(key, _)| !key.starts_with('$')).collect();
            Value::Object(entries)
        }
    }
}

fn float(rng: &mut StdRng) -> String {
    let number = match rng.random_range(0..5) {
        0 => f64::from(rng.random_range(-2000..2000)),
        1 => f64::from(rng.random_range(-200..200)) / 8.0,
        2 => 10_f64.powi(rng.random_range(-30..30)) * f64::from(rng.random_range(1..1000)),
        3 => rng.random::<f64>(),
        _ => f64::from_bits(rng.random()),
    };
    if number.is_finite() {
        format!("{number:e}")
    } else {
        "0.5".to_owned()
    }
}

/// A text that is nearly a document, with mistakes here and there.
fn document(rng: &mut StdRng) -> String {
    let mut text = String::new();
    for _ in 0..rng.random_range(1..PIECES_MAX) {
        text.push_str(pick(rng, TOKENS));
        text.push_str(pick(rng, JOINTS));
    }
    text
}

/// The smallest case found for which `differs` still holds.
pub fn shrink(case: &Case, mut differs: impl FnMut(&Case) -> bool) -> Case {
    let mut best = case.clone();
    let mut left = SHRINKS_MAX;
    loop {
        let smaller = smaller(&best).into_iter().find(|smaller| {
            left = left.saturating_sub(1);
            left > 0 && differs(smaller)
        });
        match smaller {
            Some(smaller) => best = smaller,
            None => return best,
        }
    }
}

fn smaller(case: &Case) -> Vec<Case> {
    if let Some(text) = &case.text {
        return smaller_texts(text)
            .into_iter()
            .map(|text| Case {
                text: Some(text),
                ..case.clone()
            })
            .collect();
    }
    smaller_values(&case.value)
        .into_iter()
        .map(|value| Case { value, ..case.clone() })
        .collect()
}

fn smaller_texts(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let mut texts = Vec::new();
    let mut size = characters.len() / 2;
    while size > 0 {
        for start in (0..characters.len()).step_by(size) {
            let end = (start + size).min(characters.len());
            texts.push(characters[..start].iter().chain(&characters[end..]).collect());
        }
        size /= 2;
    }
    texts
}

fn smaller_values(value: &Value) -> Vec<Value> {
    match value {
        Value::String(text) => smaller_texts(text).into_iter().map(Value::String).collect(),
        Value::Array(items) => {
            let mut smaller = items.clone();
            for at in 0..items.len() {
                let mut fewer = items.clone();
                fewer.remove(at);
                smaller.push(Value::Array(fewer));
                smaller.extend(smaller_values(&items[at]).into_iter().map(|item| {
                    let mut items = items.clone();
                    items[at] = item;
                    Value::Array(items)
                }));
            }
            smaller
        }
        Value::Object(items) if items.keys().any(|key| key.starts_with('$')) => Vec::new(),
        Value::Object(items) => {
            let mut smaller: Vec<Value> = items.values().cloned().collect();
            for (key, item) in items {
                let mut fewer = items.clone();
                fewer.remove(key);
                smaller.push(Value::Object(fewer.clone()));
                smaller.extend(
                    smaller_texts(key)
                        .into_iter()
                        .filter(|key| !key.starts_with('$'))
                        .map(|key| {
                            let mut items = fewer.clone();
                            items.insert(key, item.clone());
                            Value::Object(items)
                        }),
                );
                smaller.extend(smaller_values(item).into_iter().map(|item| {
                    let mut items = items.clone();
                    items.insert(key.clone(), item);
                    Value::Object(items)
                }));
            }
            smaller
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}
