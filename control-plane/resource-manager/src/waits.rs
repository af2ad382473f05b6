//! Waits for deleted objects to be gone, so that no worker has to: calls for their ManagedResource when they are. It
//! deletes nothing, and reports nothing: the turn that it calls for looks again.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use base_controller::ObjectKey;
use futures::StreamExt;
use futures::stream::{BoxStream, unfold};
use kube::Api;
use kube::core::DynamicObject;
use kube::runtime::wait::{await_condition, conditions::is_deleted};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

/// An object that is being deleted.
pub(crate) struct Going {
    pub(crate) api: Api<DynamicObject>,
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// Who waits for what.
pub(crate) struct Waits {
    stop: CancellationToken,
    calls: mpsc::UnboundedSender<ObjectKey>,
    /// Ends the wait of a ManagedResource.
    waiting: Mutex<BTreeMap<ObjectKey, DropGuard>>,
}

impl Waits {
    /// None yet. The stream names the ManagedResources whose objects are gone.
    pub(crate) fn new(stop: CancellationToken) -> (Self, BoxStream<'static, ObjectKey>) {
        let (calls, called) = mpsc::unbounded_channel();
        let waits = Self {
            stop,
            calls,
            waiting: Mutex::default(),
        };
        let called = unfold(called, |mut called| async move {
            called.recv().await.map(|key| (key, called))
        });
        (waits, called.boxed())
    }

    /// Calls for `owner` when all of them are gone, in place of what it has waited for so far. It looks at one of them at
    /// a time: that is one watch, however many there are.
    pub(crate) fn start(&self, owner: ObjectKey, going: Vec<Going>) {
        let stop = self.stop.child_token();
        self.waiting().insert(owner.clone(), stop.clone().drop_guard());
        let calls = self.calls.clone();
        tokio::spawn(stop.run_until_cancelled_owned(async move {
            for Going { api, name, uid } in going {
                // One that cannot be watched is looked at when the back-off of its ManagedResource is over.
                if await_condition(api, &name, is_deleted(&uid)).await.is_err() {
                    return;
                }
            }
            // There is no receiver any more once all is being stopped.
            let _ = calls.send(owner);
        }));
    }

    /// The ManagedResource waits for nothing: it has its turn.
    pub(crate) fn end(&self, owner: &ObjectKey) {
        self.waiting().remove(owner);
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, DropGuard>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
