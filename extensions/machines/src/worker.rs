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

use api_extensions::{MachineDeployment as DeploymentInfo, Worker};
use api_machine::SavedMachines;
use api_meta::Fault;
use async_trait::async_trait;
use extensions_sdk::{Actuator, Change, Context, Outcome, Saved, WorkerOwn};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use crate::machines::Machines;
use fleet::Fleet;
use joining::Joining;

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

    async fn reconciled(&self, context: &Context, object: &Worker) -> Result<Outcome<Worker>, Fault> {
        let outcome = self.bring_about(context, object).await?;
        self.classes.after_reconcile(context, object).await?;
        Ok(outcome)
    }

    async fn bring_about(&self, context: &Context, object: &Worker) -> Result<Outcome<Worker>, Fault> {
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
        let generations = fleet.deploy(context, &namespace, &planned, hibernated).await?;
        fleet.try_again(context, &namespace).await?;
        let own = own_status(context, &planned);
        context.publish(object, own.clone()).await?;
        let where_to_look = self.classes.where_to_look();
        let joining = Joining::new(fleet, &namespace, &planned, &generations, where_to_look);
        joining.wait(context, object).await?;
        fleet.remove_others(context, &namespace, &planned).await?;
        Ok(Outcome {
            provider_status,
            ..Outcome::own(own)
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
        self.classes.before_reconcile(context, object).await?;
        self.reconciled(context, object).await
    }

    async fn delete(&self, context: &Context, object: &Worker) -> Result<(), Fault> {
        self.classes.before_delete(context, object).await?;
        let namespace = object.namespace().unwrap_or_default();
        self.fleet.remove_all(context, &namespace).await?;
        self.classes.after_delete(context, object).await
    }

    /// Deletes machines while their cloud lets it, for a minute; then it forgets those that are left.
    async fn force_delete(&self, context: &Context, object: &Worker) -> Result<(), Fault> {
        let namespace = object.namespace().unwrap_or_default();
        self.fleet.forget_all(context, &namespace).await
    }

    /// Machine objects stay, for gardenlet to store and to delete; from now on no controller touches them or their machines.
    async fn migrate(&self, context: &Context, object: &Worker) -> Result<Saved, Fault> {
        let namespace = object.namespace().unwrap_or_default();
        self.fleet.freeze(context, &namespace, "migrated").await?;
        Ok(Saved::default())
    }

    /// Takes over the machines that the state names, which gardenlet has put there, then reconciles.
    async fn restore(&self, context: &Context, object: &Worker) -> Result<Outcome<Worker>, Fault> {
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
        self.reconciled(context, object).await
    }
}
