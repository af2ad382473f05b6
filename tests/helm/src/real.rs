//! Published charts, which `cargo xtask real charts` fetches: rendered with their own values, with the files of values beside
//! them, and with each switch in them toggled. And the charts of this repository.

use std::fs;
use std::path::{Path, PathBuf};

use base_helm::values::merge_maps;
use base_yaml::go;
use serde_json::{Map, Value, json};
use tests_parts::cache_folder;

use crate::{Answer, Case, Oracle, Outcome, our_answer};

/// The file in which `cargo xtask real charts` lists their folders, below the cache folder.
const LIST: &str = "real/charts/folders";
/// The charts of this repository.
const OWN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts");
/// Folders of the projects without charts for users.
const NO_CHARTS: [&str; 2] = ["testdata", "node_modules"];
/// Switches of one chart that are toggled one by one; each takes Helm some twenty milliseconds, and in the largest chart a
/// second.
const SWITCHES_MAX: usize = 100;

/// A chart in a folder.
#[derive(Clone, Debug)]
pub struct RealChart {
    /// Its path in its project, behind the project's name
    pub name: String,
    folder: PathBuf,
}

/// All of them, sorted by name.
///
/// # Errors
/// They are missing, or cannot be read.
pub fn charts() -> Outcome<Vec<RealChart>> {
    let list = cache_folder().ok_or("no home folder is known")?.join(LIST);
    let folders = fs::read_to_string(&list).map_err(|error| {
        format!(
            "cannot read {}: {error}; `cargo xtask real charts` writes it",
            list.display()
        )
    })?;
    let mut charts = Vec::new();
    for project in folders.lines() {
        let mut found = Vec::new();
        find(Path::new(project), &mut found)?;
        let title = Path::new(project).file_name().unwrap_or_default().to_string_lossy();
        charts.extend(found.into_iter().map(|folder| RealChart {
            name: format!("{title}{}", folder.to_string_lossy().replacen(project, "", 1)),
            folder,
        }));
    }
    charts.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(charts)
}

/// The charts of this repository, sorted by name.
///
/// # Errors
/// Their folder cannot be read.
pub fn own_charts() -> Outcome<Vec<RealChart>> {
    let mut found = Vec::new();
    find(Path::new(OWN), &mut found)?;
    let mut charts: Vec<RealChart> = found
        .into_iter()
        .map(|folder| RealChart {
            name: folder.to_string_lossy().replacen(OWN, "charts", 1),
            folder,
        })
        .collect();
    charts.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(charts)
}

fn find(folder: &Path, found: &mut Vec<PathBuf>) -> Outcome {
    if folder.join("Chart.yaml").is_file() {
        found.push(folder.to_owned());
    }
    let unread = |error: std::io::Error| format!("cannot read {}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(unread)? {
        let entry = entry.map_err(unread)?;
        let is_left_out = NO_CHARTS.iter().any(|name| entry.file_name() == *name);
        if entry.file_type().map_err(unread)?.is_dir() && !is_left_out {
            find(&entry.path(), found)?;
        }
    }
    Ok(())
}

impl RealChart {
    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Values that a user could set: none, those of the files of values beside its own, and each boolean toggled.
    ///
    /// # Errors
    /// Files of the chart cannot be read.
    pub fn values(&self) -> Outcome<Vec<Value>> {
        let mut all = vec![json!({})];
        let mut files = Vec::new();
        for folder in [self.folder.clone(), self.folder.join("ci")] {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            files.extend(entries.map(|entry| entry.path()).filter(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.contains("values") && (name.ends_with(".yaml") || name.ends_with(".yml"))
            }));
        }
        files.sort();
        for file in &files {
            let text = fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
            let Ok(values) = go::read_map(&text) else {
                continue;
            };
            if file.parent() == Some(&self.folder) && file.file_name().is_some_and(|name| name == "values.yaml") {
                let mut switches = Vec::new();
                toggled(&Value::Object(values), &mut Vec::new(), &mut switches);
                // An even selection where there are many.
                let step = switches.len().div_ceil(SWITCHES_MAX).max(1);
                all.extend(switches.into_iter().step_by(step));
            } else {
                all.push(Value::Object(values));
            }
        }
        Ok(all)
    }

    /// Values for a chart that needs some: each file of values in its folder `ci`, and each of them with a switch toggled. For a
    /// chart without such files, [`RealChart::values`].
    ///
    /// # Errors
    /// Files of the chart cannot be read.
    pub fn values_needed(&self) -> Outcome<Vec<Value>> {
        let all = self.values()?;
        if !self.folder.join("ci").is_dir() {
            return Ok(all);
        }
        // The first is empty; a value with a single switch is no file.
        let (files, switches): (Vec<Value>, Vec<Value>) = all.into_iter().skip(1).partition(|value| !is_switch(value));
        let mut needed = files.clone();
        for file in files {
            for switch in &switches {
                let (mut values, more) = (object(file.clone()), object(switch.clone()));
                merge_maps(&mut values, more);
                needed.push(Value::Object(values));
            }
        }
        Ok(needed)
    }

    /// The first difference between our rendering and Helm's. Lines that vary in Helm itself, such as random ones, are not
    /// compared.
    ///
    /// # Errors
    /// The oracle does not answer.
    pub fn difference(&self, values: &Value, oracle: &mut Oracle) -> Outcome<Option<String>> {
        let case = Case::of_value(
            "template",
            json!({"Path": self.folder.to_string_lossy(), "Values": values, "IncludeCRDs": true}),
        );
        let (ours, theirs) = (our_answer(&case)?, oracle.answer(&case)?);
        if ours == theirs {
            return Ok(None);
        }
        let again = oracle.answer(&case)?;
        let [ours, theirs, again] = [&ours, &theirs, &again].map(|answer| match answer {
            Answer::Output(text) => text.clone(),
            Answer::Error(why) => format!("error: {why}"),
        });
        Ok(first_difference(&ours, &theirs, &again))
    }
}

/// Whether a value is a boolean inside objects of one entry each.
fn is_switch(value: &Value) -> bool {
    match value {
        Value::Bool(_) => true,
        Value::Object(items) if items.len() == 1 => items.values().all(is_switch),
        _ => false,
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(items) => items,
        _ => Map::new(),
    }
}

/// Each boolean below a value, toggled, in an object with nothing else.
fn toggled(value: &Value, path: &mut Vec<String>, switches: &mut Vec<Value>) {
    match value {
        Value::Bool(is_on) => {
            let switch = path.iter().rev().fold(json!(!is_on), |inner, name| {
                Value::Object(Map::from_iter([(name.clone(), inner)]))
            });
            switches.push(switch);
        }
        Value::Object(items) => {
            for (name, item) in items {
                path.push(name.clone());
                toggled(item, path, switches);
                path.pop();
            }
        }
        _ => (),
    }
}

/// The first line in which ours differs from theirs, and theirs does not vary.
fn first_difference(ours: &str, theirs: &str, again: &str) -> Option<String> {
    let (mut ours, mut theirs, mut again) = (ours.lines(), theirs.lines(), again.lines());
    let mut number = 0;
    loop {
        number += 1;
        let (our, their, other) = (ours.next(), theirs.next(), again.next());
        if (our, their) == (None, None) {
            return None;
        }
        let is_random = their != other && our.is_some() == their.is_some();
        if our != their && !is_random {
            return Some(format!("  line {number}\n  Helm {their:?}\n  ours {our:?}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{first_difference, is_switch, toggled};

    #[test]
    fn each_switch_is_toggled_by_itself() {
        let mut switches = Vec::new();
        toggled(
            &json!({"a": true, "b": {"c": false, "d": 1}, "e": [true]}),
            &mut Vec::new(),
            &mut switches,
        );
        assert_eq!(switches, [json!({"a": false}), json!({"b": {"c": true}})]);
        assert!(switches.iter().all(is_switch));
        assert!(!is_switch(&json!({"a": {"b": true, "c": true}})) && !is_switch(&json!({"a": "b"})));
    }

    #[test]
    fn lines_that_vary_in_helm_are_not_compared() {
        assert_eq!(first_difference("a\n3\n", "a\n1\n", "a\n2\n"), None);
        assert!(first_difference("b\n3\n", "a\n1\n", "a\n2\n").is_some());
        assert!(first_difference("a\n3\nmore\n", "a\n1\n", "a\n2\n").is_some());
        assert!(first_difference("a\n", "a\n1\n", "a\n2\n").is_some());
    }
}
