//! The clusters that machines join: one connection and one mirror of the Nodes per shoot, opened when a machine
//! needs it and closed with the last of them. What cannot be seen is Unknown, never absent.

use std::sync::Arc;

use api_machine::Machine;
use api_meta::{Fault, Seen};
use base_client::Connector;
use base_controller::{Cache, Mirror, MirrorChange, Mirrors, ObjectKey};
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
    nodes: Cache<Node>,
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

/// All shoots' clusters.
pub(crate) struct Targets {
    connector: Arc<dyn Connector>,
    secrets: Cache<Secret>,
    nodes: Mirrors<Node>,
}

impl Targets {
    /// For the shoots of `machines`. Node changes come by the receiver.
    pub(crate) fn new(
        client: kube::Client,
        connector: Arc<dyn Connector>,
        machines: &Cache<Machine>,
        stop: CancellationToken,
    ) -> (Self, mpsc::UnboundedReceiver<MirrorChange>) {
        let config = watcher::Config::default().fields(&format!("metadata.name={SHOOT_ACCESS_SECRET}"));
        let secrets = Cache::start(Api::all(client), config, stop.clone());
        let (nodes, changes) = Mirrors::new(machines, |machine: &Machine| machine.metadata.namespace.clone(), stop);
        let targets = Self {
            connector,
            secrets,
            nodes,
        };
        (targets, changes)
    }

    /// The access Secrets, whose changes concern all machines of their namespace.
    pub(crate) fn secrets(&self) -> &Cache<Secret> {
        &self.secrets
    }

    /// The cluster that machines of `namespace` join.
    pub(crate) fn get(&self, namespace: &str) -> Result<Target, Fault> {
        let secret = self.secrets.get(&ObjectKey::namespaced(namespace, SHOOT_ACCESS_SECRET));
        let secret = secret.ok_or_else(|| {
            Fault::dependency(format!(
                "the shoot cannot be reached: there is no Secret {namespace}/{SHOOT_ACCESS_SECRET}"
            ))
            .hint("gardenlet writes it once the shoot's API server runs: look at the Shoot's status")
        })?;
        let connect = || self.connector.client(&kubeconfig_of(&secret, namespace)?);
        let version = secret.metadata.resource_version.as_deref();
        let opened = self.nodes.open(namespace, version, connect)?;
        let gone = || Fault::dependency(format!("the last Machine of namespace {namespace} has gone meanwhile"));
        let Mirror { client, objects, .. } = opened.ok_or_else(gone)?;
        Ok(Target { client, nodes: objects })
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
