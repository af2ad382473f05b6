//! Refuses deletions that need a confirmation and have none: of definitions with a label, and of the objects of listed kinds
//! (gardener/gardener v1.150 pkg/resourcemanager/webhook/crddeletionprotection). What needs one is in
//! `state/protection`; confirmations are never stored.

use serde_json::Value;

use crate::kinds::metadata;
use crate::kinds::registry::Role;
use crate::state::context::Context;
use crate::wire::status::Status;

/// Spellings of true that Go's `strconv.ParseBool` takes.
const TRUE: [&str; 6] = ["1", "t", "T", "true", "TRUE", "True"];

/// Refuses a deletion that needs a confirmation and has none.
pub(crate) fn check(context: &Context, old: &Value) -> Result<(), Status> {
    let (served, Some(protection)) = (&context.served, &context.server.protection) else {
        return Ok(());
    };
    let text = |place: &str, key: &str| {
        old["metadata"][place]
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (group, plural) = (served.group(), served.plural());
    let protected = protection.kinds.iter().any(|(g, p)| g == group && p == plural)
        || served.role == Role::CustomResourceDefinition && text("labels", &protection.label) == "true";
    let annotation = &protection.annotation;
    if !protected || metadata::is_deleting(old) || TRUE.contains(&text("annotations", annotation)) {
        return Ok(());
    }
    let name = metadata::text(old, "name");
    let namespace = match context.namespace() {
        None => String::new(),
        Some(namespace) => format!("-n {namespace} "),
    };
    let resource = if group.is_empty() {
        plural.to_owned()
    } else {
        format!("{plural}.{group}")
    };
    let why = format!(
        "must have a {annotation:?} annotation to delete; run: kubectl annotate {namespace}{resource} {name} {annotation}=true"
    );
    Err(Status::forbidden(group, plural, name, &why))
}
