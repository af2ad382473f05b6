//! Values for serializers, as Go's JSON writes them.

use serde::ser::{Serialize, SerializeMap as _, SerializeSeq as _, Serializer};

use base_yaml::go::{Moment, Text};

use super::dates::time_of;
use super::encoding::encode as base64;
use crate::value::Value;

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Absent | Self::Nil => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Int(_, number) => serializer.serialize_i64(*number),
            Self::Uint(_, number) => serializer.serialize_u64(*number),
            Self::Float(number) => serializer.serialize_f64(*number),
            Self::Complex(..) => Err(serde::ser::Error::custom("json: unsupported type: complex128")),
            Self::Str(text) => Text(text).serialize(serializer),
            Self::Bytes(bytes) => Text(&base64(bytes)).serialize(serializer),
            Self::List(list) if list.is_nil() => serializer.serialize_unit(),
            Self::List(list) => {
                let mut items = serializer.serialize_seq(Some(list.items().len()))?;
                for item in list.items() {
                    items.serialize_element(item)?;
                }
                items.end()
            }
            Self::Map(map) if map.is_nil() => serializer.serialize_unit(),
            Self::Map(map) => {
                let entries = map.entries();
                let mut items = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in &entries {
                    items.serialize_entry(&Text(key), value)?;
                }
                items.end()
            }
            Self::Object(object) => match (object.marshalled(), object.underlying()) {
                (Some(text), _) if time_of(self).is_some() => Moment(&text).serialize(serializer),
                (Some(text), _) => serializer.serialize_str(&text),
                (None, Some(value)) => value.serialize(serializer),
                (None, None) => {
                    let fields = object.fields();
                    let mut items = serializer.serialize_map(Some(fields.len()))?;
                    for (name, value) in &fields {
                        items.serialize_entry(name, value)?;
                    }
                    items.end()
                }
            },
        }
    }
}
