//! Custom resource definitions made from Rust types: schema, columns, rules. It never talks to an API server.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use schemars::JsonSchema;
use serde_json::{Value, json};

use crate::{Kind, schema};

/// A custom resource definition in the making: one served and stored version.
#[derive(Debug, Clone)]
pub struct Definition {
    singular: String,
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    namespaced: bool,
    short_names: Vec<&'static str>,
    columns: Vec<Value>,
    subresources: Value,
    labels: Vec<(&'static str, &'static str)>,
    schema: Value,
}

impl Definition {
    /// A definition of `K` with its structural schema, nothing else.
    pub fn of<K: Kind + JsonSchema>() -> Self {
        Self {
            singular: K::KIND.to_lowercase(),
            group: K::GROUP,
            version: K::VERSION,
            kind: K::KIND,
            plural: K::PLURAL,
            namespaced: K::NAMESPACED,
            short_names: Vec::new(),
            columns: Vec::new(),
            subresources: json!({}),
            labels: Vec::new(),
            schema: schema::structural::<K>(),
        }
    }

    /// Adds a short name for kubectl.
    #[must_use]
    pub fn short_name(mut self, name: &'static str) -> Self {
        self.short_names.push(name);
        self
    }

    /// Adds a label of the definition itself.
    #[must_use]
    pub fn label(mut self, key: &'static str, value: &'static str) -> Self {
        self.labels.push((key, value));
        self
    }

    /// Adds a printer column of type string.
    #[must_use]
    pub fn column(self, name: &str, path: &str) -> Self {
        self.typed_column(name, "string", path)
    }

    /// Adds a printer column of this type (`string`, `integer`, `date`, ...).
    #[must_use]
    pub fn typed_column(mut self, name: &str, kind: &str, path: &str) -> Self {
        self.columns.push(json!({"name": name, "type": kind, "jsonPath": path}));
        self
    }

    /// Adds the column Age.
    #[must_use]
    pub fn age(self) -> Self {
        self.typed_column("Age", "date", ".metadata.creationTimestamp")
    }

    /// Switches the status subresource on.
    #[must_use]
    pub fn status(mut self) -> Self {
        self.subresources["status"] = json!({});
        self
    }

    /// Switches the scale subresource on, for `spec.replicas` and `status.replicas`.
    #[must_use]
    pub fn scale(mut self) -> Self {
        self.subresources["scale"] =
            json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
        self
    }

    /// Makes a field immutable once it is set. `field` is dotted, from the object: `spec.workerPool.name`.
    #[must_use]
    pub fn immutable(self, field: &str) -> Self {
        self.rule(field, "self == oldSelf", "Value is immutable")
    }

    /// Adds a CEL rule at a field.
    #[must_use]
    pub fn rule(mut self, field: &str, rule: &str, message: &str) -> Self {
        let node = self.node(field);
        let rules = node.entry("x-kubernetes-validations").or_insert_with(|| json!([]));
        if let Some(rules) = rules.as_array_mut() {
            rules.push(json!({"rule": rule, "message": message}));
        }
        self
    }

    /// Demands that a required text is not empty.
    #[must_use]
    pub fn not_empty(mut self, field: &str) -> Self {
        self.node(field).insert("minLength".into(), json!(1));
        self
    }

    /// Makes fields below `field` required.
    #[must_use]
    pub fn require(mut self, field: &str, names: &[&str]) -> Self {
        self.node(field).insert("required".into(), json!(names));
        self
    }

    /// The schema at a dotted field path; the path must exist, which every test of a definition proves.
    fn node(&mut self, field: &str) -> &mut serde_json::Map<String, Value> {
        let pointer: String = field.split('.').map(|name| format!("/properties/{name}")).collect();
        self.schema
            .pointer_mut(&pointer)
            .and_then(Value::as_object_mut)
            .expect("rules name fields of the type they are written for")
    }

    /// The finished definition.
    pub fn build(self) -> CustomResourceDefinition {
        let Self {
            singular,
            group,
            version,
            kind,
            plural,
            namespaced,
            short_names,
            columns,
            subresources,
            labels,
            schema,
        } = self;
        let labels: serde_json::Map<String, Value> = labels
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.into()))
            .collect();
        let mut metadata = json!({"name": format!("{plural}.{group}")});
        if !labels.is_empty() {
            metadata["labels"] = Value::Object(labels);
        }
        let mut names =
            json!({"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": singular});
        if !short_names.is_empty() {
            names["shortNames"] = json!(short_names);
        }
        let mut served = json!({
            "name": version, "served": true, "storage": true,
            "schema": {"openAPIV3Schema": schema}, "subresources": subresources,
        });
        if !columns.is_empty() {
            served["additionalPrinterColumns"] = Value::Array(columns);
        }
        serde_json::from_value(json!({
            "metadata": metadata,
            "spec": {
                "group": group, "names": names, "versions": [served],
                "scope": if namespaced { "Namespaced" } else { "Cluster" },
            },
        }))
        .expect("a structural schema decodes as JSONSchemaProps")
    }
}
