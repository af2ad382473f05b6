//! What a provider writes: how one machine is made, looked at and removed. A driver never touches Machine
//! objects and caches nothing in memory that matters: it may be called again after a crash at any call.

use api_machine::{Machine, MachineClass};
use api_meta::Fault;
use async_trait::async_trait;
use base_controller::ObjectKey;
use futures::stream::BoxStream;

/// Which machine.
#[derive(Clone, Copy, Debug)]
pub struct MachineRequest<'a> {
    /// The machine object.
    pub machine: &'a Machine,
    /// How it is made.
    pub class: &'a MachineClass,
}

impl MachineRequest<'_> {
    /// The shoot's namespace in the seed.
    pub fn namespace(&self) -> &str {
        self.machine.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// The machine's name.
    pub fn name(&self) -> &str {
        self.machine.metadata.name.as_deref().unwrap_or_default()
    }
}

/// A machine has been made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// As the provider names it; goes into `spec.providerID`.
    pub provider_id: String,
    /// The name its Node will have.
    pub node_name: String,
}

/// What the provider reports of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriverState {
    /// It exists; with how it stands, if the provider tells more.
    Exists(Option<Standing>),
    /// It does not exist (any more).
    Gone,
}

/// How a machine stands at its provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// For people.
    pub text: String,
    /// Whether its cluster has refused the bootstrap token that it was born with, as far as the provider can tell.
    pub token_refused: bool,
}

/// Makes, shows and removes machines of one provider.
#[async_trait]
pub trait Driver: Send + Sync + 'static {
    /// Value of `provider` in this driver's MachineClasses.
    fn provider(&self) -> &str;

    /// Makes the machine, or finds that it has been made already.
    async fn create(&self, request: MachineRequest<'_>) -> Result<Created, Fault>;

    /// Looks at the machine.
    async fn status(&self, request: MachineRequest<'_>) -> Result<DriverState, Fault>;

    /// Removes the machine and returns once it is gone; fine when there is none.
    async fn delete(&self, request: MachineRequest<'_>) -> Result<(), Fault>;

    /// Machine objects whose machine has changed at the provider, for drivers that can watch it.
    fn changes(&self) -> BoxStream<'static, ObjectKey> {
        Box::pin(futures::stream::pending())
    }
}
