//! The status of an object during one operation: what was read and written last, so that a successor finds what it needs, and
//! an operation that another process has overtaken stops before it writes.
//!
//! Every write carries the version that it was made from. When that is no longer the object's, the object is read again and
//! the write repeated, if it is still ours: the same uid, and Processing in our operation. A write that concerns the state,
//! or ends a deletion or a migration, also demands the state that this operation knows.

use std::sync::{Mutex, MutexGuard, PoisonError};

use api_extensions::ExtensionObject;
use api_meta::{Fault, FaultClass, LastOperationState, RawJson};
use base_client::{patch_status_if_changed, read_again};
use kube::Api;
use serde::de::DeserializeOwned;

use crate::context::{Context, title};
use crate::operation::Operation;
use crate::outcome::Saved;
use crate::same_json::is_same;
use crate::status::{ATTEMPTS_MAX, gone, put_saved};

/// One operation on one object.
pub(crate) struct Work<K> {
    api: Api<K>,
    operation: Operation,
    /// What was wanted of the object when the operation began.
    generation: i64,
    /// Held during a write: each is made from the one before.
    writing: tokio::sync::Mutex<()>,
    memory: Mutex<Memory<K>>,
}

struct Memory<K> {
    /// As it was read or written last.
    object: K,
    /// What its state may be: first the one that was read or written last, then those that have been sent since. A request
    /// whose answer was not awaited may have been carried out.
    states: Vec<Option<RawJson>>,
    /// Whether this operation has stored a state.
    stores: bool,
    ended: bool,
}

/// What a write demands beside its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// The known state, if the write or an earlier one of the operation concerns the state.
    StateIfStored,
    /// The known state: what is forgotten or released must not have been extended by another process.
    State,
}

/// Another process has written what only the one that works on an object writes.
#[derive(Debug, thiserror::Error)]
#[error("another process works on {0}")]
pub(crate) struct Overtaken(String);

fn state_of<K: ExtensionObject>(object: &K) -> Option<&RawJson> {
    object.status().and_then(|status| status.state)
}

impl<K: ExtensionObject> Work<K> {
    /// `object` is as it is since "Processing" was written.
    pub(crate) fn new(api: Api<K>, operation: Operation, object: K) -> Self {
        let states = vec![state_of(&object).cloned()];
        Self {
            api,
            operation,
            generation: object.meta().generation.unwrap_or_default(),
            writing: tokio::sync::Mutex::default(),
            memory: Mutex::new(Memory {
                object,
                states,
                stores: false,
                ended: false,
            }),
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory<K>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The generation of the object that the operation is about.
    pub(crate) fn generation(&self) -> i64 {
        self.generation
    }

    /// Whether it is about this very object.
    pub(crate) fn is_about(&self, object: &K) -> bool {
        let memory = self.memory();
        let (ours, meta) = (memory.object.meta(), object.meta());
        (&ours.uid, &ours.namespace, &ours.name) == (&meta.uid, &meta.namespace, &meta.name)
    }

    /// The state as this operation knows it.
    fn state(&self) -> Option<RawJson> {
        self.memory().states.first().cloned().flatten()
    }

    /// From now on only the reconciler writes.
    pub(crate) fn end(&self) {
        self.memory().ended = true;
    }

    /// Writes what `edit` changes in the status, for an actuator.
    pub(crate) async fn edit_while_at_work(&self, edit: impl Fn(&mut K) + Send + Sync) -> Result<(), Fault> {
        let writing = self.writing.lock().await;
        if self.memory().ended {
            let what = title(&self.memory().object);
            return Err(Fault::bug(format!("the operation on {what} has ended"))
                .hint("correct the extension: a task must not outlive the operation that has started it"));
        }
        let written = self.write(edit, Demand::StateIfStored).await;
        drop(writing);
        written.map(drop)
    }

    /// Writes what `edit` changes in the status, and returns the object as it is then.
    pub(crate) async fn edit(&self, edit: impl Fn(&mut K) + Send + Sync, demand: Demand) -> Result<K, Fault> {
        let _writing = self.writing.lock().await;
        self.write(edit, demand).await
    }

    async fn write(&self, edit: impl Fn(&mut K) + Send + Sync, demand: Demand) -> Result<K, Fault> {
        let mut before = self.memory().object.clone();
        let mut attempt = 1;
        loop {
            let mut after = before.clone();
            edit(&mut after);
            let stores = state_of(&before) != state_of(&after);
            let checked = stores || demand == Demand::State || self.memory().stores;
            if checked {
                self.check_state(&before)?;
            }
            if stores {
                let mut memory = self.memory();
                memory.stores = true;
                memory.states.push(state_of(&after).cloned());
            }
            match patch_status_if_changed(&self.api, &before, &after).await {
                Ok(written) => {
                    let object = written.unwrap_or(before);
                    self.learn(&object, checked);
                    return Ok(object);
                }
                Err(fault) if fault.class == FaultClass::Transient && attempt < ATTEMPTS_MAX => attempt += 1,
                Err(fault) => return Err(fault),
            }
            let fresh = read_again(&self.api, &before).await?;
            before = self.check_operation(fresh.ok_or_else(|| gone(&before))?)?;
        }
    }

    fn learn(&self, object: &K, checked: bool) {
        let mut memory = self.memory();
        memory.object = object.clone();
        if checked {
            memory.states = vec![state_of(object).cloned()];
        }
    }

    fn check_state(&self, object: &K) -> Result<(), Fault> {
        let states = &self.memory().states;
        match states.iter().any(|known| is_same(known.as_ref(), state_of(object))) {
            true => Ok(()),
            false => Err(overtaken(object)),
        }
    }

    fn check_operation(&self, object: K) -> Result<K, Fault> {
        let last = object.progress().0;
        let ours = last
            .is_some_and(|last| last.state == LastOperationState::Processing && last.type_ == self.operation.type_());
        match ours {
            true => Ok(object),
            false => Err(overtaken(&object)),
        }
    }
}

fn overtaken<K: ExtensionObject>(object: &K) -> Fault {
    Fault::transient(Overtaken(title(object)))
        .hint("if it does not pass, find the second instance of this extension that runs in the seed, and stop one")
}

impl Context {
    /// Stores in the status of `object`, the one of this operation, what a successor needs if this process ends now. It is
    /// durable once this returns. What is left out stays. Several at the same time are written one after the other.
    ///
    /// # Errors
    /// The status cannot be written: it may have been all the same. Another process works on the object: its state is not
    /// what this operation has read or written last; then the operation is to end with this error. A bug: `object` is not
    /// the one of this operation, or the operation has ended.
    pub async fn persist<K: ExtensionObject>(&self, object: &K, saved: Saved) -> Result<(), Fault> {
        let work = self.work_on(object).ok_or_else(|| {
            Fault::bug(format!("{} is not what this operation works on", title(object)))
                .hint("correct the extension: only an actuator stores, and only in the object that it was called with")
        })?;
        work.edit_while_at_work(|fresh| put_saved(fresh, &saved)).await
    }

    /// `status.state` as this operation knows it: what [`Context::persist`] has written last, else what `object` holds.
    pub fn raw_state<K: ExtensionObject>(&self, object: &K) -> Option<RawJson> {
        match self.work_on(object) {
            Some(work) => work.state(),
            None => state_of(object).cloned(),
        }
    }

    /// [`Context::raw_state`] read as `T`; none where there is no state.
    ///
    /// # Errors
    /// A dependency fault: it is not of this type, because another version of the extension has written it.
    pub fn state<T: DeserializeOwned>(&self, object: &impl ExtensionObject) -> Result<Option<T>, Fault> {
        let Some(raw) = self.raw_state(object) else {
            return Ok(None);
        };
        raw.decode().map_err(|error| {
            Fault::dependency(format!("status.state of {} cannot be used: {error}", title(object)))
                .hint("run the version of the extension that has written this state")
        })
    }
}
