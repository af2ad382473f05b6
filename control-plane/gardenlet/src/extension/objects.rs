//! Writing and waiting for extension objects.

use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use api_extensions::ExtensionObject;
use api_meta::{ErrorCode, Fault, FaultClass, LastOperation, ObjectName, Subject, annotations};
use base_client::{WaitState, Waited, apply, delete, fault_of, get, is_missing, wait_until};
use base_controller::{Cache, ObjectKey};
use control_plane_readiness::{Deletion, Readiness, deletion, readiness, reported};
use control_plane_shoot_flow::ExtensionVerb;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::Waiting;
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

/// Whether an existing object must be worked on although nothing in its spec changes: it has not succeeded with what it
/// is now.
pub(crate) fn needs_operation<K: Kind>(object: &K) -> bool {
    readiness(&reported(object), None) != Readiness::Ready || !object.annotations().contains_key(annotations::TIMESTAMP)
}

/// Writes the request "reconcile this, now" onto an object.
fn stamp<K: Kind>(context: &Context, verb: ExtensionVerb, object: &mut K) {
    let notes = object.annotations_mut();
    let operation = match verb {
        ExtensionVerb::Restore => annotations::operation::RESTORE,
        ExtensionVerb::Migrate => annotations::operation::MIGRATE,
        // What a deletion deploys has to be as its spec says before it goes.
        ExtensionVerb::Reconcile | ExtensionVerb::Delete => annotations::operation::RECONCILE,
    };
    notes.insert(annotations::OPERATION.to_owned(), operation.to_owned());
    notes.insert(annotations::TIMESTAMP.to_owned(), context.next_stamp().to_string());
}

/// Requests `desired` of the extension.
///
/// # Errors
/// What the API server returns.
pub(crate) async fn write_request<K: Kind>(
    context: &Context,
    api: &Api<K>,
    verb: ExtensionVerb,
    mut desired: K,
) -> Result<K, Fault> {
    stamp(context, verb, &mut desired);
    apply(api, &desired, MANAGER).await
}

/// The same, unless the object is there as `same` finds it wanted and its extension has succeeded with just that. Gives
/// the object as it is then.
///
/// # Errors
/// What the API server returns.
pub(crate) async fn write_request_unless_done<K: Kind>(
    context: &Context,
    api: &Api<K>,
    verb: ExtensionVerb,
    desired: K,
    same: impl Fn(&K, &K) -> bool,
) -> Result<K, Fault> {
    let present = get(api, &desired.name_any()).await?;
    match present.filter(|present| same(present, &desired) && !needs_operation(present)) {
        Some(present) => Ok(present),
        None => write_request(context, api, verb, desired).await,
    }
}

/// A request as it was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    /// Its timestamp annotation.
    pub(crate) stamp: String,
    /// What the extension had reported before.
    pub(crate) before: Option<LastOperation>,
}

impl Request {
    /// The request on an object as it was written or found.
    pub(crate) fn of<K: Kind>(object: &K) -> Option<Self> {
        let stamp = object.annotations().get(annotations::TIMESTAMP)?.clone();
        let before = object.status().and_then(|status| status.last_operation.cloned());
        Some(Self { stamp, before })
    }
}

/// Waits until the extension has fulfilled `request`; returns the object then.
///
/// # Errors
/// [`FaultClass::Dependency`] naming object, type and what was waited for; the extension's own error with its codes.
pub(crate) async fn wait_ready<K: Kind>(
    cache: &Cache<K>,
    key: &ObjectKey,
    request: Option<&Request>,
    timeout: Duration,
    waiting: &Waiting,
) -> Result<K, Fault> {
    wait_ready_until(cache, key, request, timeout, waiting, |_| false).await
}

/// As [`wait_ready`], but also over as soon as `enough` holds for an object whose request has been picked up.
///
/// # Errors
/// As [`wait_ready`].
pub(crate) async fn wait_ready_until<K: Kind>(
    cache: &Cache<K>,
    key: &ObjectKey,
    request: Option<&Request>,
    timeout: Duration,
    waiting: &Waiting,
    enough: impl Fn(&K) -> bool,
) -> Result<K, Fault> {
    let object = object_name::<K>(key);
    let subject = Subject::Object(object.clone());
    // An error that may pass is given time for the extension's next try; if it still stands then, it is the answer.
    let standing: Mutex<Option<Fault>> = Mutex::default();
    let stand = |fault: Option<Fault>| *standing.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    let not_yet = |why: String| {
        waiting.note(&subject, &why);
        WaitState::NotYet(why)
    };
    let check = |seen: Option<&K>, patient: bool| {
        stand(None);
        let Some(seen) = seen else {
            return not_yet("it is not visible yet".to_owned());
        };
        let reported = reported(seen);
        let stamp = request.map(|request| request.stamp.as_str());
        let picked_up = reported.operation.is_none() && (stamp.is_none() || reported.timestamp.as_deref() == stamp);
        if picked_up && enough(seen) {
            return WaitState::Done(seen.clone());
        }
        match readiness(&reported, stamp) {
            Readiness::Ready => WaitState::Done(seen.clone()),
            Readiness::NotYet(why) => not_yet(why),
            Readiness::Failing { text, hint, codes } => {
                let fault = fault_of_report(&object, &text, &hint, &codes);
                // Times have whole seconds: an answer cannot be distinguished from the one before it within the same
                // second.
                let old = request
                    .is_some_and(|request| request.before.is_some() && request.before == reported.last_operation);
                if !patient || !fault.retryable() && !old {
                    return WaitState::Failed(fault);
                }
                stand(Some(fault));
                not_yet(text)
            }
        }
    };
    let severe = OPERATION_TIMEOUT_SEVERE.min(timeout);
    let mut waited = cache.wait_until(key, severe, |object| check(object, true)).await;
    let fault = standing.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let (Err(Waited::TimedOut { .. }), Some(fault)) = (&waited, fault) {
        waited = Err(Waited::Failed(fault));
    } else if matches!(waited, Err(Waited::TimedOut { .. })) && timeout > severe {
        waited = cache
            .wait_until(key, timeout - severe, |object| check(object, false))
            .await;
    }
    waiting.over(&subject);
    waited.map_err(|waited| name(waited, &object, "", timeout))
}

/// An object as errors and waits name it.
pub(crate) fn object_name<K: Resource<DynamicType = ()>>(key: &ObjectKey) -> ObjectName {
    ObjectName::new(K::kind(&()), key.namespace.as_deref(), key.name.as_str())
}

/// An error that an extension reports, with its codes, the class that follows from them, and the extension's own hint
/// if it gives one.
pub(crate) fn fault_of_report(object: &ObjectName, text: &str, hint: &str, codes: &[ErrorCode]) -> Fault {
    let class = codes.first().map_or(FaultClass::Dependency, ErrorCode::class);
    Fault::new(class, format!("{object}: {text}"))
        .codes(codes.iter().cloned())
        .hint(match hint {
            "" => "look at the status of the named object, written by its extension",
            hint => hint,
        })
        .about(object.clone())
}

/// Errors of waits begin with the object: that is what the reader looks for. `hint`: the extension's own.
fn name(waited: Waited, object: &ObjectName, hint: &str, timeout: Duration) -> Fault {
    match waited {
        Waited::TimedOut { reason, .. } => {
            Fault::dependency(format!("{object}: {reason} (waited {}s)", timeout.as_secs()))
                .hint(match hint {
                    "" => "look at the extension that works on the named object: it may be down, busy or not installed",
                    hint => hint,
                })
                .about(object.clone())
        }
        Waited::Failed(fault) => fault,
    }
}

/// Confirms and requests the deletion; succeeds when the object is gone already. Does not wait.
///
/// # Errors
/// What the API server returns.
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
    let object = object_name::<K>(key);
    let subject = Subject::Object(object.clone());
    let standing: Mutex<Option<Fault>> = Mutex::default();
    let take = || standing.lock().unwrap_or_else(PoisonError::into_inner).take();
    let own_hint: Mutex<String> = Mutex::default();
    let check = |seen: Option<&K>, patient: bool| {
        take();
        let Some(seen) = seen else {
            return WaitState::Done(());
        };
        let (why, hint, fault) = match deletion(&reported(seen)) {
            Deletion::NotYet { text, hint } => (text, hint, None),
            Deletion::Failing { text, hint, codes } => {
                let fault = fault_of_report(&object, &text, &hint, &codes);
                (text, hint, Some(fault))
            }
        };
        // A repeated request may still see the error of the previous one: it has time to become the error of this one.
        if let Some(fault) = fault {
            if !patient && !fault.retryable() {
                return WaitState::Failed(fault);
            }
            *standing.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
        }
        *own_hint.lock().unwrap_or_else(PoisonError::into_inner) = hint;
        waiting.note(&subject, &why);
        WaitState::NotYet(why)
    };
    let severe = OPERATION_TIMEOUT_SEVERE.min(timeout);
    let mut waited = wait_until(api, &key.name, severe, |object| check(object, true)).await;
    if matches!(waited, Err(Waited::TimedOut { .. })) && timeout > severe {
        waited = wait_until(api, &key.name, timeout - severe, |object| check(object, false)).await;
    }
    waiting.over(&subject);
    let hint = own_hint.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match (waited, take()) {
        (Err(Waited::TimedOut { .. }), Some(fault)) => Err(fault),
        (waited, _) => waited.map_err(|waited| name(waited, &object, &hint, timeout)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extensions_error_is_reported_with_exactly_one_hint() {
        let infrastructure = ObjectName::new("Infrastructure", Some("a"), "b");
        let message = |hint: &str| fault_of_report(&infrastructure, "no cores (west)", hint, &[]).text_with_hint();
        assert_eq!(
            message("ask for more"),
            "Infrastructure a/b: no cores (west) (to do: ask for more)"
        );
        assert_eq!(
            message(""),
            "Infrastructure a/b: no cores (west) (to do: look at the status of the named object, written by its extension)"
        );
        let waited = |reason: &str| Waited::TimedOut {
            what: "it".to_owned(),
            after: Duration::from_secs(7),
            reason: reason.to_owned(),
        };
        let worker = ObjectName::new("Worker", Some("a"), "b");
        let late = |reason: &str, hint: &str| name(waited(reason), &worker, hint, Duration::from_secs(7));
        assert_eq!(
            late("deleting it once more, after: held", "let go").text_with_hint(),
            "Worker a/b: deleting it once more, after: held (waited 7s) (to do: let go)"
        );
        assert!(late("silent", "").text_with_hint().ends_with(
            "(to do: look at the extension that works on the named object: it may be down, busy or not installed)"
        ));
        assert_eq!(late("silent", "").object.as_deref(), Some(&worker));
    }
}
