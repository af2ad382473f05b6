//! The clusters that machines join: one connection and one mirror of the Nodes per shoot, opened when a machine
//! needs it and closed with the shoot's access Secret. What cannot be seen is Unknown, never absent.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use api_meta::{Fault, Seen};
use base_client::Connector;
use base_controller::{Cache, ObjectKey};
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::Api;
use kube::config::Kubeconfig;
use kube::runtime::watcher;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::names::{KUBECONFIG_KEY, SHOOT_ACCESS_SECRET};

/// One shoot's cluster.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) client: kube::Client,
    pub(crate) nodes: Cache<Node>,
    version: Option<String>,
    stop: CancellationToken,
}

impl Target {
    /// The node of this name.
    pub(crate) fn node(&self, name: &str) -> Seen<Arc<Node>> {
        if let Some(error) = self.nodes.error() {
            return Seen::Unknown(error);
        }
        if !self.nodes.is_ready() {
            return Seen::Unknown("the nodes have not been listed yet".to_owned());
        }
        self.nodes
            .get(&ObjectKey::cluster(name))
            .map_or(Seen::Absent, Seen::Present)
    }
}

/// A node of a shoot has changed.
#[derive(Clone, Debug)]
pub(crate) struct NodeChanged {
    pub(crate) namespace: String,
    pub(crate) node: String,
}

/// All shoots' clusters.
pub(crate) struct Targets {
    connector: Arc<dyn Connector>,
    secrets: Cache<Secret>,
    open: Mutex<BTreeMap<String, Target>>,
    changes: mpsc::UnboundedSender<NodeChanged>,
    stop: CancellationToken,
}

impl Targets {
    /// Node changes are sent to `changes`; their number is bounded by that of nodes, because the receiver only
    /// marks objects for another turn.
    pub(crate) fn new(
        client: kube::Client,
        connector: Arc<dyn Connector>,
        changes: mpsc::UnboundedSender<NodeChanged>,
        stop: CancellationToken,
    ) -> Self {
        let config = watcher::Config::default().fields(&format!("metadata.name={SHOOT_ACCESS_SECRET}"));
        let secrets = Cache::start(Api::all(client), config, stop.clone());
        Self {
            connector,
            secrets,
            open: Mutex::default(),
            changes,
            stop,
        }
    }

    /// The access Secrets, whose changes concern all machines of their namespace.
    pub(crate) fn secrets(&self) -> &Cache<Secret> {
        &self.secrets
    }

    /// The cluster that machines of `namespace` join.
    pub(crate) fn get(&self, namespace: &str) -> Result<Target, Fault> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let secret = self.secrets.get(&ObjectKey::namespaced(namespace, SHOOT_ACCESS_SECRET));
        let version = secret
            .as_ref()
            .and_then(|secret| secret.metadata.resource_version.clone());
        if let Some(target) = open.get(namespace)
            && target.version == version
            && secret.is_some()
        {
            return Ok(target.clone());
        }
        if let Some(stale) = open.remove(namespace) {
            stale.stop.cancel();
        }
        let secret = secret.ok_or_else(|| {
            Fault::dependency(format!(
                "the shoot cannot be reached: there is no Secret {namespace}/{SHOOT_ACCESS_SECRET}"
            ))
            .hint("gardenlet writes it once the shoot's API server runs: look at the Shoot's status")
        })?;
        let client = self.connector.client(&kubeconfig_of(&secret, namespace)?)?;
        let stop = self.stop.child_token();
        let nodes = Cache::start(Api::all(client.clone()), watcher::Config::default(), stop.clone());
        tokio::spawn(pump(
            namespace.to_owned(),
            nodes.clone(),
            self.changes.clone(),
            stop.clone(),
        ));
        let target = Target {
            client,
            nodes,
            version,
            stop,
        };
        open.insert(namespace.to_owned(), target.clone());
        Ok(target)
    }

    /// Closes the connection to the shoot of `namespace`, if there is one.
    pub(crate) fn close(&self, namespace: &str) {
        if let Some(target) = self
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(namespace)
        {
            target.stop.cancel();
        }
    }
}

fn kubeconfig_of(secret: &Secret, namespace: &str) -> Result<Kubeconfig, Fault> {
    let wrong = |what: &str| {
        Fault::dependency(format!(
            "the shoot cannot be reached: Secret {namespace}/{SHOOT_ACCESS_SECRET} {what}"
        ))
        .hint("gardenlet writes it: look at the Shoot's status")
    };
    let data = secret
        .data
        .as_ref()
        .and_then(|data| data.get(KUBECONFIG_KEY))
        .ok_or_else(|| wrong("has no kubeconfig"))?;
    let text = std::str::from_utf8(&data.0).map_err(|_| wrong("has a kubeconfig that is not text"))?;
    Kubeconfig::from_yaml(text).map_err(|_| wrong("has a kubeconfig that cannot be read"))
}

async fn pump(
    namespace: String,
    nodes: Cache<Node>,
    changes: mpsc::UnboundedSender<NodeChanged>,
    stop: CancellationToken,
) {
    let mut seen = nodes.subscribe();
    let pumping = async {
        // The first list may lack nodes that machines wait for: those machines look again once it is there.
        nodes.ready().await;
        let mut said = changes.send(NodeChanged {
            namespace: namespace.clone(),
            node: String::new(),
        });
        while said.is_ok() {
            let change = seen.next().await;
            let node = change.object.metadata.name.clone().unwrap_or_default();
            said = changes.send(NodeChanged {
                namespace: namespace.clone(),
                node,
            });
        }
    };
    stop.run_until_cancelled(pumping).await;
}
