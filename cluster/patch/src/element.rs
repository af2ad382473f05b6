//! One step of a field's path: a field, an element of a list by key, value or index. Parsing and printing as FieldsV1
//! (`f:name`, `k:{"name":"a"}`, `v:"a"`, `i:3`) and as people read it (`.name`, `[name="a"]`, `[="a"]`, `[3]`).

use std::fmt;

use cluster_schema::whole;
use serde_json::{Map, Value};

/// One step of a path. The derived order is the one FieldsV1 documents use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Element {
    /// A field of an object or a key of a map.
    Field(Box<str>),
    /// The element of a list whose key fields have these values: canonical JSON of an object.
    Key(Box<str>),
    /// The element of a set with this value: canonical JSON.
    Value(Box<str>),
    /// The element at this position.
    Index(i64),
}

impl Element {
    /// A field step.
    pub fn field(name: &str) -> Self {
        Element::Field(name.into())
    }

    /// A key step; the fields are printed in sorted order.
    pub fn key(fields: Map<String, Value>) -> Self {
        Element::Key(canonical(Value::Object(fields)).to_string().into())
    }

    /// A value step.
    pub fn value(value: &Value) -> Self {
        Element::Value(canonical(value.clone()).to_string().into())
    }

    /// Reads a key of a FieldsV1 object; none when it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        match kind {
            "f" => Some(Element::field(rest)),
            "k" => match serde_json::from_str(rest).ok()? {
                Value::Object(fields) => Some(Element::key(fields)),
                _ => None,
            },
            "v" => Some(Element::value(&serde_json::from_str(rest).ok()?)),
            "i" => rest.parse().ok().map(Element::Index),
            _ => None,
        }
    }

    /// The key of a FieldsV1 object.
    pub fn print(&self) -> String {
        match self {
            Element::Field(name) => format!("f:{name}"),
            Element::Key(json) => format!("k:{json}"),
            Element::Value(json) => format!("v:{json}"),
            Element::Index(index) => format!("i:{index}"),
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Field(name) => write!(f, ".{name}"),
            Element::Key(json) => {
                let fields: Map<String, Value> = serde_json::from_str(json).unwrap_or_default();
                f.write_str("[")?;
                for (position, (name, value)) in fields.iter().enumerate() {
                    let comma = if position > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={}", shown(value))?;
                }
                f.write_str("]")
            }
            Element::Value(json) => {
                let value: Value = serde_json::from_str(json).unwrap_or_default();
                write!(f, "[={}]", shown(&value))
            }
            Element::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// A value as upstream shows it in a path.
fn shown(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(shown).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| format!("{name}={}", shown(value)));
            fields.collect()
        }
        other => other.to_string(),
    }
}

/// Numbers that are whole become integers, so that 80 and 80.0 name the same element.
fn canonical(value: Value) -> Value {
    match value {
        Value::Number(number) => Value::Number(whole(&number).unwrap_or(number)),
        Value::Array(items) => items.into_iter().map(canonical).collect(),
        Value::Object(fields) => fields.into_iter().map(|(key, value)| (key, canonical(value))).collect(),
        other => other,
    }
}

/// Whether two values are the same, 1 and 1.0 included.
pub(crate) fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            left == right || whole(left).as_ref().unwrap_or(left) == whole(right).as_ref().unwrap_or(right)
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|((l_key, left), (r_key, right))| l_key == r_key && same(left, right))
        }
        _ => left == right,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn elements_are_printed_as_they_are_read_and_shown_to_people() {
        for (text, shown) in [
            ("f:", "."),
            ("f:a.b/c:d", ".a.b/c:d"),
            (r#"k:{"name":"a\"b"}"#, r#"[name="a\"b"]"#),
            (
                r#"k:{"containerPort":80,"protocol":"TCP"}"#,
                r#"[containerPort=80,protocol="TCP"]"#,
            ),
            (r#"v:"x""#, r#"[="x"]"#),
            ("v:3", "[=3]"),
            ("i:-1", "[-1]"),
        ] {
            let element = Element::parse(text).expect(text);
            assert_eq!(element.print(), text);
            assert_eq!(element.to_string(), shown);
        }
        for text in ["", ".", "f", "x:1", "k:[]", "k:{", "v:", "i:1.5", "i:"] {
            assert_eq!(Element::parse(text), None, "{text}");
        }
    }

    #[test]
    fn whole_floats_name_the_same_element_as_integers() {
        assert_eq!(Element::parse(r#"k:{"port":80.0}"#), Element::parse(r#"k:{"port":80}"#));
        assert_eq!(Element::value(&json!(1e300)).print(), "v:1e+300");
        assert!(same(&json!({"a": [1.0, "x"]}), &json!({"a": [1, "x"]})));
        assert!(!same(&json!({"a": 1}), &json!({"b": 1})));
        assert!(!same(&json!(9007199254740993_u64), &json!(9007199254740992.0)));
    }
}
