//! Removing what a run has made: objects through their extension, so that what is outside of the seed goes with them, and
//! then what is around them.

use std::sync::Arc;
use std::time::Duration;

use api_extensions::DefaultStatus;
use api_meta::{Fault, LastOperationType, annotations, annotations::operation};
use serde_json::json;

use crate::check;
use crate::episode::{End, RequestKind, end};
use crate::objects::{Main, Objects};
use crate::record::{Entry, Record};
use crate::stage::{Stage, Stop};
use crate::surroundings;
use crate::template::ShootState;

/// Removes everything that the run has made; what may be left, as sentences. An object that the extension does not release
/// loses its finalizers, since nothing would ever remove it. `works`: the API server answers.
pub(crate) async fn all(stage: &mut Stage, works: bool) -> Vec<String> {
    let mut left = Vec::new();
    if works && !(stage.made.is_empty() && stage.orphan.is_none()) {
        // A Shoot that is Failed holds its objects, and one with a forced deletion leaves behind what is outside.
        let _ = stage.shoot(ShootState::Processing).await;
    }
    left.extend(objects(stage).await);
    if let Some(status) = stage.orphan.take()
        && let Err(stop) = Box::pin(take_over(stage, &status)).await
    {
        let why = match stop {
            Stop::Unanswered(why) => why,
            Stop::Kit(fault) => fault.chain(),
        };
        left.push(format!(
            "what a migration or a forced deletion has left outside of the seed may be left: {why}"
        ));
        left.extend(objects(stage).await);
    }
    for namespace in &stage.namespaces {
        if let Err(fault) = surroundings::remove_namespace(&stage.client, namespace).await {
            left.push(format!("Namespace {namespace}: {}", fault.chain()));
        }
    }
    left.extend(surroundings::remove(&stage.client, &stage.subject, &stage.names).await);
    left
}

/// Deletes the objects that are still there.
async fn objects(stage: &mut Stage) -> Vec<String> {
    let mut left = Vec::new();
    // What was waited for in vain is not waited for once more.
    let timeout = if stage.gave_up {
        stage.options.patience
    } else {
        stage.options.timeout
    };
    for (objects, name) in stage.made.clone() {
        let title = stage.title(&*objects, &name);
        match deleted(stage, &objects, &name, timeout).await {
            Ok(true) => {}
            Ok(false) => {
                let stripped = objects.merge(&name, json!({"metadata": {"finalizers": null}})).await;
                left.push(match stripped {
                    Ok(_) => format!(
                        "{title} was not released by the extension and lost its finalizers: what was made for it \
                         outside of the seed may be left"
                    ),
                    Err(fault) => format!("{title}: {}", fault.chain()),
                });
            }
            Err(fault) => left.push(format!("{title}: {}", fault.chain())),
        }
    }
    stage.made.clear();
    left
}

/// Requests the deletion of an object and waits until it is gone. The kit's own finalizer is removed before.
///
/// # Errors
/// What the API server returns.
pub(crate) async fn deleted(
    stage: &mut Stage,
    objects: &Arc<dyn Objects>,
    name: &str,
    timeout: Duration,
) -> Result<bool, Fault> {
    let record = Record::begin(&**objects, name).await?;
    let stamp = stage.options.clock.now().to_string();
    let edit = |main: &mut Main| {
        let notes = main.metadata.annotations.get_or_insert_default();
        notes.insert(annotations::CONFIRMATION_DELETION.to_owned(), "true".to_owned());
        notes.insert(annotations::TIMESTAMP.to_owned(), stamp.clone());
        let pending = notes.get(annotations::OPERATION).map(String::as_str);
        if matches!(pending, Some(operation::WAIT_FOR_STATE | operation::MIGRATE)) {
            notes.remove(annotations::OPERATION);
        }
        if let Some(finalizers) = &mut main.metadata.finalizers {
            finalizers.retain(|name| name != check::MARK);
        }
    };
    if let Some(written) = objects.edit(name, &edit).await? {
        if written.succeeded(&LastOperationType::Migrate) {
            // What it stands for outlives it.
            stage.orphan = Some(written.status);
        }
        objects.delete(name).await?;
        let gone = |entries: &[Entry]| matches!(entries.last(), Some(Entry::Gone) | None).then_some(());
        if record.wait(0, timeout, gone).await.is_none() {
            return Ok(false);
        }
    }
    stage.forget(&**objects, name);
    Ok(true)
}

/// Restores an object with the state that another has left, and deletes it: so what that one stood for goes.
async fn take_over(stage: &mut Stage, status: &DefaultStatus) -> Result<(), Stop> {
    stage.step("take over what was left, to delete it");
    let (actor, _) = stage.make(operation::WAIT_FOR_STATE, false).await?;
    stage.give_state(&actor, status).await?;
    let request = stage.request(&actor, operation::RESTORE, None).await?;
    let timeout = stage.options.timeout;
    let ended = actor
        .record
        .wait(request.at, timeout, |entries| end(entries, RequestKind::Restore))
        .await;
    if ended != Some(End::Succeeded) {
        let state = actor.record.newest().map(|newest| newest.state());
        let state = state.unwrap_or_default();
        return Err(Stop::Unanswered(format!(
            "{} was not restored: the status is {state:?}",
            actor.title
        )));
    }
    match deleted(stage, &actor.objects, &actor.name, timeout).await? {
        true => Ok(()),
        false => Err(Stop::Unanswered(format!("the deletion of {} did not end", actor.title))),
    }
}
