//! The tables of built-in kinds of Kubernetes 1.35: their field trees and OpenAPI documents, made by
//! `examples/builtin_tables.rs`. A table is unpacked on the first request for its group and version, once per process; start-up
//! unpacks none.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use cluster_schema::{GoTypes, PublishedKinds, Schema, SchemaError};
use serde_json::Value;

use crate::json::fields::text;
use crate::tables::gzip::unzip;

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

/// The field tree of a built-in kind, `group` empty for core. `required` of the published schema is not in it:
/// kube-apiserver decodes missing fields as empty ones, and its own rules decide which are required.
pub fn schema(group: &str, version: &str, kind: &str) -> Option<Schema> {
    let read = |table: &'static Table, name: &str| table.schemas.get_or_init(|| read_schemas(table)).get(name).cloned();
    let own = table(group, version).and_then(|table| read(table, kind));
    // Kinds of requests to a core object, such as a token of a service account, are published with the core group.
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

/// Structs of Go, made by `examples/go_types.rs`.
fn go_types() -> &'static GoTypes {
    static TYPES: OnceLock<GoTypes> = OnceLock::new();
    TYPES.get_or_init(|| {
        GoTypes::from_json(&unzip(include_bytes!("../../data/go_types.json.gz")))
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

fn read_schemas(table: &Table) -> BTreeMap<String, Schema> {
    let bytes = table.document.get().map_or_else(|| unpack(table).into(), Arc::clone);
    let document: Value = serde_json::from_slice(&bytes).expect("a committed table, read by a test of this crate");
    read_kinds(table, &document).expect("a committed table, read by a test of this crate")
}

fn read_kinds(table: &Table, document: &Value) -> Result<BTreeMap<String, Schema>, SchemaError> {
    let mut reader = PublishedKinds::new(document, go_types());
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
            schemas.insert(key, reader.read(name, definition)?);
        }
    }
    Ok(schemas)
}

#[cfg(test)]
mod tests {
    use cluster_schema::{Kind, ListType, Scalar};
    use serde_json::json;

    use super::*;
    use crate::json::fields::elements;
    use crate::tables::kinds::kinds;

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
    fn lists_have_the_merge_keys_of_apply_and_of_patches() {
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
        assert!(matches!(limit, Some(Kind::Scalar(Scalar::Quantity))));
        let service = schema("", "v1", "Service").expect("Service");
        let target = service.at("spec.ports[].targetPort").map(Schema::kind);
        assert!(matches!(target, Some(Kind::Scalar(Scalar::IntOrString))), "{target:?}");
    }

    #[test]
    fn empty_structs_that_go_writes_are_filled_in() {
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

    #[test]
    fn structs_of_metadata_in_cluster_schema_are_those_of_the_table() {
        let table = serde_json::from_slice::<Value>(&unzip(include_bytes!("../../data/go_types.json.gz"))).unwrap();
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../schema/data/go_metadata.json");
        let metadata = std::fs::read(path).unwrap();
        for (name, fields) in serde_json::from_slice::<serde_json::Map<String, Value>>(&metadata).unwrap() {
            assert_eq!(fields, table[&name], "{name}");
        }
    }
}
