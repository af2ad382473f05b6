//! All that there is, as one can compare it: how many objects of each kind, name and state, in the garden, in the seed and
//! in the Shoot, and the folders of the provider; of some objects also their content. Random parts of names and everything
//! that is only time are left out.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use api_meta::labels;
use kube::api::{DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::discovery::{Discovery, verbs};
use kube::{Api, Client};
use serde_json::{Map, Value, json};

use crate::names::normal;

/// Kinds that come and go by themselves: heartbeats, what was said, requests that are answered and forgotten.
const PASSING: [&str; 3] = ["Lease", "Event", "CertificateSigningRequest"];

/// Secrets that end by themselves an hour after they were made.
const BOOTSTRAP_TOKEN: &str = "bootstrap-token-";

/// How deep one looks into folders: `buckets/NAME/ENTRY`, `pods/NODE/UID`.
const DEPTH: u32 = 3;

/// Label of Secrets of which the one before may stay until the next reconcile: their number says nothing.
const SUPERSEDED: &str = "resources.gardener.cloud/managed-resource";

/// Fields of objects that are compared beside their state when one looks closely. Of `data` of Secrets only the keys are.
const FIELDS: [&str; 7] = [
    "automountServiceAccountToken",
    "data",
    "immutable",
    "roleRef",
    "rules",
    "spec",
    "subjects",
];

/// A field that differs from run to run and cannot be recognised by its value.
const VERSION: &str = "resourceVersion";

/// How many there are of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Picture(BTreeMap<String, usize>);

impl Picture {
    /// Adds all objects that a server has; those whose name or namespace contains `closely` with their content.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn add_server(&mut self, name: &str, client: &Client, closely: Option<&str>) -> Result<(), String> {
        let wrong = |error: kube::Error| format!("look at {name}: {error}");
        let kinds = Discovery::new(client.clone()).run().await.map_err(wrong)?;
        for group in kinds.groups() {
            for (kind, capabilities) in group.recommended_resources() {
                if capabilities.supports_operation(verbs::LIST) && !PASSING.contains(&kind.kind.as_str()) {
                    self.add_kind(name, client, &kind, closely).await.map_err(wrong)?;
                }
            }
        }
        Ok(())
    }

    async fn add_kind(
        &mut self,
        server: &str,
        client: &Client,
        kind: &ApiResource,
        closely: Option<&str>,
    ) -> Result<(), kube::Error> {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), kind);
        for object in api.list(&ListParams::default()).await?.items {
            let metadata = &object.metadata;
            let namespace = normal(metadata.namespace.as_deref().unwrap_or_default());
            let name = normal(metadata.name.as_deref().unwrap_or_default());
            if name.starts_with(BOOTSTRAP_TOKEN) {
                continue;
            }
            let leaving = if metadata.deletion_timestamp.is_some() {
                " leaving"
            } else {
                ""
            };
            let state = match kind.kind.as_str() {
                // Care's part of what it has of the Shoot may be older: it is written with the next reconciliation.
                "Cluster" => {
                    let shoot = &object.data["spec"]["shoot"]["status"];
                    state(&json!({"lastOperation": shoot["lastOperation"], "phase": shoot["hibernated"].to_string()}))
                }
                _ => state(&object.data["status"]),
            };
            let mut line = format!("{server}: {} {namespace}/{name}{leaving}{state}", kind.kind);
            let mut superseded = vec![SUPERSEDED];
            if closely.is_some_and(|text| namespace.contains(text) || name.contains(text)) {
                line += &format!(" {}", content(&kind.kind, &object));
                superseded.push(labels::GARBAGE_COLLECTABLE_REFERENCE);
            }
            let labels = metadata.labels.iter().flatten();
            if labels.map(|(key, _)| key).any(|key| superseded.contains(&key.as_str())) {
                self.0.insert(line, 1);
            } else {
                self.add(line);
            }
        }
        Ok(())
    }

    /// Adds the folders in a folder, so deep: what is in files is their owner's.
    ///
    /// # Errors
    /// What cannot be read.
    pub fn add_folders(&mut self, root: &Path) -> Result<(), String> {
        let mut left = vec![(root.to_owned(), DEPTH)];
        while let Some((folder, depth)) = left.pop() {
            let entries = match std::fs::read_dir(&folder) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                entries => entries.map_err(|error| format!("{}: {error}", folder.display()))?,
            };
            for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
                let shown = path.strip_prefix(root).unwrap_or(&path).display().to_string();
                self.add(format!("folder: {}", normal(&shown)));
                if path.is_dir() && depth > 1 {
                    left.push((path, depth - 1));
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, line: String) {
        *self.0.entry(line).or_default() += 1;
    }

    /// The lines that contain one of these words.
    #[must_use]
    pub fn naming(&self, words: &[&str]) -> Vec<&str> {
        let lines = self.0.keys().map(String::as_str);
        lines
            .filter(|line| words.iter().any(|word| line.contains(word)))
            .collect()
    }

    /// What is there and should not be, and the other way round; empty when nothing differs.
    #[must_use]
    pub fn differences(&self, wanted: &Self) -> Vec<String> {
        let count = |picture: &Self, line: &str| picture.0.get(line).copied().unwrap_or(0);
        let lines: std::collections::BTreeSet<&String> = self.0.keys().chain(wanted.0.keys()).collect();
        lines
            .into_iter()
            .filter(|line| count(self, line) != count(wanted, line))
            .map(|line| format!("{} instead of {}: {line}", count(self, line), count(wanted, line)))
            .collect()
    }
}

impl fmt::Display for Picture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|(line, count)| writeln!(f, "{count} x {line}"))
    }
}

/// How an object is: its phase, how its last operation ended, its conditions.
fn state(status: &Value) -> String {
    let mut state = String::new();
    for at in [
        "/phase",
        "/currentStatus/phase",
        "/lastOperation/state",
        "/readyReplicas",
        "/numberReady",
    ] {
        match status.pointer(at) {
            Some(Value::String(text)) => state += &format!(" {text}"),
            Some(Value::Number(number)) => state += &format!(" {number}"),
            _ => {}
        }
    }
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let mut conditions: Vec<String> = conditions
        .map(|condition| format!("{}={}", shown(&condition["type"]), shown(&condition["status"])))
        .collect();
    conditions.sort();
    if !conditions.is_empty() {
        state += &format!(" [{}]", conditions.join(" "));
    }
    state
}

/// What an object holds, without chance and time.
fn content(kind: &str, object: &DynamicObject) -> Value {
    let (metadata, data) = (&object.metadata, &object.data);
    let fields = FIELDS.iter().filter_map(|field| Some((*field, data.get(field)?)));
    let mut content: Map<String, Value> = fields
        .map(|(field, value)| match value {
            Value::Object(entries) if kind == "Secret" => (field, json!(entries.keys().collect::<Vec<_>>())),
            value => (field, value.clone()),
        })
        .map(|(field, value)| (field.to_owned(), value))
        .collect();
    content.insert("labels".to_owned(), json!(metadata.labels));
    content.insert("finalizers".to_owned(), json!(metadata.finalizers));
    let status = &data["status"];
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let mut reasons: Vec<String> = conditions
        .map(|condition| format!("{}={}", shown(&condition["type"]), shown(&condition["reason"])))
        .collect();
    reasons.sort();
    content.insert("reasons".to_owned(), json!(reasons));
    content.insert("resources".to_owned(), status["resources"].clone());
    content.retain(|_, value| !value.is_null());
    without_chance(Value::Object(content))
}

fn without_chance(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(normal(&text)),
        Value::Array(values) => values.into_iter().map(without_chance).collect(),
        Value::Object(entries) => {
            let entries = entries.into_iter().filter(|(key, _)| key != VERSION);
            entries
                .map(|(key, value)| (normal(&key), without_chance(value)))
                .collect()
        }
        other => other,
    }
}

fn shown(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content_of(object: Value) -> Value {
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        content(&object.types.as_ref().unwrap().kind, &object)
    }

    #[test]
    fn content_has_keys_of_secrets_and_no_random_parts_or_times() {
        let secret = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "a", "labels": {"hash": "0123456789abcdef"}}, "data": {"token": "c2VjcmV0"}});
        assert_eq!(
            content_of(secret),
            json!({"data": ["token"], "labels": {"hash": "*"}, "reasons": []})
        );
        let installation = json!({"apiVersion": "v1", "kind": "ControllerInstallation",
            "metadata": {"name": "a-x2k4z", "finalizers": ["f"], "resourceVersion": "7"},
            "spec": {"seedRef": {"name": "local", "resourceVersion": "9"}},
            "status": {"conditions": [{"type": "Valid", "status": "True", "reason": "R",
                "lastUpdateTime": "2026-01-01T00:00:00Z"}]}});
        assert_eq!(
            content_of(installation),
            json!({"finalizers": ["f"], "reasons": ["Valid=R"], "spec": {"seedRef": {"name": "local"}}})
        );
    }
}
