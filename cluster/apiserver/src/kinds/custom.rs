//! A custom resource as a kind: everything comes from its CustomResourceDefinition.

use std::collections::{BTreeMap, HashMap};

use base_yaml::go::go_type;
use cluster_fields::FieldError;
use cluster_patch::go_text;
use cluster_schema::Schema;
use cluster_table::CustomColumn as Column;
use serde_json::Value;

use crate::connections::webhook_client::Clients;
use crate::kinds::conversion_webhook::Converter;
use crate::kinds::kind::{Call, Kind, SelectableField, spec_differs};
use crate::kinds::resource::{Form, ResourceInfo, ScalePaths, Subresource, Version};
use crate::wire::status::Status;
use crate::wire::version_order::version_priority;

/// A kind defined by a CRD.
pub(crate) struct CustomKind {
    info: ResourceInfo,
    versions: BTreeMap<String, CustomVersion>,
    /// The webhook that converts between versions; none for the strategy `None`.
    converter: Option<Converter>,
    /// Which rules of validation cannot be run, and why.
    skipped_rules: Vec<String>,
}

struct CustomVersion {
    /// Versions of one number have equal schemas.
    shape: usize,
    schema: Option<Schema>,
    document: Option<Value>,
    columns: Vec<Column>,
    fields: Vec<SelectableField>,
}

impl CustomKind {
    /// Reads a CRD. Errors: why it cannot be served, for the condition `Established` (reason `InvalidSchema`).
    pub(crate) fn new(definition: &Value) -> Result<Self, String> {
        let spec = definition.get("spec").ok_or("spec is missing")?;
        // Requested names may be another definition's until they are accepted.
        let accepted = definition.pointer("/status/acceptedNames");
        let accepted = accepted.filter(|names| names["kind"].as_str().is_some_and(|kind| !kind.is_empty()));
        let names = accepted.or_else(|| spec.get("names")).ok_or("spec.names is missing")?;
        let text = |from: &Value, field: &str| from.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let list = |field: &str| {
            let list = names.get(field).and_then(Value::as_array);
            list.into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(|name| name.to_owned().into())
                .collect()
        };
        let kind = text(names, "kind");
        let or = |value: String, other: String| if value.is_empty() { other } else { value };
        let mut info = ResourceInfo {
            group: text(spec, "group").into(),
            list_kind: or(text(names, "listKind"), format!("{kind}List")).into(),
            plural: text(names, "plural").into(),
            singular: or(text(names, "singular"), kind.to_lowercase()).into(),
            kind: kind.into(),
            short_names: list("shortNames"),
            categories: list("categories"),
            namespaced: text(spec, "scope") != "Cluster",
            versions: Vec::new(),
            subresources: Vec::new(),
        };
        let (mut versions, mut skipped_rules) = (BTreeMap::new(), Vec::new());
        let mut shapes: HashMap<Option<&Value>, usize> = HashMap::new();
        for version in spec.get("versions").and_then(Value::as_array).into_iter().flatten() {
            let name = text(version, "name");
            let flag = |field: &str| version.get(field).and_then(Value::as_bool).unwrap_or_default();
            let deprecated =
                flag("deprecated").then(|| or(text(version, "deprecationWarning"), deprecation(&name, spec, &info)));
            info.versions.push(Version {
                name: name.clone().into(),
                served: flag("served"),
                storage: flag("storage"),
                deprecation_warning: deprecated,
            });
            subresources(version, &mut info);
            let document = version.pointer("/schema/openAPIV3Schema");
            let next = shapes.len();
            let shape = *shapes.entry(document).or_insert(next);
            versions.insert(name, custom_version(version, shape, &mut skipped_rules)?);
        }
        Ok(Self {
            info,
            versions,
            converter: None,
            skipped_rules,
        })
    }

    /// The kind with the webhook that the definition names, if it names one.
    pub(crate) fn converted(mut self, definition: &Value, clients: &Clients) -> Self {
        let conversion = definition.pointer("/spec/conversion");
        let by_webhook = conversion.filter(|conversion| conversion["strategy"] == "Webhook");
        self.converter = by_webhook.map(|conversion| Converter::of(&conversion["webhook"], clients));
        self
    }
}

impl CustomKind {
    /// Which rules of validation cannot be run, and why. Empty for a definition that this version of the server has accepted.
    pub(crate) fn skipped_rules(&self) -> &[String] {
        &self.skipped_rules
    }

    pub(crate) fn converter(&self) -> Option<&Converter> {
        self.converter.as_ref()
    }

    /// Fields that objects may be selected by in a version.
    pub(crate) fn selectable_in(&self, version: &str) -> &[SelectableField] {
        let version = self.versions.get(version);
        version.map_or(&[], |version| version.fields.as_slice())
    }

    /// The version that an object is in.
    pub(crate) fn version_of(&self, object: &Value) -> Option<String> {
        let (group, version) = object.get("apiVersion")?.as_str()?.split_once('/')?;
        (group == self.info.group).then(|| version.to_owned())
    }

    /// Whether both have the same versions with the same schemas, so that stored objects read alike.
    pub(crate) fn reads_as(&self, other: &Self) -> bool {
        fn documents(kind: &CustomKind) -> impl Iterator<Item = (&String, &Option<Value>)> {
            kind.versions.iter().map(|(name, version)| (name, &version.document))
        }
        documents(self).eq(documents(other))
    }
}

fn custom_version(version: &Value, shape: usize, skipped_rules: &mut Vec<String>) -> Result<CustomVersion, String> {
    let document = version.pointer("/schema/openAPIV3Schema").cloned();
    let schema = document.as_ref().map(Schema::from_stored_crd).transpose();
    let (schema, rules) = schema.map_err(|error| error.to_string())?.unzip();
    skipped_rules.extend(rules.into_iter().flatten().map(|error: FieldError| error.to_string()));
    let columns = version.get("additionalPrinterColumns").and_then(Value::as_array);
    let columns = columns.into_iter().flatten().map(|column| {
        let text = |field: &str| column.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let priority = column.get("priority").and_then(Value::as_i64).unwrap_or_default();
        Column {
            name: text("name"),
            type_: text("type"),
            format: text("format"),
            description: match text("description") {
                none if none.is_empty() => {
                    format!(
                        "Custom resource definition column (in JSONPath format): {}",
                        text("jsonPath")
                    )
                }
                given => given,
            },
            priority: i32::try_from(priority).unwrap_or_default(),
            json_path: text("jsonPath"),
        }
    });
    Ok(CustomVersion {
        shape,
        schema,
        document,
        columns: columns.collect(),
        fields: selectable(version),
    })
}

/// Adds the subresources of a version.
fn subresources(version: &Value, info: &mut ResourceInfo) {
    let Some(declared) = version.get("subresources") else {
        return;
    };
    let name = version.get("name").and_then(Value::as_str).unwrap_or_default();
    let mut add = |what: &'static str, body: Option<(&'static str, &'static str, &'static str)>, form: Form| {
        let body = body.map(|(group, version, kind)| (group.into(), version.into(), kind.into()));
        info.subresources.push(Subresource {
            name: what.into(),
            version: Some(name.to_owned().into()),
            body,
            form,
        });
    };
    if declared.get("status").is_some_and(|status| !status.is_null()) {
        add("status", None, Form::Part);
    }
    if let Some(scale) = declared.get("scale").filter(|scale| !scale.is_null()) {
        let text = |field: &str| scale.get(field).and_then(Value::as_str).map(str::to_owned);
        let paths = ScalePaths {
            spec_replicas: text("specReplicasPath").unwrap_or_default(),
            status_replicas: text("statusReplicasPath").unwrap_or_default(),
            selector: text("labelSelectorPath"),
        };
        add("scale", Some(("autoscaling", "v1", "Scale")), Form::Scale(paths));
    }
}

/// The default warning of a deprecated version, with its successor: the best version that is served and not deprecated.
fn deprecation(version: &str, spec: &Value, info: &ResourceInfo) -> String {
    let mut words = format!("{}/{version} {} is deprecated", info.group, info.kind);
    let flag = |version: &Value, field: &str| version.get(field).and_then(Value::as_bool).unwrap_or_default();
    let all = spec.get("versions").and_then(Value::as_array).into_iter().flatten();
    let better = all
        .filter(|other| flag(other, "served") && !flag(other, "deprecated"))
        .filter_map(|other| other.get("name").and_then(Value::as_str))
        .filter(|other| version_priority(other) > version_priority(version))
        .max_by_key(|other| version_priority(other));
    if let Some(better) = better {
        words.push_str(&format!("; use {}/{better} {}", info.group, info.kind));
    }
    words
}

/// Validates the number of replicas at a path of a scale (apimachinery v0.35 `pkg/apis/meta/v1/unstructured/helpers.go`).
fn check_replicas(object: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let mut refuse = |at: &str, found: &Value, wanted: &str| {
        let why = format!(
            "{at} accessor error: {} is of the type {}, expected {wanted}",
            go_text(found),
            go_type(found)
        );
        errors.push(FieldError::invalid(path, 0, why));
    };
    let (mut here, mut at) = (object, String::new());
    for part in path.split('.').filter(|part| !part.is_empty()) {
        at = format!("{at}.{part}");
        // A field of null is missing.
        if here.is_null() {
            return;
        }
        let Some(fields) = here.as_object() else {
            return refuse(&at, here, "map[string]interface{}");
        };
        match fields.get(part) {
            Some(value) => here = value,
            None => return,
        }
    }
    let Some(replicas) = here.as_i64() else {
        return refuse(&at, here, "int64");
    };
    let why = match i32::try_from(replicas) {
        Ok(0..) => return,
        Err(_) if replicas > 0 => format!("should be less than or equal to {}", i32::MAX),
        _ => "should be a non-negative integer".to_owned(),
    };
    errors.push(FieldError::invalid(path, replicas, why));
}

fn selectable(version: &Value) -> Vec<SelectableField> {
    let fields = version.get("selectableFields").and_then(Value::as_array);
    let paths = fields.into_iter().flatten().map(|field| {
        let path = field.get("jsonPath").and_then(Value::as_str).unwrap_or_default();
        SelectableField::new(path.trim_start_matches('.'))
    });
    paths.collect()
}

impl Kind for CustomKind {
    fn resource(&self) -> &ResourceInfo {
        &self.info
    }

    fn schema(&self, version: &str) -> Option<Schema> {
        self.versions.get(version)?.schema.clone()
    }

    /// Drops fields that the new version does not have.
    fn convert(&self, mut object: Value, to: &str) -> Result<Value, Status> {
        if self.converter.is_some() {
            let why = "an object was to be converted without the webhook that does it";
            return Err(Status::internal(why));
        }
        let (from, into) = (self.version_of(&object), self.info.api_version(to));
        let same = from.is_some_and(|from| self.same_shape(&from, to));
        if let Some(fields) = object.as_object_mut() {
            fields.insert("apiVersion".to_owned(), Value::String(into));
        }
        if let Some(schema) = self.schema(to).filter(|_| !same) {
            schema.prune(&mut object);
            schema.normalize(&mut object);
        }
        Ok(object)
    }

    fn same_shape(&self, one: &str, other: &str) -> bool {
        let shape = |version: &str| self.versions.get(version).map(|version| version.shape);
        one == other || self.converter.is_none() && shape(one) == shape(other)
    }

    fn refresh(&self, version: &str, object: &mut Value) {
        if let Some(schema) = self.schema(version) {
            schema.prune(object);
            // If there are too many defaults, some are better than none: the object is stored already.
            let _ = schema.default(object);
        }
    }

    fn validate(&self, call: &Call<'_>, object: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let Some(Form::Scale(paths)) = self
            .info
            .find_subresource("scale", call.version)
            .map(|scale| &scale.form)
        {
            if call.subresource != Some("status") {
                check_replicas(object, &paths.spec_replicas, &mut errors);
            }
            check_replicas(object, &paths.status_replicas, &mut errors);
        }
        errors
    }

    /// Without a status subresource the status is a field like any other.
    fn changes_generation(&self, call: &Call<'_>, object: &mut Value, old: &Value) -> bool {
        spec_differs(object, old) || (!self.info.has_status(call.version) && object.get("status") != old.get("status"))
    }

    fn columns(&self, version: &str) -> Option<Vec<Column>> {
        Some(self.versions.get(version)?.columns.clone())
    }

    fn updates_unconditionally(&self) -> bool {
        false
    }

    fn openapi(&self, version: &str) -> Option<Value> {
        self.versions.get(version)?.document.clone()
    }
}
