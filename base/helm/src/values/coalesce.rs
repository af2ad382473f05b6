//! Precedence of values: a parent's over its charts', the user's over all; null removes a default; globals are passed down.
//! `pkg/chart/common/util/coalesce.go` of Helm 4.1.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::Values;
use super::copies::{Copies, CopiesError, bytes_of_value};
use crate::Chart;

/// The key of values that all charts see.
const GLOBAL: &str = "global";

/// Why values cannot be combined with those of a chart.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoalesceError {
    /// The values of a chart in it are no map.
    #[error("type mismatch on {chart}: {found}")]
    Mismatch {
        /// The chart in it
        chart: String,
        /// Its values as Go prints them where it expects a boolean
        found: String,
    },
    /// Globals are too large for so many charts.
    #[error(transparent)]
    Copies(#[from] CopiesError),
}

/// What becomes of null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Null {
    /// It removes a default: `CoalesceValues`.
    Removes,
    /// It stays, for a later step: `MergeValues`.
    Stays,
}

/// The values that the templates of `chart` and of the charts in it see when the user gives `values`.
///
/// # Errors
/// Values of a chart in it that are no map, and globals that are too large for so many charts.
pub fn coalesce_values(chart: &Chart, values: &Values) -> Result<Values, CoalesceError> {
    with_defaults(chart, values.clone(), Null::Removes)
}

pub(crate) fn with_defaults(chart: &Chart, mut values: Values, null: Null) -> Result<Values, CoalesceError> {
    coalesce(chart, &mut values, null, &mut Copies::default())?;
    Ok(values)
}

fn coalesce(chart: &Chart, values: &mut Values, null: Null, copies: &mut Copies) -> Result<(), CoalesceError> {
    add_defaults(chart, values, null);
    for inner in &chart.dependencies {
        let name = &inner.metadata.name;
        let mut own = match values.remove(name) {
            None => Values::new(),
            Some(Value::Object(own)) => own,
            Some(other) => {
                return Err(CoalesceError::Mismatch {
                    chart: name.clone(),
                    found: as_bool(&other),
                });
            }
        };
        copies.take(values.get(GLOBAL).map_or(0, bytes_of_value), name)?;
        pass_globals(&mut own, values);
        let coalesced = coalesce(inner, &mut own, null, copies);
        share_globals(values, &own);
        values.insert(name.clone(), Value::Object(own));
        coalesced?;
    }
    Ok(())
}

/// A value as Go prints it where it expects a boolean.
fn as_bool(value: &Value) -> String {
    match value {
        Value::Null => "%!t(<nil>)".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) if number.is_f64() => {
            let float = base_yaml::go::format_float(number.as_f64().unwrap_or(f64::NAN));
            format!("%!t(float64={float})")
        }
        Value::Number(number) => format!("%!t(int64={number})"),
        Value::String(text) => format!("%!t(string={text})"),
        Value::Array(items) => format!("[{}]", items.iter().map(as_bool).collect::<Vec<_>>().join(" ")),
        Value::Object(_) => "map".to_owned(),
    }
}

/// Adds the chart's own defaults for keys that are not set.
fn add_defaults(chart: &Chart, values: &mut Values, null: Null) {
    for (key, default) in &*chart.values {
        match values.get_mut(key) {
            None => {
                values.insert(key.clone(), default.clone());
            }
            Some(Value::Null) if null == Null::Removes => {
                values.remove(key);
            }
            Some(Value::Object(known)) => {
                if let Value::Object(default) = default {
                    // What is null in a chart's values is for that chart to remove.
                    let is_chart = chart.dependencies.iter().any(|inner| inner.metadata.name == *key);
                    let null = if is_chart { Null::Stays } else { null };
                    add_table(known, default.clone(), null);
                }
            }
            Some(_) => {}
        }
    }
}

/// Adds to `table` what only `defaults` have: `coalesceTablesFullKey`.
pub(crate) fn add_table(table: &mut Map<String, Value>, mut defaults: Map<String, Value>, null: Null) {
    let filled: BTreeSet<String> = defaults
        .iter()
        .filter(|(_, default)| !default.is_null())
        .map(|(key, _)| key.clone())
        .collect();
    for (key, value) in &*table {
        if value.is_null() {
            defaults.insert(key.clone(), Value::Null);
        }
    }
    for (key, default) in defaults {
        match table.get_mut(&key) {
            Some(Value::Null) if null == Null::Removes && filled.contains(&key) => {
                table.remove(&key);
            }
            None => {
                table.insert(key, default);
            }
            Some(Value::Object(known)) => {
                if let Value::Object(default) = default {
                    add_table(known, default, null);
                }
            }
            Some(_) => {}
        }
    }
}

/// Puts the parent's globals over those of a chart in it.
fn pass_globals(own: &mut Values, parent: &Values) {
    let empty = Map::new();
    let given = match parent.get(GLOBAL) {
        None => &empty,
        Some(Value::Object(given)) => given,
        Some(_) => return,
    };
    let known = match own.entry(GLOBAL).or_insert_with(|| Map::new().into()) {
        Value::Object(known) => known,
        _ => return,
    };
    for (key, value) in given {
        match (known.get_mut(key), value) {
            (Some(Value::Object(known)), Value::Object(value)) => {
                let mut merged = value.clone();
                add_table(&mut merged, std::mem::take(known), Null::Stays);
                *known = merged;
            }
            (Some(_), Value::Object(_)) | (Some(Value::Object(_)), _) => {}
            (_, value) => {
                known.insert(key.clone(), value.clone());
            }
        }
    }
}

/// In Go, parent and chart share the maps two levels deep in globals, so that what a chart's defaults add to them is visible
/// to the parent, and to charts that come later.
fn share_globals(parent: &mut Values, own: &Values) {
    let (Some(Value::Object(given)), Some(Value::Object(known))) = (parent.get_mut(GLOBAL), own.get(GLOBAL)) else {
        return;
    };
    for (key, value) in given {
        let (Value::Object(value), Some(Value::Object(known))) = (value, known.get(key)) else {
            continue;
        };
        for (key, value) in value {
            if let (Value::Object(value), Some(Value::Object(known))) = (value, known.get(key)) {
                value.clone_from(known);
            }
        }
    }
}
