//! What a field may hold: values are drawn from it, good ones and sometimes a bad one, and patches of them. It can also be
//! written as an OpenAPI schema, for definitions of our own.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::{Map, Value, json};

/// How often a value is invalid for its field.
const BAD: f64 = 0.02;
/// How often an object has an unknown field.
const UNKNOWN: f64 = 0.03;
/// Items of a drawn list or map.
const ITEMS_MAX: usize = 3;

/// What a field may hold.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    /// One of these.
    Text(Vec<String>),
    /// One of these, bytes as they are sent, and never null: real Kubernetes stores that, shows bytes that are empty, and
    /// stores those with the next write, which is one for that alone.
    Bytes(Vec<String>),
    /// A whole number between these, both included.
    Integer(i64, i64),
    Flag,
    IntOrText,
    /// An amount, in one of the ways in which it can be written.
    Quantity,
    /// Whatever it is.
    Any,
    Map(Box<Shape>),
    /// A map with something in it.
    Filled(Box<Shape>),
    List(Box<Shape>),
    /// A list of texts, each of them once.
    Set(Vec<String>),
    /// A list of objects that this field identifies.
    Named(String, Vec<Field>),
    Object(Vec<Field>),
}

/// A field of an object.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) shape: Shape,
    pub(crate) required: bool,
    pub(crate) nullable: bool,
    /// Its default, in definitions of our own.
    pub(crate) default: Option<Value>,
    /// Its validation rules in CEL, in definitions of our own.
    pub(crate) rules: Vec<&'static str>,
}

impl Field {
    pub(crate) fn new(name: &str, shape: Shape) -> Self {
        Self {
            name: name.to_owned(),
            shape,
            required: false,
            nullable: false,
            default: None,
            rules: Vec::new(),
        }
    }

    pub(crate) fn required(mut self) -> Self {
        self.required = true;
        self
    }
}

/// One of these texts.
pub(crate) fn text(of: &[&str]) -> Shape {
    Shape::Text(of.iter().map(|text| (*text).to_owned()).collect())
}

fn pick<'a>(of: &'a [String], rng: &mut StdRng) -> &'a str {
    of.choose(rng).map_or("", String::as_str)
}

/// A value that is invalid for most fields.
fn bad(rng: &mut StdRng) -> Value {
    let values = [
        Value::Null,
        json!(""),
        json!("Bad Value!"),
        json!(-1),
        json!(1.5),
        json!(true),
        json!([]),
        json!({}),
        json!([1]),
        json!({"a": 1}),
    ];
    values.choose(rng).cloned().unwrap_or_default()
}

impl Shape {
    /// A value, nearly always one that fits.
    pub(crate) fn draw(&self, rng: &mut StdRng) -> Value {
        if rng.random_bool(BAD) {
            let value = bad(rng);
            return match self {
                Shape::Filled(_) if value == json!({}) => Value::Null,
                Shape::Bytes(_) if value.is_null() => json!(""),
                _ => value,
            };
        }
        match self {
            Shape::Text(of) | Shape::Bytes(of) => pick(of, rng).into(),
            Shape::Integer(least, most) => rng.random_range(*least..=*most).into(),
            Shape::Flag => rng.random_bool(0.5).into(),
            Shape::IntOrText => match rng.random_range(0..3) {
                0 => json!(rng.random_range(1..100)),
                1 => json!(format!("{}%", rng.random_range(0..100))),
                _ => json!("http"),
            },
            Shape::Quantity => {
                let written = ["1", "500m", "1Gi", "2e3", "1000m", "0.5", "1024Mi", "0"];
                json!(written.choose(rng))
            }
            Shape::Any => match rng.random_range(0..4) {
                0 => json!({"a": {"b": [1, "x"]}}),
                1 => json!("any"),
                2 => json!(7),
                _ => json!({}),
            },
            Shape::Map(of) | Shape::Filled(of) => {
                let keys = ["a", "b", "c.d", "e-f"].choose_multiple(rng, ITEMS_MAX).copied();
                let keys: Vec<&str> = keys.collect();
                let least = usize::from(matches!(self, Shape::Filled(_)));
                let length = rng.random_range(least..=keys.len());
                let items = keys.into_iter().take(length);
                items
                    .map(|key| (key.to_owned(), of.draw(rng)))
                    .collect::<Map<_, _>>()
                    .into()
            }
            Shape::List(of) => (0..rng.random_range(0..=ITEMS_MAX)).map(|_| of.draw(rng)).collect(),
            Shape::Set(of) => {
                let count = rng.random_range(0..=of.len());
                of.choose_multiple(rng, count).map(|text| json!(text)).collect()
            }
            Shape::Named(_, fields) => (0..rng.random_range(1..=ITEMS_MAX))
                .map(|_| object(fields, rng))
                .collect(),
            Shape::Object(fields) => object(fields, rng),
        }
    }

    /// Part of a value for a merge patch: missing fields stay, null removes one.
    pub(crate) fn draw_part(&self, rng: &mut StdRng) -> Value {
        match self {
            Shape::Object(fields) => {
                let mut part = Map::new();
                for field in fields.iter().filter(|_| rng.random_bool(0.4)).collect::<Vec<_>>() {
                    let value = match rng.random_bool(0.15) {
                        true => Value::Null,
                        false => field.shape.draw_part(rng),
                    };
                    part.insert(field.name.clone(), value);
                }
                part.into()
            }
            other => other.draw(rng),
        }
    }

    /// A JSON pointer into a value and a value for that place.
    pub(crate) fn draw_place(&self, rng: &mut StdRng) -> (String, Value) {
        match self {
            Shape::Object(fields) if rng.random_bool(0.85) => match fields.choose(rng) {
                Some(field) => {
                    let (below, value) = field.shape.draw_place(rng);
                    (format!("/{}{below}", field.name), value)
                }
                None => (String::new(), self.draw(rng)),
            },
            Shape::Map(of) | Shape::Filled(of) if rng.random_bool(0.7) => {
                let key = ["a", "b", "c.d", "x~1y"].choose(rng).copied().unwrap_or("a");
                (format!("/{key}"), of.draw(rng))
            }
            Shape::List(of) if rng.random_bool(0.6) => (format!("/{}", index(rng)), of.draw(rng)),
            Shape::Named(_, fields) if rng.random_bool(0.7) => {
                let item = Shape::Object(fields.clone());
                let (below, value) = item.draw_place(rng);
                (format!("/{}{below}", index(rng)), value)
            }
            other => (String::new(), other.draw(rng)),
        }
    }

    /// As an OpenAPI schema.
    pub(crate) fn schema(&self) -> Value {
        match self {
            Shape::Text(of) if of.len() > 2 => json!({"type": "string", "enum": of}),
            Shape::Text(_) | Shape::Bytes(_) => json!({"type": "string", "maxLength": 20}),
            Shape::Integer(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
            Shape::Flag => json!({"type": "boolean"}),
            Shape::IntOrText | Shape::Quantity => json!({"x-kubernetes-int-or-string": true}),
            Shape::Any => json!({"x-kubernetes-preserve-unknown-fields": true}),
            Shape::Map(of) | Shape::Filled(of) => {
                json!({"type": "object", "additionalProperties": of.schema(), "maxProperties": 3})
            }
            Shape::List(of) => json!({"type": "array", "items": of.schema(), "maxItems": 3}),
            Shape::Set(_) => {
                json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"})
            }
            Shape::Named(key, fields) => json!({
                "type": "array", "items": Shape::Object(fields.clone()).schema(),
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key],
            }),
            Shape::Object(fields) => object_schema(fields),
        }
    }
}

/// An index that mostly exists.
fn index(rng: &mut StdRng) -> &'static str {
    ["0", "0", "1", "2", "-"].choose(rng).copied().unwrap_or("0")
}

fn object(fields: &[Field], rng: &mut StdRng) -> Value {
    let mut object = Map::new();
    for field in fields {
        let chance = if field.required { 0.97 } else { 0.4 };
        if rng.random_bool(chance) {
            let value = match field.nullable && rng.random_bool(0.2) {
                true => Value::Null,
                false => field.shape.draw(rng),
            };
            object.insert(field.name.clone(), value);
        }
    }
    if rng.random_bool(UNKNOWN) {
        object.insert("nobodyKnows".to_owned(), json!("x"));
    }
    object.into()
}

fn object_schema(fields: &[Field]) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for field in fields {
        let mut schema = field.shape.schema();
        if field.nullable {
            schema["nullable"] = true.into();
        }
        if let Some(default) = &field.default {
            schema["default"] = default.clone();
        }
        if !field.rules.is_empty() {
            let rules = field.rules.iter().map(|rule| json!({"rule": rule}));
            schema["x-kubernetes-validations"] = rules.collect();
        }
        properties.insert(field.name.clone(), schema);
        if field.required {
            required.push(field.name.clone());
        }
    }
    match required.is_empty() {
        true => json!({"type": "object", "properties": properties}),
        false => json!({"type": "object", "properties": properties, "required": required}),
    }
}
