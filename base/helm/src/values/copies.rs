//! Limits the bytes that are copied for charts under aliases, imported values, and globals of charts in charts. A few bytes of
//! Chart.yaml request each copy, and Helm has no limit: it shares much of what is copied here.

use serde_json::Value;

use super::Values;
use crate::chart::CHART_BYTES_MAX;

/// All copies together have at most the size of the largest chart.
const COPIES_BYTES_MAX: u64 = CHART_BYTES_MAX;
/// What a value takes beside its text.
const VALUE_BYTES: usize = 32;

/// The copies of a chart take too much.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "chart {chart}: charts under aliases, imported values and globals are copies of more than {COPIES_BYTES_MAX} bytes, at \
     most that is allowed"
)]
pub struct CopiesError {
    chart: String,
}

/// What may still be copied.
#[derive(Debug)]
pub(crate) struct Copies {
    bytes: u64,
}

impl Default for Copies {
    fn default() -> Self {
        Self {
            bytes: COPIES_BYTES_MAX,
        }
    }
}

impl Copies {
    /// Counts bytes that are to be copied for `chart` against the limit.
    pub(crate) fn take(&mut self, bytes: usize, chart: &str) -> Result<(), CopiesError> {
        let left = u64::try_from(bytes)
            .ok()
            .and_then(|bytes| self.bytes.checked_sub(bytes));
        self.bytes = left.ok_or_else(|| CopiesError {
            chart: chart.to_owned(),
        })?;
        Ok(())
    }
}

/// About how much values take.
pub(crate) fn bytes_of(values: &Values) -> usize {
    let entries = values.iter().map(|(key, value)| key.len() + bytes_of_value(value));
    VALUE_BYTES + entries.fold(0, usize::saturating_add)
}

/// About how much a value takes.
pub(crate) fn bytes_of_value(value: &Value) -> usize {
    match value {
        Value::String(text) => VALUE_BYTES + text.len(),
        Value::Array(items) => VALUE_BYTES + items.iter().map(bytes_of_value).fold(0, usize::saturating_add),
        Value::Object(entries) => bytes_of(entries),
        Value::Null | Value::Bool(_) | Value::Number(_) => VALUE_BYTES,
    }
}
