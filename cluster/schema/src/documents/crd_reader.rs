//! Reads the schema of a CustomResourceDefinition (apiextensions v1 `JSONSchemaProps`), which must be structural
//! (apiextensions-apiserver v0.35 `pkg/apiserver/schema/validation.go`). This file never accepts a schema that Kubernetes
//! would refuse as non-structural.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster_cel::{CompileMode, CostTotal, NewRules, Rule, RulesPlace};
use cluster_fields::{ERRORS_MAX, FieldError, FieldPath, Patterns};
use serde_json::{Map, Value};

use crate::documents::bounds::{elements_max, list_type, map_type, read_bounds};
use crate::documents::custom_node::{anything_flat, below, has_distinct_items, has_rules, with_known_default};
use crate::documents::limits::{DEPTH_MAX, NODES_MAX};
use crate::documents::{crd_node, known_formats};
use crate::tree::schema::{Bounds, Kind, List, ListType, MapType, Node, Object, Scalar, Schema};

/// What must not stand below anyOf, allOf, oneOf, not.
const FORBIDDEN: [(&str, &str); 11] = [
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
];

/// Where a node stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Root,
    Item,
    Field,
}

/// Reads one schema; errors are collected until the end.
#[derive(Default)]
pub(crate) struct Reader {
    /// Invalid nodes are read all the same.
    serving: bool,
    /// What makes the schema no structural one.
    pub(crate) structure: Vec<FieldError>,
    /// What is wrong with single nodes otherwise.
    document: Vec<FieldError>,
    /// What is wrong with rules; reported when all else is valid.
    pub(crate) rules: Vec<FieldError>,
    /// There is something of which no tree can be made.
    unreadable: bool,
    /// The outermost list or map above whose parts have no old value.
    uncorrelated: Option<String>,
    /// How often a value can stand in one object, if there is a bound.
    times: Option<u64>,
    /// The schema is stored as it is.
    pub(crate) unchanged: bool,
    /// The estimated cost of all rules.
    pub(crate) total: CostTotal,
    nodes: usize,
    patterns: Patterns,
}

impl Reader {
    /// With all checks of a new schema; `unchanged`: it is stored as it is.
    pub(crate) fn checking(unchanged: bool) -> Self {
        Self {
            times: Some(1),
            unchanged,
            ..Self::default()
        }
    }

    /// For a stored schema: reads what can be read.
    pub(crate) fn serving() -> Self {
        Self {
            serving: true,
            ..Self::default()
        }
    }

    fn refuse(&mut self, error: FieldError) {
        if self.structure.len() < ERRORS_MAX {
            self.structure.push(error);
        }
    }

    /// A tree could be made of what was read.
    pub(crate) fn is_structural(&self) -> bool {
        self.structure.is_empty() && !self.unreadable
    }

    /// The errors to report: where no tree can be made, that the schema is not structural is left out unless it is all.
    pub(crate) fn errors(&mut self) -> Vec<FieldError> {
        let mut errors = std::mem::take(&mut self.document);
        if !self.unreadable || errors.is_empty() {
            errors.append(&mut self.structure);
        }
        errors
    }

    /// Validates a node by itself.
    fn validate(&mut self, json: &Map<String, Value>, path: &FieldPath<'_>) {
        if self.document.len() < ERRORS_MAX {
            crd_node::validate(json, path, &mut self.document);
        }
        let present = |name: &str| json.get(name).is_some_and(|value| !value.is_null());
        self.unreadable |= crd_node::UNSUPPORTED.into_iter().any(present)
            || json.get("items").is_some_and(Value::is_array)
            || json.get("additionalProperties") == Some(&Value::Bool(false));
    }

    /// One node with a type; a tree that allows anything when it is refused.
    pub(crate) fn structural(&mut self, value: &Value, path: &FieldPath<'_>, level: Level, depth: usize) -> Schema {
        let Some(json) = self.enter(value, path, depth) else {
            return Schema::any();
        };
        let before = self.document.len();
        self.validate(json, path);
        let flag = |name: &str| json.get(name).and_then(Value::as_bool) == Some(true);
        let (int_or_string, preserve_unknown) = (
            flag("x-kubernetes-int-or-string"),
            flag("x-kubernetes-preserve-unknown-fields"),
        );
        let embedded_resource = flag("x-kubernetes-embedded-resource");
        let type_name = json.get("type").and_then(Value::as_str).unwrap_or_default();
        self.check_type(json, type_name, path, level);
        let times = self.times;
        self.times = times
            .zip(elements_max(json, type_name))
            .map(|(times, more)| times.saturating_mul(more));
        let kind = match type_name {
            _ if int_or_string => Kind::Scalar(Scalar::IntOrString),
            "string" => Kind::Scalar(Scalar::String),
            "integer" => Kind::Scalar(Scalar::Integer),
            "number" => Kind::Scalar(Scalar::Number),
            "boolean" => Kind::Scalar(Scalar::Boolean),
            "array" => self.list(json, path, depth),
            "object" => self.object(json, path, level, depth),
            "" if json.contains_key("properties") => self.object(json, path, level, depth),
            _ => Kind::Any,
        };
        self.times = times;
        if embedded_resource && !preserve_unknown && !json.contains_key("properties") {
            let words = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
            self.refuse(FieldError::required(path.field("properties"), words));
        }
        let rules = match self.serving || self.document.len() == before {
            true => self.compile_rules(json, path, level == Level::Root || embedded_resource),
            false => Vec::new(),
        };
        let bounds = self.bounds(json, path, depth, int_or_string);
        let mut node = Node {
            kind,
            description: json.get("description").and_then(Value::as_str).map(Into::into),
            default: json.get("default").filter(|default| !default.is_null()).cloned(),
            nullable: flag("nullable"),
            preserve_unknown: preserve_unknown || type_name.is_empty() && !int_or_string,
            embedded_resource,
            bounds,
            rules,
            custom: true,
            ..Node::default()
        };
        node.has_parts = embedded_resource || below(&node).any(|field| field.0.has_parts) || has_distinct_items(&node);
        if embedded_resource {
            node = (*Schema::new(node).with_type_and_object_meta().0).clone();
        }
        node.has_rules = node.has_rules || has_rules(&node);
        match self.serving {
            true => with_known_default(Schema::new(node)),
            false => Schema::new(node),
        }
    }

    fn enter<'v>(&mut self, value: &'v Value, path: &FieldPath<'_>, depth: usize) -> Option<&'v Map<String, Value>> {
        self.nodes += 1;
        if depth > DEPTH_MAX {
            self.refuse(FieldError::forbidden(
                path,
                format!("must not be nested deeper than {DEPTH_MAX} levels"),
            ));
            return None;
        }
        if self.nodes == NODES_MAX + 1 {
            self.refuse(FieldError::forbidden(
                path,
                format!("must not have more than {NODES_MAX} nodes"),
            ));
        }
        if self.nodes > NODES_MAX {
            return None;
        }
        let json = value.as_object();
        if json.is_none() {
            self.refuse(FieldError::invalid(path, value.clone(), "must be a schema"));
        }
        json
    }

    fn check_type(&mut self, json: &Map<String, Value>, name: &str, path: &FieldPath<'_>, level: Level) {
        let flag = |name: &str| json.get(name).and_then(Value::as_bool) == Some(true);
        let at = path.field("type");
        let free = flag("x-kubernetes-int-or-string") || flag("x-kubernetes-preserve-unknown-fields");
        match (name, level) {
            ("", Level::Root) if !free => self.refuse(FieldError::required(at, "must not be empty at the root")),
            ("", Level::Item) if !free => {
                self.refuse(FieldError::required(at, "must not be empty for specified array items"));
            }
            ("", Level::Field) if !free => {
                self.refuse(FieldError::required(
                    at,
                    "must not be empty for specified object fields",
                ));
            }
            ("" | "object", _) => {}
            (other, Level::Root) => self.refuse(FieldError::invalid(at, other, "must be object at the root")),
            ("string" | "integer" | "number" | "boolean" | "array", _) => {}
            // An unknown type is reported with the node.
            (_, _) => {}
        }
        if flag("x-kubernetes-embedded-resource") && name != "object" {
            let words = "must be object if x-kubernetes-embedded-resource is true";
            self.refuse(match name {
                "" => FieldError::required(at, words),
                name => FieldError::invalid(at, name, words),
            });
        }
        if flag("x-kubernetes-int-or-string") && flag("x-kubernetes-preserve-unknown-fields") {
            let at = path.field("x-kubernetes-preserve-unknown-fields");
            self.refuse(FieldError::invalid(
                at,
                true,
                "must be false if x-kubernetes-int-or-string is true",
            ));
        }
    }

    fn object(&mut self, json: &Map<String, Value>, path: &FieldPath<'_>, level: Level, depth: usize) -> Kind {
        let mut fields = BTreeMap::new();
        let outer = self.uncorrelated.clone();
        let map_type = map_type(json);
        if map_type == MapType::Atomic {
            self.uncorrelated.get_or_insert_with(|| path.to_string());
        }
        let at = path.field("properties");
        if let Some(properties) = json.get("properties").and_then(Value::as_object) {
            for (name, value) in properties {
                let at = at.key(name);
                if name == "metadata" && level == Level::Root {
                    self.check_metadata(value, &at);
                }
                fields.insert(
                    name.as_str().into(),
                    self.structural(value, &at, Level::Field, depth + 1),
                );
            }
        }
        let at = path.field("additionalProperties");
        let additional = match json.get("additionalProperties") {
            None | Some(Value::Null) => None,
            Some(Value::Bool(false)) => {
                self.refuse(FieldError::forbidden(at, "additionalProperties cannot be set to false"));
                None
            }
            Some(_) if level == Level::Root => {
                self.refuse(FieldError::forbidden(at, "must not be used at the root"));
                None
            }
            // That they exclude each other is reported with the node.
            Some(_) if !fields.is_empty() => None,
            Some(Value::Bool(true)) => Some(anything_flat()),
            Some(value) => Some(self.structural(value, &at, Level::Field, depth + 1)),
        };
        self.uncorrelated = outer;
        Kind::Object(Object {
            fields,
            additional,
            required: required(json),
            map_type,
        })
    }

    fn check_metadata(&mut self, value: &Value, path: &FieldPath<'_>) {
        let only_names = value.as_object().is_some_and(|json| {
            json.keys()
                .all(|key| matches!(key.as_str(), "type" | "properties" | "default"))
                && json
                    .get("properties")
                    .and_then(Value::as_object)
                    .is_none_or(|fields| fields.keys().all(|name| name == "name" || name == "generateName"))
        });
        if value.get("type").and_then(Value::as_str) != Some("object") {
            self.refuse(FieldError::invalid(
                path.field("type"),
                value["type"].clone(),
                "must be object",
            ));
        }
        // A description does no harm and generators write it.
        let described = value.as_object().is_some_and(|json| json.contains_key("description"));
        if !only_names && !described {
            let words =
                "must not specify anything other than name and generateName, but metadata is implicitly specified";
            self.refuse(FieldError::forbidden(path, words));
        }
    }

    fn list(&mut self, json: &Map<String, Value>, path: &FieldPath<'_>, depth: usize) -> Kind {
        let at = path.field("items");
        let outer = self.uncorrelated.clone();
        if json.get("x-kubernetes-list-type").and_then(Value::as_str) != Some("map") {
            self.uncorrelated.get_or_insert_with(|| path.to_string());
        }
        let items = match json.get("items") {
            Some(Value::Object(_)) => self.structural(&json["items"], &at, Level::Item, depth + 1),
            // That it must be one schema is reported with the node.
            Some(Value::Array(_)) => Schema::any(),
            _ => {
                self.refuse(FieldError::required(at, "must be specified"));
                Schema::any()
            }
        };
        self.uncorrelated = outer;
        let list_type = list_type(json, &items, path, &mut Vec::new());
        Kind::List(List { items, list_type })
    }

    fn compile_rules(&mut self, json: &Map<String, Value>, path: &FieldPath<'_>, root: bool) -> Vec<Arc<Rule>> {
        if !self.serving && self.rules.len() >= ERRORS_MAX {
            return Vec::new();
        }
        let mode = match self.serving {
            true => CompileMode::Stored(&mut self.total.work),
            false => CompileMode::New(NewRules {
                root,
                times: self.times,
                unchanged: self.unchanged,
                total: &mut self.total,
            }),
        };
        let place = RulesPlace {
            uncorrelated: self.uncorrelated.as_deref(),
            mode,
        };
        let rules = cluster_cel::compile(json, path, place, &mut self.rules);
        rules.into_iter().map(Arc::new).collect()
    }

    fn bounds(
        &mut self,
        json: &Map<String, Value>,
        path: &FieldPath<'_>,
        depth: usize,
        int_or_string: bool,
    ) -> Option<Box<Bounds>> {
        let mut bounds = read_bounds(json, path, &mut self.patterns, &mut self.structure);
        bounds.format = bounds.format.filter(|format| known_formats::is_known(format));
        for (name, skip) in [("anyOf", int_or_string), ("allOf", false), ("oneOf", false)] {
            let at = path.field(name);
            let Some(branches) = json.get(name).and_then(Value::as_array) else {
                continue;
            };
            if skip && is_int_or_string(branches) {
                continue;
            }
            for (index, branch) in branches.iter().enumerate() {
                if name == "allOf" && int_or_string && branch["anyOf"].as_array().is_some_and(|b| is_int_or_string(b)) {
                    continue;
                }
                let schema = self.nested(branch, &at.index(index), depth + 1, name == "allOf");
                match name {
                    "anyOf" => bounds.any_of.push(schema),
                    "allOf" => bounds.all_of.push(schema),
                    _ => bounds.one_of.push(schema),
                }
            }
        }
        if let Some(not) = json.get("not").filter(|not| !not.is_null()) {
            bounds.not = Some(self.nested(not, &path.field("not"), depth + 1, false));
        }
        (!bounds.is_empty()).then(|| Box::new(bounds))
    }

    /// A node below anyOf, allOf, oneOf, not: bounds alone, no types.
    fn nested(&mut self, value: &Value, path: &FieldPath<'_>, depth: usize, may_have_rules: bool) -> Schema {
        let Some(json) = self.enter(value, path, depth) else {
            return Schema::any();
        };
        self.validate(json, path);
        for (name, words) in FORBIDDEN {
            if json
                .get(name)
                .is_some_and(|value| !value.is_null() && value != false && value != "")
            {
                self.refuse(FieldError::forbidden(path.field(name), words));
            }
        }
        if json.contains_key("x-kubernetes-validations") && !may_have_rules {
            let at = path.field("x-kubernetes-validations");
            self.refuse(FieldError::forbidden(at, "must be empty to be structural"));
        }
        let at = path.field("properties");
        let properties = json.get("properties").and_then(Value::as_object);
        let mut fields = BTreeMap::new();
        for (name, value) in properties.into_iter().flatten() {
            if name == "metadata" {
                self.refuse(FieldError::forbidden(
                    at.key(name),
                    "must not be specified in a nested context",
                ));
            }
            fields.insert(
                name.as_str().into(),
                self.nested(value, &at.key(name), depth + 1, may_have_rules),
            );
        }
        let required = required(json);
        let kind = if !fields.is_empty() || !required.is_empty() {
            Kind::Object(Object {
                fields,
                required,
                ..Object::default()
            })
        } else if let Some(items) = json.get("items") {
            let items = self.nested(items, &path.field("items"), depth + 1, may_have_rules);
            Kind::List(List {
                items,
                list_type: ListType::Atomic,
            })
        } else {
            Kind::Any
        };
        let bounds = self.bounds(json, path, depth, false);
        let mut node = Node {
            kind,
            untyped: true,
            preserve_unknown: true,
            bounds,
            custom: true,
            ..Node::default()
        };
        node.has_rules = has_rules(&node);
        Schema::new(node)
    }
}

fn required(json: &Map<String, Value>) -> Vec<Box<str>> {
    let names = json.get("required").and_then(Value::as_array);
    names
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(Into::into)
        .collect()
}

fn is_int_or_string(branches: &[Value]) -> bool {
    let types: Vec<&str> = branches.iter().filter_map(|branch| branch["type"].as_str()).collect();
    types == ["integer", "string"] && branches.iter().all(|b| b.as_object().is_some_and(|b| b.len() == 1))
}
