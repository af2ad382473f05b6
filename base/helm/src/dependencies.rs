//! Which dependencies of a chart are enabled, under which names, and which values their parent imports: `pkg/chart/v2/util`
//! (`dependencies.go`) of Helm 4.1.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::Chart;
use crate::chart::{Dependency, is_compatible};
use crate::values::{CoalesceError, Copies, CopiesError, Null, Values, add_table, bytes_of, table_at, with_defaults};

/// Charts in a chart, each counted once for each alias, and dependencies of one chart. Helm has no limit; large charts have
/// some dozens.
const CHARTS_MAX: usize = 1_000;

/// Why dependencies cannot be processed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DependencyError {
    /// Values of a chart in it are no map.
    #[error(transparent)]
    Values(#[from] CoalesceError),
    /// There are too many charts in it.
    #[error("chart {chart} has {count} charts in it, those under aliases among them, at most {CHARTS_MAX} are allowed")]
    TooMany {
        /// The outermost chart
        chart: String,
        /// How many there are, or would be with the next alias
        count: usize,
    },
    /// A chart has too many dependencies.
    #[error("chart {chart} has {count} dependencies in Chart.yaml, at most {CHARTS_MAX} are allowed")]
    TooManyWanted {
        /// Which chart
        chart: String,
        /// How many
        count: usize,
    },
    /// Copies take too much.
    #[error(transparent)]
    Copies(#[from] CopiesError),
}

/// Processes the dependencies of `chart` with the user's values: removes charts that conditions or tags disable, renames those
/// with an alias, and imports values. In the values of `chart` null stays null until [`crate::values::coalesce_values`].
///
/// # Errors
/// Values of a chart in it that are no map, and more charts or copies than the limits allow.
pub fn process_dependencies(chart: &mut Chart, values: &Values) -> Result<(), DependencyError> {
    let mut processing = Processing {
        chart: chart.metadata.name.clone(),
        count: 0,
        copies: Copies::default(),
    };
    processing.add(chart.count() - 1)?;
    processing.retain_enabled(chart, values, "")?;
    processing.import_values(chart)
}

/// The state of [`process_dependencies`].
struct Processing {
    /// The outermost chart, for errors
    chart: String,
    /// How many charts are in it
    count: usize,
    copies: Copies,
}

impl Processing {
    fn add(&mut self, count: usize) -> Result<(), DependencyError> {
        self.count += count;
        if self.count > CHARTS_MAX {
            return Err(DependencyError::TooMany {
                chart: self.chart.clone(),
                count: self.count,
            });
        }
        Ok(())
    }

    fn retain_enabled(&mut self, chart: &mut Chart, values: &Values, path: &str) -> Result<(), DependencyError> {
        let count = chart.metadata.dependencies.len();
        if count == 0 {
            return Ok(());
        }
        if count > CHARTS_MAX {
            return Err(DependencyError::TooManyWanted {
                chart: chart.metadata.name.clone(),
                count,
            });
        }
        self.rename(chart)?;
        let values = with_defaults(chart, values.clone(), Null::Removes)?;
        let wanted = chart.metadata.dependencies.iter_mut().flatten();
        for dependency in wanted {
            dependency.enabled = by_tags(dependency, &values);
            if let Some(enabled) = by_condition(dependency, &values, path) {
                dependency.enabled = enabled;
            }
        }
        let wanted = chart.metadata.dependencies.iter().flatten();
        let refused: BTreeSet<String> = wanted
            .filter(|dependency| !dependency.enabled)
            .map(|dependency| dependency.name.clone())
            .collect();
        chart
            .dependencies
            .retain(|inner| !refused.contains(&inner.metadata.name));
        let is_wanted = |dependency: &Option<Dependency>| {
            dependency
                .as_ref()
                .is_none_or(|dependency| !refused.contains(&dependency.name))
        };
        chart.metadata.dependencies.retain(is_wanted);
        for inner in &mut chart.dependencies {
            let path = format!("{path}{}.", inner.metadata.name);
            self.retain_enabled(inner, &values, &path)?;
        }
        Ok(())
    }

    /// Charts that are no dependency first, then the dependencies, each under its alias.
    fn rename(&mut self, chart: &mut Chart) -> Result<(), DependencyError> {
        let mut wanted = chart.metadata.dependencies.iter_mut().flatten().collect::<Vec<_>>();
        let satisfies = |inner: &Chart, dependency: &Dependency| {
            inner.metadata.name == dependency.name && is_compatible(&dependency.version, &inner.metadata.version)
        };
        let (required, mut chosen): (Vec<Chart>, Vec<Chart>) = std::mem::take(&mut chart.dependencies)
            .into_iter()
            .partition(|inner| wanted.iter().any(|dependency| satisfies(inner, dependency)));
        let mut used = vec![false; required.len()];
        for dependency in &mut wanted {
            let mut inners = required.iter().zip(&mut used);
            if let Some((inner, is_used)) = inners.find(|(inner, _)| satisfies(inner, dependency)) {
                if std::mem::replace(is_used, true) {
                    self.add(inner.count())?;
                    let name = match dependency.alias.as_str() {
                        "" => &dependency.name,
                        alias => alias,
                    };
                    self.copies.take(inner.copied_bytes(), name)?;
                }
                let mut inner = inner.clone();
                if !dependency.alias.is_empty() {
                    inner.metadata.name.clone_from(&dependency.alias);
                }
                chosen.push(inner);
            }
            if !dependency.alias.is_empty() {
                dependency.name.clone_from(&dependency.alias);
            }
        }
        chart.dependencies = chosen;
        Ok(())
    }

    /// From the innermost charts outwards.
    fn import_values(&mut self, chart: &mut Chart) -> Result<(), DependencyError> {
        for inner in &mut chart.dependencies {
            self.import_values(inner)?;
        }
        if chart.metadata.dependencies.is_empty() {
            return Ok(());
        }
        let mut values = with_defaults(chart, Values::new(), Null::Stays)?;
        let mut imported = Map::new();
        for dependency in chart.metadata.dependencies.iter_mut().flatten() {
            let mut expanded = Vec::new();
            for import in std::mem::take(&mut dependency.import_values) {
                let (child, parent) = match &import {
                    Value::String(name) => (format!("exports.{name}"), ".".to_owned()),
                    Value::Object(names) => (printed(names.get("child")), printed(names.get("parent"))),
                    _ => continue,
                };
                expanded.push(json!({"child": child, "parent": parent}));
                if let Some(table) = table_at(&values, &format!("{}.{child}", dependency.name)) {
                    self.copies.take(bytes_of(table), &chart.metadata.name)?;
                    add_table(&mut imported, below(&parent, table.clone()), Null::Stays);
                }
            }
            dependency.import_values = expanded;
        }
        add_table(&mut values, imported, Null::Stays);
        chart.values = Arc::new(values);
        Ok(())
    }
}

fn by_tags(dependency: &Dependency, values: &Values) -> bool {
    let Some(Value::Object(tags)) = values.get("tags") else {
        return true;
    };
    let mut enabled = dependency
        .tags
        .iter()
        .filter_map(|tag| tags.get(tag)?.as_bool())
        .peekable();
    enabled.peek().is_none() || enabled.any(|wanted| wanted)
}

/// The value of the first condition that is set.
fn by_condition(dependency: &Dependency, values: &Values, path: &str) -> Option<bool> {
    let conditions = dependency
        .condition
        .trim()
        .split(',')
        .filter(|condition| !condition.is_empty());
    conditions
        .filter_map(|condition| value_at(values, &format!("{path}{condition}"))?.as_bool())
        .next()
}

fn value_at<'v>(values: &'v Values, path: &str) -> Option<&'v Value> {
    match path.rsplit_once('.') {
        None => values.get(path),
        Some((table, key)) => table_at(values, table)?.get(key),
    }
}

/// A name as Go prints it with `%v`.
fn printed(name: Option<&Value>) -> String {
    match name {
        None | Some(Value::Null) => "<nil>".to_owned(),
        Some(Value::String(name)) => name.clone(),
        Some(Value::Number(number)) => base_yaml::go::format_float(number.as_f64().unwrap_or(f64::NAN)),
        Some(other) => other.to_string(),
    }
}

/// `table` under the names of `path`.
fn below(path: &str, table: Values) -> Values {
    if path == "." {
        return table;
    }
    path.rsplit('.').fold(table, |table, name| {
        let mut outer = Map::new();
        outer.insert(name.to_owned(), Value::Object(table));
        outer
    })
}

#[cfg(test)]
mod tests;
