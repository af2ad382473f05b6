//! Schemas and objects made to hurt: each is refused or survived, quickly.

use std::time::{Duration, Instant};

use cluster_cel::Work;
use cluster_schema::{DEPTH_MAX, Schema};
use serde_json::{Value, json};

/// Far more than any of these takes, far less than a hang.
const PATIENCE: Duration = Duration::from_secs(120);

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
    for (pattern, why) in [
        ("((((a{100}){100}){100}){100}){100}", "invalid repeat count: `{100}`"),
        (r"(\pL{100}){10}", "too large"),
    ] {
        let spec = json!({"type": "string", "pattern": pattern});
        let error = Schema::from_crd(&document(spec)).expect_err(why).to_string();
        assert!(error.contains(why), "{error}");
    }
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
fn many_large_patterns_are_refused_together() {
    let properties = |source: fn(usize) -> String| -> Value {
        let fields = (0..400).map(|n| (format!("f{n}"), json!({"type": "string", "pattern": source(n)})));
        json!({"type": "object", "properties": fields.collect::<serde_json::Map<_, _>>()})
    };
    let started = Instant::now();
    let error = Schema::from_crd(&document(properties(|n| format!("\\pL{{40}}{n}")))).expect_err("too large");
    assert!(
        error.to_string().contains("together with the patterns before it"),
        "{error}"
    );
    assert!(started.elapsed() < PATIENCE);
    for harmless in [|n| format!("^[a-z]{{1,63}}-{n}$"), |_| "\\pL{40}".to_owned()] {
        assert!(Schema::from_crd(&document(properties(harmless))).is_ok());
    }
}

#[test]
fn a_huge_enum_makes_a_short_error() {
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
fn copies_made_by_macros_are_limited_for_all_versions_of_a_definition() {
    let rule = |text: &str| format!("optional.of({text}){}.hasValue()", ".optMap(a, a)".repeat(11));
    let spec = |rule| json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}]});
    let (mut work, mut taken) = (Work::of_definition(), 0);
    let short = document(spec(rule("1")));
    let refused = loop {
        match Schema::from_crd_at(&short, "schema", false, &mut work) {
            Ok(_) if taken < 100 => taken += 1,
            Ok(_) => panic!("a hundred versions were taken"),
            Err(refused) => break refused.to_string(),
        }
    };
    assert!(
        taken > 5 && refused.contains("must not have more than 1000000 parts"),
        "{taken}: {refused}"
    );
    let long = document(spec(rule(&format!("'{}'", "x".repeat(90_000)))));
    assert!(Schema::from_crd(&long).is_err());
}

#[test]
fn rules_whose_types_double_at_every_step_are_checked_in_time() {
    let doubled = |step: &str, count: usize| format!("self{} == 1", step.repeat(count));
    for rule in [
        doubled(".map(x, {x: x})", 25),
        doubled(".map(x, [x, x]).map(x, {x: x})", 12),
        format!("self[?0]{} == 1", ".optMap(x, optional.of(x))".repeat(30)),
        format!("self[?0]{}.hasValue()", ".optFlatMap(x, optional.of(x))".repeat(12)),
        format!("[{}].size() > 1", vec!["{[[]]: {[]: [[]]}}"; 3000].join(", ")),
        format!("{} == 1", vec!["self"; 100].join(" + ")),
        "x ".repeat(30_000),
        "self.x.y.z(".repeat(3_000),
    ] {
        let count = if rule.len() < 10_000 { 30 } else { 3 };
        let fields = (0..count).map(|number| {
            let field =
                json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-validations": [{"rule": rule}]});
            (format!("f{number}"), field)
        });
        let spec = json!({"type": "object", "properties": fields.collect::<serde_json::Map<_, _>>()});
        let started = Instant::now();
        let refused = Schema::from_crd(&document(spec));
        let head: String = rule.chars().take(40).collect();
        assert!(started.elapsed() < PATIENCE, "{head}: {:?}", started.elapsed());
        let bytes = refused.err().map_or(0, |refused| refused.to_string().len());
        assert!(bytes < 16 << 20, "{head}: {bytes} bytes");
    }
}

#[test]
fn many_errors_are_cut_off() {
    let spec = json!({"type": "array", "items": {"type": "string"}});
    let schema = Schema::from_crd(&document(spec)).expect("structural");
    let errors = schema.validate(&json!({"spec": vec![1; 100_000]}), None);
    assert_eq!(errors.len(), cluster_fields::ERRORS_MAX);
}

#[test]
fn many_keys_of_a_list_make_a_short_error() {
    let keys: Vec<String> = (0..100_000).map(|n| format!("k{}", n / 2)).collect();
    let items = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let spec =
        json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys, "items": items});
    let refused = Schema::from_crd(&document(spec)).expect_err("none of the keys is a field");
    let shown: usize = refused
        .errors
        .iter()
        .map(|error| format!("{:?}", error.value).len())
        .sum();
    assert!(
        refused.errors.len() <= cluster_fields::ERRORS_MAX && shown < 1 << 20,
        "{shown} bytes"
    );
}

#[test]
fn a_long_number_is_no_duration() {
    let schema = Schema::from_crd(&document(json!({"type": "string", "format": "duration"}))).expect("structural");
    let started = Instant::now();
    assert_eq!(schema.validate(&json!({"spec": "1".repeat(3 << 20)}), None).len(), 1);
    assert!(started.elapsed() < PATIENCE);
}

#[test]
fn rules_below_an_unchanged_list_take_no_longer_than_below_a_new_one() {
    let rule = json!([{"rule": "self.n >= 0"}]);
    let items = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "x-kubernetes-validations": rule});
    let schema =
        Schema::from_crd(&document(json!({"type": "array", "maxItems": 20_000, "items": items}))).expect("structural");
    let list: Vec<Value> = (0..20_000).map(|n| json!({"n": n})).collect();
    let value = json!({"spec": list});
    let started = Instant::now();
    assert_eq!(schema.validate(&value, Some(&value)), Vec::new());
    assert!(started.elapsed() < PATIENCE);
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

/// A list within a list, and so on, each with two items by default.
fn doubling(levels: usize) -> Value {
    let inner = json!({"type": "object", "properties": {"a": {"type": "string", "default": "x"}}});
    (0..levels).fold(inner, |items, _| {
        let list = json!({"type": "array", "items": items, "default": [{}, {}]});
        json!({"type": "object", "properties": {"l": list}})
    })
}

#[test]
fn defaults_that_multiply_are_limited_when_stored_and_when_applied() {
    let begun = Instant::now();
    let refused = Schema::from_crd(&document(doubling(40))).unwrap_err().to_string();
    assert!(
        refused.contains("default values would add more than 3145728 bytes"),
        "{refused}"
    );
    let (served, _) = Schema::from_stored_crd(&document(doubling(40))).unwrap();
    assert!(served.default(&mut json!({"spec": {}})).is_err());

    let schema = Schema::from_crd(&document(doubling(12))).unwrap();
    assert_eq!(schema.default(&mut json!({"spec": {}})), Ok(()));
    let many = json!({"spec": {"l": vec![json!({}); 1000]}});
    assert!(schema.default(&mut many.clone()).is_err());
    assert!(begun.elapsed() < PATIENCE);
}
