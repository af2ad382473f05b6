//! Rules made to hurt: each is refused or stopped, quickly.

use std::time::{Duration, Instant};

use cluster_fields::FieldError;
use serde_json::{Value, json};

use crate::json_schema::{compile_new, evaluate, words};

/// Far more than any of these takes, far less than a hang.
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn overlong_and_overly_nested_rules_are_refused_at_compile_time() {
    let rules = [
        "(".repeat(5000),
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
        assert!(compile_new(&spec).is_err(), "{head}");
    }
}

#[test]
fn long_names_of_fields_make_short_errors() {
    let name = "n".repeat(80_000);
    let nested = (0..40).fold("b".to_owned(), |inner, _| format!("{{b: {inner}}}"));
    let sums = vec!["c+1"; 90].join(", ");
    let rule = format!("[self.{name}].map(b, {nested}).map(c, [{sums}]).size() > 0");
    let spec = json!({
        "type": "object", "properties": {&name: {"type": "object"}}, "x-kubernetes-validations": [{"rule": rule}],
    });
    let refused = compile_new(&spec).expect_err("no sums of maps");
    let bytes: usize = refused.iter().map(|error| error.detail.len()).sum();
    assert!(words(&refused).contains("no matching overload"));
    assert!((1000..200_000).contains(&bytes), "{bytes}");
}

#[test]
fn the_longest_allowed_chains_fit_an_ordinary_stack() {
    for rule in [
        format!("{}true{}", "(".repeat(80), ")".repeat(80)),
        format!("1{} > 1", "+1".repeat(100)),
        format!("{}true", "!".repeat(5000)),
        format!("true{}", " && true".repeat(1000)),
    ] {
        let spec = json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}]});
        assert!(compile_new(&spec).is_ok(), "{spec}");
        assert_eq!(evaluate(&spec, &json!({})), Vec::new());
    }
}

#[test]
fn nested_loops_over_large_lists_are_stopped_not_passed() {
    let rule = "self.l.all(a, self.l.all(b, self.l.all(c, a + b + c >= 0)))";
    let spec = json!({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "integer"}}},
        "x-kubernetes-validations": [{"rule": rule}]});
    let refused = words(&compile_new(&spec).expect_err("too expensive"));
    assert!(refused.contains("estimated rule cost exceeds budget"), "{refused}");
    assert_eq!(evaluate(&spec, &json!({"l": [1, 2, 3]})), Vec::new());
    let list: Vec<u32> = (0..5000).collect();
    let started = Instant::now();
    let errors = evaluate(&spec, &json!({"l": list}));
    assert!(errors[0].to_string().contains("call cost exceeds limit"), "{errors:?}");
    assert!(started.elapsed() < PATIENCE);
}

/// The errors of a stored rule on an object with a list `l`, a text `s` and a number `n`. Its estimated cost was never limited.
fn errors_of(rule: &str, value: &Value) -> Vec<FieldError> {
    let schema = json!({"type": "object", "properties": {
            "l": {"type": "array", "items": {"type": "integer"}}, "s": {"type": "string"}, "n": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": rule}]});
    evaluate(&schema, value)
}

#[test]
fn rules_that_make_large_values_are_stopped() {
    let doubling = |step: &str| format!("size([self.s]{}[0]) > 0", format!(".map(x, {step})").repeat(20));
    let rules = [
        "lists.range(100000000000).size() > 0".to_owned(),
        "lists.range(30000).all(x, lists.range(30000).all(y, x + y >= 0))".to_owned(),
        "lists.range(self.n).all(x, lists.range(self.n).all(y, x + y >= 0)) || true".to_owned(),
        "lists.range(20000).map(x, x).size() == 20000".to_owned(),
        "self.s.split('').all(x, self.s.split('').all(y, x.size() < 2 && y.size() < 2))".to_owned(),
        "[self.s].map(x, x.replace('', x)).map(x, x.replace('', x)).map(x, x.replace('', x))[0].size() > 0".to_owned(),
        "lists.range(1000).map(x, self.s).join(self.s).size() > 0".to_owned(),
        doubling("x + x + x"),
        doubling("[x, x, x]"),
        doubling("{'a': x, 'b': x, 'c': x}"),
        "lists.range(10000).map(x, string(x)).distinct().size() > 0".to_owned(),
        "sets.contains(lists.range(10000), lists.range(10000))".to_owned(),
        "lists.range(5000).all(x, self.s.matches('a{' + string(x) + '}') || true)".to_owned(),
    ];
    let value = json!({"l": [1], "s": "abcdefgh".repeat(1000), "n": 30000});
    for rule in rules {
        let started = Instant::now();
        let errors = errors_of(&rule, &value);
        let error = errors.first().map(ToString::to_string).unwrap_or_default();
        assert!(error.contains("call cost exceeds limit"), "{rule}: {errors:?}");
        assert!(started.elapsed() < PATIENCE, "{rule}: {:?}", started.elapsed());
    }
    let errors = errors_of("'%.999999999f'.format([1.0]) != ''", &value);
    assert!(
        errors[0].to_string().contains("a precision of 999999999 digits"),
        "{errors:?}"
    );
}

#[test]
fn copies_of_large_objects_are_metered() {
    let list: Vec<u32> = (0..30_000).collect();
    let object = json!({"l": list});
    let started = Instant::now();
    let errors = errors_of("self.l.all(x, self.l[0] == 0)", &object);
    assert!(errors[0].to_string().contains("call cost exceeds limit"), "{errors:?}");
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
    // The budget of one object does not carry over to the next.
    assert_eq!(errors_of("self.l.all(x, x >= 0)", &object), Vec::new());
}

#[test]
fn metered_functions_return_what_cel_go_returns() {
    let rules = [
        "'a-b-c'.replace('-', '+') == 'a+b+c'",
        "'a-b-c'.replace('-', '+', 1) == 'a+b-c'",
        "'a-b-c'.replace('-', '+', 0) == 'a-b-c'",
        "'a-b-c'.replace('-', '+', -1) == 'a+b+c'",
        "'ab'.replace('', '.') == '.a.b.'",
        "['a', 'b'].join() == 'ab' && ['a', 'b'].join(', ') == 'a, b' && [].join(',') == ''",
        "lists.range(3) == [0, 1, 2] && lists.range(0) == []",
        "self.s.matches('^a+b$') && !self.s.matches('c')",
        "'abc 123'.find('[0-9]+') == '123' && 'abc'.find('[0-9]+') == ''",
        "'1 22 333'.findAll('[0-9]+') == ['1', '22', '333'] && '1 22'.findAll('[0-9]+', 1) == ['1']",
        "'%s is %.2f'.format(['pi', 3.14159]) == 'pi is 3.14'",
        "self.l.map(x, x * 2) == [2, 4] && self.l.filter(x, x > 1) == [2] && self.l.exists_one(x, x == 1)",
        "self.l.map(x, x > 1, x) == [2] && {'a': self.n}.a == 5 && [self.n, 1][0] == 5",
        "[1, 1, 2].distinct() == [1, 2] && sets.contains([1, 2], [1])",
        "self.l + [3] == [1, 2, 3] && 'a' + self.s == 'aaab' && self.n + 1 == 6",
        "optional.of(self.n).orValue(0) == 5 && quantity('1Gi').isGreaterThan(quantity('1Mi'))",
        "!format.dns1123Label().validate('ok').hasValue()",
    ];
    for rule in rules {
        let errors = errors_of(rule, &json!({"l": [1, 2], "s": "aab", "n": 5}));
        assert_eq!(errors, Vec::new(), "{rule}");
    }
}
