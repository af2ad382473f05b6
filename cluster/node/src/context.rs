//! What a running container is given. It holds no more than its pod may see: its own files, its own network.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use base_clock::{Clock, Entropy};
use k8s_openapi::api::core::v1::{Container, Pod};
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::events::EventType;
use crate::in_cluster::InCluster;
use crate::{Commands, Files, LogWriter, PodNetwork};

/// Events of containers that wait to be written, per pod; what comes while so many wait is dropped.
pub(crate) const EVENTS_WAITING_MAX: usize = 64;

/// Everything that one container has.
pub struct ContainerContext {
    /// The pod as it was when the container started.
    pub pod: Arc<Pod>,
    /// The container's part of the pod's spec.
    pub container: Container,
    /// `command` and `args` in one list, with `$(VAR)` expanded. An image is its own entry point, so for most images
    /// this is a list of flags.
    pub args: Vec<String>,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// What is mounted.
    pub files: Files,
    /// The pod's network.
    pub network: PodNetwork,
    /// What `kubectl logs` shows.
    pub log: LogWriter,
    /// Where the container reports that it is ready. It starts as not ready.
    pub ready: ReadySwitch,
    /// Cancelled when the container should end, as SIGTERM is sent to a program.
    pub stop: CancellationToken,
    /// The time.
    pub clock: Clock,
    /// Randomness.
    pub entropy: Entropy,
    /// What the pod's containers share in memory.
    pub values: PodValues,
    /// Where a container whose image runs commands offers to do so.
    pub commands: Commands,
    pub(crate) ending: Ending,
    pub(crate) events: mpsc::Sender<ContainerEvent>,
    pub(crate) api: InCluster,
}

/// An event that a container reports.
pub(crate) struct ContainerEvent {
    pub(crate) container: String,
    pub(crate) event_type: EventType,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl ContainerContext {
    /// Reports an ordinary event of the container, as `kubectl describe` shows it. Never secrets. Events are for people:
    /// of a flood some are dropped.
    pub fn report(&self, reason: &'static str, message: impl Into<String>) {
        self.send_event(EventType::Normal, reason, message.into());
    }

    /// As [`ContainerContext::report`], for what a person should look at.
    pub fn warn(&self, reason: &'static str, message: impl Into<String>) {
        self.send_event(EventType::Warning, reason, message.into());
    }

    fn send_event(&self, event_type: EventType, reason: &'static str, message: String) {
        let event = ContainerEvent {
            container: self.container.name.clone(),
            event_type,
            reason,
            message,
        };
        if self.events.try_send(event).is_err() {
            tracing::debug!(reason, "an event of a container was dropped");
        }
    }

    /// Declares that this run ends in order to be started again: whatever its exit code is, the next run follows at once and
    /// no crash is counted, unless the pod ends.
    pub fn start_again(&self) {
        self.ending.change(|ending| ending.again = true);
    }

    /// Notes what the container has left at its `terminationMessagePath`. It stands in `state.terminated.message` when this run has
    /// ended, behind the message of its [`Exit`](crate::Exit).
    pub fn leave_message(&self, message: impl Into<String>) {
        let message = message.into();
        self.ending.change(|ending| ending.message = message);
    }

    /// Notes why this run is being killed, as `state.terminated.reason` shows it, such as `OOMKilled`.
    pub fn killed_for(&self, reason: &'static str) {
        self.ending.change(|ending| ending.reason = Some(reason));
    }

    /// The container's limit of memory in bytes, if it has one that can be read.
    pub fn memory_limit_bytes(&self) -> Option<u64> {
        let limits = self.container.resources.as_ref()?.limits.as_ref()?;
        crate::pod::bytes(&limits.get("memory")?.0)
    }
}

/// One value per Rust type for all containers of a pod. They end with the pod on its node, after the last container that
/// holds them. Clones show the same values.
#[derive(Clone, Default)]
pub struct PodValues(Arc<Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>>);

impl PodValues {
    /// The pod's value of type `T`; the first caller's `init` makes it. `init` must not use the values.
    pub fn get_or_init<T: Any + Send + Sync>(&self, init: impl FnOnce() -> T) -> Arc<T> {
        let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let value = values.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(init()));
        Arc::clone(value)
            .downcast::<T>()
            .expect("values are filed under their own type")
    }
}

impl fmt::Debug for PodValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        write!(f, "{} values", values.len())
    }
}

/// What a run leaves behind beside its exit code. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ending(Arc<Mutex<Left>>);

/// See [`Ending`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Left {
    /// It ends in order to be started again at once.
    pub(crate) again: bool,
    /// What it has left as a message.
    pub(crate) message: String,
    /// Why it was killed.
    pub(crate) reason: Option<&'static str>,
}

impl Ending {
    pub(crate) fn change(&self, change: impl FnOnce(&mut Left)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn left(&self) -> Left {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Reports whether a container is ready. Clones are the same switch.
#[derive(Clone, Debug)]
pub struct ReadySwitch {
    ready: watch::Sender<bool>,
    changed: Arc<Notify>,
}

impl ReadySwitch {
    /// A switch that is off, and wakes `changed` when it changes.
    pub(crate) fn new(changed: Arc<Notify>) -> Self {
        ReadySwitch {
            ready: watch::Sender::new(false),
            changed,
        }
    }

    /// Sets it.
    pub fn set(&self, ready: bool) {
        if self.ready.send_replace(ready) != ready {
            self.changed.notify_one();
        }
    }

    /// Whether it is on.
    pub fn is_ready(&self) -> bool {
        *self.ready.borrow()
    }
}
