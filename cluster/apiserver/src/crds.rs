//! CustomResourceDefinitions: their conditions, the kinds they bring and take away, and the removal of instances
//! when one is deleted. All in the write path: a created CRD is served when the answer is sent.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiextensions-apiserver)

use std::sync::Arc;
use std::time::Duration;

use cluster_schema::FieldError;
use cluster_store::{Entry, Key, Object, Page, Range, StoreError};
use futures::StreamExt;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::context::Context;
use crate::custom::CustomKind;
use crate::kind::Call;
use crate::metadata;
use crate::registry::{Kinds, Life, Role, Served};
use crate::server::Inner;
use crate::status::Status;

/// As in the store's keys.
pub(crate) const STORE_NAME: &str = "apiextensions.k8s.io/customresourcedefinitions";
/// The finalizer that waits for the instances to go.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The wait after the first failed try to remove the instances, doubled up to the longest: a store that is down is not
/// asked more often than a person would, and one that hiccups is hardly noticed.
const CLEAN_UP_AFTER: Duration = Duration::from_millis(100);
const CLEAN_UP_AFTER_MAX: Duration = Duration::from_secs(30);

/// Sets what the server's controllers set in Kubernetes: stored versions, accepted names, conditions.
pub(crate) fn prepare(call: &Call<'_>, definition: &mut Value, old: Option<&Value>) {
    if call.subresource.is_none() {
        settle(call.now, definition, old);
    }
}

fn settle(now: Timestamp, definition: &mut Value, old: Option<&Value>) {
    let Some(spec) = definition.get("spec").cloned() else {
        return;
    };
    let stored = spec.get("versions").and_then(Value::as_array).into_iter().flatten();
    let storage: Vec<Value> = stored
        .filter(|version| version.get("storage") == Some(&json!(true)))
        .filter_map(|version| version.get("name").cloned())
        .collect();
    let Some(fields) = definition.as_object_mut() else {
        return;
    };
    let status = fields.entry("status").or_insert_with(|| json!({}));
    let Some(status) = status.as_object_mut() else { return };
    let versions = status.entry("storedVersions").or_insert_with(|| json!([]));
    if let Some(versions) = versions.as_array_mut() {
        for version in storage {
            if !versions.contains(&version) {
                versions.push(version);
            }
        }
    }
    if old.is_some_and(|old| old.get("spec") == Some(&spec)) && status.contains_key("conditions")
    {
        return;
    }
    let now = metadata::timestamp(now);
    let problem = CustomKind::new(&json!({"spec": spec})).err();
    let previous = status
        .get("conditions")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let condition = |type_: &str, ok: bool, reason: &str, message: &str| {
        let value = if ok { "True" } else { "False" };
        let same = previous
            .iter()
            .find(|c| c.get("type") == Some(&json!(type_)) && c.get("status") == Some(&json!(value)));
        let since = same
            .and_then(|c| c.get("lastTransitionTime").cloned())
            .unwrap_or_else(|| json!(now));
        json!({"type": type_, "status": value, "reason": reason, "message": message, "lastTransitionTime": since})
    };
    let mut conditions = vec![condition("NamesAccepted", true, "NoConflicts", "no conflicts found")];
    match &problem {
        None => {
            conditions.push(condition(
                "Established",
                true,
                "InitialNamesAccepted",
                "the initial names have been accepted",
            ));
            status.insert(
                "acceptedNames".to_owned(),
                spec.get("names").cloned().unwrap_or_default(),
            );
        }
        Some(why) => conditions.push(condition("Established", false, "InvalidSchema", why)),
    }
    status.insert("conditions".to_owned(), Value::Array(conditions));
}

/// Refuses a definition of a kind that the server was built with; gives any other the names that nobody else has
/// (pkg/controller/status/naming_controller.go).
pub(crate) fn accept_names(context: &Context, definition: &mut Value) -> Result<(), Status> {
    if context.served.role != Role::CustomResourceDefinition {
        return Ok(());
    }
    let kinds = context.server.registry.snapshot();
    let (group, plural) = (text(definition, "/spec/group"), text(definition, "/spec/names/plural"));
    if kinds.find(group, plural).is_some_and(|served| served.role != Role::Custom) {
        let error = FieldError::invalid("spec.names.plural", plural, format!("{plural:?} is already in use"));
        let info = context.served.info();
        let name = metadata::text(definition, "name");
        return Err(Status::invalid(&info.group, &info.kind, name, &[error]));
    }
    settle_names(&kinds, definition, context.now);
    Ok(())
}

fn text<'d>(definition: &'d Value, path: &str) -> &'d str {
    definition.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// Whether its names are its own, so that it is served.
fn is_established(definition: &Value) -> bool {
    let conditions = definition.pointer("/status/conditions").and_then(Value::as_array);
    let said = |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
    conditions.is_some_and(|conditions| conditions.iter().any(said))
}

/// Writes down which names of the definition others of its group have.
fn settle_names(kinds: &Kinds, definition: &mut Value, now: Timestamp) {
    let (group, plural) = (text(definition, "/spec/group"), text(definition, "/spec/names/plural"));
    let (mut resources, mut taken_kinds) = (Vec::new(), Vec::new());
    for other in kinds.of_group(group).filter(|other| other.plural() != plural) {
        let info = other.info();
        resources.extend([info.plural.to_string(), info.singular.to_string()]);
        resources.extend(info.short_names.iter().map(ToString::to_string));
        taken_kinds.extend([info.kind.to_string(), info.list_kind.to_string()]);
    }
    let mut accepted = definition.pointer("/spec/names").cloned().unwrap_or_default();
    let mut conflict = None;
    for (field, reason, used) in [
        ("plural", "PluralConflict", &resources),
        ("singular", "SingularConflict", &resources),
        ("shortNames", "ShortNamesConflict", &resources),
        ("kind", "KindConflict", &taken_kinds),
        ("listKind", "ListKindConflict", &taken_kinds),
    ] {
        let asked: Vec<&str> = match &accepted[field] {
            Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
            name => name.as_str().into_iter().collect(),
        };
        let taken: Vec<String> = asked.iter().filter(|name| used.iter().any(|used| used == *name)).map(|name| format!("{name:?} is already in use")).collect();
        if let Some(first) = taken.first() {
            let message = if taken.len() == 1 { first.clone() } else { format!("[{}]", taken.join(", ")) };
            conflict = Some((reason, message));
            if let Some(fields) = accepted.as_object_mut() {
                fields.remove(field);
            }
        }
    }
    let Some((reason, message)) = conflict else { return };
    if let Some(fields) = accepted.as_object_mut() {
        for field in ["plural", "kind"] {
            fields.entry(field).or_insert_with(|| json!(""));
        }
    }
    let since = metadata::timestamp(now);
    let established = is_established(definition) && definition.pointer("/status/acceptedNames/plural") == Some(&json!(plural));
    let condition = |kind: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": "False", "reason": reason, "message": message, "lastTransitionTime": since})
    };
    let mut conditions = vec![condition("NamesAccepted", reason, &message)];
    if !established {
        conditions.push(condition("Established", "NotAccepted", "not all names are accepted"));
    }
    if let Some(status) = definition.get_mut("status").and_then(Value::as_object_mut) {
        status.insert("acceptedNames".to_owned(), accepted);
        status.insert("conditions".to_owned(), Value::Array(conditions));
    }
}

/// Looks again at the definitions of a group that wait for a name, after one has gone.
async fn retry_names(server: &Arc<Inner>, group: &str) -> Result<(), StoreError> {
    let listing = server.store.list(&Range::all(STORE_NAME), Page::default()).await?;
    for entry in &listing.entries {
        let mut definition = entry.object.value(entry.revision);
        if text(&definition, "/spec/group") != group || is_established(&definition) || metadata::is_deleting(&definition) {
            continue;
        }
        let now = server.clock.now();
        if let Some(status) = definition.get_mut("status").and_then(Value::as_object_mut) {
            status.remove("conditions");
        }
        settle(now, &mut definition, None);
        settle_names(&server.registry.snapshot(), &mut definition, now);
        match server.store.update(&entry.key, entry.revision, Object::from_value(definition)?).await {
            Ok(entry) => written(server, &entry, false),
            // Whoever wrote meanwhile has looked, too.
            Err(StoreError::Conflict { .. } | StoreError::Missing { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Marks a CRD as going away. True: it waits for its instances.
pub(crate) fn begin_deletion(definition: &mut Value, now: Timestamp) -> bool {
    let mut finalizers: Vec<String> = metadata::finalizers(definition)
        .into_iter()
        .map(str::to_owned)
        .collect();
    if !finalizers.iter().any(|finalizer| finalizer == CLEANUP) {
        finalizers.push(CLEANUP.to_owned());
    }
    let generation = metadata::number(definition, "generation");
    if let Ok(metadata) = metadata::of_mut(definition) {
        metadata::set_finalizers(metadata, &finalizers);
        // Its store begins the deletion by itself, unlike that of other kinds.
        if metadata.remove("deletionGracePeriodSeconds").is_some() {
            metadata.insert("generation".to_owned(), Value::from((generation - 1).max(1)));
        }
    }
    let terminating = json!({
        "type": "Terminating", "status": "True", "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        "lastTransitionTime": metadata::timestamp(now),
    });
    let conditions = definition
        .pointer_mut("/status/conditions")
        .and_then(Value::as_array_mut);
    let is_said = |condition: &Value| condition.get("type") == Some(&json!("Terminating"));
    if let Some(conditions) = conditions.filter(|conditions| !conditions.iter().any(is_said)) {
        conditions.push(terminating);
    }
    true
}

/// Serves what a CRD defines, as of a write of it.
pub(crate) fn written(server: &Arc<Inner>, entry: &Entry, removed: bool) {
    let definition = entry.object.value(entry.revision);
    let text = |path: &str| {
        definition
            .pointer(path)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let (group, plural) = (text("/spec/group"), text("/spec/names/plural"));
    let current = server.registry.snapshot().find(&group, &plural).cloned();
    if current.as_ref().is_some_and(|served| served.role != Role::Custom) {
        // A CRD never replaces a kind that the server was built with.
        return;
    }
    if removed {
        server.registry.remove(&group, &plural, entry.revision);
        let server = server.clone();
        let tasks = server.tasks.clone();
        tasks.spawn(async move {
            if let Err(error) = retry_names(&server, &group).await {
                tracing::warn!(server = %server.name, group, %error, "definitions that wait for a name were not looked at");
            }
        });
        return;
    }
    if !is_established(&definition) {
        return;
    }
    let uid = metadata::text(&definition, "uid");
    let life = match current.as_ref().map(|served| served.life.clone()) {
        Some(life) if life.uid == uid => life,
        other => {
            if other.is_some() {
                // The removal of the one before has not come by yet.
                server.registry.remove(&group, &plural, entry.revision);
            }
            Arc::new(Life::of(uid))
        }
    };
    if metadata::is_deleting(&definition) {
        life.close();
    }
    match CustomKind::new(&definition) {
        Ok(kind) => {
            let as_of = current.filter(|served| Arc::ptr_eq(&served.life, &life));
            let as_of = as_of.filter(|served| served.custom.as_ref().is_some_and(|before| before.reads_as(&kind)));
            let as_of = as_of.map_or(entry.revision, |served| served.as_of);
            server.registry.put(Arc::new(Served::custom(Arc::new(kind), life.clone(), as_of)));
        }
        Err(error) => tracing::warn!(server = %server.name, crd = %entry.key.name, error, "a CRD cannot be served"),
    }
    let waits = metadata::is_deleting(&definition) && metadata::finalizers(&definition).contains(&CLEANUP);
    if waits && life.begin_clean_up() {
        let (server, key) = (server.clone(), entry.key.clone());
        let tasks = server.tasks.clone();
        tasks.spawn(async move {
            let stop = server.stop.clone();
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = clean_up(&server, &key, &group, &plural) => {}
            }
        });
    }
}

/// Tries until the instances are gone.
async fn clean_up(server: &Arc<Inner>, crd: &Key, group: &str, plural: &str) {
    let mut pause = CLEAN_UP_AFTER;
    while let Err(error) = try_clean_up(server, crd, group, plural).await {
        tracing::warn!(server = %server.name, crd = %crd.name, %error, ?pause, "instances of a CRD are left; trying again");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(CLEAN_UP_AFTER_MAX);
    }
}

/// Deletes all instances, waits until they are gone, then takes the finalizer off the CRD.
async fn try_clean_up(server: &Arc<Inner>, crd: &Key, group: &str, plural: &str) -> Result<(), StoreError> {
    let range = Range::all(format!("{group}/{plural}"));
    loop {
        let listing = server.store.list(&range, Page::default()).await?;
        if listing.entries.is_empty() {
            break;
        }
        for entry in &listing.entries {
            delete_instance(server, entry).await?;
        }
        let mut changes = server.store.watch(&range, listing.revision).await?;
        // Deletions above are changes too: each turn of the loop looks at the whole list once more.
        match changes.next().await {
            Some(Ok(_)) => {}
            Some(Err(StoreError::Expired { .. })) => {}
            Some(Err(error)) => return Err(error),
            None => return Err(StoreError::Unavailable("a watch has ended".to_owned())),
        }
    }
    loop {
        let Some(entry) = server.store.get(crd).await? else {
            return Ok(());
        };
        let mut definition = entry.object.value(entry.revision);
        let left: Vec<String> = metadata::finalizers(&definition)
            .into_iter()
            .filter(|f| *f != CLEANUP)
            .map(str::to_owned)
            .collect();
        let gone = left.is_empty();
        if let Ok(metadata) = metadata::of_mut(&mut definition) {
            metadata::set_finalizers(metadata, &left);
        }
        let outcome = if gone {
            server.store.delete(crd, entry.revision).await
        } else {
            server
                .store
                .update(crd, entry.revision, Object::from_value(definition)?)
                .await
        };
        match outcome {
            Ok(entry) => {
                if gone {
                    written(server, &entry, true);
                }
                return Ok(());
            }
            Err(StoreError::Conflict { .. }) => {}
            Err(StoreError::Missing { .. }) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

async fn delete_instance(server: &Arc<Inner>, entry: &Entry) -> Result<(), StoreError> {
    let meta = entry.object.meta();
    let outcome = if meta.finalizers.is_empty() {
        server.store.delete(&entry.key, entry.revision).await.map(|_| ())
    } else if meta.deletion_timestamp.is_none() {
        let mut object = entry.object.value(entry.revision);
        if let Ok(metadata) = metadata::of_mut(&mut object) {
            let now = metadata::timestamp(server.clock.now());
            metadata.insert("deletionTimestamp".to_owned(), Value::String(now));
            metadata.insert("deletionGracePeriodSeconds".to_owned(), Value::from(0));
            let generation = metadata.get("generation").and_then(Value::as_i64).unwrap_or_default();
            metadata.insert("generation".to_owned(), Value::from(generation + 1));
        }
        server
            .store
            .update(&entry.key, entry.revision, Object::from_value(object)?)
            .await
            .map(|_| ())
    } else {
        Ok(())
    };
    match outcome {
        Err(StoreError::Conflict { .. } | StoreError::Missing { .. }) => Ok(()),
        outcome => outcome,
    }
}
