//! A custom resource as a kind: everything comes from its CustomResourceDefinition.

use std::collections::BTreeMap;

use cluster_schema::Schema;
use serde_json::Value;

use crate::kind::{Call, Column, Kind, SelectableField, Version, spec_differs};
use crate::resource::{Form, ResourceInfo, ScalePaths};
use crate::status::Status;

/// A kind defined by a CRD.
pub(crate) struct CustomKind {
    info: ResourceInfo,
    versions: BTreeMap<String, CustomVersion>,
    fields: Vec<SelectableField>,
    /// Versions differ in nothing but their name.
    same_fields: bool,
}

struct CustomVersion {
    schema: Option<Schema>,
    document: Option<Value>,
    columns: Vec<Column>,
}

impl CustomKind {
    /// Reads a CRD. Errors: a text for the condition `NonStructuralSchema` or `Established`.
    pub(crate) fn new(definition: &Value) -> Result<Self, String> {
        let spec = definition.get("spec").ok_or("spec is missing")?;
        let names = spec.get("names").ok_or("spec.names is missing")?;
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
        let (mut versions, mut fields) = (BTreeMap::new(), Vec::new());
        for version in spec.get("versions").and_then(Value::as_array).into_iter().flatten() {
            let name = text(version, "name");
            let flag = |field: &str| version.get(field).and_then(Value::as_bool).unwrap_or_default();
            let deprecated = flag("deprecated").then(|| {
                or(
                    text(version, "deprecationWarning"),
                    format!("{}/{name} {} is deprecated", info.group, info.kind),
                )
            });
            info.versions.push(Version {
                name: name.clone().into(),
                served: flag("served"),
                storage: flag("storage"),
                deprecation_warning: deprecated,
            });
            subresources(version, &mut info);
            selectable(version, &mut fields);
            versions.insert(name, custom_version(version)?);
        }
        let strategy = spec
            .pointer("/conversion/strategy")
            .and_then(Value::as_str)
            .unwrap_or("None");
        Ok(Self {
            info,
            versions,
            fields,
            same_fields: strategy == "None",
        })
    }
}

fn custom_version(version: &Value) -> Result<CustomVersion, String> {
    let document = version.pointer("/schema/openAPIV3Schema").cloned();
    let schema = document
        .as_ref()
        .map(Schema::from_crd)
        .transpose()
        .map_err(|error| error.to_string())?;
    let columns = version.get("additionalPrinterColumns").and_then(Value::as_array);
    let columns = columns.into_iter().flatten().map(|column| {
        let text = |field: &str| column.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let priority = column.get("priority").and_then(Value::as_i64).unwrap_or_default();
        Column {
            name: text("name"),
            type_: text("type"),
            format: text("format"),
            description: text("description"),
            priority: i32::try_from(priority).unwrap_or_default(),
            json_path: text("jsonPath"),
        }
    });
    Ok(CustomVersion {
        schema,
        document,
        columns: columns.collect(),
    })
}

/// Subresources may be set per version; the first that has one counts for all.
fn subresources(version: &Value, info: &mut ResourceInfo) {
    let Some(declared) = version.get("subresources") else {
        return;
    };
    if declared.get("status").is_some() && !info.has_status() {
        *info = info.clone().with_status();
    }
    if let (Some(scale), None) = (declared.get("scale"), info.find_subresource("scale")) {
        let text = |field: &str| scale.get(field).and_then(Value::as_str).map(str::to_owned);
        let paths = ScalePaths {
            spec_replicas: text("specReplicasPath").unwrap_or_default(),
            status_replicas: text("statusReplicasPath").unwrap_or_default(),
            selector: text("labelSelectorPath"),
        };
        *info = info
            .clone()
            .subresource("scale", Some(("autoscaling", "v1", "Scale")), Form::Scale(paths));
    }
}

fn selectable(version: &Value, fields: &mut Vec<SelectableField>) {
    for field in version
        .get("selectableFields")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let path = field.get("jsonPath").and_then(Value::as_str).unwrap_or_default();
        let field = SelectableField::new(path.trim_start_matches('.'));
        if !fields.contains(&field) {
            fields.push(field);
        }
    }
}

impl Kind for CustomKind {
    fn resource(&self) -> &ResourceInfo {
        &self.info
    }

    fn schema(&self, version: &str) -> Option<Schema> {
        self.versions.get(version)?.schema.clone()
    }

    fn convert(&self, mut object: Value, to: &str) -> Result<Value, Status> {
        if !self.same_fields {
            return Err(Status::not_implemented("conversion of custom resources by webhook"));
        }
        if let Some(fields) = object.as_object_mut() {
            fields.insert("apiVersion".to_owned(), Value::String(self.info.api_version(to)));
        }
        Ok(object)
    }

    /// Without a status subresource the status is a field like any other.
    fn changes_generation(&self, _call: &Call<'_>, object: &mut Value, old: &Value) -> bool {
        spec_differs(object, old) || (!self.info.has_status() && object.get("status") != old.get("status"))
    }

    fn selectable_fields(&self) -> &[SelectableField] {
        &self.fields
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
