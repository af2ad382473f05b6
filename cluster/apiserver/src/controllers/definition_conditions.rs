//! Which names a CustomResourceDefinition gets, and that it is established: what controllers inside kube-apiserver
//! write into its status a moment after it was written, here before the response is sent.
//! (apiextensions-apiserver v0.35 `pkg/controller/{status,establish}`)

use std::sync::Arc;

use cluster_fields::FieldError;
use cluster_patch::{UpdateOptions, track_update};
use cluster_schema::Schema;
use cluster_store::{Key, Object, Page, Range, StoreError};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::custom::CustomKind;
use crate::kinds::definition::{conditions, is_established, is_true, text};
use crate::kinds::metadata;
use crate::kinds::registry::{Kinds, Role};
use crate::state::context::Context;
use crate::state::server_state::ServerState;
use crate::storage::resource_names::DEFINITIONS;
use crate::wire::status::Status;

/// Group, version and plural of definitions.
const GROUP: &str = "apiextensions.k8s.io";
const VERSION: &str = "v1";
const PLURAL: &str = "customresourcedefinitions";
/// The field manager of their status.
const MANAGER: &str = "kube-apiserver";

/// Refuses a definition of a kind that the server was built with.
pub(crate) fn refuse_built_in_names(context: &Context, definition: &Value) -> Result<(), Status> {
    if context.served.role != Role::CustomResourceDefinition {
        return Ok(());
    }
    let kinds = context.server.registry.snapshot();
    let (group, plural) = (text(definition, "/spec/group"), text(definition, "/spec/names/plural"));
    if kinds
        .find(group, plural)
        .is_none_or(|served| served.role == Role::Custom)
    {
        return Ok(());
    }
    let error = FieldError::invalid("spec.names.plural", plural, format!("{plural:?} is already in use"));
    let info = context.served.info();
    let name = metadata::text(definition, "name");
    Err(Status::invalid(&info.group, &info.kind, name, &[error]))
}

/// Writes accepted names and conditions into the status of a definition, and serves it once it is established. Other
/// definitions may wait for names that it has given up.
pub(crate) async fn establish(server: &Arc<ServerState>, key: &Key) -> Result<(), StoreError> {
    if let Some(group) = update_status(server, key).await? {
        retry_later(server, group);
    }
    Ok(())
}

/// Checks again the definitions of a group that wait for a name, on a task of the server.
pub(crate) fn retry_later(server: &Arc<ServerState>, group: String) {
    let server = server.clone();
    let tasks = server.tasks.clone();
    tasks.spawn(async move {
        if let Err(error) = retry(&server, &group).await {
            tracing::warn!(server = %server.name, group, %error, "definitions that wait for a name were not checked");
        }
    });
}

/// Returns the group if the accepted names of the definition have changed.
async fn update_status(server: &Arc<ServerState>, key: &Key) -> Result<Option<String>, StoreError> {
    // When two definitions claim one name, the second must see that the first has it.
    let _held = server.exclusive_writes.lock().await;
    let kinds = server.registry.snapshot();
    let Some(served) = kinds.find(GROUP, PLURAL) else {
        return Ok(None);
    };
    loop {
        let Some(entry) = server.store.get(key).await? else {
            return Ok(None);
        };
        let old = entry.object.value(entry.revision);
        let (mut new, now) = (old.clone(), server.clock.now());
        if !metadata::is_deleting(&old) {
            set_conditions(&kinds, &mut new, now);
        }
        if new == old {
            server.observe_own_write(served, &entry, false);
            return Ok(None);
        }
        let names = |definition: &Value| definition.pointer("/status/acceptedNames").cloned();
        let renamed = names(&old) != names(&new);
        let group = text(&new, "/spec/group").to_owned();
        let options = UpdateOptions {
            manager: MANAGER,
            subresource: "status",
            time: now,
            api_version: &format!("{GROUP}/{VERSION}"),
        };
        let schema = served.kind.schema(VERSION).unwrap_or_else(Schema::any);
        track_update(Some(&old), &mut new, options, &schema);
        match server.store.update(key, entry.revision, Object::from_value(new)?).await {
            Ok(entry) => {
                server.observe_own_write(served, &entry, false);
                return Ok(renamed.then_some(group));
            }
            // Written or deleted meanwhile: read it again.
            Err(StoreError::Conflict { .. } | StoreError::Missing { .. }) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Repeats until the names of none have changed. It ends, because none takes a name that another has.
async fn retry(server: &Arc<ServerState>, group: &str) -> Result<(), StoreError> {
    loop {
        let listing = server.store.list(&Range::all(DEFINITIONS), Page::default()).await?;
        let mut again = false;
        for entry in &listing.entries {
            let definition = entry.object.value(entry.revision);
            if text(&definition, "/spec/group") == group && !is_true(&definition, "NamesAccepted") {
                again |= update_status(server, &entry.key).await?.is_some();
            }
        }
        if !again {
            return Ok(());
        }
    }
}

fn set_conditions(kinds: &Kinds, definition: &mut Value, now: Timestamp) {
    let Some(spec) = definition.get("spec").cloned() else {
        return;
    };
    let (accepted, conflict) = accepted_names(kinds, &spec, definition);
    let (names_ok, names_reason, names_message) = match &conflict {
        None => ("True", "NoConflicts", "no conflicts found"),
        Some((reason, message)) => ("False", *reason, message.as_str()),
    };
    let problem = CustomKind::new(&json!({"spec": spec})).err();
    let (is, reason, message) = match (&problem, &conflict) {
        (Some(why), _) => ("False", "InvalidSchema", why.as_str()),
        (None, _) if is_established(definition) => {
            ("True", "InitialNamesAccepted", "the initial names have been accepted")
        }
        (None, Some(_)) => ("False", "NotAccepted", "not all names are accepted"),
        (None, None) => ("True", "InitialNamesAccepted", "the initial names have been accepted"),
    };
    let mut conditions = conditions(definition).to_vec();
    set(
        &mut conditions,
        "NamesAccepted",
        names_ok,
        names_reason,
        names_message,
        now,
    );
    set(&mut conditions, "Established", is, reason, message, now);
    if let Some(fields) = definition.as_object_mut() {
        let status = fields.entry("status").or_insert_with(|| json!({}));
        status["acceptedNames"] = accepted;
        status["conditions"] = Value::Array(conditions);
    }
}

fn set(conditions: &mut Vec<Value>, kind: &str, is: &str, reason: &str, message: &str, now: Timestamp) {
    let before = conditions.iter_mut().find(|condition| condition["type"] == kind);
    let since = before.as_ref().filter(|before| before["status"] == is);
    let since = since.and_then(|before| before.get("lastTransitionTime").cloned());
    let since = since.unwrap_or_else(|| Value::String(metadata::timestamp(now)));
    let new = json!({"type": kind, "status": is, "reason": reason, "message": message, "lastTransitionTime": since});
    match before {
        Some(before) => *before = new,
        None => conditions.push(new),
    }
}

/// The names that no other kind of the group has, and why some are not accepted.
fn accepted_names(kinds: &Kinds, spec: &Value, definition: &Value) -> (Value, Option<(&'static str, String)>) {
    let (group, plural) = (text(spec, "/group"), text(spec, "/names/plural"));
    let (mut resources, mut types) = (Vec::new(), Vec::new());
    for other in kinds.of_group(group).filter(|other| other.plural() != plural) {
        let info = other.info();
        resources.extend([&*info.plural, &*info.singular].map(str::to_owned));
        resources.extend(info.short_names.iter().map(ToString::to_string));
        types.extend([&*info.kind, &*info.list_kind].map(str::to_owned));
    }
    let mut accepted = spec.get("names").cloned().unwrap_or_else(|| json!({}));
    let mut conflict = None;
    for (field, reason, used) in [
        ("plural", "PluralConflict", &resources),
        ("singular", "SingularConflict", &resources),
        ("shortNames", "ShortNamesConflict", &resources),
        ("kind", "KindConflict", &types),
        ("listKind", "ListKindConflict", &types),
    ] {
        let requested: Vec<&str> = match &accepted[field] {
            Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
            name => name.as_str().into_iter().collect(),
        };
        let taken = requested.iter().filter(|name| used.iter().any(|used| used == **name));
        let messages: Vec<String> = taken.map(|name| format!("{name:?} is already in use")).collect();
        let message = match messages.as_slice() {
            [] => continue,
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        conflict = Some((reason, message));
        // A name that it has already stays.
        let before = definition.pointer(&format!("/status/acceptedNames/{field}")).cloned();
        if let Some(names) = accepted.as_object_mut() {
            match (before, field) {
                (Some(before), _) => names.insert(field.to_owned(), before),
                (None, "plural" | "kind") => names.insert(field.to_owned(), json!("")),
                (None, _) => names.remove(field),
            };
        }
    }
    (accepted, conflict)
}
