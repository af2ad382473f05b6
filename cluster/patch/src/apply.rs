//! Server-side apply, and what updates do to the ownership of fields.
//! After structured-merge-diff v6 `merge/update.go` and apimachinery v0.35 `pkg/util/managedfields`.

use std::collections::{BTreeMap, BTreeSet};

use cluster_schema::Schema;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::element::same;
use crate::error::{Conflict, Conflicts, PatchError};
use crate::last_applied;
use crate::managers::{Manager, Managers, Operation, Owned, print_time, read, tidy, without_unowned, write};
use crate::misfit::misfits;
use crate::prune::Whole;
use crate::set::FieldSet;
use crate::typed::{Difference, compare, fields_of, merge, remove, with_named_parents};

/// Who owned an object's fields before its first apply, when no manager was recorded.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// The subresource through which only a number of the object is seen.
const SCALE: &str = "scale";
/// Metadata that names the object; resetting `metadata` leaves it.
const IDENTITY: [&str; 5] = ["name", "namespace", "generateName", "uid", "resourceVersion"];

/// Who applies, and how.
#[derive(Clone, Copy, Debug)]
pub struct ApplyOptions<'a> {
    /// The field manager.
    pub manager: &'a str,
    /// Takes fields over from other managers instead of reporting conflicts.
    pub force: bool,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// The time of the request; only its whole seconds are recorded.
    pub time: Timestamp,
    /// The group and version of the request.
    pub api_version: &'a str,
    /// Top-level fields that a request of this kind cannot change (`status` of an object with that subresource;
    /// `spec` and `metadata` of a status request): dropped from what is applied, so that no manager owns them by it.
    pub reset: &'a [&'a str],
}

/// Who updates, and how.
#[derive(Clone, Copy, Debug)]
pub struct UpdateOptions<'a> {
    /// The field manager.
    pub manager: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// The time of the request; only its whole seconds are recorded.
    pub time: Timestamp,
    /// The group and version of the request.
    pub api_version: &'a str,
}

/// The object after a manager has applied its configuration, `metadata.managedFields` included. `live` is none when
/// the object is to be created. Applying the same again gives `live` back.
///
/// The manager `kubectl` takes over without conflict what `kubectl apply` without `--server-side` has last applied, and
/// updates the annotation with that configuration (see `last_applied.rs`).
///
/// Errors: [`PatchError::Conflicts`] unless forced; [`PatchError::Malformed`].
pub fn server_side_apply(
    live: Option<&Value>,
    applied: &Value,
    options: ApplyOptions<'_>,
    schema: &Schema,
) -> Result<Value, PatchError> {
    let apply = Apply::begin(live, applied, options, schema)?;
    let merged = apply.pruned();
    apply.end(merged, &BTreeMap::new())
}

/// An apply under way: merged, but not pruned yet.
pub(crate) struct Apply<'a> {
    configuration: &'a Value,
    options: ApplyOptions<'a>,
    schema: &'a Schema,
    me: Manager,
    before: Option<Value>,
    /// All but the applier.
    managers: Managers,
    /// What the applier owned before.
    last: Option<Owned>,
    /// What it owns now.
    set: FieldSet,
    merged: Value,
}

impl<'a> Apply<'a> {
    pub(crate) fn begin(
        live: Option<&Value>,
        configuration: &'a Value,
        options: ApplyOptions<'a>,
        schema: &'a Schema,
    ) -> Result<Self, PatchError> {
        check_type(configuration, schema)?;
        let applied = sound_configuration(configuration, &options)?;
        let me = Manager {
            operation: Operation::Apply,
            name: options.manager.to_owned(),
            api_version: None,
            subresource: options.subresource.to_owned(),
        };
        let before = live.map(without_managed_fields);
        let mut managers = match (live, &before) {
            (Some(live), Some(before)) => managers_before_apply(live, before, &options, Some(schema)),
            _ => Managers::new(),
        };
        let last = managers.remove(&me);
        let set = fields_of(Some(schema), &applied).below;
        let merged = match &before {
            Some(before) => merge(Some(schema), before, &applied),
            None => applied,
        };
        Ok(Self {
            configuration,
            options,
            schema,
            me,
            before,
            managers,
            last,
            set,
            merged,
        })
    }

    pub(crate) fn before(&self) -> Option<&Value> {
        self.before.as_ref()
    }

    pub(crate) fn last(&self) -> Option<&Owned> {
        self.last.as_ref()
    }

    pub(crate) fn merged(&self) -> &Value {
        &self.merged
    }

    /// The group and version of the request.
    pub(crate) fn api_version(&self) -> &str {
        self.options.api_version
    }

    /// Whether all managers, the applier by an earlier apply included, use the version of the request.
    pub(crate) fn is_of_one_version(&self) -> bool {
        let mut all = self.managers.values().chain(&self.last);
        all.all(|owned| owned.api_version == self.options.api_version)
    }

    /// The versions of other managers that differ from that of the request.
    pub(crate) fn foreign_versions(&self) -> BTreeSet<String> {
        let versions = self.managers.values().map(|owned| owned.api_version.clone());
        versions.filter(|version| version != self.options.api_version).collect()
    }

    /// What is owned from now on, by version.
    pub(crate) fn owned_by_version(&self) -> BTreeMap<&str, FieldSet> {
        let mut all = BTreeMap::from([(self.options.api_version, self.set.clone())]);
        for owned in self.managers.values() {
            let fields = all.entry(owned.api_version.as_str()).or_default();
            *fields = std::mem::take(fields).union(&owned.fields);
        }
        all
    }

    /// The merged object without fields that the applier owned, no longer applies and no other manager owns, and without all
    /// below them. Only where all managers use one version.
    pub(crate) fn pruned(&self) -> Value {
        let schema = Some(self.schema);
        let Some(last) = &self.last else {
            return self.merged.clone();
        };
        let owned = self.managers.values().map(|owned| &owned.fields);
        let owned = owned.fold(self.set.clone(), |all, fields| all.union(fields));
        let last_owned = with_named_parents(schema, &last.fields);
        if last_owned.difference(&with_named_parents(schema, &self.set)).is_empty() {
            return self.merged.clone();
        }
        let whole = Whole::new(schema, &self.merged);
        let left = whole.with_owned(&remove(schema, &self.merged, &last_owned), &owned);
        whole.without_lost(&left, &last_owned)
    }

    /// The resulting object, with its managers. `others`: the change in other versions.
    pub(crate) fn end(mut self, merged: Value, others: &BTreeMap<String, Difference>) -> Result<Value, PatchError> {
        let (options, schema) = (self.options, Some(self.schema));
        let difference = compare(schema, self.before.as_ref(), &merged);
        let mut taken = take_over(&mut self.managers, &difference, others);
        if options.manager == last_applied::MANAGER
            && !options.force
            && let Some(live) = &self.before
            && let Some(allowed) = last_applied::unchanged_since(live, options.api_version, schema)
        {
            taken = without(taken, &allowed);
        }
        if !options.force && !taken.is_empty() {
            return Err(conflicts(taken));
        }
        // An apply that changes nothing, not even the order of items, has no time but an earlier one; nor has one through a
        // scale, which shows only a part of the object.
        let is_unchanged = self.before.as_ref().is_some_and(|before| same(before, &merged));
        let time = if is_unchanged || options.subresource == SCALE {
            self.last.and_then(|owned| owned.time)
        } else {
            Some(print_time(options.time))
        };
        let owned = Owned {
            fields: self.set,
            api_version: options.api_version.to_owned(),
            time,
        };
        self.managers.insert(self.me, owned);
        let mut applied = with_managed_fields(merged, &tidy(self.managers));
        if options.manager == last_applied::MANAGER {
            last_applied::renew(&mut applied, self.configuration);
        }
        Ok(applied)
    }
}

/// Refuses a configuration that does not fit the type, or that has managed fields.
fn check_type(configuration: &Value, schema: &Schema) -> Result<(), PatchError> {
    let managed = configuration.pointer("/metadata/managedFields");
    if managed.is_some_and(|managed| !managed.is_null()) {
        return Err(PatchError::Malformed("metadata.managedFields must be nil".to_owned()));
    }
    match misfits(schema, configuration) {
        Some(why) => Err(PatchError::Failed(untyped(configuration, &why))),
        None => Ok(()),
    }
}

/// The error of an applied configuration that does not fit its type.
fn untyped(configuration: &Value, why: &str) -> String {
    let text = |path: &str| configuration.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let version = text("/apiVersion");
    let slash = if version.contains('/') { "" } else { "/" };
    format!(
        "failed to create typed patch object ({}/{}; {slash}{version}, Kind={}): {why}",
        text("/metadata/namespace"),
        text("/metadata/name"),
        text("/kind")
    )
}

/// Records in `new` which fields a manager has changed by creating or updating the object, by whatever kind of request
/// but apply. `live` is none for a create. Fields that the request cannot change must have been put back before.
///
/// Managed fields in `new` replace the recorded ones; an empty list or `[{}]` removes these. They are ignored in a request to
/// a subresource.
pub fn track_update(live: Option<&Value>, new: &mut Value, options: UpdateOptions<'_>, schema: &Schema) {
    track_update_in(live, new, options, schema, &[]);
}

/// The same object before and after a change, without its managed fields, in another version than that of the change.
#[derive(Clone, Debug)]
pub struct Elsewhere {
    /// Group and version.
    pub api_version: String,
    /// Before and after; none where it cannot be converted.
    pub states: Option<(Value, Value)>,
    /// The fields of that version.
    pub schema: Schema,
}

/// Versions other than `own` in which a manager owns fields of these objects.
pub fn managed_in(objects: &[&Value], own: &str) -> BTreeSet<String> {
    let managed = objects
        .iter()
        .filter_map(|object| object.pointer("/metadata/managedFields"));
    let entries = managed.filter_map(Value::as_array).flatten();
    let versions = entries.filter_map(|entry| entry.get("apiVersion")?.as_str());
    versions.filter(|version| *version != own).map(str::to_owned).collect()
}

/// As [`track_update`], where what managers of other versions lose is determined in their versions. When that fails in one of
/// them, or the object does not fit that version, ownership of all fields is dropped
/// (structured-merge-diff merge/update.go, kubernetes/kubernetes v1.35 apimachinery/pkg/util/managedfields, UpdateNoErrors).
pub fn track_update_in(
    live: Option<&Value>,
    new: &mut Value,
    options: UpdateOptions<'_>,
    schema: &Schema,
    elsewhere: &[Elsewhere],
) {
    let requested = new.pointer("/metadata/managedFields").cloned().unwrap_or(Value::Null);
    let requested = if options.subresource.is_empty() {
        requested
    } else {
        Value::Null
    };
    let after = without_managed_fields(new);
    let recorded = || live?.pointer("/metadata/managedFields").and_then(read);
    let old_managers = if requested == json!([]) || requested == json!([{}]) {
        Managers::new()
    } else {
        let sent = read(&requested).filter(|managers| !managers.is_empty());
        sent.or_else(recorded).unwrap_or_default()
    };
    if live.is_some() && old_managers.is_empty() {
        // No ownership is recorded, so recording this manager's alone would mislead the first apply.
        *new = after;
        return;
    }
    let me = Manager {
        operation: Operation::Update,
        name: options.manager.to_owned(),
        api_version: Some(options.api_version.to_owned()),
        subresource: options.subresource.to_owned(),
    };
    let schema = Some(schema);
    let before = live.map(without_managed_fields);
    let difference = compare(schema, before.as_ref(), &after);
    let mut managers = old_managers.clone();
    let last = managers.remove(&me);
    let Some(others) = differences(&managers, elsewhere) else {
        *new = after;
        return;
    };
    take_over(&mut managers, &difference, &others);
    let written = without_unowned(&difference.written());
    // A manager that only removed fields has not changed those it still owns. A scale is a view: it records no time.
    let is_view = options.subresource == SCALE;
    let time = match &last {
        Some(last) if written.is_empty() || is_view => last.time.clone(),
        None if is_view => None,
        _ => Some(print_time(options.time)),
    };
    let last = last.map(|owned| owned.fields).unwrap_or_default();
    managers.insert(
        me,
        Owned {
            fields: last.difference(&difference.removed).union(&written),
            api_version: options.api_version.to_owned(),
            time,
        },
    );
    *new = with_managed_fields(after, &tidy(managers));
}

/// The configuration without what a request of this kind cannot change.
fn sound_configuration(applied: &Value, options: &ApplyOptions<'_>) -> Result<Value, PatchError> {
    let Value::Object(fields) = applied else {
        return Err(PatchError::Malformed(
            "an applied configuration must be a JSON object".to_owned(),
        ));
    };
    let mut fields = fields.clone();
    for reset in options.reset {
        if *reset != "metadata" {
            fields.remove(*reset);
        }
    }
    if let Some(metadata) = fields.get_mut("metadata") {
        let Value::Object(metadata) = metadata else {
            return Err(PatchError::Malformed("metadata must be a JSON object".to_owned()));
        };
        metadata.remove("managedFields");
        // Go clients send a creation time of null.
        metadata.retain(|name, value| name != "creationTimestamp" || !value.is_null());
        if options.reset.contains(&"metadata") {
            metadata.retain(|name, _| IDENTITY.contains(&name.as_str()));
        }
    }
    Ok(Value::Object(fields))
}

/// The managers of a live object; one that owns all fields where no ownership is recorded.
fn managers_before_apply(
    live: &Value,
    before: &Value,
    options: &ApplyOptions<'_>,
    schema: Option<&Schema>,
) -> Managers {
    let managers = live
        .pointer("/metadata/managedFields")
        .and_then(read)
        .unwrap_or_default();
    if !managers.is_empty() {
        return managers;
    }
    let api_version = live
        .get("apiVersion")
        .and_then(Value::as_str)
        .unwrap_or(options.api_version)
        .to_owned();
    let manager = Manager {
        operation: Operation::Update,
        name: BEFORE_FIRST_APPLY.to_owned(),
        api_version: Some(api_version.clone()),
        subresource: String::new(),
    };
    let mut fields = compare(schema, None, before).added;
    for reset in options.reset {
        fields.remove_field(reset);
    }
    let time = Some(print_time(options.time));
    tidy(Managers::from([(
        manager,
        Owned {
            fields,
            api_version,
            time,
        },
    )]))
}

/// The change in the versions of other managers. None: in one of them it cannot be determined.
fn differences(managers: &Managers, elsewhere: &[Elsewhere]) -> Option<BTreeMap<String, Difference>> {
    let mut all = BTreeMap::new();
    for other in elsewhere {
        if !managers.values().any(|owned| owned.api_version == other.api_version) {
            continue;
        }
        let (before, after) = other.states.as_ref()?;
        let unfit = |state: &Value| misfits(&other.schema, state).is_some();
        if unfit(before) || unfit(after) {
            return None;
        }
        let difference = compare(Some(&other.schema), Some(before), after);
        all.insert(other.api_version.clone(), difference);
    }
    Some(all)
}

/// Takes from all managers what a change wrote or removed; `others` has the change in other versions. Returns what it wrote
/// of theirs.
fn take_over(
    managers: &mut Managers,
    own: &Difference,
    others: &BTreeMap<String, Difference>,
) -> Vec<(Manager, FieldSet)> {
    let mut all = Vec::new();
    for (manager, owned) in managers.iter_mut() {
        let difference = others.get(&owned.api_version).unwrap_or(own);
        let taken = owned.fields.intersection(&difference.written());
        owned.fields = owned.fields.difference(&taken).difference(&difference.removed);
        if !taken.is_empty() {
            all.push((manager.clone(), taken));
        }
    }
    all
}

/// The taken fields without the allowed ones.
fn without(taken: Vec<(Manager, FieldSet)>, allowed: &FieldSet) -> Vec<(Manager, FieldSet)> {
    taken
        .into_iter()
        .map(|(manager, fields)| (manager, fields.difference(allowed)))
        .filter(|(_, fields)| !fields.is_empty())
        .collect()
}

fn conflicts(mut taken: Vec<(Manager, FieldSet)>) -> PatchError {
    taken.sort_by(|(one, _), (other, _)| one.conflict_order().cmp(&other.conflict_order()));
    let of_one = |(manager, fields): &(Manager, FieldSet)| -> Vec<Conflict> {
        let manager = manager.shown();
        let conflict = |path| Conflict {
            manager: manager.clone(),
            path,
        };
        fields.paths().into_iter().map(conflict).collect()
    };
    PatchError::Conflicts(Conflicts {
        list: taken.iter().flat_map(of_one).collect(),
    })
}

fn without_managed_fields(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
    object
}

fn with_managed_fields(mut object: Value, managers: &Managers) -> Value {
    if let Value::Object(fields) = &mut object
        && !managers.is_empty()
        && let Value::Object(metadata) = fields.entry("metadata").or_insert_with(|| Value::Object(Map::new()))
    {
        metadata.insert("managedFields".to_owned(), write(managers));
    }
    object
}
