//! Taking over the machines that another seed has left. Machine objects are created with their provider IDs while the machine
//! controllers leave them alone, and the controllers go on once their caches hold all of them: so none is made or removed
//! because it is not known yet.

use std::collections::BTreeSet;
use std::time::Duration;

use api_machine::{Machine, MachineClass, MachineDeployment, MachineSet, SavedMachines};
use api_meta::Fault;
use base_client::{WaitState, create_or_get, get};
use base_controller::Cache;
use extensions_sdk::Context;
use kube::{Api, Resource, ResourceExt};

use super::fleet::{Fleet, api};
use super::inheritance::{Inherited, inherit};
use super::plan::Planned;
use crate::left_alone::{LEFT_ALONE_ANNOTATION, is_left_alone, leave_alone};

/// How long a cache may lag behind what was just written.
const CACHE_TIMEOUT: Duration = Duration::from_secs(60);
/// Why machines are left alone, for people.
const REASON: &str = "restored";

impl Fleet {
    /// Creates what `saved` names. A deployment whose class the controllers work by was taken over before.
    pub(super) async fn take_over(
        &self,
        context: &Context,
        namespace: &str,
        planned: &[Planned],
        saved: &SavedMachines,
        hibernated: bool,
    ) -> Result<(), Fault> {
        let mut open = Vec::new();
        for one in inherit(planned, saved, self.marks, hibernated)? {
            if !self.is_taken_over(context, namespace, &one).await? {
                open.push(one);
            }
        }
        let plans: Vec<Planned> = open.iter().map(|one| one.plan.clone()).collect();
        let user_data = self.user_data(context, namespace, &plans).await?;
        for one in &open {
            for set in &one.sets {
                let mut plan = one.plan.clone();
                plan.class = set.class.clone();
                plan.class
                    .annotations_mut()
                    .insert(LEFT_ALONE_ANNOTATION.to_owned(), REASON.to_owned());
                self.apply_class(context, namespace, &plan, &user_data).await?;
            }
        }
        for one in &open {
            self.create(context, namespace, one).await?;
        }
        self.wait_cached(namespace, &open).await?;
        let classes: Api<MachineClass> = api(context, namespace);
        // The planned class of each deployment comes last: by it the deployment counts as taken over.
        for class in open.iter().flat_map(|one| &one.sets).map(|set| set.class.name_any()) {
            if let Some(class) = get(&classes, &class).await? {
                leave_alone(&classes, &class, None).await?;
            }
        }
        Ok(())
    }

    async fn is_taken_over(&self, context: &Context, namespace: &str, one: &Inherited) -> Result<bool, Fault> {
        let class = get(&api::<MachineClass>(context, namespace), one.plan.class_name()).await?;
        let deployment = get(&api::<MachineDeployment>(context, namespace), one.plan.name()).await?;
        Ok(deployment.is_some() && class.is_some_and(|class| !is_left_alone(&class)))
    }

    async fn create(&self, context: &Context, namespace: &str, one: &Inherited) -> Result<(), Fault> {
        let mut deployment = one.plan.deployment.clone();
        deployment.spec.replicas = Some(one.replicas);
        let deployment = create_or_get(&api(context, namespace), &deployment).await?;
        for inherited in &one.sets {
            let mut set = inherited.set.clone();
            set.metadata.owner_references = deployment.controller_owner_ref(&()).map(|owner| vec![owner]);
            let set = create_or_get(&api::<MachineSet>(context, namespace), &set).await?;
            for machine in &inherited.machines {
                let mut machine = machine.clone();
                machine.metadata.owner_references = set.controller_owner_ref(&()).map(|owner| vec![owner]);
                create_or_get(&api::<Machine>(context, namespace), &machine).await?;
            }
        }
        Ok(())
    }

    async fn wait_cached(&self, namespace: &str, open: &[Inherited]) -> Result<(), Fault> {
        let sets = open.iter().flat_map(|one| &one.sets);
        let names = sets.clone().map(|inherited| inherited.set.name_any()).collect();
        wait_for(&self.sets, namespace, "machine sets to be cached", names).await?;
        let machines = sets.flat_map(|inherited| &inherited.machines);
        let names = machines.map(ResourceExt::name_any).collect();
        wait_for(&self.machines, namespace, "machines to be cached", names).await
    }
}

async fn wait_for<K>(cache: &Cache<K>, namespace: &str, what: &str, names: BTreeSet<String>) -> Result<(), Fault>
where
    K: Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
{
    let cached = cache.wait_in(namespace, what, CACHE_TIMEOUT, |objects| {
        let known: BTreeSet<String> = objects.list_in(namespace).iter().map(|one| one.name_any()).collect();
        match names.difference(&known).next() {
            None => WaitState::Done(()),
            Some(name) => WaitState::NotYet(format!("{name} is not known yet")),
        }
    });
    cached.await.map_err(Fault::from)
}
