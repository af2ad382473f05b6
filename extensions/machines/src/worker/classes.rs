//! What a provider writes for its Workers: the part of a machine class that only it knows. It never writes objects: the
//! [`crate::Workers`] around it do.

use std::collections::BTreeMap;

use api_extensions::{Worker, WorkerPool};
use api_meta::{Fault, RawJson, SecretReference};
use async_trait::async_trait;
use extensions_sdk::{Change, Context};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// How an extension recognises what it made for Workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// Label on every object and on every machine: its key. It is part of the template of machines, so another key or value
    /// replaces all of them.
    pub label: &'static str,
    /// Its value.
    pub value: &'static str,
    /// The field manager that objects are applied by: the extension's name.
    pub manager: &'static str,
}

impl Marks {
    /// The selector of what the extension made for Workers.
    pub(crate) fn selector(&self) -> String {
        format!("{}={}", self.label, self.value)
    }

    /// Whether an object has the label.
    pub(crate) fn are_on(&self, metadata: &ObjectMeta) -> bool {
        let labels = metadata.labels.as_ref();
        labels.and_then(|labels| labels.get(self.label)).map(String::as_str) == Some(self.value)
    }

    /// The label.
    pub(crate) fn labels(&self) -> BTreeMap<String, String> {
        BTreeMap::from([(self.label.to_owned(), self.value.to_owned())])
    }
}

/// A pool in one of its zones.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The Worker.
    pub worker: &'a Worker,
    /// The pool.
    pub pool: &'a WorkerPool,
    /// The zone as the pool names it; empty for a pool without zones.
    pub zone: &'a str,
}

/// What the provider knows of the machines of a pool in a zone. Fields beside those of [`ClassPart::new`] have defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassPart {
    /// The zone's number, from 1, which ends the name of the machine deployment (`z1`). It must stay the zone's own whatever
    /// happens to other zones: machines of a zone that has another number are made again.
    pub number: u32,
    /// `providerSpec` of the class, for the driver. It is not part of the hash: what must replace machines when it changes
    /// belongs into [`ClassPart::hash_data`] too.
    pub provider_spec: RawJson,
    /// What replaces all machines of the pool in this zone when it changes, in this order; beside what gardenlet has put into
    /// the pool's `nodeAgentSecretName`.
    pub hash_data: Vec<String>,
    /// Further keys of the class's Secret, beside `userData`.
    pub secret_data: BTreeMap<String, Vec<u8>>,
    /// The Secret with the cloud's credentials, which the driver reads at each call: usually `spec.secretRef` of the Worker.
    pub credentials: Option<SecretReference>,
    /// What nodes have, in place of the pool's own statement.
    pub capacity: Option<BTreeMap<String, Quantity>>,
    /// The zone as nodes name it in `topology.kubernetes.io/zone`, where it is another name than the pool's.
    pub node_zone: Option<String>,
}

impl ClassPart {
    /// The part of a class that needs nothing but its `providerSpec`.
    pub fn new(number: u32, provider_spec: RawJson) -> Self {
        Self {
            number,
            provider_spec,
            hash_data: Vec::new(),
            secret_data: BTreeMap::new(),
            credentials: None,
            capacity: None,
            node_zone: None,
        }
    }
}

/// The machine classes of one provider. Hooks do nothing unless they are written. Every method may be cut off at any await and
/// is called again.
#[async_trait]
pub trait MachineClasses: Send + Sync + 'static {
    /// What classes are made from beside the Worker: decoded configuration and status, images, what the cloud was asked.
    type Facts: Send + Sync;

    /// How the extension recognises what it made for Workers.
    fn marks(&self) -> Marks;

    /// Reads what classes are made from.
    ///
    /// # Errors
    /// Something is missing, or is not as it must be. Nothing has been written.
    async fn facts(&self, context: &Context, worker: &Worker) -> Result<Self::Facts, Fault>;

    /// The provider's part of the class of a pool in a zone. Pure: the same facts make the same class.
    ///
    /// # Errors
    /// The pool cannot be made there. Nothing has been written.
    fn class(&self, facts: &Self::Facts, place: Place<'_>) -> Result<ClassPart, Fault>;

    /// `status.providerStatus` of the Worker, written before its machines are: such as images of machines that are no longer in
    /// the cloud profile.
    ///
    /// # Errors
    /// A bug: it cannot be JSON.
    fn provider_status(&self, _facts: &Self::Facts, _worker: &Worker) -> Result<Change<RawJson>, Fault> {
        Ok(Change::Keep)
    }

    /// Where to look when a machine has not joined, in the words of this provider.
    fn where_to_look(&self) -> &str {
        "the machine named, at its console and at its OperatingSystemConfig"
    }

    /// Called before anything else of a reconcile.
    ///
    /// # Errors
    /// End the operation.
    async fn before_reconcile(&self, _context: &Context, _worker: &Worker) -> Result<(), Fault> {
        Ok(())
    }

    /// Called once all machines have joined and those that were replaced are gone.
    ///
    /// # Errors
    /// End the operation.
    async fn after_reconcile(&self, _context: &Context, _worker: &Worker) -> Result<(), Fault> {
        Ok(())
    }

    /// Called before machines are deleted.
    ///
    /// # Errors
    /// End the operation.
    async fn before_delete(&self, _context: &Context, _worker: &Worker) -> Result<(), Fault> {
        Ok(())
    }

    /// Called once all machines are gone; not when their deletion was forced.
    ///
    /// # Errors
    /// End the operation.
    async fn after_delete(&self, _context: &Context, _worker: &Worker) -> Result<(), Fault> {
        Ok(())
    }
}
