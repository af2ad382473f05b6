//! Which objects a selector lets through. Reads single fields from bytes without building the object.

use std::fmt;

use cluster_store::{Key, Object};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::kinds::registry::{Role, Served};
use crate::wire::query::ListOptions;
use crate::wire::selector::LabelSelector;
use crate::wire::status::Status;

/// A compiled pair of selectors.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    labels: LabelSelector,
    fields: Vec<FieldCondition>,
}

#[derive(Clone, Debug)]
struct FieldCondition {
    field: Field,
    value: String,
    equal: bool,
}

#[derive(Clone, Debug)]
enum Field {
    Name,
    Namespace,
    Path(Vec<String>, &'static str),
}

impl Filter {
    /// Errors: 400 for a field the kind cannot be selected by.
    pub(crate) fn new(served: &Served, version: &str, options: &ListOptions) -> Result<Self, Status> {
        let selectable = match &served.custom {
            Some(custom) => custom.selectable_in(version),
            None => served.kind.selectable_fields(),
        };
        let mut fields = Vec::new();
        for requirement in options.fields.requirements() {
            let field = match requirement.field.as_str() {
                "metadata.name" => Field::Name,
                "metadata.namespace" => Field::Namespace,
                label => {
                    let known = selectable.iter().find(|field| field.label == label);
                    let known = known.ok_or_else(|| Status::bad_request(unknown_field(served, label)))?;
                    Field::Path(known.path.clone(), known.missing)
                }
            };
            fields.push(FieldCondition {
                field,
                value: requirement.value.clone(),
                equal: requirement.equal,
            });
        }
        Ok(Self {
            labels: options.labels.clone(),
            fields,
        })
    }

    /// Whether everything passes.
    pub(crate) fn is_open(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn passes(&self, key: &Key, object: &Object) -> bool {
        self.labels.matches(&object.meta().labels) && self.fields.iter().all(|field| field.passes(key, object))
    }
}

/// The error has other words for kinds that have fields of their own, as in kube-apiserver.
fn unknown_field(served: &Served, label: &str) -> String {
    if served.kind.selectable_fields().is_empty() && served.role != Role::Custom {
        format!("{label:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    } else if served.group() == "batch" {
        format!("field label {label:?} not supported for {}", served.info().kind)
    } else {
        format!("field label not supported: {label}")
    }
}

impl FieldCondition {
    fn passes(&self, key: &Key, object: &Object) -> bool {
        let same = match &self.field {
            Field::Name => *key.name == *self.value,
            Field::Namespace => key.namespace.as_deref().unwrap_or_default() == self.value,
            Field::Path(path, missing) => field_text(object.bytes(), path).as_deref().unwrap_or(missing) == self.value,
        };
        same == self.equal
    }
}

/// The text of the field at `path`; none when it is missing, null, or no leaf.
pub(crate) fn field_text(bytes: &[u8], path: &[String]) -> Option<String> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    At(path).deserialize(&mut deserializer).ok().flatten()
}

struct At<'a>(&'a [String]);

impl<'de> DeserializeSeed<'de> for At<'_> {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for At<'_> {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or a leaf")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(self.0.is_empty().then(|| value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(self.0.is_empty().then(|| value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(self.0.is_empty().then(|| value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(self.0.is_empty().then(|| value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(self.0.is_empty().then(|| value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        while access.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(key) = access.next_key::<std::borrow::Cow<'de, str>>()? {
            match self.0.split_first() {
                Some((first, rest)) if *first == key => found = access.next_value_seed(At(rest))?,
                _ => {
                    access.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_from_bytes_without_building_the_object() {
        let bytes =
            br#"{"a":[{"spec":1}],"spec":{"nodeName":"n\"1","n":7,"on":true,"x":{},"z":null},"y":{"nodeName":"no"}}"#;
        let read = |path: &str| {
            let path: Vec<String> = path.split('.').map(str::to_owned).collect();
            field_text(bytes, &path)
        };
        assert_eq!(read("spec.nodeName").as_deref(), Some("n\"1"));
        assert_eq!(read("spec.n").as_deref(), Some("7"));
        assert_eq!(read("spec.on").as_deref(), Some("true"));
        for missing in ["spec.x", "spec.z", "spec.none", "spec.nodeName.more", "a.spec"] {
            assert_eq!(read(missing), None, "{missing}");
        }
    }
}
