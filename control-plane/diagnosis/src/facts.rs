//! What is known about a Shoot and what stands around it, as values. It never reads anything and concludes nothing.

use std::collections::BTreeMap;

use api_core::v1beta1::{ControllerDeployment, ControllerInstallation, ControllerRegistration, Seed, Shoot};
use api_meta::{Condition, ObjectName, OperationReport, Seen, WebhookFailure};
use control_plane_readiness::{Reported, Webhook};
use jiff::Timestamp;

use crate::plan::Located;

/// Everything that `why` looks at.
#[derive(Clone, Debug)]
pub struct Facts {
    /// When it was looked at.
    pub now: Timestamp,
    /// The Shoot.
    pub shoot: Shoot,
    /// The Seed it is on; `Absent` also if it is on none.
    pub seed: Seen<Seed>,
    /// When the seed's gardenlet has renewed its lease last.
    pub gardenlet: Seen<Timestamp>,
    /// All registrations.
    pub registrations: Seen<Vec<ControllerRegistration>>,
    /// All installations.
    pub installations: Seen<Vec<ControllerInstallation>>,
    /// What the seed has of it; `Absent` if it has not got a namespace there yet.
    pub in_seed: Seen<InSeed>,
}

impl Facts {
    /// The Shoot as an object of the garden.
    #[must_use]
    pub fn itself(&self) -> ObjectName {
        let metadata = &self.shoot.metadata;
        ObjectName::new(
            "Shoot",
            metadata.namespace.as_deref(),
            metadata.name.clone().unwrap_or_default(),
        )
    }

    /// An object of the seed it is on.
    #[must_use]
    pub fn in_its_seed(&self, object: ObjectName) -> Located {
        Located::in_seed(object, self.seed_name().unwrap_or_default())
    }

    /// What gardenlet, or while there is no seed the scheduler, has reported of the last operation as data; nothing where there is no report about the status as it is.
    #[must_use]
    pub fn report(&self) -> Option<OperationReport> {
        let status = self.shoot.status.as_ref()?;
        let annotations = self.shoot.metadata.annotations.as_ref();
        OperationReport::current(annotations, status.observed_generation, status.last_operation.as_ref())
    }

    /// The webhooks of the seed, as far as they can be seen.
    #[must_use]
    pub fn webhooks(&self) -> &[Webhook] {
        self.in_seed.present().map_or(&[], InSeed::known_webhooks)
    }

    /// The name of the seed it is on.
    #[must_use]
    pub fn seed_name(&self) -> Option<&str> {
        let status = self.shoot.status.as_ref();
        let home = status.and_then(|status| status.seed_name.as_deref());
        home.or(self.shoot.spec.seed_name.as_deref())
    }
}

/// What the seed has of a Shoot.
#[derive(Clone, Debug)]
pub struct InSeed {
    /// Its extension objects.
    pub extensions: Seen<Vec<ExtensionFact>>,
    /// What runs its control plane.
    pub workloads: Seen<Vec<Workload>>,
    /// What is to be applied inside it.
    pub resources: Seen<Vec<Resource>>,
    /// Its machines.
    pub machines: Seen<Vec<Machine>>,
    /// Where the extensions of the seed run.
    pub controllers: Vec<Controller>,
    /// What webhooks have refused there, as events tell it.
    pub refusals: Seen<Vec<Refusal>>,
    /// All webhooks of the seed.
    pub webhooks: Seen<Vec<Webhook>>,
    /// The labels of the Shoot's namespace.
    pub labels: BTreeMap<String, String>,
}

impl InSeed {
    /// The webhooks of the seed, as far as they can be seen.
    #[must_use]
    pub fn known_webhooks(&self) -> &[Webhook] {
        self.webhooks.present().map_or(&[], Vec::as_slice)
    }
}

/// What an event says of an object that a webhook has refused.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The object.
    pub object: ObjectName,
    /// The webhook.
    pub webhook: WebhookFailure,
    /// The message.
    pub message: String,
    /// When it was said last.
    pub at: Option<Timestamp>,
}

/// What is known about a ControllerInstallation and what stands around it.
#[derive(Clone, Debug)]
pub struct InstallationFacts {
    /// When it was looked at.
    pub now: Timestamp,
    /// The installation.
    pub installation: ControllerInstallation,
    /// What installs it; `Absent` also if its registration names none.
    pub deployment: Seen<ControllerDeployment>,
    /// What the seed has of it.
    pub in_seed: Seen<Installed>,
}

impl InstallationFacts {
    /// The name of the seed it is for.
    #[must_use]
    pub fn seed_name(&self) -> &str {
        let seed = self.installation.spec.seed_ref.as_ref();
        seed.and_then(|seed| seed.name.as_deref()).unwrap_or_default()
    }
}

/// What the seed has of a ControllerInstallation.
#[derive(Clone, Debug)]
pub struct Installed {
    /// The ManagedResource with what its chart holds; `Absent` also if it is as it should be.
    pub resource: Seen<Resource>,
    /// What applies it.
    pub resource_manager: Seen<Workload>,
    /// Where its pods run.
    pub controller: Controller,
    /// All webhooks of the seed.
    pub webhooks: Seen<Vec<Webhook>>,
}

/// An extension object.
#[derive(Clone, Debug)]
pub struct ExtensionFact {
    /// Which one.
    pub id: ObjectName,
    /// What it says of itself.
    pub reported: Reported,
    /// When its deletion was asked for.
    pub deleting: Option<Timestamp>,
    /// Who holds it.
    pub finalizers: Vec<String>,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// A Deployment or StatefulSet with its pods.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Which one.
    pub object: ObjectName,
    /// How many pods it wants.
    pub wanted: i32,
    /// Why it does not run as it should.
    pub trouble: Option<String>,
    /// Its pods.
    pub pods: Vec<PodFact>,
}

impl Workload {
    /// One of its pods.
    #[must_use]
    pub fn pod(&self, pod: &PodFact) -> ObjectName {
        ObjectName::new("Pod", self.object.namespace.as_deref(), &pod.name)
    }
}

/// A pod.
#[derive(Clone, Debug, Default)]
pub struct PodFact {
    /// Its name.
    pub name: String,
    /// Why it does not run, as a reason and a message.
    pub trouble: Option<(String, String)>,
    /// Since when it is as it is.
    pub since: Option<Timestamp>,
}

/// A ManagedResource that is not as it should be.
#[derive(Clone, Debug)]
pub struct Resource {
    /// Which one.
    pub object: ObjectName,
    /// For whom it is applied: nothing means the Shoot.
    pub class: Option<String>,
    /// What is wrong.
    pub trouble: String,
    /// The webhook that stands behind it.
    pub webhook: Option<WebhookFailure>,
    /// Since when.
    pub since: Option<Timestamp>,
    /// When its deletion was asked for.
    pub deleting: Option<Timestamp>,
}

/// A machine that has not joined.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Which one.
    pub object: ObjectName,
    /// What has been reported of it.
    pub report: String,
    /// Whether its cluster has refused its bootstrap token.
    pub is_refused: bool,
    /// When that was said.
    pub since: Option<Timestamp>,
}

/// Where the pods of one installation run.
#[derive(Clone, Debug)]
pub struct Controller {
    /// The installation's name.
    pub installation: String,
    /// Its namespace in the seed.
    pub namespace: String,
    /// What runs there.
    pub workloads: Seen<Vec<Workload>>,
    /// When it has renewed its heartbeat last.
    pub heartbeat: Seen<Timestamp>,
}

/// The conditions of a Shoot.
#[must_use]
pub fn conditions(shoot: &Shoot) -> &[Condition] {
    shoot.status.as_ref().map_or(&[], |status| &status.conditions)
}
