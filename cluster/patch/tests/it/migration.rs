//! From `kubectl apply` to `kubectl apply --server-side`.

use serde_json::json;

use super::*;

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What `kubectl apply` without `--server-side` leaves behind.
fn applied_by_client(configuration: Value) -> Value {
    let mut object = spec(configuration);
    let text = object.to_string();
    object["metadata"]["annotations"] = json!({ANNOTATION: text});
    update(None, "kubectl-client-side-apply", object)
}

fn annotation(object: &Value) -> Value {
    let text = object["metadata"]["annotations"][ANNOTATION].as_str().unwrap_or("null");
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn kubectl_takes_over_what_it_applied_itself_and_renews_the_annotation() {
    let live = applied_by_client(json!({"replicas": 1, "set": ["x"]}));
    let taken = apply(Some(&live), "kubectl", json!({"replicas": 2})).unwrap();
    assert_eq!(taken["spec"], json!({"replicas": 2, "set": ["x"]}));
    assert_eq!(owned(&taken, "kubectl"), json!({"f:replicas": {}}));
    assert_eq!(
        owned(&taken, "kubectl-client-side-apply"),
        json!({".": {}, "f:set": {".": {}, "v:\"x\"": {}}})
    );
    assert_eq!(annotation(&taken), spec(json!({"replicas": 2})));
    let again = apply(Some(&taken), "kubectl", json!({"replicas": 2})).unwrap();
    assert_eq!(again, taken);
}

#[test]
fn only_fields_changed_since_the_last_client_apply_conflict() {
    let live = applied_by_client(json!({"replicas": 1, "strategy": {"type": "A"}}));
    let live = update_spec(&live, "editor", json!({"replicas": 5, "strategy": {"type": "A"}}));
    assert_eq!(
        refusal(apply(
            Some(&live),
            "kubectl",
            json!({"replicas": 2, "strategy": {"type": "B"}})
        )),
        r#"Apply failed with 1 conflict: conflict with "editor" using apps/v1: .spec.replicas"#
    );
}

#[test]
fn other_managers_neither_take_over_nor_change_the_annotation() {
    let live = applied_by_client(json!({"replicas": 1}));
    assert!(apply(Some(&live), "helm", json!({"replicas": 2})).is_err());
    let forced = apply_by_force(&live, "helm", json!({"replicas": 2}));
    assert_eq!(annotation(&forced), spec(json!({"replicas": 1})));
}

#[test]
fn an_annotation_that_is_missing_broken_or_of_another_version_allows_nothing() {
    let live = applied_by_client(json!({"replicas": 1}));
    let other = spec(json!({"replicas": 1})).to_string().replace("apps/v1", "apps/v2");
    let twice = spec(json!({"replicas": 1, "set": ["x", "x"]})).to_string();
    for text in ["", "{", "[]", "null", &other, &twice] {
        let mut live = live.clone();
        live["metadata"]["annotations"][ANNOTATION] = json!(text);
        assert!(
            apply(Some(&live), "kubectl", json!({"replicas": 2})).is_err(),
            "{text:?}"
        );
    }
    let created = apply(None, "kubectl", json!({"replicas": 1})).unwrap();
    assert_eq!(created["metadata"].get("annotations"), None);
}

#[test]
fn annotation_that_would_be_too_long_is_removed() {
    let live = applied_by_client(json!({"replicas": 1}));
    let long = json!({"map": {"m": {"k": "x".repeat(256 << 10)}}});
    let taken = apply(Some(&live), "kubectl", long).unwrap();
    assert_eq!(taken["metadata"]["annotations"], json!({}));
}
