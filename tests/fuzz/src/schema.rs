//! Schemas of custom resources, objects held against them, and expressions: sections are the `openAPIV3Schema`, an object,
//! the object before it, an expression, the name of a built-in kind.

use cluster_cel::{Expression, Names, POLICY_COST_MAX, Work};
use cluster_fields::ERRORS_MAX;
use cluster_schema::{DEFAULTS_BYTES_MAX, Schema};
use serde_json::Value;

use crate::forms::form;
use crate::text::{Sections, first_difference};

/// Errors beside those of the schema itself: each reports that the list is cut.
const ERRORS_SLACK: usize = 2;
/// How an error's text may grow beyond what it shows: quotes and what is allowed stand around it.
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
        assert!(stored.is_ok(), "what is taken cannot be served: {:?}", stored.err());
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
        let verdict = schema.validate_with_warnings(&normal, old);
        assert!(verdict.errors.len() <= ERRORS_MAX + ERRORS_SLACK);
        let longest = verdict.errors.iter().map(|error| error.body().len()).max();
        let all = object.to_string().len() + normal.to_string().len() + schema.to_openapi().to_string().len();
        assert!(
            longest.unwrap_or_default() <= TEXT_FACTOR * all + 1024,
            "an error without end"
        );
    }
    let _ = schema.unreadable_metadata(object);
}

/// The value after `normalise`, which once does as much as twice.
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
    // What was taken before is not validated, only read; and whatever is taken can be read.
    let Ok(expression) = Expression::stored(source, false, &mut Work::of_stored_admission()) else {
        assert!(compiled.is_err(), "taken, but not to be read again");
        return;
    };
    let mut values = Names::default();
    values.set("object", Some(object));
    values.set("oldObject", old);
    values.set("request", None);
    let mut scope = values.scope(POLICY_COST_MAX);
    let once = scope.run(&expression);
    let _ = once;
}

fn built_in(kind: &str, object: &Value, old: Option<&Value>) {
    let form = form(kind);
    let Some((group, version, kind)) = form.builtin else {
        return;
    };
    if !object.is_object() || form.schema.unreadable(object).is_some() {
        return;
    }
    let normal = normalised(object, |value| {
        form.schema.prune(value);
        form.schema.drop_nulls(value);
        let _ = form.schema.fill(value);
        cluster_builtin::default(group, version, kind, value);
        form.schema.fill_zeros(value);
    });
    for old in [None, old.filter(|old| old.is_object()), Some(&normal)] {
        let errors = cluster_builtin::validate(group, version, kind, &normal, old);
        let _ = cluster_fields::aggregate(&errors);
        let _ = form.schema.validate(&normal, old);
    }
    let _ = cluster_builtin::warnings(group, kind, &normal, None);
}
