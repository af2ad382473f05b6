//! Which changes of an object have it reconciled.

use base_controller::changed_by_others;
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::json;

fn object(annotations: &[(&str, &str)]) -> Deployment {
    let annotations: std::collections::BTreeMap<&str, &str> = annotations.iter().copied().collect();
    serde_json::from_value(json!({"metadata": {"name": "d", "generation": 1, "annotations": annotations}})).unwrap()
}

#[test]
fn annotations_that_belong_to_the_status_call_for_nothing() {
    let before = object(&[("a", "1"), ("status.orangery.dev/operation-report", "{}")]);
    let other_report = object(&[("a", "1"), ("status.orangery.dev/operation-report", "{\"form\":1}")]);
    let no_report = object(&[("a", "1")]);
    for after in [other_report, no_report] {
        assert!(!changed_by_others(Some(&before), &after), "{:?}", after.metadata);
    }
    let other_annotation = object(&[("a", "2"), ("status.orangery.dev/operation-report", "{}")]);
    assert!(changed_by_others(Some(&before), &other_annotation));
}
