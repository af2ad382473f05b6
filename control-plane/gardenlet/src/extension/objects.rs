//! Writing and waiting for extension objects.

use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use api_extensions::ExtensionObject;
use api_meta::{ErrorCode, Fault, FaultClass, LastOperation, annotations};
use base_client::{Judgement, Waited, apply, delete, fault_of, get, is_missing, wait_until};
use base_controller::{Cache, ObjectKey};
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::Waiting;
use super::readiness::{Deletion, Readiness, Reported, deletion, readiness};
use crate::context::{Context, MANAGER};

/// How long an extension's error that may pass is watched before it becomes the task's error: long enough for its own
/// next try (upstream: 30 s for most kinds).
const OPERATION_TIMEOUT_SEVERE: Duration = Duration::from_secs(30);

/// What all extension kinds can do.
pub(crate) trait Kind:
    ExtensionObject + Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + Debug + Send + Sync + 'static
{
}

impl<K> Kind for K where
    K: ExtensionObject
        + Resource<DynamicType = ()>
        + Clone
        + Serialize
        + DeserializeOwned
        + Debug
        + Send
        + Sync
        + 'static
{
}

/// What an object says about its last operation.
#[must_use]
pub fn reported<K: ExtensionObject>(object: &K) -> Reported {
    let annotation = |key: &str| object.annotations().get(key).cloned();
    let status = object.status();
    Reported {
        type_: object.type_().to_owned(),
        generation: object.meta().generation.unwrap_or_default(),
        observed_generation: status
            .as_ref()
            .and_then(|status| status.observed_generation)
            .unwrap_or_default(),
        operation: annotation(annotations::OPERATION),
        timestamp: annotation(annotations::TIMESTAMP),
        last_operation: status.as_ref().and_then(|status| status.last_operation.cloned()),
        last_error: status.as_ref().and_then(|status| status.last_error.cloned()),
    }
}

/// Whether an existing object must be worked on although nothing in its spec changes: it has not succeeded with what it
/// is now.
pub(crate) fn needs_operation<K: Kind>(object: &K) -> bool {
    readiness(&reported(object), None) != Readiness::Ready || !object.annotations().contains_key(annotations::TIMESTAMP)
}

/// Writes the request "reconcile this, now" onto an object.
fn stamp<K: Kind>(context: &Context, object: &mut K) {
    let notes = object.annotations_mut();
    notes.insert(
        annotations::OPERATION.to_owned(),
        annotations::operation::RECONCILE.to_owned(),
    );
    notes.insert(annotations::TIMESTAMP.to_owned(), context.next_stamp().to_string());
}

/// Asks the extension to bring about `desired`.
///
/// # Errors
/// What the API server says.
pub(crate) async fn ask<K: Kind>(context: &Context, api: &Api<K>, mut desired: K) -> Result<K, Fault> {
    stamp(context, &mut desired);
    apply(api, &desired, MANAGER).await
}

/// The same, unless the object is there as `same` finds it wanted and its extension has succeeded with just that. Gives
/// the object as it is then.
///
/// # Errors
/// What the API server says.
pub(crate) async fn ask_unless_done<K: Kind>(
    context: &Context,
    api: &Api<K>,
    desired: K,
    same: impl Fn(&K, &K) -> bool,
) -> Result<K, Fault> {
    let present = get(api, &desired.name_any()).await?;
    match present.filter(|present| same(present, &desired) && !needs_operation(present)) {
        Some(present) => Ok(present),
        None => ask(context, api, desired).await,
    }
}

/// A request as it was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Asked {
    /// Its timestamp annotation.
    pub(crate) stamp: String,
    /// What the extension had reported before.
    pub(crate) before: Option<LastOperation>,
}

impl Asked {
    /// The request on an object as it was written or found.
    pub(crate) fn of<K: Kind>(object: &K) -> Option<Self> {
        let stamp = object.annotations().get(annotations::TIMESTAMP)?.clone();
        let before = object.status().and_then(|status| status.last_operation.cloned());
        Some(Self { stamp, before })
    }
}

/// Waits until the extension has done what was `asked`; gives the object then.
///
/// # Errors
/// [`FaultClass::Dependency`] naming object, type and what was waited for; the extension's own error with its codes.
pub(crate) async fn wait_ready<K: Kind>(
    cache: &Cache<K>,
    key: &ObjectKey,
    asked: Option<&Asked>,
    timeout: Duration,
    waiting: &Waiting,
) -> Result<K, Fault> {
    wait_ready_until(cache, key, asked, timeout, waiting, |_| false).await
}

/// As [`wait_ready`], but also over as soon as `enough` says so of an object whose request has been picked up.
///
/// # Errors
/// As [`wait_ready`].
pub(crate) async fn wait_ready_until<K: Kind>(
    cache: &Cache<K>,
    key: &ObjectKey,
    asked: Option<&Asked>,
    timeout: Duration,
    waiting: &Waiting,
    enough: impl Fn(&K) -> bool,
) -> Result<K, Fault> {
    let title = format!("{} {key}", K::kind(&()));
    // An error that may pass is given time for the extension's next try; if it still stands then, it is the answer.
    let standing: Mutex<Option<Fault>> = Mutex::default();
    let stand = |fault: Option<Fault>| *standing.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    let not_yet = |why: String| {
        waiting.note(&title, Fault::untold(&why).0);
        Judgement::NotYet(why)
    };
    let judge = |object: Option<&K>, patient: bool| {
        stand(None);
        let Some(object) = object else {
            return not_yet("it is not visible yet".to_owned());
        };
        let reported = reported(object);
        let stamp = asked.map(|asked| asked.stamp.as_str());
        let picked_up = reported.operation.is_none() && (stamp.is_none() || reported.timestamp.as_deref() == stamp);
        if picked_up && enough(object) {
            return Judgement::Done(object.clone());
        }
        match readiness(&reported, stamp) {
            Readiness::Ready => Judgement::Done(object.clone()),
            Readiness::NotYet(why) => not_yet(why),
            Readiness::Failing { text, codes } => {
                let fault = fault_of_report(&title, &text, &codes);
                // Whole seconds do not tell an answer from the one before, when both fall into the same.
                let old = asked.is_some_and(|asked| asked.before.is_some() && asked.before == reported.last_operation);
                if !patient || !fault.retryable() && !old {
                    return Judgement::Failed(fault);
                }
                stand(Some(fault));
                not_yet(text)
            }
        }
    };
    let severe = OPERATION_TIMEOUT_SEVERE.min(timeout);
    let mut waited = cache.wait_until(key, severe, |object| judge(object, true)).await;
    let fault = standing.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let (Err(Waited::TimedOut { .. }), Some(fault)) = (&waited, fault) {
        waited = Err(Waited::Failed(fault));
    } else if matches!(waited, Err(Waited::TimedOut { .. })) && timeout > severe {
        waited = cache
            .wait_until(key, timeout - severe, |object| judge(object, false))
            .await;
    }
    waiting.over(&title);
    waited.map_err(|waited| name(waited, &title, timeout))
}

/// An error that an extension reports, with its codes, the class that follows from them, and the extension's own hint
/// if it gives one.
pub(crate) fn fault_of_report(title: &str, text: &str, codes: &[ErrorCode]) -> Fault {
    let class = codes.first().map_or(FaultClass::Dependency, ErrorCode::class);
    let (text, hint) = Fault::untold(text);
    Fault::new(class, format!("{title}: {text}"))
        .codes(codes.iter().cloned())
        .hint(hint.unwrap_or("look at the status of the named object, written by its extension"))
}

/// Errors of waits begin with the object: that is what the reader looks for.
fn name(waited: Waited, title: &str, timeout: Duration) -> Fault {
    match waited {
        Waited::TimedOut { reason, .. } => {
            let (reason, hint) = Fault::untold(&reason);
            let silent = "look at the extension that works on the named object: it may be down, busy or not installed";
            Fault::dependency(format!("{title}: {reason} (waited {}s)", timeout.as_secs())).hint(hint.unwrap_or(silent))
        }
        Waited::Failed(fault) => fault,
    }
}

/// Confirms and asks for the deletion; fine when it is gone already. Does not wait.
///
/// # Errors
/// What the API server says.
pub(crate) async fn delete_confirmed<K: Kind>(context: &Context, api: &Api<K>, object: &str) -> Result<(), Fault> {
    let confirmation = json!({"metadata": {"annotations": {
        annotations::CONFIRMATION_DELETION: "true",
        annotations::TIMESTAMP: context.clock.now().to_string(),
    }}});
    match api
        .patch(object, &PatchParams::default(), &Patch::Merge(confirmation))
        .await
    {
        Ok(_) => delete(api, object).await,
        Err(error) if is_missing(&error) => Ok(()),
        Err(error) => Err(fault_of(
            error,
            &format!("confirm the deletion of {} {object}", K::kind(&())),
        )),
    }
}

/// Waits until the object is gone.
///
/// # Errors
/// [`FaultClass::Dependency`] naming the object and why it is still there; the extension's own final error.
pub(crate) async fn wait_deleted<K: Kind>(
    api: &Api<K>,
    key: &ObjectKey,
    timeout: Duration,
    waiting: &Waiting,
) -> Result<(), Fault> {
    let title = format!("{} {key}", K::kind(&()));
    let standing: Mutex<Option<Fault>> = Mutex::default();
    let take = || standing.lock().unwrap_or_else(PoisonError::into_inner).take();
    let judge = |object: Option<&K>, patient: bool| {
        take();
        let Some(object) = object else {
            return Judgement::Done(());
        };
        let (why, fault) = match deletion(&reported(object)) {
            Deletion::NotYet(why) => (why, None),
            Deletion::Failing { text, codes } => {
                let fault = fault_of_report(&title, &text, &codes);
                (text, Some(fault))
            }
        };
        // Whoever asks again may see the error of the time before: it is given time to become this one's.
        if let Some(fault) = fault {
            if !patient && !fault.retryable() {
                return Judgement::Failed(fault);
            }
            *standing.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
        }
        waiting.note(&title, Fault::untold(&why).0);
        Judgement::NotYet(why)
    };
    let severe = OPERATION_TIMEOUT_SEVERE.min(timeout);
    let mut waited = wait_until(api, &key.name, severe, |object| judge(object, true)).await;
    if matches!(waited, Err(Waited::TimedOut { .. })) && timeout > severe {
        waited = wait_until(api, &key.name, timeout - severe, |object| judge(object, false)).await;
    }
    waiting.over(&title);
    match (waited, take()) {
        (Err(Waited::TimedOut { .. }), Some(fault)) => Err(fault),
        (waited, _) => waited.map_err(|waited| name(waited, &title, timeout)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extensions_error_is_told_with_its_own_hint_or_with_ours_and_never_with_two() {
        let told = |text: &str| fault_of_report("Infrastructure a/b", text, &[]).told();
        assert_eq!(
            told("no cores (west) (to do: ask for more)"),
            "Infrastructure a/b: no cores (west) (to do: ask for more)"
        );
        assert_eq!(
            told("no cores (west)"),
            "Infrastructure a/b: no cores (west) (to do: look at the status of the named object, written by its extension)"
        );
        let waited = |reason: &str| Waited::TimedOut {
            what: "it".to_owned(),
            after: Duration::from_secs(7),
            reason: reason.to_owned(),
        };
        let late = |reason: &str| name(waited(reason), "Worker a/b", Duration::from_secs(7)).told();
        assert_eq!(
            late("deleting it once more, after: held (to do: let go)"),
            "Worker a/b: deleting it once more, after: held (waited 7s) (to do: let go)"
        );
        assert!(late("silent").ends_with(
            "(to do: look at the extension that works on the named object: it may be down, busy or not installed)"
        ));
    }
}
