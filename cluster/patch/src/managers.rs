//! `metadata.managedFields`: reading and writing the list of managers and the fields each of them owns.
//! After apimachinery v0.35 `pkg/util/managedfields/internal/{managedfields,managersmanager,stripmeta}.go`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::set::FieldSet;

/// Managers by `Update` per object; the oldest beyond it are merged into one. As upstream (`capmanagers.go`).
pub const UPDATE_MANAGERS_MAX: usize = 10;
/// The name of the manager into which the oldest are merged.
const ANCIENT_CHANGES: &str = "ancient-changes";
const FIELDS_V1: &str = "FieldsV1";

/// Who may own fields. Appliers are the same whatever version they apply with. The order is upstream's among entries
/// of the same time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Manager {
    pub(crate) operation: Operation,
    pub(crate) name: String,
    /// None of appliers.
    pub(crate) api_version: Option<String>,
    /// Empty for the object itself.
    pub(crate) subresource: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Operation {
    Apply,
    Update,
}

impl Manager {
    /// As conflicts show it.
    pub(crate) fn shown(&self) -> String {
        let mut shown = base_go::quoted(&self.name);
        if !self.subresource.is_empty() {
            shown.push_str(&format!(" with subresource {}", base_go::quoted(&self.subresource)));
        }
        if let Some(api_version) = &self.api_version {
            shown.push_str(&format!(" using {api_version}"));
        }
        shown
    }

    /// Where conflicts show it: upstream orders managers by their JSON, where `,` after a subresource sorts before the `}` that ends
    /// an entry without one.
    pub(crate) fn conflict_order(&self) -> impl Ord {
        let Manager {
            operation,
            name,
            api_version,
            subresource,
        } = self;
        (name, *operation, api_version, subresource.is_empty(), subresource)
    }
}

/// What a manager owns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Owned {
    pub(crate) fields: FieldSet,
    pub(crate) api_version: String,
    /// RFC 3339 in whole seconds; none when it was not recorded.
    pub(crate) time: Option<String>,
}

pub(crate) type Managers = BTreeMap<Manager, Owned>;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ManagedFieldsEntry {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    manager: String,
    operation: Operation,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    api_version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    fields_type: String,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    fields_v1: Value,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    subresource: String,
}

/// A time as managedFields carries it.
pub(crate) fn print_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Reads the list; none when it is not one or an entry is not valid.
pub(crate) fn read(managed_fields: &Value) -> Option<Managers> {
    let mut managers = Managers::new();
    for entry in managed_fields.as_array()? {
        let entry = ManagedFieldsEntry::deserialize(entry).ok()?;
        if entry.fields_type != FIELDS_V1 {
            return None;
        }
        let manager = Manager {
            operation: entry.operation,
            name: entry.manager,
            api_version: (entry.operation == Operation::Update).then(|| entry.api_version.clone()),
            subresource: entry.subresource,
        };
        let fields = FieldSet::from_json(&entry.fields_v1)?;
        match managers.get_mut(&manager) {
            Some(owned) => owned.fields = std::mem::take(&mut owned.fields).union(&fields),
            None => {
                managers.insert(
                    manager,
                    Owned {
                        fields,
                        api_version: entry.api_version,
                        time: entry.time,
                    },
                );
            }
        }
    }
    Some(managers)
}

/// Writes the list: appliers first, then by time, then by name.
pub(crate) fn write(managers: &Managers) -> Value {
    let mut sorted: Vec<(&Manager, &Owned)> = managers.iter().collect();
    sorted.sort_by_key(|(manager, owned)| (manager.operation, owned.time.clone().unwrap_or_default()));
    let entries = sorted.into_iter().map(|(manager, owned)| {
        let entry = ManagedFieldsEntry {
            manager: manager.name.clone(),
            operation: manager.operation,
            api_version: owned.api_version.clone(),
            time: owned.time.clone(),
            fields_type: FIELDS_V1.to_owned(),
            fields_v1: owned.fields.to_json(),
            subresource: manager.subresource.clone(),
        };
        serde_json::to_value(entry).expect("strings and a JSON value make a JSON value")
    });
    Value::Array(entries.collect())
}

/// Fields that the server sets and no manager owns.
fn unowned() -> FieldSet {
    let mut set = FieldSet::default();
    let field = crate::element::Element::field;
    for top in ["apiVersion", "kind", "metadata"] {
        set.insert(&[field(top)]);
    }
    for name in [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ] {
        set.insert(&[field("metadata"), field(name)]);
    }
    set
}

/// The fields without those that no manager owns.
pub(crate) fn without_unowned(fields: &FieldSet) -> FieldSet {
    fields.difference(&unowned())
}

/// Removes fields that no manager owns, managers that own nothing, and managers beyond the limit.
pub(crate) fn tidy(managers: Managers) -> Managers {
    let unowned = unowned();
    let mut tidied: Managers = managers
        .into_iter()
        .map(|(manager, owned)| {
            (
                manager,
                Owned {
                    fields: owned.fields.difference(&unowned),
                    ..owned
                },
            )
        })
        .filter(|(_, owned)| !owned.fields.is_empty())
        .collect();
    let mut updaters: Vec<(Option<String>, Manager)> = tidied
        .iter()
        .filter(|(manager, _)| manager.operation == Operation::Update)
        .map(|(manager, owned)| (owned.time.clone(), manager.clone()))
        .collect();
    if updaters.len() > UPDATE_MANAGERS_MAX {
        updaters.sort();
        // One more than the excess, because they come back as one.
        let excess = updaters.len() - UPDATE_MANAGERS_MAX + 1;
        for (_, manager) in updaters.into_iter().take(excess) {
            let Some(owned) = tidied.remove(&manager) else { continue };
            let ancient = Manager {
                name: ANCIENT_CHANGES.to_owned(),
                subresource: String::new(),
                ..manager
            };
            match tidied.get_mut(&ancient) {
                Some(existing) => {
                    existing.fields = std::mem::take(&mut existing.fields).union(&owned.fields);
                    existing.time = owned.time.max(existing.time.take());
                }
                None => {
                    tidied.insert(ancient, owned);
                }
            }
        }
    }
    tidied
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn managers_are_shown_as_go_quotes_them() {
        let manager = Manager {
            operation: Operation::Update,
            name: "a\u{1b}'".to_owned(),
            api_version: Some("v1".to_owned()),
            subresource: "status\0".to_owned(),
        };
        assert_eq!(manager.shown(), r#""a\x1b'" with subresource "status\x00" using v1"#);
    }
}
