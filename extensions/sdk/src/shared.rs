//! What all reconcilers of an extension share.

use std::sync::{Arc, OnceLock};

use api_extensions::{Cluster, ExtensionClass, ExtensionObject};
use api_meta::{Fault, names};
use base_client::is_unanswered;
use base_clock::{Clock, Entropy};
use base_controller::{Cache, ObjectKey, Recorder};
use tokio_util::sync::CancellationToken;

use crate::cluster::ClusterView;
use crate::codes::CodeTable;
use crate::context::Context;
use crate::credentials::SecretsRead;

#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) client: kube::Client,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    pub(crate) recorder: Recorder,
    pub(crate) clusters: Cache<Cluster>,
    pub(crate) codes: Arc<OnceLock<CodeTable>>,
    pub(crate) stop: CancellationToken,
}

impl Shared {
    /// The shoot of `object`: none for kinds and classes that belong to no shoot, a fault while it must exist and
    /// does not.
    pub(crate) fn cluster<K: ExtensionObject>(&self, object: &K, required: bool) -> Result<Option<ClusterView>, Fault> {
        let Some(namespace) = object.meta().namespace.as_deref() else {
            return Ok(None);
        };
        match self.clusters.get(&ObjectKey::cluster(namespace)) {
            Some(cluster) => ClusterView::new(cluster).map(Some),
            None if required && namespace != names::GARDEN_NAMESPACE && object.class() == ExtensionClass::Shoot => {
                Err(Fault::dependency(format!("there is no Cluster {namespace}"))
                    .hint("gardenlet writes it at the start of every shoot flow: look at gardenlet's log"))
            }
            None => Ok(None),
        }
    }

    /// A context for a look at `object`.
    pub(crate) fn context<K: ExtensionObject>(
        &self,
        object: &K,
        cluster: Option<ClusterView>,
        obsolete: CancellationToken,
    ) -> Context {
        Context {
            client: self.client.clone(),
            clock: self.clock.clone(),
            entropy: self.entropy.clone(),
            recorder: self.recorder.clone(),
            obsolete,
            cluster,
            namespace: object.meta().namespace.clone(),
            secrets: SecretsRead::default(),
            codes: self.codes.clone(),
            work: None,
            carried: None,
        }
    }

    /// The fault with the codes of the extension's table, if it is the provider's and has none.
    pub(crate) fn classify(&self, fault: Fault) -> Fault {
        classify(&self.codes, fault)
    }
}

/// As [`Shared::classify`], by a table that may not be set.
pub(crate) fn classify(codes: &OnceLock<CodeTable>, fault: Fault) -> Fault {
    let kubernetes = fault.object.is_some() || fault.webhook.is_some() || is_unanswered(&fault);
    match codes.get() {
        Some(table) if fault.codes.is_empty() && !kubernetes => table.classify(fault),
        _ => fault,
    }
}

/// Whether a change of a Cluster lets its objects go on: it has come, or its shoot is Failed no more.
pub(crate) fn lets_go_on(old: Option<&Cluster>, new: &Cluster) -> bool {
    let failed = |cluster: &Cluster| ClusterView::new(Arc::new(cluster.clone())).is_ok_and(|view| view.is_failed());
    old.is_none_or(failed) && !failed(new)
}
