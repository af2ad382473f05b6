//! Rules of CustomResourceDefinitions (apiextensions-apiserver v0.35
//! `pkg/apis/apiextensions/validation/validation.go`). Schemas are validated by `cluster_schema`.
//!
//! Errors of what all versions have in common are reported where version v1beta1 had it: beside the versions.

use std::collections::HashSet;

use cluster_cel::Work;
use cluster_fields::{FieldError, FieldPath, names};
use cluster_schema::{Schema, find_field};
use serde_json::{Map, Value};

use crate::json::fields::{elements, text};
use crate::messages::internal_types;
use crate::rules::admission_rules::client_config;
use crate::rules::checks::{one_of, require};
use crate::rules::definition_history::{approval, stored_versions, unchanged};

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = [
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
];
const SELECTABLE_MAX: u64 = 8;
/// Longest warning of a deprecated version, in bytes.
const WARNING_BYTES_MAX: usize = 256;
/// What the root of a schema may have where a version has a status subresource.
const ROOT_FIELDS: [&str; 22] = [
    "description",
    "type",
    "format",
    "title",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "required",
    "items",
    "properties",
    "externalDocs",
    "example",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];

pub(crate) fn validate(object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let root = FieldPath::Root;
    let (path, spec) = (root.field("spec"), &object["spec"]);
    let same_spec = old.is_some_and(|old| old["spec"] == *spec);
    if old.is_none() {
        let expected = format!("{}.{}", text(&spec["names"], "plural"), text(spec, "group"));
        let name = text(&object["metadata"], "name");
        if name != expected {
            let words = "must be spec.names.plural+\".\"+spec.group";
            errors.push(FieldError::invalid("metadata.name", name, words));
        }
    }
    group(spec, &path, errors);
    one_of(spec, "scope", &["Cluster", "Namespaced"], &path, errors);
    let common = Common::of(spec, old);
    if !same_spec {
        versions(spec, &common, &path, errors);
    }
    for name in ["plural", "singular", "kind", "listKind"] {
        require(&spec["names"], name, &path.field("names"), errors);
    }
    validate_names(&spec["names"], &path.field("names"), errors);
    if !same_spec {
        common.validate(spec, &path, errors);
    }
    conversion(&spec["conversion"], &path.field("conversion"), errors);
    if !same_spec {
        stored_versions(object, errors);
    }
    approval(object, old, errors);
    let had = old.is_some_and(|old| old["spec"]["preserveUnknownFields"] == true);
    if spec["preserveUnknownFields"] == true && !had {
        let words =
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(FieldError::invalid(path.field("preserveUnknownFields"), true, words));
    }
    if let Some(old) = old {
        unchanged(spec, old, &path, errors);
    }
}

fn group(spec: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let (group, at) = (text(spec, "group"), path.field("group"));
    if group.is_empty() {
        errors.push(FieldError::required(at, ""));
    } else if let Some(why) = names::dns_subdomain(group) {
        errors.push(FieldError::invalid(at, group, why));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid(
            at,
            group,
            "should be a domain with at least one dot",
        ));
    }
}

fn validate_names(given: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    for field in ["plural", "singular"] {
        let name = text(given, field);
        if let Some(why) = names::dns_label_1035(name).filter(|_| !name.is_empty()) {
            errors.push(FieldError::invalid(path.field(field), name, why));
        }
    }
    for field in ["kind", "listKind"] {
        let name = text(given, field);
        if let Some(why) = names::dns_label_1035(&name.to_lowercase()).filter(|_| !name.is_empty()) {
            let why = format!("may have mixed case, but should otherwise match: {why}");
            errors.push(FieldError::invalid(path.field(field), name, why));
        }
    }
    for field in ["shortNames", "categories"] {
        let at = path.field(field);
        for (index, name) in elements(given, field).enumerate() {
            let name = name.as_str().unwrap_or_default();
            if let Some(why) = names::dns_label_1035(name) {
                errors.push(FieldError::invalid(at.index(index), name, why));
            }
        }
    }
    let (kind, list) = (text(given, "kind"), text(given, "listKind"));
    if !kind.is_empty() && kind == list {
        let words = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(path.field("listKind"), list, words));
    }
}

fn conversion(given: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    if !given.is_object() {
        return;
    }
    match text(given, "strategy") {
        "" => errors.push(FieldError::required(path.field("strategy"), "")),
        _ => one_of(given, "strategy", &["None", "Webhook"], path, errors),
    }
    let (webhook, client) = (&given["webhook"], path.field("webhookClientConfig"));
    let at = path.field("conversionReviewVersions");
    let reviews: Vec<&str> = elements(webhook, "conversionReviewVersions")
        .filter_map(Value::as_str)
        .collect();
    if text(given, "strategy") != "Webhook" {
        let words = "should not be set when strategy is not set to Webhook";
        if webhook["clientConfig"].is_object() {
            errors.push(FieldError::forbidden(client, words));
        }
        if !reviews.is_empty() {
            errors.push(FieldError::forbidden(at, words));
        }
        return;
    }
    match &webhook["clientConfig"] {
        config @ Value::Object(_) => client_config(config, &client, errors),
        _ => errors.push(FieldError::required(client, "required when strategy is set to Webhook")),
    }
    if reviews.is_empty() {
        errors.push(FieldError::required(at, ""));
        return;
    }
    let mut seen = HashSet::new();
    for (index, version) in reviews.iter().enumerate() {
        if !seen.insert(version) {
            errors.push(FieldError::invalid(at.index(index), *version, "duplicate version"));
        } else if let Some(why) = names::dns_label_1035(version) {
            errors.push(FieldError::invalid(at.index(index), *version, why));
        }
    }
    if !reviews.iter().any(|version| matches!(*version, "v1" | "v1beta1")) {
        let words = "must include at least one of v1, v1beta1";
        errors.push(FieldError::invalid(at, reviews, words));
    }
}

/// What all versions have in common; its errors are reported beside the versions.
struct Common<'v> {
    /// The definition that is replaced, if there is one.
    old: Option<&'v Value>,
    schema: Option<&'v Value>,
    subresources: Option<&'v Value>,
    columns: Option<&'v Value>,
    fields: Option<&'v Value>,
}

fn has_status(version: &Value) -> bool {
    !version.pointer("/subresources/status").is_none_or(Value::is_null)
}

impl<'v> Common<'v> {
    fn of(spec: &'v Value, old: Option<&'v Value>) -> Self {
        let common = |field: &str| {
            let mut all = elements(spec, "versions").map(|version| version.get(field).filter(|value| !value.is_null()));
            let first = all.next()??;
            all.all(|other| other == Some(first)).then_some(first)
        };
        Self {
            old,
            schema: common("schema"),
            subresources: common("subresources"),
            columns: common("additionalPrinterColumns"),
            fields: common("selectableFields"),
        }
    }

    /// The definition that is replaced has a version of this name with the same schema.
    fn is_unchanged(&self, version: &Value) -> bool {
        let before = self.old.into_iter().flat_map(|old| elements(&old["spec"], "versions"));
        let mut before = before.filter(|old| old["name"] == version["name"]);
        before.any(|old| old["schema"] == version["schema"])
    }

    fn validate(&self, spec: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
        if let Some(validation) = self.schema.filter(|validation| has_schema(validation)) {
            let with_status = elements(spec, "versions").any(has_status);
            let unchanged = elements(spec, "versions")
                .next()
                .is_some_and(|version| self.is_unchanged(version));
            schema(
                validation,
                with_status,
                unchanged,
                &mut Work::of_definition(),
                &path.field("validation"),
                errors,
            );
        }
        if let Some(subresources) = self.subresources {
            scale(&subresources["scale"], &path.field("subresources"), errors);
        }
        if let Some(given) = self.columns {
            columns(given, &path.field("additionalPrinterColumns"), errors);
        }
        if let Some(given) = self.fields {
            let document = &self.schema.unwrap_or(&Value::Null)["openAPIV3Schema"];
            selectable(given, document, &path.field("selectableFields"), errors);
        }
    }

    /// The versions without it, as Go holds and shows them.
    fn shown(&self, spec: &Value) -> String {
        let versions = elements(spec, "versions").map(|version| {
            let mut version = version.clone();
            let fields = version.as_object_mut().into_iter();
            for fields in fields {
                for (field, common) in [
                    ("schema", self.schema),
                    ("subresources", self.subresources),
                    ("additionalPrinterColumns", self.columns),
                    ("selectableFields", self.fields),
                ] {
                    if common.is_some() {
                        fields.remove(field);
                    }
                }
            }
            version
        });
        internal_types::line("[]CustomResourceDefinitionVersion", &versions.collect())
    }
}

fn has_schema(validation: &Value) -> bool {
    validation
        .get("openAPIV3Schema")
        .is_some_and(|schema| !schema.is_null())
}

fn versions(spec: &Value, common: &Common<'_>, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let at = path.field("versions");
    let versions: Vec<&Value> = elements(spec, "versions").collect();
    for (index, version) in versions.iter().enumerate() {
        if !has_schema(&version["schema"]) {
            errors.push(FieldError::required(
                at.index(index).field("schema.openAPIV3Schema"),
                "",
            ));
        }
    }
    let mut work = Work::of_definition();
    for (index, version) in versions.iter().enumerate() {
        let (at, name) = (at.index(index), text(version, "name"));
        if let Some(why) = names::dns_label_1035(name) {
            errors.push(FieldError::invalid(at.field("name"), name, why));
        }
        warning(version, &at, errors);
        if common.schema.is_none() && has_schema(&version["schema"]) {
            let unchanged = common.is_unchanged(version);
            schema(
                &version["schema"],
                has_status(version),
                unchanged,
                &mut work,
                &at.field("schema"),
                errors,
            );
        }
        if common.subresources.is_none() {
            scale(&version["subresources"]["scale"], &at.field("subresources"), errors);
        }
        if common.columns.is_none() {
            columns(
                &version["additionalPrinterColumns"],
                &at.field("additionalPrinterColumns"),
                errors,
            );
        }
        if common.fields.is_none() {
            let document = &version["schema"]["openAPIV3Schema"];
            selectable(
                &version["selectableFields"],
                document,
                &at.field("selectableFields"),
                errors,
            );
        }
    }
    let mut refuse = |words: &str| {
        let value = spec.get("versions").cloned().unwrap_or_default();
        let error = FieldError::invalid(at, value, words);
        errors.push(error.shown_as(common.shown(spec)));
    };
    let mut seen = HashSet::new();
    if !versions.iter().all(|version| seen.insert(text(version, "name"))) {
        refuse("must contain unique version names");
    }
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        refuse("must have exactly one version marked as storage version");
    }
}

fn warning(version: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let Some(words) = version.get("deprecationWarning").and_then(Value::as_str) else {
        return;
    };
    let mut refuse = |why: &str| errors.push(FieldError::invalid(path.field("deprecationWarning"), words, why));
    if version["deprecated"] != true {
        return refuse("can only be set for deprecated versions");
    }
    if words.len() > WARNING_BYTES_MAX {
        refuse("must be <= 256 characters long");
    }
    if words.is_empty() {
        refuse("must not be an empty string");
    }
    if let Some((index, _)) = words.char_indices().find(|(_, c)| c.is_control()) {
        refuse(&format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        ));
    }
}

fn schema(
    validation: &Value,
    with_status: bool,
    unchanged: bool,
    work: &mut Work,
    path: &FieldPath<'_>,
    errors: &mut Vec<FieldError>,
) {
    let at = path.field("openAPIV3Schema");
    let document = &validation["openAPIV3Schema"];
    let fields = document.as_object().into_iter().flatten();
    let odd = |(name, value): &(&String, &Value)| !value.is_null() && !ROOT_FIELDS.contains(&name.as_str());
    if with_status && fields.clone().any(|field| odd(&field)) {
        let allowed = ROOT_FIELDS.map(go_name).join(" ");
        let words = format!(
            "only [{allowed}] fields are allowed at the root of the schema if the status subresource is enabled"
        );
        errors.push(FieldError::invalid(at, document.clone(), words));
    }
    if document["nullable"] == true {
        let at = path.field("openAPIV3Schema.nullable");
        errors.push(FieldError::forbidden(at, "nullable cannot be true at the root"));
    }
    if let Err(refused) = Schema::from_crd_at(document, &at.to_string(), unchanged, work) {
        errors.extend(refused.errors);
    }
}

/// How Go calls a field of a schema.
fn go_name(name: &str) -> String {
    match name {
        "x-kubernetes-preserve-unknown-fields" => "XPreserveUnknownFields".to_owned(),
        "x-kubernetes-validations" => "XValidations".to_owned(),
        name => name[..1].to_ascii_uppercase() + &name[1..],
    }
}

/// A path of names that begins with a dot.
fn simple_path(path: &str, at: FieldPath<'_>, errors: &mut Vec<FieldError>) -> bool {
    let simple = path.starts_with('.');
    if !simple {
        errors.push(FieldError::invalid(
            at,
            path,
            "must be a simple json path starting with .",
        ));
    }
    simple
}

fn scale(scale: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    if !scale.is_object() {
        return;
    }
    for (field, below) in [("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")] {
        let (given, name) = (text(scale, field), format!("scale.{field}"));
        let at = path.field(&name);
        if given.is_empty() {
            errors.push(FieldError::required(at, ""));
        } else if simple_path(given, at, errors) && !given.starts_with(below) {
            let words = format!("should be a json path under {}", below.trim_end_matches('.'));
            errors.push(FieldError::invalid(at, given, words));
        }
    }
    let (given, at) = (text(scale, "labelSelectorPath"), path.field("scale.labelSelectorPath"));
    let inside = [".spec.", ".status."].iter().any(|below| given.starts_with(below));
    if !given.is_empty() && simple_path(given, at, errors) && !inside {
        let words = "should be a json path under either .spec or .status";
        errors.push(FieldError::invalid(at, given, words));
    }
}

fn columns(columns: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    for (index, column) in columns.as_array().into_iter().flatten().enumerate() {
        let at = path.index(index);
        require(column, "name", &at, errors);
        let one_of = |allowed: &[&str]| format!("must be one of {}", allowed.join(","));
        match text(column, "type") {
            "" => errors.push(FieldError::required(at.field("type"), one_of(&COLUMN_TYPES))),
            kind if !COLUMN_TYPES.contains(&kind) => {
                errors.push(FieldError::invalid(at.field("type"), kind, one_of(&COLUMN_TYPES)));
            }
            _ => {}
        }
        let format = text(column, "format");
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            errors.push(FieldError::invalid(at.field("format"), format, one_of(&COLUMN_FORMATS)));
        }
        match text(column, "jsonPath") {
            "" => errors.push(FieldError::required(at.field("JSONPath"), "")),
            given => drop(simple_path(given, at.field("JSONPath"), errors)),
        }
    }
}

fn selectable(fields: &Value, document: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let Some(fields) = fields.as_array().filter(|fields| !fields.is_empty()) else {
        return;
    };
    let nothing = Map::new();
    let root = document.as_object().unwrap_or(&nothing);
    let mut seen: HashSet<Vec<String>> = HashSet::new();
    for (index, field) in fields.iter().enumerate() {
        let (at, given) = (path.index(index), text(field, "jsonPath"));
        let at = at.field("jsonPath");
        if given.is_empty() {
            errors.push(FieldError::required(at, ""));
            continue;
        }
        let (names, found) = match find_field(root, given, false) {
            Ok(found) => found,
            Err(why) => {
                errors.push(FieldError::invalid(at, given, format!("is an invalid path: {why}")));
                continue;
            }
        };
        if names.first().is_some_and(|first| first == "metadata") {
            errors.push(FieldError::invalid(at, given, "must not point to fields in metadata"));
        }
        let kind = found.get("type").and_then(Value::as_str);
        if !matches!(kind, Some("string" | "boolean" | "integer")) {
            let words = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.push(FieldError::invalid(at, given, words));
        }
        if !seen.insert(names) {
            errors.push(FieldError::duplicate(at, given));
        }
    }
    if seen.len() as u64 > SELECTABLE_MAX {
        errors.push(FieldError::too_many(path, seen.len(), SELECTABLE_MAX));
    }
}
