//! Mirrors of what care sees inside of shoots: their nodes and the webhooks that their users have configured. Opened when a
//! shoot's API server answers, closed when the shoot is to be deleted, is hibernated or lives elsewhere.

use api_core::v1beta1 as core;
use api_meta::Fault;
use base_controller::{Cache, Mirror, MirrorChange, Mirrors};
use futures::StreamExt;
use futures::stream::{BoxStream, select, unfold};
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

/// All mirrors of a gardenlet, each by its shoot's namespace in the seed.
pub(crate) struct Inside {
    nodes: Mirrors<Node>,
    validating: Mirrors<ValidatingWebhookConfiguration>,
    mutating: Mirrors<MutatingWebhookConfiguration>,
}

/// The mirrors of one shoot.
pub(crate) struct InsideOne {
    /// A workerless shoot has none.
    pub(crate) nodes: Option<Cache<Node>>,
    pub(crate) validating: Cache<ValidatingWebhookConfiguration>,
    pub(crate) mutating: Cache<MutatingWebhookConfiguration>,
}

impl Inside {
    /// None yet, for the shoots of the seed `seed`. Changes come by the stream.
    #[must_use]
    pub(crate) fn new(
        shoots: &Cache<core::Shoot>,
        seed: &str,
        stop: &CancellationToken,
    ) -> (Self, BoxStream<'static, MirrorChange>) {
        let home = |seed: &str| {
            let seed = seed.to_owned();
            move |shoot: &core::Shoot| home(shoot, &seed)
        };
        let (nodes, node_changes) = Mirrors::new(shoots, home(seed), stop.clone());
        let (validating, validating_changes) = Mirrors::new(shoots, home(seed), stop.clone());
        let (mutating, mutating_changes) = Mirrors::new(shoots, home(seed), stop.clone());
        let webhooks = select(stream(validating_changes), stream(mutating_changes));
        let inside = Self {
            nodes,
            validating,
            mutating,
        };
        (inside, select(stream(node_changes), webhooks).boxed())
    }

    /// The mirrors of the shoot with this namespace, if they are open.
    pub(crate) fn get(&self, namespace: &str) -> Option<InsideOne> {
        Some(InsideOne {
            nodes: self.nodes.get(namespace).map(objects),
            validating: objects(self.validating.get(namespace)?),
            mutating: objects(self.mutating.get(namespace)?),
        })
    }

    /// Opens them with this client, in place of those that are open. None if no shoot wants them any more.
    ///
    /// # Errors
    /// None of its own.
    pub(crate) fn open(&self, namespace: &str, workerless: bool, client: &Client) -> Result<Option<InsideOne>, Fault> {
        let connect = || Ok(client.clone());
        if !workerless {
            self.nodes.open(namespace, None, connect)?;
        }
        self.validating.open(namespace, None, connect)?;
        self.mutating.open(namespace, None, connect)?;
        Ok(self.get(namespace))
    }
}

fn objects<M>(mirror: Mirror<M>) -> Cache<M> {
    mirror.objects
}

fn stream(changes: UnboundedReceiver<MirrorChange>) -> BoxStream<'static, MirrorChange> {
    unfold(changes, |mut changes| async { Some((changes.recv().await?, changes)) }).boxed()
}

fn home(shoot: &core::Shoot, seed: &str) -> Option<String> {
    let status = shoot.status.as_ref()?;
    let here = status.seed_name.as_deref() == Some(seed) && shoot.metadata.deletion_timestamp.is_none();
    // A hibernated cluster has no API to mirror.
    (here && !status.hibernated && !status.technical_id.is_empty()).then(|| status.technical_id.clone())
}
