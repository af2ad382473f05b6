//! JSON schemas in the form Kubernetes accepts for custom resources ("structural"). It never weakens a schema
//! silently: what it cannot express stays and the API server refuses it.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, json_schema};
use serde_json::{Map, Value, json};

/// How Kubernetes writes quantities (apimachinery pkg/api/resource/quantity.go, as controller-gen prints it).
const QUANTITY_PATTERN: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// Schema of a field that may hold any JSON value (Go's `apiextensionsv1.JSON`); for `#[schemars(schema_with)]`.
pub fn any(_: &mut schemars::SchemaGenerator) -> Schema {
    json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}

/// Schema of Go's `[]byte`: base64 text; for `#[schemars(schema_with)]`.
pub fn bytes(_: &mut schemars::SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "byte"})
}

/// Schema of a map of `[]byte`, such as the data of a Secret; for `#[schemars(schema_with)]`.
pub fn bytes_map(_: &mut schemars::SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "additionalProperties": {"type": "string", "format": "byte"}})
}

/// The structural schema of a kind: a `JSONSchemaProps` with `apiVersion`, `kind`, `metadata` as Kubernetes wants them.
///
/// No `$ref`, no definitions, no `default`, nothing nullable, integer formats int32 and int64 only.
pub fn structural<T: JsonSchema>() -> Value {
    let mut schema = of::<T>();
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.insert("metadata".into(), json!({"type": "object"}));
        properties.insert(
            "apiVersion".into(),
            json!({"type": "string", "description": API_VERSION_HELP}),
        );
        properties.insert("kind".into(), json!({"type": "string", "description": KIND_HELP}));
    }
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| name != "metadata");
    }
    drop_if_empty(&mut schema, "required");
    schema
}

const API_VERSION_HELP: &str = "Version of the schema this object is written in.";
const KIND_HELP: &str = "What this object is, in CamelCase.";

/// The structural schema of any type, as it stands below a kind.
pub fn of<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    let definitions = schema
        .as_object_mut()
        .and_then(|map| map.remove("$defs"))
        .unwrap_or_default();
    restructure(&mut schema, &definitions);
    schema
}

/// Rewrites one schema node and all below it.
fn restructure(node: &mut Value, definitions: &Value) {
    if node == &Value::Bool(true) {
        *node = json!({"x-kubernetes-preserve-unknown-fields": true});
    }
    let Some(map) = node.as_object_mut() else { return };
    drop_null(map);
    while let Some(Value::String(reference)) = map.remove("$ref") {
        resolve(map, &reference, definitions);
        drop_null(map);
    }
    for gone in ["$schema", "title", "default", "examples"] {
        map.remove(gone);
    }
    restructure_scalar(map);
    for key in ["properties", "patternProperties"] {
        if let Some(children) = map.get_mut(key).and_then(Value::as_object_mut) {
            children.values_mut().for_each(|child| restructure(child, definitions));
        }
    }
    if map.get("additionalProperties").is_some_and(Value::is_boolean) {
        map.remove("additionalProperties");
    }
    for key in ["items", "additionalProperties", "not"] {
        if let Some(child) = map.get_mut(key) {
            restructure(child, definitions);
        }
    }
    if map.contains_key("x-kubernetes-int-or-string") {
        return;
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        if let Some(children) = map.get_mut(key).and_then(Value::as_array_mut) {
            children.iter_mut().for_each(|child| restructure(child, definitions));
        }
    }
}

/// Writes a referenced definition into the node; the node's own fields (its description) stay.
fn resolve(map: &mut Map<String, Value>, reference: &str, definitions: &Value) {
    let name = reference.trim_start_matches("#/$defs/");
    let own;
    let definition = if name.ends_with(".ObjectMeta") {
        own = embedded_metadata();
        &own
    } else if name.ends_with(".Quantity") {
        own = json!({"x-kubernetes-int-or-string": true, "pattern": QUANTITY_PATTERN});
        &own
    } else {
        &definitions[name]
    };
    for (key, value) in definition.as_object().into_iter().flatten() {
        map.entry(key.as_str()).or_insert_with(|| value.clone());
    }
}

/// Metadata below the root, as in templates: the usual fields are described, the others pass.
fn embedded_metadata() -> Value {
    let text = json!({"type": "string"});
    let map = json!({"type": "object", "additionalProperties": text});
    json!({
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"name": text, "namespace": text, "labels": map, "annotations": map},
    })
}

/// Takes `null` out: absence is how an optional field is empty.
fn drop_null(map: &mut Map<String, Value>) {
    if let Some(types) = map.get_mut("type").and_then(Value::as_array_mut) {
        types.retain(|name| name != "null");
        if let [single] = types.as_slice() {
            let single = single.clone();
            map.insert("type".into(), single);
        }
    }
    let Some(options) = map.get("anyOf").and_then(Value::as_array) else {
        return;
    };
    let real: Vec<&Value> = options
        .iter()
        .filter(|option| option.get("type") != Some(&json!("null")))
        .collect();
    if real.len() == options.len() {
        return;
    }
    if let [Value::Object(single)] = real.as_slice() {
        let single = single.clone();
        map.remove("anyOf");
        for (key, value) in single {
            map.entry(key).or_insert(value);
        }
    } else {
        let real: Vec<Value> = real.into_iter().cloned().collect();
        map.insert("anyOf".into(), Value::Array(real));
    }
}

/// Integer formats, quantities and int-or-string as controller-gen writes them.
fn restructure_scalar(map: &mut Map<String, Value>) {
    match map.get("format").and_then(Value::as_str) {
        Some("uint8" | "uint16" | "int8" | "int16") => map.insert("format".into(), json!("int32")),
        Some("uint32" | "uint64" | "uint") => map.insert("format".into(), json!("int64")),
        _ => None,
    };
    if map.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        map.remove("type");
        map.remove("format");
        map.insert("anyOf".into(), json!([{"type": "integer"}, {"type": "string"}]));
    }
}

/// A value that has every field of a structural schema, for tests that read and write whole objects.
pub fn full_sample(schema: &Value) -> Value {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        return properties
            .iter()
            .map(|(name, child)| (name.clone(), full_sample(child)))
            .collect();
    }
    if schema.get("x-kubernetes-preserve-unknown-fields").is_some() {
        return json!({"b": 9_007_199_254_740_993_u64, "a": [1.5, "x"]});
    }
    if let Some(child) = schema.get("additionalProperties") {
        return json!({"key": full_sample(child)});
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("array") => json!([full_sample(&schema["items"])]),
        Some("boolean") => json!(true),
        Some("integer") => json!(7),
        Some("number") => json!(0.5),
        Some("object") => json!({}),
        Some(_) => match schema.get("format").and_then(Value::as_str) {
            Some("date-time") => json!("2026-11-21T08:15:00Z"),
            Some("byte") => json!("b3Jhbmdl"),
            Some("duration") => json!("3m0s"),
            _ => json!("text"),
        },
        None => json!("25%"),
    }
}

/// Reads [`full_sample`] of a kind as the kind, writes it again and compares: for tests.
///
/// # Errors
/// Reports which kind does not come back as it was.
pub fn round_trip<K>() -> Result<(), String>
where
    K: crate::Kind + JsonSchema + serde::Serialize + serde::de::DeserializeOwned,
{
    let mut sample = full_sample(&structural::<K>());
    sample["apiVersion"] = K::API_VERSION.into();
    sample["kind"] = K::KIND.into();
    sample["metadata"] = json!({"name": "sample", "labels": {"a": "b"}});
    let text = sample.to_string();
    let object: K = serde_json::from_str(&text).map_err(|error| format!("{} does not read: {error}", K::KIND))?;
    let written = serde_json::to_value(&object).map_err(|error| format!("{} does not write: {error}", K::KIND))?;
    if written == sample {
        Ok(())
    } else {
        Err(format!("{} read {sample}\nwrote {written}", K::KIND))
    }
}

fn drop_if_empty(schema: &mut Value, key: &str) {
    if schema.get(key).and_then(Value::as_array).is_some_and(Vec::is_empty)
        && let Some(map) = schema.as_object_mut()
    {
        map.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::{Condition, GoDuration, NamedResourceReference, RawJson, or_empty};

    /// A sample of every field form.
    #[derive(Serialize, Deserialize, Default, JsonSchema)]
    #[serde(rename_all = "camelCase", default)]
    #[schemars(!default)]
    #[allow(dead_code)]
    struct Sample {
        metadata: ObjectMeta,
        /// The name.
        name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        raw: Option<RawJson>,
        /// How big.
        size: Option<Quantity>,
        limits: BTreeMap<String, Quantity>,
        /// Octal.
        permissions: Option<u32>,
        when: Option<Time>,
        timeout: Option<GoDuration>,
        /// What holds.
        #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
        #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
        conditions: Vec<Condition>,
        default: Option<NamedResourceReference>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "any")]
        values: Option<RawJson>,
    }

    #[test]
    fn a_schema_has_only_what_an_api_server_accepts() {
        let schema = structural::<Sample>();
        let field = |name: &str| &schema["properties"][name];
        assert_eq!(schema["required"], json!(["name", "limits"]));
        assert_eq!(field("name"), &json!({"type": "string", "description": "The name."}));
        assert_eq!(
            field("raw"),
            &json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
        );
        assert_eq!(field("values"), &json!({"x-kubernetes-preserve-unknown-fields": true}));
        assert_eq!(field("size")["description"], "How big.");
        assert_eq!(field("size")["pattern"], QUANTITY_PATTERN);
        assert_eq!(field("limits")["additionalProperties"]["pattern"], QUANTITY_PATTERN);
        assert_eq!(field("permissions")["format"], "int64");
        assert_eq!(field("timeout"), &json!({"type": "string", "format": "duration"}));
        assert_eq!(field("when")["format"], "date-time");
        assert_eq!(field("conditions")["x-kubernetes-list-map-keys"], json!(["type"]));
        assert_eq!(field("conditions")["type"], "array");
        assert_eq!(field("default")["required"], json!(["name", "resourceRef"]));
        let text = schema.to_string();
        for never in [
            "$ref",
            "definitions",
            "\"null\"",
            "nullable",
            "\"title\"",
            "\"default\":null",
            "uint",
        ] {
            assert!(!text.contains(never), "{never} in {text}");
        }
    }
}
