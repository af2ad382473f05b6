//! Trees of custom resources: one table per feature.

use cluster_fields::FieldErrorKind;
use cluster_schema::Schema;
use serde_json::{Value, json};

fn tree(spec: Value) -> Schema {
    let document = json!({"type": "object", "properties": {"spec": spec}});
    Schema::from_crd(&document).expect("structural")
}

fn errors(spec: Value, value: Value) -> Vec<String> {
    let object = json!({"spec": value});
    tree(spec)
        .validate(&object, None)
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn pruning_drops_and_names_unknown_fields_only() {
    let schema = tree(json!({"type": "object", "properties": {
        "known": {"type": "string"},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"inner": {"type": "object", "properties": {"a": {"type": "string"}}}}},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "embedded": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
    }}));
    let mut object = json!({
        "apiVersion": "x/v1", "kind": "K", "metadata": {"name": "n", "labels": {"l": "1"}, "bogus": 1},
        "spec": {
            "known": "k", "unknown": {"deep": 1},
            "open": {"kept": 1, "inner": {"a": "1", "b": 2}},
            "map": {"any": {"a": "1", "b": 2}},
            "list": [{"a": "1"}, {"b": 2}],
            "embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"x": 1}},
        },
    });
    let dropped = schema.prune(&mut object);
    assert_eq!(
        dropped,
        [
            "metadata.bogus",
            "spec.list[1].b",
            "spec.map.any.b",
            "spec.open.inner.b",
            "spec.unknown"
        ]
    );
    assert_eq!(object["spec"]["open"], json!({"kept": 1, "inner": {"a": "1"}}));
    assert_eq!(object["spec"]["embedded"]["spec"], json!({"x": 1}));
    assert!(schema.prune(&mut object).is_empty());
}

#[test]
fn defaults_fill_gaps_and_nulls_but_never_values() {
    let schema = tree(json!({"type": "object", "properties": {
        "size": {"type": "integer", "default": 3},
        "maybe": {"type": "string", "nullable": true, "default": "d"},
        "plain": {"type": "string"},
        "box": {"type": "object", "default": {}, "properties": {"inner": {"type": "string", "default": "x"}}},
        "absent": {"type": "object", "properties": {"inner": {"type": "string", "default": "x"}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"p": {"type": "string", "default": "TCP"}}}},
    }}));
    let table = [
        (json!({}), json!({"size": 3, "maybe": "d", "box": {"inner": "x"}})),
        (
            json!({"size": null, "maybe": null, "plain": null, "box": {"inner": "y"}, "list": [{}]}),
            json!({"size": 3, "maybe": null, "box": {"inner": "y"}, "list": [{"p": "TCP"}]}),
        ),
        (
            json!({"size": 0, "absent": {}}),
            json!({"size": 0, "maybe": "d", "box": {"inner": "x"}, "absent": {"inner": "x"}}),
        ),
    ];
    for (given, expected) in table {
        let mut object = json!({"spec": given});
        schema.default(&mut object).unwrap();
        assert_eq!(object["spec"], expected);
    }
}

#[test]
fn validation_reports_in_kubernetes_words() {
    let text = |extra: Value| {
        let mut schema = json!({"type": "string"});
        schema
            .as_object_mut()
            .expect("object")
            .extend(extra.as_object().expect("object").clone());
        json!({"type": "object", "properties": {"f": schema}})
    };
    let field = |schema: Value| json!({"type": "object", "properties": {"f": schema}});
    #[rustfmt::skip] // one case a line
    let table: Vec<(Value, Value, &[&str])> = vec![
        (text(json!({})), json!({"f": 1}), &["spec.f: Invalid value: \"integer\": spec.f in body must be of type string: \"integer\""]),
        (text(json!({"enum": ["a", "b"]})), json!({"f": "c"}), &["spec.f: Unsupported value: \"c\": supported values: \"a\", \"b\""]),
        (text(json!({"pattern": "^a+$"})), json!({"f": "b"}), &["spec.f: Invalid value: \"b\": spec.f in body should match '^a+$'"]),
        (text(json!({"maxLength": 2})), json!({"f": "äöü"}), &["spec.f: Too long: may not be more than 2 bytes"]),
        (text(json!({"minLength": 2})), json!({"f": "ä"}), &["spec.f: Invalid value: \"ä\": spec.f in body should be at least 2 chars long"]),
        (text(json!({"format": "date-time"})), json!({"f": "x"}), &["spec.f: Invalid value: \"x\": spec.f in body must be of type date-time: \"x\""]),
        (text(json!({"nullable": true})), json!({"f": null}), &[]),
        (field(json!({"type": "integer", "minimum": 1})), json!({"f": 0}), &["spec.f: Invalid value: 0: spec.f in body should be greater than or equal to 1"]),
        (field(json!({"type": "integer", "minimum": 1, "exclusiveMinimum": true})), json!({"f": 1}), &["spec.f: Invalid value: 1: spec.f in body should be greater than 1"]),
        (field(json!({"type": "integer", "maximum": 1})), json!({"f": 2}), &["spec.f: Invalid value: 2: spec.f in body should be less than or equal to 1"]),
        (field(json!({"type": "integer"})), json!({"f": 1.5}), &["spec.f: Invalid value: \"number\": spec.f in body must be of type integer: \"number\""]),
        (field(json!({"type": "integer"})), json!({"f": 2.0}), &[]),
        (field(json!({"type": "integer", "format": "int32"})), json!({"f": 3_000_000_000_i64}), &[]),
        (field(json!({"type": "number", "multipleOf": 0.1})), json!({"f": 0.3}), &[]),
        (field(json!({"type": "integer", "multipleOf": 5})), json!({"f": 12}), &["spec.f: Invalid value: 12: spec.f in body should be a multiple of 5"]),
        (field(json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]})), json!({"f": "25%"}), &[]),
        (field(json!({"x-kubernetes-int-or-string": true})), json!({"f": true}), &["spec.f: Invalid value: \"boolean\": spec.f in body must be of type integer,string: \"boolean\""]),
        (field(json!({"type": "array", "maxItems": 1, "items": {"type": "string"}})), json!({"f": ["a", "b"]}), &["spec.f: Too many: 2: must have at most 1 item"]),
        (field(json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}})), json!({"f": ["a", "a"]}), &["spec.f[1]: Duplicate value: \"a\""]),
        (field(json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"], "items": {"type": "object", "required": ["n"], "properties": {"n": {"type": "string"}}}})), json!({"f": [{"n": "a"}, {"n": "a"}]}), &["spec.f[1]: Duplicate value: {\"n\":\"a\"}"]),
        (field(json!({"type": "object", "maxProperties": 1, "additionalProperties": {"type": "string"}})), json!({"f": {"a": "1", "b": "2"}}), &["spec.f: Too many: 2: must have at most 1 item"]),
        (json!({"type": "object", "required": ["f"], "properties": {"f": {"type": "string"}}}), json!({}), &["spec.f: Required value"]),
        (json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}), json!({"a": "1", "b": "2"}), &["<nil>: Invalid value: \"\": \"spec\" must validate one and only one schema (oneOf). Found 2 valid alternatives"]),
        (json!({"type": "object", "properties": {"a": {"type": "integer"}}, "not": {"properties": {"a": {"minimum": 5}}, "required": ["a"]}}), json!({"a": 7}), &["<nil>: Invalid value: \"\": \"spec\" must not validate the schema (not)"]),
        (field(json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true})), json!({"f": {"kind": "Pod"}}), &["spec.f.apiVersion: Required value"]),
    ];
    for (schema, value, expected) in table {
        assert_eq!(errors(schema.clone(), value.clone()), expected, "{schema} {value}");
    }
}

#[test]
fn non_structural_schemas_are_refused_with_a_path() {
    let table = [
        (
            json!({"properties": {"f": {"type": "string"}}}),
            "openAPIV3Schema.properties[spec].type: Required value",
        ),
        (
            json!({"type": "object", "properties": {"f": {}}}),
            "openAPIV3Schema.properties[spec].properties[f].type: Required value",
        ),
        (
            json!({"type": "array"}),
            "openAPIV3Schema.properties[spec].items: Required value: must be specified",
        ),
        (
            json!({"type": "object", "anyOf": [{"type": "object"}]}),
            "openAPIV3Schema.properties[spec].anyOf[0].type: Forbidden: must be empty to be structural",
        ),
        (
            json!({"type": "string", "pattern": "("}),
            "openAPIV3Schema.properties[spec].pattern: Invalid value: \"(\"",
        ),
        (
            json!({"type": "text"}),
            "openAPIV3Schema.properties[spec].type: Unsupported value: \"text\"",
        ),
        (
            json!({"type": "object", "$ref": "#/x"}),
            "openAPIV3Schema.properties[spec].$ref: Forbidden",
        ),
        (
            json!({"type": "string", "default": 5}),
            "openAPIV3Schema.properties[spec].default: Invalid value: \"integer\"",
        ),
        (
            json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"]}),
            "openAPIV3Schema.properties[spec].x-kubernetes-list-map-keys: Invalid value: [\"n\"]",
        ),
        (
            json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.a +"}]}),
            "openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value",
        ),
        (
            json!({"type": "object", "x-kubernetes-validations": [{"rule": "slef.a == 1"}]}),
            "openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value",
        ),
    ];
    for (spec, start) in table {
        let document = json!({"type": "object", "properties": {"spec": spec}});
        let error = Schema::from_crd(&document).expect_err("not structural").to_string();
        assert!(error.contains(start), "{error}\n  does not contain\n{start}");
    }
    let root = json!({"type": "object", "additionalProperties": {"type": "string"}});
    assert!(Schema::from_crd(&root).is_err());
}

#[test]
fn an_immutability_rule_applies_only_to_updates() {
    let schema = tree(json!({"type": "object", "properties": {
        "class": {"type": "string", "x-kubernetes-validations": [
            {"rule": "self == oldSelf", "message": "class is immutable"}]},
        "size": {"type": "integer"},
    }}));
    let object = |class: &str, size: i64| json!({"spec": {"class": class, "size": size}});
    assert!(schema.validate(&object("a", 1), None).is_empty());
    assert!(schema.validate(&object("a", 2), Some(&object("a", 1))).is_empty());
    let errors = schema.validate(&object("b", 1), Some(&object("a", 1)));
    assert_eq!(errors.len(), 1);
    assert_eq!(
        errors[0].to_string(),
        "spec.class: Invalid value: \"b\": class is immutable"
    );
}

#[test]
fn rules_have_messages_reasons_paths_and_map_list_correlation() {
    let schema = tree(json!({"type": "object",
        "x-kubernetes-validations": [
            {"rule": "self.min <= self.max", "messageExpression": "'max must be at least %d'.format([self.min])",
             "reason": "FieldValueForbidden", "fieldPath": ".max"},
            {"rule": "self.names.all(n, n.startsWith('x'))"},
            {"rule": "!has(self.__namespace__) || self.__namespace__ != 'kube-system'", "message": "no"},
            {"rule": "!has(self.wait) || self.wait <= duration('1h')", "message": "too long a wait"},
        ],
        "properties": {
            "min": {"type": "integer"}, "max": {"type": "integer"}, "namespace": {"type": "string"},
            "wait": {"type": "string", "format": "duration"},
            "names": {"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 10}},
            "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
                "items": {"type": "object", "required": ["id"], "properties": {
                    "id": {"type": "string"},
                    "v": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "must not shrink"}]}}}},
        },
    }));
    let texts = |value: Value, old: Option<Value>| -> Vec<String> {
        let old = old.map(|old| json!({"spec": old}));
        schema
            .validate(&json!({"spec": value}), old.as_ref())
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    let good = json!({"min": 1, "max": 2, "names": ["x1"], "wait": "30m"});
    assert!(texts(good, None).is_empty());
    assert_eq!(
        texts(json!({"min": 3, "max": 2, "names": []}), None),
        ["spec.max: Forbidden: max must be at least 3"]
    );
    assert_eq!(
        texts(json!({"min": 1, "max": 2, "names": ["y"]}), None),
        ["spec: Invalid value: failed rule: self.names.all(n, n.startsWith('x'))"]
    );
    let bad = json!({"min": 1, "max": 2, "names": [], "namespace": "kube-system", "wait": "2h"});
    assert_eq!(texts(bad, None).len(), 2);
    let parts =
        |a: i64, b: i64| json!({"min": 1, "max": 2, "names": [], "parts": [{"id": "b", "v": b}, {"id": "a", "v": a}]});
    let old = json!({"min": 1, "max": 2, "names": [], "parts": [{"id": "a", "v": 5}, {"id": "b", "v": 1}]});
    assert!(texts(parts(5, 1), Some(old.clone())).is_empty());
    assert_eq!(
        texts(parts(4, 9), Some(old)),
        ["spec.parts[1].v: Invalid value: 4: must not shrink"]
    );
}

#[test]
fn an_expensive_rule_is_refused_unless_its_schema_is_stored() {
    let spec = json!({"type": "array", "maxItems": 1000, "items": {"type": "string", "maxLength": 100},
        "x-kubernetes-validations": [{"rule": "self.all(x, self.all(y, x == y))"}]});
    let document = json!({"type": "object", "properties": {"spec": spec}});
    let refused = Schema::from_crd(&document).unwrap_err().to_string();
    assert!(
        refused.contains("[0].rule: Forbidden: estimated rule cost exceeds budget by factor of 4.5x"),
        "{refused}"
    );
    assert!(
        Schema::from_crd_at(
            &document,
            "openAPIV3Schema",
            true,
            &mut cluster_cel::Work::of_definition()
        )
        .is_ok()
    );
}

#[test]
fn an_unchanged_invalid_value_does_not_block_an_update() {
    let schema = tree(json!({"type": "object", "properties": {
        "old": {"type": "string", "enum": ["a"]}, "size": {"type": "integer"}}}));
    let object = |old: &str, size: i64| json!({"spec": {"old": old, "size": size}});
    assert!(schema.validate(&object("z", 2), Some(&object("z", 1))).is_empty());
    let errors = schema.validate(&object("y", 2), Some(&object("z", 1)));
    assert_eq!(errors[0].kind, FieldErrorKind::NotSupported);
}

#[test]
fn a_rule_that_fails_as_it_did_before_only_warns() {
    let schema = tree(json!({"type": "object", "properties": {
        "a": {"type": "object", "x-kubernetes-validations": [{"rule": "self.n < 5", "message": "is large"}],
            "properties": {"n": {"type": "integer"}, "m": {"type": "integer"}}},
        "b": {"type": "integer"}}}));
    let object = |m: i64, b: i64| json!({"spec": {"a": {"n": 9, "m": m}, "b": b}});
    let result = schema.validate_with_warnings(&object(1, 2), Some(&object(1, 1)));
    assert_eq!(
        (result.errors, result.warnings),
        (vec![], vec!["spec.a: Invalid value: is large".to_owned()])
    );
    assert_eq!(
        schema
            .validate_with_warnings(&object(2, 1), Some(&object(1, 1)))
            .errors
            .len(),
        1
    );
}

#[test]
fn rules_are_skipped_for_a_wrong_shape_and_the_error_reports_it() {
    let spec = json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.n < 5"}],
        "properties": {"n": {"type": "integer", "maximum": 7}}});
    assert_eq!(errors(spec.clone(), json!({"n": 9})).len(), 2, "a bound hides no rule");
    let reported = errors(spec, json!({"n": "x"}));
    assert_eq!(reported.len(), 2, "{reported:?}");
    assert!(
        reported[1].starts_with("<nil>: Invalid value: null: some validation rules were not checked"),
        "{reported:?}"
    );
}

#[test]
fn rules_see_types_and_a_missing_old_value() {
    let spec = json!({"type": "object", "properties": {
        "port": {"x-kubernetes-int-or-string": true, "x-kubernetes-validations": [
            {"rule": "type(self) == int ? self < 9 : self == 'http'", "message": "is no port"}]},
        "once": {"type": "string", "x-kubernetes-validations": [
            {"rule": "oldSelf.hasValue() ? self == oldSelf.value() : self == 'first'", "optionalOldSelf": true}]}}});
    for (value, good) in [
        (json!({"port": 8}), true),
        (json!({"port": 9}), false),
        (json!({"port": "http"}), true),
        (json!({"port": "x"}), false),
        (json!({"once": "first"}), true),
        (json!({"once": "second"}), false),
    ] {
        assert_eq!(errors(spec.clone(), value.clone()).is_empty(), good, "{value}");
    }
}

#[test]
fn a_duplicate_item_is_reported_once_unless_the_old_list_had_one() {
    let spec = json!({"type": "object", "properties": {
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}}});
    let object = |set: &[&str]| json!({"spec": {"set": set}});
    let schema = tree(spec);
    let paths = |errors: Vec<cluster_fields::FieldError>| errors.into_iter().map(|e| e.path).collect::<Vec<_>>();
    let twice = object(&["a", "b", "a", "a", "b"]);
    assert_eq!(paths(schema.validate(&twice, None)), ["spec.set[2]", "spec.set[4]"]);
    assert!(schema.validate(&twice, Some(&object(&["a", "a"]))).is_empty());
}

#[test]
fn additional_properties_without_a_schema_have_their_fields_pruned() {
    let schema = tree(json!({"type": "object", "additionalProperties": true}));
    let mut object = json!({"spec": {"text": "x", "object": {"a": 1}, "list": [{"b": 2}, 3]}});
    assert_eq!(schema.prune(&mut object), ["spec.list[0].b", "spec.object.a"]);
    assert_eq!(object["spec"], json!({"text": "x", "object": {}, "list": [{}, 3]}));
}
