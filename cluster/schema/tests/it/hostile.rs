//! Schemas and objects made to hurt: each is refused or survived, quickly.

use std::time::{Duration, Instant};

use cluster_schema::{DEPTH_MAX, Schema};
use serde_json::{Value, json};

/// Far more than any of these takes, far less than a hang.
const PATIENCE: Duration = Duration::from_secs(20);

fn document(spec: Value) -> Value {
    json!({"type": "object", "properties": {"spec": spec}})
}

fn nested(levels: usize) -> Value {
    let mut schema = json!({"type": "string"});
    for _ in 0..levels {
        schema = json!({"type": "object", "properties": {"a": schema}});
    }
    schema
}

#[test]
fn deep_nesting_is_refused_at_the_limit() {
    assert!(Schema::from_crd(&document(nested(DEPTH_MAX - 2))).is_ok());
    let error = Schema::from_crd(&document(nested(DEPTH_MAX + 1)))
        .expect_err("too deep")
        .to_string();
    assert!(error.contains("must not be nested deeper"), "{error}");
    let junctors = (0..200).fold(json!({"minLength": 1}), |inner, _| json!({"allOf": [inner]}));
    let spec = json!({"type": "string", "allOf": [junctors]});
    assert!(Schema::from_crd(&document(spec)).is_err());
}

#[test]
fn pattern_bombs_are_refused_or_linear() {
    let spec = json!({"type": "string", "pattern": "((((a{100}){100}){100}){100}){100}"});
    let error = Schema::from_crd(&document(spec)).expect_err("too large").to_string();
    assert!(error.contains("too large"), "{error}");
    let schema = Schema::from_crd(&document(json!({"type": "string", "pattern": "^(a+)+$"}))).expect("compiles");
    let started = Instant::now();
    assert!(
        !schema
            .validate(&json!({"spec": format!("{}b", "a".repeat(100_000))}), None)
            .is_empty()
    );
    assert!(started.elapsed() < PATIENCE);
}

#[test]
fn a_huge_enum_is_judged_with_a_short_error() {
    let values: Vec<String> = (0..60_000).map(|n| format!("value-{n:010}")).collect();
    let schema = Schema::from_crd(&document(json!({"type": "string", "enum": values}))).expect("1 MB is allowed");
    let errors = schema.validate(&json!({"spec": "nope"}), None);
    assert_eq!(errors.len(), 1);
    assert!(errors[0].to_string().len() < 4096);
}

#[test]
fn oversized_schemas_are_refused() {
    let text = "x".repeat(4 * 1024 * 1024);
    assert!(Schema::from_crd(&document(json!({"type": "string", "description": text}))).is_err());
}

#[test]
fn hostile_rules_are_refused_at_compile_time() {
    let rules = [
        "(".repeat(5000),
        format!("{}true", "!".repeat(5000)),
        format!("{}1{} == 1", "(".repeat(1000), ")".repeat(1000)),
        format!("1{}== 1", "+1".repeat(5000)),
        format!("self{}", ".a".repeat(5000)),
        format!("{}self{}", "[".repeat(3000), "]".repeat(3000)),
        "x".repeat(20_000),
        "'".to_owned(),
        "self.matches('((((a{99}){99}){99}){99})') ? ".to_owned(),
    ];
    for rule in rules {
        let spec = json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}]});
        let head: String = rule.chars().take(30).collect();
        assert!(Schema::from_crd(&document(spec)).is_err(), "{head}");
    }
}

#[test]
fn the_longest_allowed_chains_fit_an_ordinary_stack() {
    for rule in [
        format!("{}true{}", "(".repeat(80), ")".repeat(80)),
        format!("1{} > 1", "+1".repeat(100)),
        format!("{}true", "!".repeat(100)),
        format!("true{}", " && true".repeat(1000)),
    ] {
        let spec = json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}]});
        let schema = Schema::from_crd(&document(spec)).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(schema.validate(&json!({"spec": {}}), None), Vec::new());
    }
}

#[test]
fn nested_loops_over_large_lists_are_stopped_not_passed() {
    let rule = "self.l.all(a, self.l.all(b, self.l.all(c, a + b + c >= 0)))";
    let spec = json!({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "integer"}}},
        "x-kubernetes-validations": [{"rule": rule}]});
    let schema = Schema::from_crd(&document(spec)).expect("compiles");
    assert!(schema.validate(&json!({"spec": {"l": [1, 2, 3]}}), None).is_empty());
    let list: Vec<u32> = (0..5000).collect();
    let started = Instant::now();
    let errors = schema.validate(&json!({"spec": {"l": list}}), None);
    assert!(errors[0].to_string().contains("call cost exceeds limit"), "{errors:?}");
    assert!(started.elapsed() < PATIENCE);
}

#[test]
fn many_errors_are_cut_off() {
    let spec = json!({"type": "array", "items": {"type": "string"}});
    let schema = Schema::from_crd(&document(spec)).expect("structural");
    let errors = schema.validate(&json!({"spec": vec![1; 100_000]}), None);
    assert_eq!(errors.len(), cluster_schema::ERRORS_MAX);
}

#[test]
fn documents_of_wrong_shape_are_errors_not_panics() {
    for odd in [
        json!(null),
        json!([]),
        json!("x"),
        json!({"type": ["object"]}),
        json!({"type": "object", "properties": []}),
    ] {
        let _ = Schema::from_crd(&odd);
        let _ = Schema::from_crd(&document(odd.clone()));
        let _ = Schema::from_crd(&document(json!({"type": "object", "properties": {"a": odd}})));
    }
    let spec = json!({"type": "object", "required": 5, "x-kubernetes-validations": [5], "anyOf": {}, "enum": "x"});
    assert!(Schema::from_crd(&document(spec)).is_err());
}
