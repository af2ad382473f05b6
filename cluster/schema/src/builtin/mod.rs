//! The built-in kinds of Kubernetes 1.35: their field trees and OpenAPI documents, from tables made by
//! `examples/builtin_tables.rs`; their defaults (`default`) and rules (`validate`) as kube-apiserver has them in code.
//! A table is unpacked when its group and version is first asked for, once per process; start-up unpacks none.

mod admission_rules;
mod api_services;
mod autoscalers;
mod certificates;
mod claims;
mod core_rules;
mod defaults;
mod definition;
mod definition_history;
mod endpoint_slices;
mod ephemeral_rules;
mod image;
mod network_policies;
mod pod_defaults;
mod pod_rules;
mod policy_rules;
mod rules;
mod service;
mod workload_rules;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use serde_json::Value;

pub use defaults::{TEMPLATE_GENERATION, default};
pub use ephemeral_rules::ephemeral_containers;
pub use pod_defaults::qos_class;
pub use rules::{SYSTEM_PRIORITIES, refuse_name, validate, warnings};

use crate::from_root::{Dialect, Inliner};
use crate::{Schema, SchemaError};

/// What the tables say about a kind, beside its fields.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct BuiltinKind {
    /// API group; empty for core.
    pub group: String,
    /// Version within the group.
    pub version: String,
    /// Name of the kind.
    pub kind: String,
    /// Plural, as in URLs.
    pub resource: String,
    /// Lives in namespaces.
    pub namespaced: bool,
    /// `status`, `scale`, ...
    pub subresources: Vec<String>,
    /// Of the resource itself, sorted.
    pub verbs: Vec<String>,
}

struct Table {
    group: &'static str,
    version: &'static str,
    compressed: &'static [u8],
    document: OnceLock<Arc<[u8]>>,
    schemas: OnceLock<BTreeMap<String, Schema>>,
}

macro_rules! tables {
    ($($group:literal $version:literal $file:literal;)*) => {
        static TABLES: [Table; [$($file),*].len()] = [$(Table {
            group: $group,
            version: $version,
            compressed: include_bytes!(concat!("../../data/", $file)),
            document: OnceLock::new(),
            schemas: OnceLock::new(),
        }),*];
    };
}

tables! {
    "" "v1" "core_v1.json.gz";
    "admissionregistration.k8s.io" "v1" "admissionregistration.k8s.io_v1.json.gz";
    "apiextensions.k8s.io" "v1" "apiextensions.k8s.io_v1.json.gz";
    "apiregistration.k8s.io" "v1" "apiregistration.k8s.io_v1.json.gz";
    "apps" "v1" "apps_v1.json.gz";
    "authentication.k8s.io" "v1" "authentication.k8s.io_v1.json.gz";
    "authorization.k8s.io" "v1" "authorization.k8s.io_v1.json.gz";
    "autoscaling" "v1" "autoscaling_v1.json.gz";
    "autoscaling" "v2" "autoscaling_v2.json.gz";
    "batch" "v1" "batch_v1.json.gz";
    "certificates.k8s.io" "v1" "certificates.k8s.io_v1.json.gz";
    "coordination.k8s.io" "v1" "coordination.k8s.io_v1.json.gz";
    "discovery.k8s.io" "v1" "discovery.k8s.io_v1.json.gz";
    "events.k8s.io" "v1" "events.k8s.io_v1.json.gz";
    "networking.k8s.io" "v1" "networking.k8s.io_v1.json.gz";
    "node.k8s.io" "v1" "node.k8s.io_v1.json.gz";
    "policy" "v1" "policy_v1.json.gz";
    "rbac.authorization.k8s.io" "v1" "rbac.authorization.k8s.io_v1.json.gz";
    "scheduling.k8s.io" "v1" "scheduling.k8s.io_v1.json.gz";
    "storage.k8s.io" "v1" "storage.k8s.io_v1.json.gz";
}

/// Every built-in kind that the tables know, in order of group and resource.
pub fn kinds() -> &'static [BuiltinKind] {
    static KINDS: OnceLock<Vec<BuiltinKind>> = OnceLock::new();
    KINDS.get_or_init(|| {
        serde_json::from_slice(include_bytes!("../../data/kinds.json"))
            .expect("a committed table, read by a test of this crate")
    })
}

/// The field tree of a built-in kind, `group` empty for core. `required` of the published schema is not in it:
/// kube-apiserver reads missing fields as empty ones and its own rules say what must be there.
pub fn schema(group: &str, version: &str, kind: &str) -> Option<Schema> {
    let read = |table: &'static Table, name: &str| table.schemas.get_or_init(|| read_schemas(table)).get(name).cloned();
    let own = table(group, version).and_then(|table| read(table, kind));
    // What is only asked of a core object, such as a token of a service account, is published with that.
    own.or_else(|| read(table("", "v1")?, &format!("{group}/{version}/{kind}")))
}

/// The OpenAPI v3 document of a group and version, as JSON bytes, shared by all servers of the process.
pub fn openapi_v3(group: &str, version: &str) -> Option<Arc<[u8]>> {
    let table = table(group, version)?;
    Some(table.document.get_or_init(|| unpack(table).into()).clone())
}

/// The OpenAPI v3 documents of what lists groups and versions, by their path below `/openapi/v3/`: `api`, `apis/apps`,
/// `version`.
pub fn openapi_roots() -> &'static BTreeMap<String, Box<serde_json::value::RawValue>> {
    static ROOTS: OnceLock<BTreeMap<String, Box<serde_json::value::RawValue>>> = OnceLock::new();
    ROOTS.get_or_init(|| {
        serde_json::from_slice(&unzip(include_bytes!("../../data/roots.json.gz")))
            .expect("a committed table, read by a test of this crate")
    })
}

fn table(group: &str, version: &str) -> Option<&'static Table> {
    TABLES
        .iter()
        .find(|table| table.group == group && table.version == version)
}

fn unpack(table: &Table) -> Vec<u8> {
    unzip(table.compressed)
}

/// A committed table.
pub(crate) fn unzip(compressed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(compressed)
        .read_to_end(&mut bytes)
        .expect("a committed table, read by a test of this crate");
    bytes
}

fn read_schemas(table: &Table) -> BTreeMap<String, Schema> {
    let bytes = table.document.get().map_or_else(|| unpack(table).into(), Arc::clone);
    let document: Value = serde_json::from_slice(&bytes).expect("a committed table, read by a test of this crate");
    read_kinds(table, &document).expect("a committed table, read by a test of this crate")
}

fn read_kinds(table: &Table, document: &Value) -> Result<BTreeMap<String, Schema>, SchemaError> {
    let mut inliner = Inliner::new(document, Dialect::Kubernetes);
    let mut schemas = BTreeMap::new();
    let definitions = document.pointer("/components/schemas").and_then(Value::as_object);
    for (name, definition) in definitions.into_iter().flatten() {
        let Some(served) = definition["x-kubernetes-group-version-kind"].as_array() else {
            continue;
        };
        for named in served {
            let (group, version, kind) = (text(named, "group"), text(named, "version"), text(named, "kind"));
            let key = match (group, version) == (table.group, table.version) {
                true => kind.to_owned(),
                // Options of requests are of every group.
                false if served.len() > 1 => continue,
                false => format!("{group}/{version}/{kind}"),
            };
            schemas.insert(key, inliner.read_kind(name, definition)?);
        }
    }
    Ok(schemas)
}

/// `array[index]` objects of a list field; empty when the field is missing.
fn elements<'v>(object: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    object.get(name).and_then(Value::as_array).into_iter().flatten()
}

fn elements_mut<'v>(object: &'v mut Value, name: &str) -> impl Iterator<Item = &'v mut Value> {
    object.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten()
}

/// The text of a field; empty when it is missing.
fn text<'v>(object: &'v Value, name: &str) -> &'v str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Gives an object the field that another one has, or takes it away if that has none.
fn copy_field(from: &Value, to: &mut Value, name: &str) {
    if let Some(to) = to.as_object_mut() {
        match from.get(name) {
            Some(value) => drop(to.insert(name.to_owned(), value.clone())),
            None => drop(to.remove(name)),
        }
    }
}

/// Whether Go would see the zero value in the field.
fn is_unset(object: &Value, name: &str) -> bool {
    match object.get(name) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        _ => false,
    }
}

/// Set a field that is missing or an empty text.
fn set_default(object: &mut Value, name: &str, value: impl Into<Value>) {
    if is_unset(object, name)
        && let Some(map) = object.as_object_mut()
    {
        map.insert(name.to_owned(), value.into());
    }
}

/// Set a field that is missing, where Go has a pointer: an empty text is a value there.
fn set_default_of_pointer(object: &mut Value, name: &str, value: impl Into<Value>) {
    if object.get(name).is_none_or(Value::is_null) {
        set_default(object, name, value);
    }
}

/// Set a number that is missing or zero.
fn set_default_number(object: &mut Value, name: &str, value: i64) {
    if object
        .get(name)
        .is_none_or(|old| old.is_null() || old == &Value::from(0))
        && let Some(map) = object.as_object_mut()
    {
        map.insert(name.to_owned(), value.into());
    }
}

/// The object below a field, made when it is missing; `None` when something else is there.
fn child<'v>(object: &'v mut Value, name: &str) -> Option<&'v mut Value> {
    let map = object.as_object_mut()?;
    let field = map.entry(name).or_insert_with(|| Value::Object(serde_json::Map::new()));
    if field.is_null() {
        *field = Value::Object(serde_json::Map::new());
    }
    field.is_object().then_some(field)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{ListType, Scalar};

    #[test]
    fn every_table_loads_and_every_kind_has_its_tree() {
        for known in kinds() {
            let found = schema(&known.group, &known.version, &known.kind);
            let found = found.unwrap_or_else(|| panic!("{} has no tree", known.kind));
            assert!(
                found.at("metadata.name").is_some() || known.kind == "Scale",
                "{}",
                known.kind
            );
        }
        let pods = kinds().iter().find(|known| known.resource == "pods").expect("pods");
        assert!(pods.namespaced && pods.kind == "Pod" && pods.subresources.contains(&"status".to_owned()));
        assert!(pods.verbs.contains(&"patch".to_owned()), "{:?}", pods.verbs);
    }

    #[test]
    fn merge_keys_of_both_worlds_are_there() {
        let pod = schema("", "v1", "Pod").expect("Pod");
        let ports = pod.at("spec.containers[].ports").expect("ports");
        let keys = vec!["containerPort".into(), "protocol".into()];
        assert_eq!(ports.list_type(), Some(&ListType::Map { keys }));
        assert_eq!(ports.patch().merge_key.as_deref(), Some("containerPort"));
        assert_eq!(
            pod.at("spec.containers[].ports[].protocol")
                .and_then(Schema::default_value),
            Some(&json!("TCP"))
        );
        assert!(
            pod.at("spec.volumes")
                .is_some_and(|volumes| volumes.patch().retain_keys)
        );
        let limit = pod.at("spec.containers[].resources.limits.cpu").map(Schema::kind);
        assert!(matches!(limit, Some(crate::Kind::Scalar(Scalar::Quantity))));
        let service = schema("", "v1", "Service").expect("Service");
        let target = service.at("spec.ports[].targetPort").map(Schema::kind);
        assert!(
            matches!(target, Some(crate::Kind::Scalar(Scalar::IntOrString))),
            "{target:?}"
        );
    }

    #[test]
    fn the_schema_writes_the_structs_that_go_writes_although_they_are_empty() {
        let schema = schema("apps", "v1", "Deployment").expect("Deployment");
        let mut object = json!({"spec": {"template": {"spec": {"containers": [{"name": "a"}]}}}});
        let _ = schema.default(&mut object);
        let container = json!({"name": "a", "resources": {}});
        let template = json!({"metadata": {}, "spec": {"containers": [container]}});
        assert_eq!(
            object,
            json!({"metadata": {}, "spec": {"strategy": {}, "template": template}})
        );
    }

    #[test]
    fn openapi_documents_are_shared_and_name_the_kinds() {
        let bytes = openapi_v3("apps", "v1").expect("apps");
        assert!(Arc::ptr_eq(&bytes, &openapi_v3("apps", "v1").expect("apps")));
        let document: Value = serde_json::from_slice(&bytes).expect("JSON");
        let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
        assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Deployment");
        assert!(elements(patch, "parameters").any(|parameter| parameter["name"] == "fieldValidation"));
        assert!(openapi_v3("apps", "v9").is_none());
        let group = openapi_roots().get("apis/apps").map(|document| document.get());
        assert!(group.is_some_and(|document| document.contains("getAppsAPIGroup")));
    }
}
