//! From `kubectl apply` to `kubectl apply --server-side`: the annotation in which the former stores what it last applied.
//! It decides no conflict itself.
//! After apimachinery v0.35 `pkg/util/managedfields/internal/{lastapplied,lastappliedmanager,lastappliedupdater}.go`.

use cluster_schema::Schema;
use serde_json::{Map, Value};

use crate::misfit::misfits;
use crate::set::FieldSet;
use crate::typed::{compare, fields_of};

/// The manager that migrates; any other name opts out.
pub(crate) const MANAGER: &str = "kubectl";
/// The key of the annotation.
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// All annotations of an object, keys and values (apimachinery v0.35 `pkg/api/validation/objectmeta.go`).
const ANNOTATIONS_BYTES_MAX: usize = 256 << 10;

fn annotations(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.pointer_mut("/metadata/annotations")?.as_object_mut()
}

/// The fields of the configuration last applied that still have the values it gave them. None when there is no such
/// configuration, or none that fits.
pub(crate) fn unchanged_since(live: &Value, api_version: &str, schema: Option<&Schema>) -> Option<FieldSet> {
    let last = live.pointer("/metadata/annotations")?.get(ANNOTATION)?.as_str()?;
    let last: Value = serde_json::from_str(last).ok()?;
    let fits = last.get("apiVersion").and_then(Value::as_str) == Some(api_version);
    if !fits || schema.is_some_and(|schema| misfits(schema, &last).is_some()) {
        return None;
    }
    let difference = compare(schema, Some(&last), live);
    let fields = fields_of(schema, &last).below;
    Some(fields.difference(&difference.written()).difference(&difference.removed))
}

/// Replaces the annotation, if there is one, by `configuration`, so that a later `kubectl apply` without `--server-side` knows
/// what was applied. An annotation that would be too long is removed.
pub(crate) fn renew(object: &mut Value, configuration: &Value) {
    let Some(annotations_now) = annotations(object) else {
        return;
    };
    if annotations_now
        .get(ANNOTATION)
        .and_then(Value::as_str)
        .is_none_or(str::is_empty)
    {
        return;
    }
    let mut configuration = configuration.clone();
    if let Some(own) = annotations(&mut configuration) {
        own.remove(ANNOTATION);
    }
    // As Go's encoder ends it, and kubectl writes it.
    annotations_now.insert(ANNOTATION.to_owned(), Value::String(format!("{configuration}\n")));
    let length = |(key, value): (&String, &Value)| key.len() + value.as_str().map_or(0, str::len);
    if annotations_now.iter().map(length).sum::<usize>() > ANNOTATIONS_BYTES_MAX {
        annotations_now.remove(ANNOTATION);
    }
}
