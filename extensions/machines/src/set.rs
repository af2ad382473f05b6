//! The MachineSet controller: keeps a number of machines there, and passes on to them what of its template they may
//! have without being recreated. It makes and deletes them by a fresh list, never by a cache that
//! may not know its own last machines yet.

mod plan;

use std::sync::Arc;

use api_machine::{Machine, MachineSet};
use api_meta::Fault;
use base_client::{
    add_finalizer, create_or_get, delete, list, patch_changed, patch_status_if_changed, remove_finalizer,
};
use base_controller::{Cache, Next};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Resource, ResourceExt};

use crate::machines::Shared;
use crate::names::FINALIZER;
use crate::passed_on::pass_on;
use plan::{Plan, plan, status};

/// Characters after a machine's name, as generated names have.
const SUFFIX_LENGTH: usize = 5;

/// The MachineSet controller's parts.
pub(crate) struct Sets {
    pub(crate) shared: Shared,
    pub(crate) machines: Cache<Machine>,
}

fn owned(machines: impl IntoIterator<Item = Machine>, set: &MachineSet) -> Vec<Machine> {
    let is_ours = |machine: &Machine| {
        machine
            .owner_references()
            .iter()
            .any(|owner| owner.controller == Some(true) && Some(&owner.uid) == set.metadata.uid.as_ref())
    };
    machines.into_iter().filter(is_ours).collect()
}

impl Sets {
    /// One turn for one set.
    pub(crate) async fn reconcile(self: Arc<Self>, set: Arc<MachineSet>) -> Result<Next, Fault> {
        let namespace = set.namespace().unwrap_or_default();
        let api: Api<MachineSet> = Api::namespaced(self.shared.client.clone(), &namespace);
        let deleting = set.metadata.deletion_timestamp.is_some();
        let replicas = if deleting {
            0
        } else {
            usize::try_from(set.spec.replicas.unwrap_or_default()).unwrap_or(0)
        };
        let known = owned(
            self.machines
                .list_in(&namespace)
                .iter()
                .map(|machine| (**machine).clone()),
            &set,
        );
        let set = if deleting {
            (*set).clone()
        } else {
            add_finalizer(&api, (*set).clone(), FINALIZER).await?
        };
        // A set that goes asks the API server: the cache may not show the machine that was made last, which would stay.
        let (machines, deleted) = if !deleting && plan(replicas, &known) == Plan::default() {
            (known, Vec::new())
        } else {
            let api: Api<Machine> = Api::namespaced(self.shared.client.clone(), &namespace);
            let fresh = owned(list(&api, "").await?, &set);
            let plan = plan(replicas, &fresh);
            self.apply(&api, &set, &plan).await?;
            (fresh, plan.delete)
        };
        if deleting && machines.is_empty() {
            return remove_finalizer(&api, set, FINALIZER).await.map(|_| Next::Change);
        }
        let mut after = set.clone();
        after.status = Some(status(
            &machines,
            set.metadata.generation.unwrap_or_default(),
            set.status.as_ref(),
        ));
        patch_status_if_changed(&api, &set, &after).await?;
        // Last: one machine that takes nothing over must not hide how many there are.
        let goes = |machine: &Machine| machine.metadata.deletion_timestamp.is_some();
        let staying = (machines.iter()).filter(|machine| !goes(machine) && !deleted.contains(&machine.name_any()));
        self.pass_on(&set, staying).await?;
        Ok(Next::Change)
    }

    async fn apply(&self, api: &Api<Machine>, set: &MachineSet, plan: &Plan) -> Result<(), Fault> {
        for name in &plan.delete {
            delete(api, name).await?;
        }
        for _ in 0..plan.create {
            create_or_get(api, &self.machine_of(set)).await?;
        }
        Ok(())
    }

    /// Brings the machines that stay up to date with the set's template, as far as that is done in place.
    async fn pass_on(&self, set: &MachineSet, machines: impl Iterator<Item = &Machine>) -> Result<(), Fault> {
        let Some(template) = set.spec.template.as_ref().and_then(|template| template.spec.as_ref()) else {
            return Ok(());
        };
        let api: Api<Machine> = Api::namespaced(self.shared.client.clone(), &set.namespace().unwrap_or_default());
        let mut failed = None;
        for machine in machines {
            let mut spec = machine.spec.clone();
            pass_on(template, &mut spec);
            if spec != machine.spec {
                let after = Machine {
                    spec,
                    ..machine.clone()
                };
                failed = failed.or(patch_changed(&api, machine, &after).await.err());
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// A new machine after the set's template.
    fn machine_of(&self, set: &MachineSet) -> Machine {
        let template = set.spec.template.clone().unwrap_or_default();
        let mut spec = template.spec.unwrap_or_default();
        spec.class = spec.class.or_else(|| set.spec.machine_class.clone());
        Machine {
            metadata: ObjectMeta {
                name: Some(format!(
                    "{}-{}",
                    set.name_any(),
                    self.shared.entropy.suffix(SUFFIX_LENGTH)
                )),
                namespace: set.metadata.namespace.clone(),
                labels: template.metadata.labels,
                annotations: template.metadata.annotations,
                owner_references: set.controller_owner_ref(&()).map(|owner| vec![owner]),
                finalizers: Some(vec![FINALIZER.to_owned()]),
                ..Default::default()
            },
            spec,
            status: None,
        }
    }
}
