//! Waiting is watching: one list, then a watch from its version. A time-out bounds the wait and carries the last
//! reason why it was not over. Nothing here polls.

use std::collections::BTreeSet;
use std::fmt::{Debug, Display};
use std::time::Duration;

use api_meta::{Fault, FaultClass};
use futures::StreamExt;
use kube::api::DeleteParams;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::fault::{fault_of, is_missing};
use crate::watch::watch;

/// The result of a check of an object.
#[derive(Debug)]
pub enum WaitState<T> {
    /// The wait is over, with this.
    Done(T),
    /// Not yet, because of this ("observed generation outdated (1/2)").
    NotYet(String),
    /// The wait cannot succeed.
    Failed(Fault),
}

/// Why a wait ended without result.
#[derive(Debug, thiserror::Error)]
pub enum Waited {
    /// Time is up.
    #[error("timed out after {after:?} waiting for {what}: {reason}")]
    TimedOut {
        /// Kind and name.
        what: String,
        /// The time-out.
        after: Duration,
        /// The last reason why it was not done.
        reason: String,
    },
    /// The check, or the API (access refused), ended it.
    #[error("{0}")]
    Failed(Fault),
}

impl From<Waited> for Fault {
    fn from(waited: Waited) -> Self {
        match waited {
            Waited::Failed(fault) => fault,
            timed_out @ Waited::TimedOut { .. } => Fault::new(FaultClass::Dependency, timed_out)
                .hint("look at the named object: what works on it has not finished"),
        }
    }
}

/// Watches the object `name` until `check` is done with it, or `timeout` is up. `check` sees every state the
/// watch shows, and `None` when the object is not there.
pub async fn wait_until<K, T>(
    api: &Api<K>,
    name: &str,
    timeout: Duration,
    mut check: impl FnMut(Option<&K>) -> WaitState<T>,
) -> Result<T, Waited>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let what = format!("{} {name}", K::kind(&()));
    let mut reason = "the API has not answered yet".to_owned();
    let watching = async {
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let mut events = std::pin::pin!(watch(api.clone(), config));
        let mut listed: Option<K> = None;
        while let Some(event) = events.next().await {
            let state = match event {
                Ok(Event::Init) => {
                    listed = None;
                    continue;
                }
                Ok(Event::InitApply(object)) => {
                    listed = Some(object);
                    continue;
                }
                Ok(Event::InitDone) => check(listed.take().as_ref()),
                Ok(Event::Apply(object)) => check(Some(&object)),
                Ok(Event::Delete(_)) => check(None),
                Err(error) => match watch_fault(error, &what) {
                    fault if matches!(fault.class, FaultClass::Access | FaultClass::Bug) => WaitState::Failed(fault),
                    fault => WaitState::NotYet(fault.to_string()),
                },
            };
            match state {
                WaitState::Done(value) => return Ok(value),
                WaitState::Failed(fault) => return Err(fault),
                WaitState::NotYet(why) => reason = why,
            }
        }
        Err(Fault::new(FaultClass::Bug, WatchEnded(what.clone())))
    };
    match tokio::time::timeout(timeout, watching).await {
        Ok(result) => result.map_err(Waited::Failed),
        Err(_) => Err(Waited::TimedOut {
            what,
            after: timeout,
            reason,
        }),
    }
}

/// Watches the objects that `api` and `config` name until none is left that `counts`, or `timeout` is up. `left` is called
/// with their names ("NAMESPACE/NAME", at most five of them, in order) whenever these change.
///
/// # Errors
/// [`Waited::TimedOut`] with the names; [`Waited::Failed`] when the API refuses the watch.
pub async fn wait_until_none<K>(
    api: &Api<K>,
    config: watcher::Config,
    timeout: Duration,
    counts: impl Fn(&K) -> bool,
    mut left: impl FnMut(&str),
) -> Result<(), Waited>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let what = format!("no {} to be left", K::plural(&()));
    let mut reason = "the API has not answered yet".to_owned();
    let watching = async {
        let mut events = std::pin::pin!(watch(api.clone(), config));
        let (mut present, mut listed) = (BTreeSet::new(), BTreeSet::new());
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => {
                    listed.clear();
                    continue;
                }
                Ok(Event::InitApply(object)) => {
                    if counts(&object) {
                        listed.insert(place_of(&object));
                    }
                    continue;
                }
                Ok(Event::InitDone) => present = std::mem::take(&mut listed),
                Ok(Event::Apply(object)) => {
                    match counts(&object) {
                        true => present.insert(place_of(&object)),
                        false => present.remove(&place_of(&object)),
                    };
                }
                Ok(Event::Delete(object)) => {
                    present.remove(&place_of(&object));
                }
                Err(error) => {
                    let fault = watch_fault(error, K::plural(&()).as_ref());
                    if matches!(fault.class, FaultClass::Access | FaultClass::Bug) {
                        return Err(fault);
                    }
                    reason = fault.to_string();
                    left(&reason);
                    continue;
                }
            }
            if present.is_empty() {
                return Ok(());
            }
            reason = format!("{} still there", some_of(present.iter()));
            left(&reason);
        }
        Err(Fault::new(FaultClass::Bug, WatchEnded(what.clone())))
    };
    match tokio::time::timeout(timeout, watching).await {
        Ok(result) => result.map_err(Waited::Failed),
        Err(_) => Err(Waited::TimedOut {
            what,
            after: timeout,
            reason,
        }),
    }
}

/// How many names are shown of what is left: enough to begin with.
const SHOWN_MAX: usize = 5;

fn place_of(object: &impl ResourceExt) -> String {
    match object.namespace() {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    }
}

/// The first five of these names, and how many more there are.
pub fn some_of(names: impl ExactSizeIterator<Item = impl Display>) -> String {
    let more = names.len().saturating_sub(SHOWN_MAX);
    let shown: Vec<String> = names.take(SHOWN_MAX).map(|name| name.to_string()).collect();
    match more {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Deletes the object `name` and waits until it is gone; fine when it is gone already. An object that takes its
/// place under another uid counts as gone.
pub async fn delete_and_wait<K>(api: &Api<K>, name: &str, timeout: Duration) -> Result<(), Waited>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let uid = match api.delete(name, &DeleteParams::default()).await {
        Err(error) if is_missing(&error) => return Ok(()),
        Err(error) => {
            return Err(Waited::Failed(fault_of(
                error,
                &format!("delete {} {name}", K::kind(&())),
            )));
        }
        Ok(answer) => answer.left().and_then(|object| object.uid()),
    };
    wait_until(api, name, timeout, |object| match object {
        None => WaitState::Done(()),
        Some(object) if uid.is_some() && object.uid() != uid => WaitState::Done(()),
        Some(object) => WaitState::NotYet(match object.finalizers() {
            [] => "it still exists".to_owned(),
            finalizers => format!("it still has finalizers [{}]", finalizers.join(", ")),
        }),
    })
    .await
}

#[derive(Debug, thiserror::Error)]
#[error("the watch of {0} ended by itself")]
struct WatchEnded(String);

/// The fault behind a watcher's error.
pub fn watch_fault(error: watcher::Error, what: &str) -> Fault {
    let doing = format!("watch {what}");
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => fault_of(error, &doing),
        watcher::Error::WatchError(status) => fault_of(kube::Error::Api(status), &doing),
        other => Fault::new(FaultClass::Dependency, other),
    }
}
