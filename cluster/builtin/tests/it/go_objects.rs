//! Objects of built-in kinds as Go decodes, writes and prints them.

use cluster_builtin::schema;
use serde_json::{Value, json};

fn written(group: &str, kind: &str, mut object: Value) -> Value {
    let schema = schema(group, "v1", kind).expect("a built-in kind");
    schema.normalize(&mut object);
    schema.fill_zeros(&mut object);
    object
}

#[test]
fn empty_fields_are_written_or_left_out_as_by_go() {
    assert_eq!(
        written(
            "",
            "ConfigMap",
            json!({"data": {}, "immutable": false, "metadata": {"labels": {}}})
        ),
        json!({"immutable": false, "metadata": {}})
    );
    assert_eq!(
        written("rbac.authorization.k8s.io", "Role", json!({"metadata": {"name": "a"}})),
        json!({"metadata": {"name": "a"}, "rules": null})
    );
    assert_eq!(
        written(
            "rbac.authorization.k8s.io",
            "Role",
            json!({"metadata": {}, "rules": [null, {"verbs": []}]})
        ),
        json!({"metadata": {}, "rules": [{"verbs": null}, {"verbs": []}]})
    );
    assert_eq!(
        written(
            "",
            "Service",
            json!({"metadata": {}, "spec": {"publishNotReadyAddresses": false, "type": ""}})
        ),
        json!({"metadata": {}, "spec": {}, "status": {"loadBalancer": {}}})
    );
}

#[test]
fn null_entries_of_maps_are_empty_and_bytes_may_be_numbers() {
    assert_eq!(
        written(
            "",
            "Secret",
            json!({"metadata": {}, "stringData": {"a": null}, "data": {"b": [104, 105], "c": null}})
        ),
        json!({"metadata": {}, "stringData": {"a": ""}, "data": {"b": "aGk=", "c": null}})
    );
}

fn unreadable(group: &str, kind: &str, object: &Value) -> String {
    let schema = schema(group, "v1", kind).expect("a built-in kind");
    schema.unreadable(object).unwrap_or_default()
}

#[test]
fn the_first_decode_error_names_its_struct_and_path() {
    let found = unreadable(
        "",
        "Service",
        &json!({"spec": {"ports": [{"name": 1, "port": true}], "type": []}}),
    );
    let wanted = "json: cannot unmarshal number into Go struct field ServicePort.spec.ports.name of type string";
    assert_eq!(found, wanted);
    let found = unreadable("", "Service", &json!({"metadata": {"labels": {"a": 5}}, "spec": 7}));
    let wanted = "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string";
    assert_eq!(found, wanted);
    let found = unreadable("", "Service", &json!({"spec": {"ports": [{"port": 1.5}]}}));
    let wanted = "json: cannot unmarshal number 1.5 into Go struct field ServicePort.spec.ports.port of type int32";
    assert_eq!(found, wanted);
    assert_eq!(unreadable("", "Secret", &json!({"data": {"a": [104], "b": null}})), "");
}

#[test]
fn an_error_of_a_type_with_its_own_decoder_ends_decoding() {
    let found = unreadable(
        "coordination.k8s.io",
        "Lease",
        &json!({"metadata": [], "spec": {"renewTime": 5}}),
    );
    let wanted = "json: cannot unmarshal number into Go struct field LeaseSpec.spec.renewTime of type string";
    assert_eq!(found, wanted);
}

#[test]
fn results_of_strategic_patches_are_converted_in_the_order_of_fields() {
    let schema = schema("", "v1", "Service").unwrap();
    let why = |spec: Value| schema.unconvertible(&json!({"spec": spec})).unwrap_or_default();
    assert_eq!(
        why(json!({"clusterIP": 1, "ports": "x"})),
        "cannot restore slice from string"
    );
    assert_eq!(why(json!({"type": 1})), "cannot convert int64 to v1.ServiceType");
    assert_eq!(why(json!({"ports": [{"port": {}}]})), "unrecognized type: int32");
    assert_eq!(why(json!([])), "cannot restore struct from: slice");
}

#[test]
fn fields_are_printed_in_declared_order_unless_patched() {
    let schema = schema("", "v1", "Service").unwrap();
    let object =
        json!({"spec": {"type": "x", "ports": [{"port": 1, "name": "a"}]}, "metadata": {"uid": "u", "name": "n"}});
    let whole = schema.print_patched(&object, &json!({}));
    let apart = r#"{"metadata":{"name":"n","uid":"u"},"spec":{"ports":[{"name":"a","port":1}],"type":"x"}}"#;
    assert_eq!(whole, apart);
    let object = json!({"spec": {"type": "x", "sessionAffinity": "y"}});
    let declared = schema.print_patched(&object, &json!({}));
    assert_eq!(declared, r#"{"spec":{"type":"x","sessionAffinity":"y"}}"#);
    let merged = schema.print_patched(&object, &json!({"spec": {"type": "x"}}));
    assert_eq!(merged, r#"{"spec":{"sessionAffinity":"y","type":"x"}}"#);
}
