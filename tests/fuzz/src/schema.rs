//! Schemas of custom resources, validation of objects, and expressions: sections are the `openAPIV3Schema`, an object, the old
//! object, an expression, the name of a built-in kind.

use cluster_cel::{Expression, Names, POLICY_COST_MAX, Work};
use cluster_fields::ERRORS_MAX;
use cluster_schema::{DEFAULTS_BYTES_MAX, Schema};
use serde_json::Value;

use crate::kinds;
use crate::text::{Sections, first_difference};

/// Errors beside those of the schema itself: each reports that the list is cut.
const ERRORS_SLACK: usize = 2;
/// How many times longer an error may be than the input: it also has quotes, and what is allowed.
const TEXT_FACTOR: usize = 16;

pub(crate) fn check(input: &[u8]) {
    let input = String::from_utf8_lossy(input);
    let mut sections = Sections::of(&input);
    let document = sections.json().unwrap_or_default();
    let object = sections.json().unwrap_or_default();
    let old = sections.json();
    if let Ok(schema) = Schema::from_crd(&document) {
        custom(&schema, &object, old.as_ref());
        let stored = Schema::from_stored_crd(&document);
        assert!(
            stored.is_ok(),
            "an accepted schema cannot be served: {:?}",
            stored.err()
        );
    } else if let Ok((schema, _)) = Schema::from_stored_crd(&document) {
        custom(&schema, &object, old.as_ref());
    }
    expression(sections.text(), &object, old.as_ref());
    built_in(sections.text().trim(), &object, old.as_ref());
}

fn custom(schema: &Schema, object: &Value, old: Option<&Value>) {
    if schema.default(&mut object.clone()).is_err() {
        return;
    }
    let normal = normalised(object, |value| {
        schema.prune(value);
        let _ = schema.default(value);
    });
    let mut pruned = normal.clone();
    let dropped = schema.prune(&mut pruned);
    assert!(dropped.is_empty(), "defaults that are unknown: {dropped:?}");
    assert!(
        normal.to_string().len() <= object.to_string().len() + 2 * DEFAULTS_BYTES_MAX,
        "defaults without end"
    );
    for old in [None, old, Some(&normal)] {
        let result = schema.validate_with_warnings(&normal, old);
        assert!(result.errors.len() <= ERRORS_MAX + ERRORS_SLACK);
        let longest = result.errors.iter().map(|error| error.body().len()).max();
        let all = object.to_string().len() + normal.to_string().len() + schema.to_openapi().to_string().len();
        assert!(
            longest.unwrap_or_default() <= TEXT_FACTOR * all + 1024,
            "an error without end"
        );
    }
    let _ = schema.unreadable_metadata(object);
}

/// The value after `normalise`, which must be idempotent.
fn normalised(value: &Value, normalise: impl Fn(&mut Value)) -> Value {
    let mut once = value.clone();
    normalise(&mut once);
    let mut twice = once.clone();
    normalise(&mut twice);
    let difference = first_difference(&once, &twice);
    assert!(
        difference.is_none(),
        "normalised twice: {}",
        difference.unwrap_or_default()
    );
    once
}

fn expression(source: &str, object: &Value, old: Option<&Value>) {
    let names = ["object", "oldObject", "request"];
    let compiled = Expression::compile(source, &names, None, &mut Work::of_admission());
    // A stored expression is only read, not validated; and every accepted one can be read.
    let Ok(expression) = Expression::stored(source, false, &mut Work::of_stored_admission()) else {
        assert!(compiled.is_err(), "accepted, and cannot be read again");
        return;
    };
    let mut values = Names::default();
    values.set("object", Some(object));
    values.set("oldObject", old);
    values.set("request", None);
    let mut scope = values.scope(POLICY_COST_MAX);
    let _ = scope.run(&expression);
}

fn built_in(name: &str, object: &Value, old: Option<&Value>) {
    let found = kinds::find(name);
    let Some((group, version, kind)) = found.builtin else {
        return;
    };
    if !object.is_object() || found.schema.unreadable(object).is_some() {
        return;
    }
    let normal = normalised(object, |value| {
        found.schema.prune(value);
        found.schema.normalize(value);
        let _ = found.schema.fill(value);
        cluster_builtin::default(group, version, kind, value);
        found.schema.fill_zeros(value);
    });
    for old in [None, old.filter(|old| old.is_object()), Some(&normal)] {
        let errors = cluster_builtin::validate(group, version, kind, &normal, old);
        let _ = cluster_fields::aggregate(&errors);
        let _ = found.schema.validate(&normal, old);
    }
    let _ = cluster_builtin::warnings(group, kind, &normal, None);
}
