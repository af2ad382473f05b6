//! Mirrors of the nodes of shoots, one per shoot with workers, by which care sees them. Opened when a shoot's API server
//! answers, closed with the shoot.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base_controller::{Cache, ObjectKey};
use k8s_openapi::api::core::v1::Node;
use kube::runtime::watcher;
use kube::{Api, Client};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// All mirrors of a gardenlet.
pub(crate) struct NodeMirrors {
    open: Mutex<BTreeMap<String, Mirror>>,
    calls: mpsc::UnboundedSender<ObjectKey>,
    stop: CancellationToken,
}

#[derive(Clone)]
struct Mirror {
    nodes: Cache<Node>,
    stop: CancellationToken,
}

impl NodeMirrors {
    /// None yet. Changed nodes call for their Shoot by the receiver; their number is bounded by that of node changes
    /// between two turns of its controller, which only marks the Shoot.
    #[must_use]
    pub(crate) fn new(stop: CancellationToken) -> (Self, mpsc::UnboundedReceiver<ObjectKey>) {
        let (calls, called) = mpsc::unbounded_channel();
        (
            Self {
                open: Mutex::default(),
                calls,
                stop,
            },
            called,
        )
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Mirror>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The nodes of the shoot in `namespace`, if they are mirrored.
    pub(crate) fn get(&self, namespace: &str) -> Option<Cache<Node>> {
        self.lock().get(namespace).map(|mirror| mirror.nodes.clone())
    }

    /// Starts mirroring, with a new connection if there was one before.
    pub(crate) fn open(&self, namespace: &str, shoot: ObjectKey, client: Client) -> Cache<Node> {
        let stop = self.stop.child_token();
        let nodes = Cache::start(Api::all(client), watcher::Config::default(), stop.clone());
        tokio::spawn(pump(shoot, nodes.clone(), self.calls.clone(), stop.clone()));
        if let Some(old) = self.lock().insert(
            namespace.to_owned(),
            Mirror {
                nodes: nodes.clone(),
                stop,
            },
        ) {
            old.stop.cancel();
        }
        nodes
    }

    /// Stops mirroring.
    pub(crate) fn close(&self, namespace: &str) {
        if let Some(mirror) = self.lock().remove(namespace) {
            mirror.stop.cancel();
        }
    }
}

impl Drop for NodeMirrors {
    fn drop(&mut self) {
        self.lock().values().for_each(|mirror| mirror.stop.cancel());
    }
}

/// Shared by tasks and care.
pub(crate) type SharedNodeMirrors = Arc<NodeMirrors>;

async fn pump(shoot: ObjectKey, nodes: Cache<Node>, calls: mpsc::UnboundedSender<ObjectKey>, stop: CancellationToken) {
    let mut changes = nodes.subscribe();
    let pumping = async {
        nodes.ready().await;
        while calls.send(shoot.clone()).is_ok() {
            changes.next().await;
        }
    };
    stop.run_until_cancelled(pumping).await;
}
