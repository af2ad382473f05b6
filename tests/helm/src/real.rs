//! Charts that people use, which `cargo xtask real charts` fetches: rendered with their own values, with the files of values
//! that lie beside them, and with each switch in them turned. And the charts of this repository.

use std::fs;
use std::path::{Path, PathBuf};

use base_helm::values::merge_maps;
use base_yaml::go;
use serde_json::{Map, Value, json};
use tests_parts::cache_folder;

use crate::{Answer, Case, Oracle, Outcome, our_answer};

/// Where `cargo xtask real charts` says where they are, below the cache folder.
const LIST: &str = "real/charts/folders";
/// The charts of this repository.
const OWN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts");
/// Folders in which the projects keep what is no chart for people.
const NO_CHARTS: [&str; 2] = ["testdata", "node_modules"];
/// Switches of one chart that are turned one by one; each costs Helm some twenty milliseconds, and of the largest chart a second.
const SWITCHES_MAX: usize = 100;

/// A chart in a folder.
#[derive(Clone, Debug)]
pub struct RealChart {
    /// Its path in its project, with the project's
    pub name: String,
    folder: PathBuf,
}

/// All of them, sorted by name.
///
/// # Errors
/// They are not there, or cannot be read.
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

    /// What a user could set: nothing, what the files of values beside its own have, and each truth turned.
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
                turned(&Value::Object(values), &mut Vec::new(), &mut switches);
                // Of very many, some from everywhere.
                let step = switches.len().div_ceil(SWITCHES_MAX).max(1);
                all.extend(switches.into_iter().step_by(step));
            } else {
                all.push(Value::Object(values));
            }
        }
        Ok(all)
    }

    /// What a chart that needs values is rendered with: each file of values in its folder `ci`, and each of them with a switch
    /// turned. For a chart without such files, [`RealChart::values`].
    ///
    /// # Errors
    /// Files of the chart cannot be read.
    pub fn values_needed(&self) -> Outcome<Vec<Value>> {
        let all = self.values()?;
        if !self.folder.join("ci").is_dir() {
            return Ok(all);
        }
        // The first is empty; what is turned has a single switch and is no file.
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

    /// How what we render differs from what Helm does. Where Helm is not of one mind itself, as with what is random, any line
    /// will do.
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

/// Whether a value is a truth in nothing but objects of one item.
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

/// Each truth below a value, turned, in an object that has nothing else.
fn turned(value: &Value, path: &mut Vec<String>, switches: &mut Vec<Value>) {
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
                turned(item, path, switches);
                path.pop();
            }
        }
        _ => (),
    }
}

/// The first line in which ours is not theirs, though theirs is the same again.
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

    use super::{first_difference, is_switch, turned};

    #[test]
    fn each_switch_is_turned_by_itself() {
        let mut switches = Vec::new();
        turned(
            &json!({"a": true, "b": {"c": false, "d": 1}, "e": [true]}),
            &mut Vec::new(),
            &mut switches,
        );
        assert_eq!(switches, [json!({"a": false}), json!({"b": {"c": true}})]);
        assert!(switches.iter().all(is_switch));
        assert!(!is_switch(&json!({"a": {"b": true, "c": true}})) && !is_switch(&json!({"a": "b"})));
    }

    #[test]
    fn lines_in_which_helm_is_not_of_one_mind_are_passed_over() {
        assert_eq!(first_difference("a\n3\n", "a\n1\n", "a\n2\n"), None);
        assert!(first_difference("b\n3\n", "a\n1\n", "a\n2\n").is_some());
        assert!(first_difference("a\n3\nmore\n", "a\n1\n", "a\n2\n").is_some());
        assert!(first_difference("a\n", "a\n1\n", "a\n2\n").is_some());
    }
}
