//! Field trees from documents that refer to shared definitions: of Rust types, and published ones of Kubernetes. References are
//! inlined; a type that contains itself is opaque where it does. No schema is refused for its style: what a tree cannot
//! express is not restricted, because the typed value is decoded afterwards anyway.

use std::collections::{BTreeMap, HashMap, HashSet};

use cluster_fields::{FieldError, FieldPath, Patterns};
use serde_json::{Map, Value};

use crate::documents::bounds::{list_type, map_type, read_bounds};
use crate::documents::limits::{DEPTH_MAX, NODES_MAX};
use crate::documents::schema_error::SchemaError;
use crate::go::go_types::{GoTypes, go_object_meta};
use crate::tree::schema::{Bounds, Kind, List, MapType, Node, Object, Patch, Scalar, Schema};

/// The generator whose conventions a document follows.
#[derive(Clone, Copy)]
pub(crate) enum Dialect<'d> {
    /// schemars: `$defs`, nullable types as type lists.
    Rust,
    /// Kubernetes' published OpenAPI v3: references in `allOf` of one, zero values as defaults. With the structs of Go behind it.
    Kubernetes(&'d GoTypes),
}

/// Reads one document and the definitions it refers to, each definition once.
pub(crate) struct Inliner<'d> {
    document: &'d Value,
    dialect: Dialect<'d>,
    done: HashMap<&'d str, Schema>,
    open: HashSet<&'d str>,
    nodes: usize,
    patterns: Patterns,
    too_large: bool,
}

impl<'d> Inliner<'d> {
    pub(crate) fn new(document: &'d Value, dialect: Dialect<'d>) -> Self {
        Self {
            document,
            dialect,
            done: HashMap::new(),
            open: HashSet::new(),
            nodes: 0,
            patterns: Patterns::default(),
            too_large: false,
        }
    }

    pub(crate) fn read(&mut self, value: &'d Value) -> Result<Schema, SchemaError> {
        let schema = self.node(value, 0);
        if self.too_large {
            let words = format!("must not have more than {NODES_MAX} nodes nor {DEPTH_MAX} levels");
            return Err(SchemaError {
                errors: vec![FieldError::forbidden(FieldPath::Root, words)],
            });
        }
        Ok(schema)
    }

    /// The root of a kind, whose definition is called so.
    pub(crate) fn read_kind(&mut self, definition: &str, value: &'d Value) -> Result<Schema, SchemaError> {
        let schema = self.read(value)?;
        Ok(self.of_go(schema, definition))
    }

    /// With what is known of its struct in Go.
    fn of_go(&self, schema: Schema, definition: &str) -> Schema {
        let Dialect::Kubernetes(types) = self.dialect else {
            return schema;
        };
        let mut node = (*schema.0).clone();
        if let Kind::Object(object) = &mut node.kind {
            node.go = types.of_definition(definition, &object.fields);
            for field in node.go.iter().flat_map(|go| go.always()) {
                if let Some(schema) = object.fields.get_mut(&field.name) {
                    *schema = schema.written_always();
                }
            }
        }
        Schema::new(node)
    }

    fn is_of_go(&self) -> bool {
        matches!(self.dialect, Dialect::Kubernetes(_))
    }

    fn reference(&mut self, pointer: &'d str, depth: usize) -> Schema {
        if let Some(schema) = self.done.get(pointer) {
            return schema.clone();
        }
        let target = pointer
            .strip_prefix('#')
            .and_then(|pointer| self.document.pointer(pointer));
        let Some(target) = target else { return Schema::any() };
        if !self.open.insert(pointer) {
            return Schema::any();
        }
        let schema = match well_known(pointer) {
            Some(schema) => schema,
            None => {
                let schema = self.node(target, depth + 1);
                self.of_go(schema, pointer.rsplit('/').next().unwrap_or_default())
            }
        };
        self.open.remove(pointer);
        self.done.insert(pointer, schema.clone());
        schema
    }

    fn node(&mut self, value: &'d Value, depth: usize) -> Schema {
        self.nodes += 1;
        if depth > DEPTH_MAX || self.nodes > NODES_MAX {
            self.too_large = true;
            return Schema::any();
        }
        let Some(json) = value.as_object() else {
            return Schema::any();
        };
        if let Some((inner, nullable)) = self.stand_in(json, depth) {
            return self.over(inner, json, nullable);
        }
        let (type_name, nullable) = type_of(json);
        let (values, null_value) = values_of(json);
        let mut bounds = read_bounds(json, &FieldPath::Root, &mut self.patterns, &mut Vec::new());
        if !values.is_empty() {
            bounds.one_of_values = values;
        }
        if !self.is_of_go() {
            exclusive_numbers(json, &mut bounds);
        }
        let flag = |name: &str| json.get(name).and_then(Value::as_bool) == Some(true);
        let preserve_unknown = flag("x-kubernetes-preserve-unknown-fields");
        let kind = match type_name {
            _ if flag("x-kubernetes-int-or-string") => Kind::Scalar(Scalar::IntOrString),
            "string" if bounds.format.as_deref() == Some("int-or-string") => Kind::Scalar(Scalar::IntOrString),
            "string" if self.is_of_go() && bounds.format.as_deref() == Some("byte") => Kind::Scalar(Scalar::Bytes),
            "string" => Kind::Scalar(Scalar::String),
            "integer" => Kind::Scalar(Scalar::Integer),
            "number" => Kind::Scalar(Scalar::Number),
            "boolean" => Kind::Scalar(Scalar::Boolean),
            "array" => self.list(json, depth),
            "object" => self.object(json, depth),
            _ if json.contains_key("properties") => self.object(json, depth),
            _ if !bounds.one_of_values.is_empty() && bounds.one_of_values.iter().all(Value::is_string) => {
                Kind::Scalar(Scalar::String)
            }
            _ => Kind::Any,
        };
        let opaque_object = matches!(&kind, Kind::Object(o) if o.fields.is_empty() && o.additional.is_none());
        let preserve_unknown = preserve_unknown || matches!(kind, Kind::Any) || opaque_object;
        let bounded = !bounds.is_empty();
        let node = Node {
            nullable: nullable || null_value || flag("nullable") || matches!(kind, Kind::Any),
            kind,
            preserve_unknown,
            // As in API servers in Go: keys of lists decide on merging, repetition is left to the kind's own rules.
            repeats: true,
            of_go: self.is_of_go(),
            embedded_resource: flag("x-kubernetes-embedded-resource"),
            bounds: (bounded && !self.is_of_go() || has_format(&bounds)).then(|| Box::new(bounds)),
            ..Node::default()
        };
        self.over(Schema::new(node), json, false)
    }

    /// A node that only points at another one: `$ref`, `allOf` of one, or `anyOf` of one and null.
    fn stand_in(&mut self, json: &'d Map<String, Value>, depth: usize) -> Option<(Schema, bool)> {
        if let Some(pointer) = json.get("$ref").and_then(Value::as_str) {
            return Some((self.reference(pointer, depth), false));
        }
        for name in ["allOf", "anyOf", "oneOf"] {
            let Some(branches) = json.get(name).and_then(Value::as_array) else {
                continue;
            };
            let is_null = |branch: &&Value| branch["type"] == "null" || branch["enum"] == serde_json::json!([null]);
            let nullable = branches.iter().any(|branch| is_null(&branch));
            let mut rest = branches.iter().filter(|branch| !is_null(branch));
            if let (Some(only), None) = (rest.next(), rest.next()) {
                let alone = json.get("type").is_none() && json.get("properties").is_none();
                if alone {
                    return Some((self.node(only, depth + 1), nullable));
                }
            }
        }
        None
    }

    /// What the pointing node declares beside its pointer.
    fn over(&self, schema: Schema, json: &'d Map<String, Value>, nullable: bool) -> Schema {
        let mut node = (*schema.0).clone();
        if let Some(text) = json.get("description").and_then(Value::as_str) {
            node.description = Some(text.into());
        }
        node.nullable |= nullable;
        node.of_go |= self.is_of_go();
        if let Some(default) = json.get("default").filter(|default| !default.is_null()) {
            let zero = match default {
                Value::String(text) => text.is_empty(),
                Value::Number(number) => number.as_f64() == Some(0.0),
                Value::Bool(truth) => !truth,
                Value::Object(map) => map.is_empty(),
                Value::Array(items) => items.is_empty(),
                Value::Null => true,
            };
            // Kubernetes publishes what Go writes for an empty field as its default; the structs of Go know better.
            // Serde fills in the defaults of our own types, so theirs never come from the tree.
            node.default = (self.is_of_go() && !zero).then(|| default.clone());
        }
        if json.keys().any(|key| key.starts_with("x-kubernetes-patch-")) {
            node.patch = patch_of(json);
        }
        match &mut node.kind {
            Kind::List(list) if json.contains_key("x-kubernetes-list-type") => {
                list.list_type = list_type(json, &list.items, &FieldPath::Root, &mut Vec::new());
            }
            Kind::Object(object) => {
                if let Some(name) = json.get("x-kubernetes-map-type").and_then(Value::as_str) {
                    object.map_type = if name == "atomic" {
                        MapType::Atomic
                    } else {
                        MapType::Granular
                    };
                }
            }
            _ => {}
        }
        Schema::new(node)
    }

    fn list(&mut self, json: &'d Map<String, Value>, depth: usize) -> Kind {
        let items = json
            .get("items")
            .map_or_else(Schema::any, |items| self.node(items, depth + 1));
        let list_type = list_type(json, &items, &FieldPath::Root, &mut Vec::new());
        Kind::List(List { items, list_type })
    }

    fn object(&mut self, json: &'d Map<String, Value>, depth: usize) -> Kind {
        let mut fields = BTreeMap::new();
        for (name, value) in json.get("properties").and_then(Value::as_object).into_iter().flatten() {
            fields.insert(name.as_str().into(), self.node(value, depth + 1));
        }
        let additional = match json.get("additionalProperties") {
            Some(value @ Value::Object(_)) => Some(self.node(value, depth + 1)),
            Some(Value::Bool(true)) if fields.is_empty() => Some(Schema::any()),
            _ => None,
        };
        // Typed kinds decode missing fields as empty ones; their own rules decide which must not be empty.
        let required = Vec::new();
        Kind::Object(Object {
            fields,
            additional,
            required,
            map_type: map_type(json),
        })
    }
}

/// Types that Kubernetes decodes otherwise than their published schema states.
fn well_known(pointer: &str) -> Option<Schema> {
    let nullable = |scalar: Scalar| {
        Schema::new(Node {
            kind: Kind::Scalar(scalar),
            nullable: true,
            ..Node::default()
        })
    };
    match pointer.rsplit('/').next().unwrap_or_default() {
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => Some(Schema::scalar(Scalar::Quantity)),
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => Some(Schema::scalar(Scalar::IntOrString)),
        "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" => Some(go_object_meta()),
        "io.k8s.apimachinery.pkg.apis.meta.v1.Time" => Some(nullable(Scalar::Time)),
        "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime" => Some(nullable(Scalar::MicroTime)),
        "io.k8s.apimachinery.pkg.runtime.RawExtension" | "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1" => {
            Some(Schema::any())
        }
        _ => None,
    }
}

fn has_format(bounds: &Bounds) -> bool {
    matches!(bounds.format.as_deref(), Some("int32" | "date-time"))
}

fn patch_of(json: &Map<String, Value>) -> Patch {
    let mut patch = Patch {
        merge_key: json
            .get("x-kubernetes-patch-merge-key")
            .and_then(Value::as_str)
            .map(Into::into),
        ..Patch::default()
    };
    for word in json
        .get("x-kubernetes-patch-strategy")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .split(',')
    {
        match word {
            "merge" => patch.merge = true,
            "replace" => patch.replace = true,
            "retainKeys" => patch.retain_keys = true,
            _ => {}
        }
    }
    patch
}

/// The one type beside null.
fn type_of(json: &Map<String, Value>) -> (&str, bool) {
    match json.get("type") {
        Some(Value::String(name)) => (name, false),
        Some(Value::Array(names)) => {
            let mut rest = names.iter().filter_map(Value::as_str).filter(|name| *name != "null");
            let nullable = names.iter().any(|name| name == "null");
            match (rest.next(), rest.next()) {
                (Some(only), None) => (only, nullable),
                _ => ("", nullable),
            }
        }
        _ => ("", false),
    }
}

/// The allowed values, from `enum`, `const`, or `oneOf` of those (how schemars writes documented enums).
fn values_of(json: &Map<String, Value>) -> (Vec<Value>, bool) {
    let mut values = Vec::new();
    let mut add = |json: &Map<String, Value>| -> bool {
        if let Some(value) = json.get("const") {
            values.push(value.clone());
            return true;
        }
        match json.get("enum").and_then(Value::as_array) {
            Some(several) => {
                values.extend(several.iter().cloned());
                true
            }
            None => false,
        }
    };
    if !add(json)
        && let Some(branches) = json.get("oneOf").and_then(Value::as_array)
    {
        let complete = branches.iter().all(|branch| branch.as_object().is_some_and(&mut add));
        if !complete {
            values.clear();
        }
    }
    let null_value = values.iter().any(Value::is_null);
    values.retain(|value| !value.is_null());
    (values, null_value)
}

/// JSON Schema 2020-12 has numbers where OpenAPI 3.0 has flags.
fn exclusive_numbers(json: &Map<String, Value>, bounds: &mut Bounds) {
    if let Some(least) = json.get("exclusiveMinimum").and_then(Value::as_f64) {
        (bounds.minimum, bounds.exclusive_minimum) = (Some(least), true);
    }
    if let Some(most) = json.get("exclusiveMaximum").and_then(Value::as_f64) {
        (bounds.maximum, bounds.exclusive_maximum) = (Some(most), true);
    }
}
