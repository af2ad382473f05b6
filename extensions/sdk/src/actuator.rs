//! What an extension author writes: an [`Actuator`] for each kind, and, where another extension is primary, an
//! [`Observer`] that only adds conditions. They never touch annotations, finalizers or the common status: the
//! reconciler around them does.

use std::future::Future;

use api_extensions::ExtensionObject;
use api_meta::{Condition, Fault, NamedResourceReference, RawJson};
use async_trait::async_trait;
use base_clock::{Clock, Entropy};
use base_controller::Recorder;
use tokio_util::sync::CancellationToken;

use crate::cluster::ClusterView;
use crate::status::{edit_status, say};

/// What goes into the status of an object whose operation has succeeded.
#[derive(Clone, Debug)]
pub struct Outcome<K: ExtensionObject> {
    /// What others shall read; written byte for byte.
    pub provider_status: Option<RawJson>,
    /// What another seed needs to take over; written byte for byte.
    pub state: Option<RawJson>,
    /// Objects that go with the state.
    pub resources: Vec<NamedResourceReference>,
    /// Conditions of ours; those of other writers stay.
    pub conditions: Vec<Condition>,
    /// What only this kind has.
    pub own: K::Own,
}

impl<K: ExtensionObject> Default for Outcome<K> {
    fn default() -> Self {
        Self {
            provider_status: None,
            state: None,
            resources: Vec::new(),
            conditions: Vec::new(),
            own: K::Own::default(),
        }
    }
}

impl<K: ExtensionObject> Outcome<K> {
    /// An outcome with nothing but the kind's own status.
    pub fn own(own: K::Own) -> Self {
        Self { own, ..Self::default() }
    }
}

/// Does the work for one kind and type. Every method may be cut off at any await and is then called again.
#[async_trait]
pub trait Actuator<K: ExtensionObject>: Send + Sync + 'static {
    /// Reconciles the resources behind `object`. Called for Create and Reconcile; idempotent.
    async fn reconcile(&self, context: &Context, object: &K) -> Result<Outcome<K>, Fault>;

    /// Takes down what `reconcile` made. Fine when there is nothing.
    async fn delete(&self, context: &Context, object: &K) -> Result<(), Fault>;

    /// Cleans up in the seed only; the cloud may be out of reach.
    async fn force_delete(&self, _context: &Context, _object: &K) -> Result<(), Fault> {
        Err(not_yet::<K>("force-delete"))
    }

    /// Forgets without taking down, and leaves behind the state that `restore` needs.
    async fn migrate(&self, _context: &Context, _object: &K) -> Result<Option<RawJson>, Fault> {
        Err(not_yet::<K>("migrate"))
    }

    /// Takes over by the state in `object`.
    async fn restore(&self, _context: &Context, _object: &K) -> Result<Outcome<K>, Fault> {
        Err(not_yet::<K>("restore"))
    }
}

fn not_yet<K: ExtensionObject>(what: &str) -> Fault {
    Fault::bug(format!("this extension cannot {what} a {} yet", K::kind(&())))
        .hint(format!("use a version of the extension that can {what}"))
}

/// Looks at objects another extension is primary for, and reports what it sees.
#[async_trait]
pub trait Observer<K: ExtensionObject>: Send + Sync + 'static {
    /// The conditions to be shown on `object`.
    async fn observe(&self, context: &Context, object: &K) -> Result<Vec<Condition>, Fault>;
}

/// What an actuator works with during one operation.
#[derive(Clone)]
pub struct Context {
    /// The seed.
    pub client: kube::Client,
    /// What time it is.
    pub clock: Clock,
    /// Random numbers.
    pub entropy: Entropy,
    /// Events about the objects.
    pub recorder: Recorder,
    /// The operation has become pointless, because the object has changed or goes, or the process stops.
    pub obsolete: CancellationToken,
    pub(crate) cluster: Option<ClusterView>,
}

/// The operation was given up because its object changed meanwhile.
#[derive(Debug, thiserror::Error)]
#[error("given up: the object has changed meanwhile")]
pub(crate) struct Obsolete;

impl Context {
    /// The shoot the object belongs to. Objects of seeds and backup objects belong to none.
    pub fn cluster(&self) -> Result<&ClusterView, Fault> {
        self.cluster.as_ref().ok_or_else(|| {
            Fault::dependency("the object belongs to no shoot: there is no Cluster named as its namespace")
        })
    }

    /// Waits for `waiting` unless the operation becomes pointless first. For long waits.
    pub async fn unless_obsolete<T>(&self, waiting: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        tokio::select! {
            biased;
            result = waiting => result,
            () = self.obsolete.cancelled() => Err(Fault::transient(Obsolete)),
        }
    }

    /// Shows in the status what the operation waits for ("machine x has not joined: ..."), while it goes on.
    pub async fn say<K: ExtensionObject>(&self, object: &K, text: &str) -> Result<(), Fault> {
        let now = self.clock.now();
        edit_status(&crate::reconcile::api_of::<K>(&self.client, object), object, |fresh| {
            say(fresh, text, now)
        })
        .await
        .map(drop)
    }

    /// Writes the kind's own status before the operation ends: for what others wait for meanwhile.
    pub async fn publish<K: ExtensionObject>(&self, object: &K, own: K::Own) -> Result<(), Fault> {
        edit_status(&crate::reconcile::api_of::<K>(&self.client, object), object, |fresh| {
            fresh.set_own(own.clone())
        })
        .await
        .map(drop)
    }
}
