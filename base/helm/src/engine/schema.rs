//! Validates the values of a chart against its values.schema.json: `pkg/chart/common/util/jsonschema.go` of Helm 4.1.
//! Nothing that a schema refers to outside of itself is fetched: Helm would read files and send requests.
//!
//! What else differs from Helm: a reference to itself matches everything, where Helm refuses the schema; the schema of draft 7
//! cannot be referred to; the format `uri-reference` is stricter, and `duration` is checked from 2019-09 on.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::fmt::Write as _;
use std::sync::Arc;

use jsonschema::{PatternOptions, Retrieve, Uri, Validator};
use serde_json::{Map, Value};

use super::cache::Cache;
use crate::Chart;
use crate::values::Values;

/// Maximum number of reported errors in a chart's values; the user corrects these first.
const FAULTS_MAX: usize = 20;
/// A fault shows the value at fault, of which this much is enough to find it.
const FAULT_CHARACTERS_MAX: usize = 400;
/// Numbers up to here are exact as floats: 2^53.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
/// How deep schemas may nest: far less than the library can walk, and deeper than any schema written by hand.
const DEPTH_MAX: usize = 64;
/// References of this scheme match everything: Helm has no loader for them.
const URN: &str = "urn";

/// Values do not match a schema, or a schema is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("values don't meet the specifications of the schema(s) in the following chart(s):\n{0}")]
pub struct SchemaError(String);

/// The text of a schema with its validator, or why it is invalid.
#[derive(Debug)]
struct Schema {
    text: Arc<[u8]>,
    validator: Result<Validator, String>,
}

/// Cached schemas: charts are rendered often, and one may be in another many times.
#[derive(Debug, Default)]
pub(super) struct Schemas(Cache<Schema>);

impl Schemas {
    /// Validates the values of a chart, and of the charts in it, against their schemas.
    pub(super) fn check(&self, chart: &Chart, values: &Values) -> Result<(), SchemaError> {
        let mut messages = String::new();
        self.check_into(&mut messages, chart, values);
        if messages.is_empty() {
            Ok(())
        } else {
            Err(SchemaError(messages))
        }
    }

    fn check_into(&self, messages: &mut String, chart: &Chart, values: &Values) {
        let name = &chart.metadata.name;
        if let Some(schema) = &chart.schema {
            let faults = match &self.read(schema).validator {
                Ok(validator) => faults(validator, values),
                Err(why) => vec![why.clone()],
            };
            if !faults.is_empty() {
                *messages += &format!("{name}:\n{}\n", faults.join("\n"));
            }
        }
        for inner in &chart.dependencies {
            let name = &inner.metadata.name;
            match values.get(name) {
                None | Some(Value::Null) => {}
                Some(Value::Object(own)) => self.check_into(messages, inner, own),
                Some(_) => *messages += &format!("{name}:\nthe values of this chart are no map\n"),
            }
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The schema of a text, cached.
    fn read(&self, text: &Arc<[u8]>) -> Arc<Schema> {
        let make = || {
            Ok::<_, Infallible>(Schema {
                text: Arc::clone(text),
                validator: validator(text),
            })
        };
        let Ok(read) = self.0.find_or_make(|schema| schema.text == *text, make);
        read
    }
}

fn validator(schema: &[u8]) -> Result<Validator, String> {
    let schema: Value =
        serde_json::from_slice(schema).map_err(|why| format!("values.schema.json is no JSON: {why}"))?;
    if depth(&schema) > DEPTH_MAX {
        return Err(format!("values.schema.json nests more than {DEPTH_MAX} deep"));
    }
    // Helm's library ignores encodings of texts. Its patterns are Go's, which those of `regex` equal but for details.
    let options = jsonschema::options()
        .with_retriever(NoRetrieval)
        .with_pattern_options(PatternOptions::regex())
        .with_format("uuid", is_uuid)
        .without_content_encoding_support("base64")
        .without_content_media_type_support("application/json");
    let built = options.build(&schema);
    built.map_err(|why| format!("values.schema.json is no schema: {}", shortened(&why.to_string())))
}

/// Helm's library checks this format in the older drafts, too.
fn is_uuid(text: &str) -> bool {
    let parts = text.split('-');
    let is_hex = |part: &str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex(&text.replace('-', "")) && parts.map(str::len).eq([8, 4, 4, 4, 12])
}

fn faults(validator: &Validator, values: &Values) -> Vec<String> {
    let values = Value::Object(whole(values));
    let faults = validator.iter_errors(&values).take(FAULTS_MAX);
    let shown = faults.map(|fault| {
        let mut fault_line = format!("- at '{}'", fault.instance_path());
        let _ = write!(fault_line, ": {}", shortened(&fault.to_string()));
        fault_line
    });
    shown.collect()
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(FAULT_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(entries) => 1 + entries.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Floats without a fraction as integers, which they are in all drafts.
fn whole(values: &Values) -> Map<String, Value> {
    let entries = values.iter().map(|(key, value)| (key.clone(), whole_value(value)));
    entries.collect()
}

fn whole_value(value: &Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            #[expect(clippy::cast_possible_truncation, reason = "it has no fraction and is small enough")]
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < EXACT_MAX => (float as i64).into(),
            _ => value.clone(),
        },
        Value::Array(items) => items.iter().map(whole_value).collect(),
        Value::Object(entries) => Value::Object(whole(entries)),
        other => other.clone(),
    }
}

/// Fetches no schema. A [`URN`] matches everything, as in Helm.
struct NoRetrieval;

impl Retrieve for NoRetrieval {
    fn retrieve(&self, uri: &Uri<String>) -> Result<Value, Box<dyn StdError + Send + Sync>> {
        if uri.scheme().as_str() == URN {
            return Ok(Value::Bool(true));
        }
        Err(format!("it refers to {uri}, and schemas are not fetched: put it into the schema itself").into())
    }
}
