//! What a running container is given. It holds no more than its pod may see: its own files, its own network.

use std::collections::BTreeMap;
use std::sync::Arc;

use base_clock::{Clock, Entropy};
use k8s_openapi::api::core::v1::{Container, Pod};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::in_cluster::InCluster;
use crate::{Files, LogWriter, PodNetwork};

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
    /// Where the container says that it is ready. It starts as not ready.
    pub ready: ReadySwitch,
    /// Cancelled when the container should end, as SIGTERM says it to a program.
    pub stop: CancellationToken,
    /// The time.
    pub clock: Clock,
    /// Randomness.
    pub entropy: Entropy,
    pub(crate) api: InCluster,
}

/// Says whether a container is ready. Clones are the same switch.
#[derive(Clone, Debug)]
pub struct ReadySwitch {
    ready: watch::Sender<bool>,
    changed: Arc<Notify>,
}

impl ReadySwitch {
    /// A switch that says no, and wakes `changed` when it is turned.
    pub(crate) fn new(changed: Arc<Notify>) -> Self {
        ReadySwitch {
            ready: watch::Sender::new(false),
            changed,
        }
    }

    /// Turns it.
    pub fn set(&self, ready: bool) {
        if self.ready.send_replace(ready) != ready {
            self.changed.notify_one();
        }
    }

    /// How it stands.
    pub fn is_ready(&self) -> bool {
        *self.ready.borrow()
    }
}
