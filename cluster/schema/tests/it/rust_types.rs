//! Trees of Rust types through schemars.

// The fields are only ever described, never read.
#![expect(dead_code, reason = "types exist for their schema")]

use std::collections::BTreeMap;

use cluster_schema::{Kind, Scalar, Schema};
use schemars::JsonSchema;
use serde_json::json;

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Widget {
    spec: Spec,
}

/// Settings.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Spec {
    /// How many.
    replica_count: Option<i32>,
    mode: Option<Mode>,
    parts: Vec<Part>,
    labels: BTreeMap<String, String>,
    parent: Option<Box<Spec>>,
}

#[derive(JsonSchema)]
enum Mode {
    /// Quick.
    Fast,
    /// Careful.
    Slow,
}

#[derive(JsonSchema)]
struct Part {
    name: String,
}

#[test]
fn derived_schemas_become_trees_with_inlined_references() {
    let schema = Schema::from_root_schema(&schemars::schema_for!(Widget)).expect("a tree");
    assert!(matches!(
        schema.at("spec.parts[].name").map(Schema::kind),
        Some(Kind::Scalar(Scalar::String))
    ));
    assert!(schema.at("metadata.finalizers").is_some());
    let mut object = json!({"metadata": {"name": "w"}, "spec": {"replicaCount": 1, "mode": "Fast", "bogus": 1,
        "parts": [{"name": "a", "extra": 1}], "labels": {"k": "v"}, "parent": {"parts": [], "labels": {}, "free": 1}}});
    assert_eq!(schema.prune(&mut object), ["spec.bogus", "spec.parts[0].extra"]);
    assert!(schema.validate(&object, None).is_empty());
    object["spec"]["mode"] = "Medium".into();
    object["spec"]["replicaCount"] = "x".into();
    let texts: Vec<String> = schema.validate(&object, None).iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(
        texts
            .iter()
            .any(|text| text == "spec.mode: Unsupported value: \"Medium\": supported values: \"Fast\", \"Slow\"")
    );
}
