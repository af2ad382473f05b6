//! Workers: machine classes and deployments for every pool and zone, and the wait until their machines have joined. What only a
//! provider knows comes from its [`MachineClasses`]; the machines themselves are made by the machine controllers and its driver.
//! It follows gardener/gardener v1.150 extensions/pkg/controller/worker/genericactuator.

mod classes;
mod distribute;
mod fleet;
mod hash;
mod inheritance;
mod joining;
mod plan;
mod readiness;
mod removal;
mod takeover;
mod waiting;

use std::sync::Arc;

use api_extensions::{MachineDeployment as DeploymentInfo, Worker};
use api_machine::SavedMachines;
use api_meta::Fault;
use async_trait::async_trait;
use extensions_sdk::{Actuator, Change, Context, Outcome, Registration, Saved, WorkerOwn};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use crate::machines::Machines;
use fleet::Fleet;
use joining::Joining;
use waiting::{Deployed, Waiting};

pub use classes::{ClassPart, MachineClasses, Marks, Place};
pub use fleet::USER_DATA_KEY;
pub use plan::{Planned, plan};

/// The actuator of Workers of one provider.
pub struct Workers<P> {
    classes: P,
    fleet: Fleet,
}

impl<P: MachineClasses> Workers<P> {
    /// Workers whose machines are made by `machines`, with classes of `classes`.
    pub fn new(classes: P, machines: &Machines) -> Self {
        let fleet = Fleet::new(classes.marks(), machines);
        Self { classes, fleet }
    }

    fn planned(&self, worker: &Worker, facts: &P::Facts) -> Result<Vec<Planned>, Fault> {
        plan(worker, &self.fleet.provider, self.fleet.marks, |place| {
            self.classes.class(facts, place)
        })
    }

    /// The registration of an actuator of Workers of this type: its waits go on when machines change.
    #[must_use]
    pub fn registration(&self, type_: &str) -> Registration<Worker> {
        let Fleet {
            deployments,
            sets,
            machines,
            ..
        } = &self.fleet;
        Registration::of_type(type_)
            .resumed_by(deployments)
            .resumed_by(sets)
            .resumed_by(machines)
    }

    /// Writes what the machine controllers work by.
    async fn deploy(
        &self,
        context: &Context,
        object: &Worker,
        waiting: Option<&Waiting>,
    ) -> Result<Arc<Deployed>, Fault> {
        let namespace = object.namespace().unwrap_or_default();
        let facts = self.classes.facts(context, object).await?;
        let planned = self.planned(object, &facts)?;
        let hibernated = context.cluster()?.is_hibernated();
        let provider_status = self.classes.provider_status(&facts, object)?;
        if provider_status != Change::Keep {
            let saved = Saved {
                provider_status: provider_status.clone(),
                ..Saved::default()
            };
            context.persist(object, saved).await?;
        }
        let fleet = &self.fleet;
        let at = context.clock.now();
        let generations = fleet.deploy(context, &namespace, &planned, hibernated, waiting).await?;
        fleet.try_again(context, &namespace).await?;
        let own = own_status(context, &planned);
        context.publish(object, own.clone()).await?;
        Ok(Arc::new(Deployed {
            planned,
            generations,
            provider_status,
            own,
            at,
        }))
    }

    /// From what was `deployed`, or is to be, to machines that have joined and others that have gone.
    async fn reconciled(
        &self,
        context: &Context,
        object: &Worker,
        waiting: Option<Waiting>,
    ) -> Result<Outcome<Worker>, Fault> {
        let namespace = object.namespace().unwrap_or_default();
        let mut waiting = waiting;
        let deployed = match waiting.as_ref().and_then(|waiting| waiting.deployed.clone()) {
            Some(deployed) => deployed,
            None => {
                let deployed = self.deploy(context, object, waiting.as_ref()).await?;
                waiting = None;
                deployed
            }
        };
        let mut waiting = waiting.unwrap_or_else(|| Waiting::for_machines_to_join(deployed.clone()));
        if !waiting.joined {
            let where_to_look = self.classes.where_to_look();
            let joining = Joining::new(&self.fleet, &namespace, &deployed, where_to_look);
            joining.wait(context, &waiting).await?;
            waiting = Waiting::for_others_to_go(deployed.clone());
        }
        let removing = self
            .fleet
            .remove_others(context, &namespace, &deployed.planned, &waiting);
        removing.await?;
        self.classes.after_reconcile(context, object).await?;
        Ok(Outcome {
            provider_status: deployed.provider_status.clone(),
            ..Outcome::own(deployed.own.clone())
        })
    }
}

fn own_status(context: &Context, planned: &[Planned]) -> WorkerOwn {
    let machine_deployments = planned
        .iter()
        .map(|plan| DeploymentInfo {
            name: plan.deployment.name_any(),
            minimum: plan.minimum,
            maximum: plan.maximum,
            priority: plan.priority,
            ..Default::default()
        })
        .collect();
    WorkerOwn {
        machine_deployments,
        last_update_time: Some(Time(context.clock.now())),
    }
}

#[async_trait]
impl<P: MachineClasses> Actuator<Worker> for Workers<P> {
    async fn reconcile(&self, context: &Context, object: &Worker) -> Result<Outcome<Worker>, Fault> {
        let waiting = context.carried::<Waiting>().cloned();
        if waiting.is_none() {
            self.classes.before_reconcile(context, object).await?;
        }
        self.reconciled(context, object, waiting).await
    }

    async fn delete(&self, context: &Context, object: &Worker) -> Result<(), Fault> {
        if Waiting::of_deletion(context, false).is_none() {
            self.classes.before_delete(context, object).await?;
        }
        let namespace = object.namespace().unwrap_or_default();
        self.fleet.remove_all(context, &namespace).await?;
        self.classes.after_delete(context, object).await
    }

    /// Deletes machines while their cloud lets it, for a minute; then it forgets those that are left.
    async fn force_delete(&self, context: &Context, object: &Worker) -> Result<(), Fault> {
        let namespace = object.namespace().unwrap_or_default();
        self.fleet.forget_all(context, &namespace).await
    }

    /// Machine objects stay, for gardenlet to store and to delete. Once it has succeeded, no controller touches them or their
    /// machines, and no call of the cloud that had begun is still on its way.
    async fn migrate(&self, context: &Context, object: &Worker) -> Result<Saved, Fault> {
        let namespace = object.namespace().unwrap_or_default();
        self.fleet.freeze(context, &namespace, "migrated").await?;
        Ok(Saved::default())
    }

    /// Takes over the machines that the state names, which gardenlet has put there, then reconciles.
    async fn restore(&self, context: &Context, object: &Worker) -> Result<Outcome<Worker>, Fault> {
        let waiting = context.carried::<Waiting>().cloned();
        if waiting.as_ref().is_some_and(|waiting| waiting.deployed.is_some()) {
            return self.reconciled(context, object, waiting).await;
        }
        self.classes.before_reconcile(context, object).await?;
        if let Some(saved) = context.state::<SavedMachines>(object)? {
            let namespace = object.namespace().unwrap_or_default();
            let facts = self.classes.facts(context, object).await?;
            let planned = self.planned(object, &facts)?;
            let hibernated = context.cluster()?.is_hibernated();
            self.fleet
                .take_over(context, &namespace, &planned, &saved, hibernated)
                .await?;
        }
        self.reconciled(context, object, waiting).await
    }
}
