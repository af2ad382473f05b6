//! A field tree written as an OpenAPI v3 schema, for `/openapi/v3` and `kubectl explain`. Rules in CEL are left out:
//! no client evaluates them.

use serde_json::{Map, Value, json};

use crate::tree::schema::{Bounds, Kind, ListType, MapType, Node, Scalar, Schema};

impl Schema {
    /// The schema as OpenAPI v3, complete in itself.
    pub fn to_openapi(&self) -> Value {
        let node = self.node();
        let mut out = Map::new();
        match &node.kind {
            Kind::Any => {}
            Kind::Scalar(scalar) => write_scalar(*scalar, &mut out),
            Kind::Object(object) => {
                out.insert("type".to_owned(), json!("object"));
                if !object.fields.is_empty() {
                    let fields: Map<String, Value> = object
                        .fields
                        .iter()
                        .map(|(name, field)| (name.to_string(), field.to_openapi()))
                        .collect();
                    out.insert("properties".to_owned(), Value::Object(fields));
                }
                if let Some(additional) = &object.additional {
                    out.insert("additionalProperties".to_owned(), additional.to_openapi());
                }
                if !object.required.is_empty() {
                    let names: Vec<&str> = object.required.iter().map(|name| &**name).collect();
                    out.insert("required".to_owned(), json!(names));
                }
                if object.map_type == MapType::Atomic {
                    out.insert("x-kubernetes-map-type".to_owned(), json!("atomic"));
                }
            }
            Kind::List(list) => {
                out.insert("type".to_owned(), json!("array"));
                out.insert("items".to_owned(), list.items.to_openapi());
                let name = match &list.list_type {
                    ListType::Atomic => "atomic",
                    ListType::Set => "set",
                    ListType::Map { keys } => {
                        let keys: Vec<&str> = keys.iter().map(|key| &**key).collect();
                        out.insert("x-kubernetes-list-map-keys".to_owned(), json!(keys));
                        "map"
                    }
                };
                out.insert("x-kubernetes-list-type".to_owned(), json!(name));
            }
        }
        write_node(node, &mut out);
        Value::Object(out)
    }
}

fn write_scalar(scalar: Scalar, out: &mut Map<String, Value>) {
    let name = match scalar {
        Scalar::String | Scalar::Quantity => "string",
        Scalar::Time | Scalar::MicroTime | Scalar::Bytes => {
            let format = if scalar == Scalar::Bytes { "byte" } else { "date-time" };
            out.insert("format".to_owned(), json!(format));
            "string"
        }
        Scalar::Integer => "integer",
        Scalar::Number => "number",
        Scalar::Boolean => "boolean",
        Scalar::IntOrString => {
            out.insert("x-kubernetes-int-or-string".to_owned(), json!(true));
            return;
        }
    };
    out.insert("type".to_owned(), json!(name));
}

fn write_node(node: &Node, out: &mut Map<String, Value>) {
    if let Some(text) = &node.description {
        out.insert("description".to_owned(), json!(&**text));
    }
    if let Some(default) = &node.default {
        out.insert("default".to_owned(), default.clone());
    }
    let mut flag = |name: &str, on: bool| {
        if on {
            out.insert(name.to_owned(), json!(true));
        }
    };
    flag("nullable", node.nullable && !matches!(node.kind, Kind::Any));
    flag("x-kubernetes-preserve-unknown-fields", node.preserve_unknown);
    flag("x-kubernetes-embedded-resource", node.embedded_resource);
    let patch = &node.patch;
    let words: Vec<&str> = [
        (patch.merge, "merge"),
        (patch.replace, "replace"),
        (patch.retain_keys, "retainKeys"),
    ]
    .into_iter()
    .filter_map(|(on, word)| on.then_some(word))
    .collect();
    if !words.is_empty() {
        out.insert("x-kubernetes-patch-strategy".to_owned(), json!(words.join(",")));
    }
    if let Some(key) = &patch.merge_key {
        out.insert("x-kubernetes-patch-merge-key".to_owned(), json!(&**key));
    }
    if let Some(bounds) = &node.bounds {
        write_bounds(bounds, out);
    }
}

fn write_bounds(bounds: &Bounds, out: &mut Map<String, Value>) {
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            out.insert(name.to_owned(), value);
        }
    };
    put("format", bounds.format.as_ref().map(|format| json!(&**format)));
    put(
        "enum",
        (!bounds.one_of_values.is_empty()).then(|| json!(bounds.one_of_values)),
    );
    put(
        "pattern",
        bounds.pattern.as_ref().map(|pattern| json!(pattern.as_str())),
    );
    put("minimum", bounds.minimum.map(Value::from));
    put("exclusiveMinimum", bounds.exclusive_minimum.then_some(json!(true)));
    put("maximum", bounds.maximum.map(Value::from));
    put("exclusiveMaximum", bounds.exclusive_maximum.then_some(json!(true)));
    put("multipleOf", bounds.multiple_of.map(Value::from));
    put("minLength", bounds.length_min.map(Value::from));
    put("maxLength", bounds.length_max.map(Value::from));
    put("minItems", bounds.items_min.map(Value::from));
    put("maxItems", bounds.items_max.map(Value::from));
    put("uniqueItems", bounds.items_unique.then_some(json!(true)));
    put("minProperties", bounds.properties_min.map(Value::from));
    put("maxProperties", bounds.properties_max.map(Value::from));
    let written = |parts: &[Schema]| (!parts.is_empty()).then(|| parts.iter().map(Schema::to_openapi).collect());
    put("allOf", written(&bounds.all_of));
    put("anyOf", written(&bounds.any_of));
    put("oneOf", written(&bounds.one_of));
    put("not", bounds.not.as_ref().map(Schema::to_openapi));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back_as_the_same_tree() {
        let document = json!({"type": "object", "properties": {"spec": {"type": "object", "required": ["a"],
            "properties": {
                "a": {"type": "string", "enum": ["x"], "maxLength": 3, "description": "A."},
                "l": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                    "items": {"type": "object", "properties": {"k": {"type": "string", "default": "d"}}}},
                "m": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 1.0}},
                "i": {"x-kubernetes-int-or-string": true}}}}});
        let written = Schema::from_crd(&document).expect("structural").to_openapi();
        assert_eq!(
            written["properties"]["spec"]["properties"]["a"],
            document["properties"]["spec"]["properties"]["a"]
        );
        let again = json!({"type": "object", "properties": {"spec": written["properties"]["spec"]}});
        let again = Schema::from_crd(&again).expect("still structural").to_openapi();
        assert_eq!(again["properties"]["spec"], written["properties"]["spec"]);
    }
}
