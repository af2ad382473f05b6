//! JSON that is passed on and never understood: `providerConfig`, `providerStatus`, `state`.
//! It never parses and prints its content again, so numbers beyond 2^53 and escapes survive byte for byte.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// One JSON value retained as the bytes it was read as (Go's `runtime.RawExtension` and `apiextensionsv1.JSON`).
///
/// Equality is equality of bytes. It must not stand inside `#[serde(flatten)]`, untagged or internally tagged
/// enums: those buffer values and lose the bytes, so decoding fails there.
#[derive(Clone)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// Takes a JSON text; errors if it is not exactly one JSON value. White space around it is dropped.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<Box<RawValue>>(text).map(Self)
    }

    /// Writes `value` as compact JSON. Errors only if the value cannot be JSON (a map with keys that are not strings).
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(Self)
    }

    /// The JSON text, exactly as read.
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// Reads the text as `T`: for the one reader that does understand it.
    pub fn decode<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.get())
    }

    /// The text as a generic value. Numbers beyond u64 lose digits there: for reading only, never to write back.
    pub fn value(&self) -> serde_json::Value {
        self.decode().expect("a RawJson holds valid JSON by construction")
    }
}

impl Default for RawJson {
    /// The empty object `{}`.
    fn default() -> Self {
        Self::parse("{}").expect("an empty object is JSON")
    }
}

impl From<serde_json::Value> for RawJson {
    fn from(value: serde_json::Value) -> Self {
        Self::of(&value).expect("a JSON value prints as JSON")
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for RawJson {}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get())
    }
}

impl fmt::Display for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get())
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self)
    }
}

impl JsonSchema for RawJson {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "RawJson".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Holder {
        #[serde(skip_serializing_if = "Option::is_none")]
        config: Option<RawJson>,
        after: i32,
    }

    const ODD: &str =
        r#"{"z":1, "a":  [9007199254740993,1e400,0.10,-0],"t":"\u00e9\/\ud83d\ude00 \u0000","n":{"b":{},"a":null}}"#;

    #[test]
    fn bytes_survive_reading_and_writing_whatever_they_hold() {
        let text = format!(r#"{{"config":{ODD},"after":3}}"#);
        let holder: Holder = serde_json::from_str(&text).unwrap();
        assert_eq!(holder.config.as_ref().unwrap().get(), ODD);
        assert_eq!(serde_json::to_string(&holder).unwrap(), text);
        let again: Holder = serde_json::from_slice(text.as_bytes()).unwrap();
        assert_eq!(holder, again);
    }

    #[test]
    fn null_and_absence_are_none() {
        for text in [r#"{"config":null,"after":1}"#, r#"{"after":1}"#] {
            assert_eq!(serde_json::from_str::<Holder>(text).unwrap().config, None, "{text}");
        }
    }

    #[test]
    fn reading_a_generic_value_keeps_integers_beyond_2_to_53() {
        let value: serde_json::Value = serde_json::from_str(r#"{"config":{"n":9007199254740993},"after":1}"#).unwrap();
        let holder: Holder = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(holder.config.as_ref().unwrap().get(), r#"{"n":9007199254740993}"#);
        assert_eq!(serde_json::to_value(&holder).unwrap(), value);
    }

    #[test]
    fn equality_is_of_bytes_and_bad_text_is_refused() {
        assert_ne!(RawJson::parse("{ }").unwrap(), RawJson::parse("{}").unwrap());
        assert!(RawJson::parse("{} {}").is_err());
        assert!(RawJson::parse("").is_err());
    }
}
