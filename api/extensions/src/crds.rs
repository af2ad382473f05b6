//! The definitions of the group `extensions.gardener.cloud`, with columns and rules as Gardener has them
//! (gardener/gardener v1.150 pkg/component/extensions/crds, pkg/api/extensions/validation): what they have in common, and
//! all of them. What only one kind has stands in its own file. Rules that need other
//! objects or the deletion timestamp do not stand here: webhooks hold them.

use api_meta::Kind;
use api_meta::crd::Definition;
use api_meta::labels;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use schemars::JsonSchema;

use crate::{Cluster, ExtensionKind};

/// The definitions of all extension kinds and Cluster, in alphabetical order of kinds.
pub fn crds() -> Vec<CustomResourceDefinition> {
    let of_kinds = ExtensionKind::ALL.iter().map(|kind| kind.definition());
    let cluster = protected::<Cluster>().status().age().build();
    let mut all: Vec<CustomResourceDefinition> = of_kinds.chain([cluster]).collect();
    all.sort_by(|one, other| one.spec.names.kind.cmp(&other.spec.names.kind));
    all
}

/// Where the column Status reads.
pub(crate) const STATE: &str = ".status.lastOperation.state";

/// A definition whose deletion needs a confirmation.
fn protected<K: Kind + JsonSchema>() -> Definition {
    Definition::of::<K>().label(labels::DELETION_PROTECTED, "true")
}

/// What all extension kinds have: type, immutable class and type, status.
pub(crate) fn extension<K: Kind + JsonSchema>(short_name: &'static str) -> Definition {
    let definition = protected::<K>()
        .status()
        .immutable("spec.class")
        .immutable("spec.type")
        .not_empty("spec.type")
        .column("Type", ".spec.type");
    if short_name.is_empty() {
        definition
    } else {
        definition.short_name(short_name)
    }
}

/// Kinds whose region is required and immutable.
pub(crate) fn regional(definition: Definition) -> Definition {
    definition.immutable("spec.region").not_empty("spec.region")
}

/// Kinds with credentials: the Secret is named in full.
pub(crate) fn with_secret(definition: Definition) -> Definition {
    definition
        .require("spec.secretRef", &["name", "namespace"])
        .not_empty("spec.secretRef.name")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Walks all schema nodes of all definitions.
    fn each_node(schema: &Value, path: &str, visit: &mut impl FnMut(&str, &Value)) {
        visit(path, schema);
        for (name, child) in schema
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            each_node(child, &format!("{path}.{name}"), visit);
        }
        for key in ["items", "additionalProperties"] {
            if let Some(child) = schema.get(key).filter(|child| child.is_object()) {
                each_node(child, &format!("{path}[]"), visit);
            }
        }
    }

    #[test]
    fn definitions_are_those_of_all_kinds_and_cluster_protected_and_with_status() {
        let all = crds();
        let kinds: Vec<&str> = all.iter().map(|crd| crd.spec.names.kind.as_str()).collect();
        let mut expected: Vec<&str> = ExtensionKind::NAMES.to_vec();
        expected.insert(3, "Cluster");
        assert_eq!(kinds, expected);
        for crd in &all {
            assert_eq!(
                crd.metadata.labels.as_ref().unwrap()["gardener.cloud/deletion-protected"],
                "true"
            );
            assert!(crd.spec.versions[0].subresources.as_ref().unwrap().status.is_some());
        }
        let cluster_wide: Vec<&str> = all
            .iter()
            .filter(|crd| crd.spec.scope == "Cluster")
            .map(|crd| crd.spec.names.kind.as_str())
            .collect();
        assert_eq!(cluster_wide, ["BackupBucket", "BackupEntry", "Cluster"]);
    }

    #[test]
    fn schemas_are_structural() {
        for crd in crds() {
            let schema = serde_json::to_value(&crd.spec.versions[0].schema).unwrap()["openAPIV3Schema"].take();
            each_node(&schema, &crd.spec.names.kind, &mut |path, node| {
                let free = node.get("x-kubernetes-preserve-unknown-fields").is_some()
                    || node.get("x-kubernetes-int-or-string").is_some();
                assert!(free || node["type"].is_string(), "{path} has no type: {node}");
                for never in ["$ref", "nullable", "default", "title", "oneOf", "allOf"] {
                    assert!(node.get(never).is_none(), "{path} has {never}");
                }
                for key in node
                    .get("x-kubernetes-list-map-keys")
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
                {
                    let required = node["items"]["required"].as_array().unwrap();
                    assert!(required.contains(key), "{path} is keyed by {key}, which is optional");
                }
            });
        }
    }

    #[test]
    fn the_rules_of_a_dns_record_stand_where_they_belong() {
        let all = crds();
        let crd = all.iter().find(|crd| crd.spec.names.kind == "DNSRecord").unwrap();
        let schema = serde_json::to_value(&crd.spec.versions[0].schema).unwrap()["openAPIV3Schema"].take();
        let spec = &schema["properties"]["spec"]["properties"];
        let immutable = json!([{"rule": "self == oldSelf", "message": "Value is immutable"}]);
        for field in ["class", "type", "name", "recordType"] {
            assert_eq!(spec[field]["x-kubernetes-validations"], immutable, "{field}");
        }
        assert_eq!(spec["secretRef"]["required"], json!(["name", "namespace"]));
        assert_eq!(spec["providerConfig"]["x-kubernetes-preserve-unknown-fields"], true);
        assert_eq!(spec["providerConfig"]["type"], "object");
        assert_eq!(crd.spec.names.short_names, Some(vec!["dns".to_owned()]));
        let columns: Vec<&str> = crd.spec.versions[0]
            .additional_printer_columns
            .as_ref()
            .unwrap()
            .iter()
            .map(|c| c.name.as_str())
            .collect();
        assert_eq!(columns, ["Type", "DNS Name", "Record Type", "Status", "Age"]);
    }
}
