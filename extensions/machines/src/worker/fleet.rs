//! The objects of Workers in the seed: classes with their Secrets, deployments, and caches of what the machine controllers make
//! of them. It knows no provider.

use std::collections::BTreeMap;

use api_machine::{Machine, MachineClass, MachineDeployment, MachineSet};
use api_meta::{Fault, FaultClass};
use base_client::{WaitState, apply, get, list, patch_changed};
use base_controller::Cache;
use extensions_sdk::Context;
use k8s_openapi::ByteString;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Resource, ResourceExt};

use super::classes::Marks;
use super::plan::{Planned, meta};
use super::waiting::{FREEZE, IN_PLACE, Waiting};
use crate::left_alone::{is_left_alone, leave_alone};
use crate::machines::Machines;
use crate::turns::Turns;

/// The key of a class's Secret with the user data of its machines.
pub const USER_DATA_KEY: &str = "userData";
/// How often a deployment is written that others write at the same time: the machine controllers write its status at each step
/// of a roll, an autoscaler its replicas.
const ATTEMPTS_MAX: usize = 20;

/// What belongs to the Workers of one extension.
pub(super) struct Fleet {
    pub(super) marks: Marks,
    /// The name of the driver.
    pub(super) provider: String,
    pub(super) deployments: Cache<MachineDeployment>,
    pub(super) sets: Cache<MachineSet>,
    pub(super) machines: Cache<Machine>,
    classes: Cache<MachineClass>,
    turns: Turns,
}

/// Objects of a kind in the namespace of a shoot.
pub(super) fn api<K>(context: &Context, namespace: &str) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    Api::namespaced(context.client.clone(), namespace)
}

/// User data by Secret and key: pools share them.
type UserData = BTreeMap<(String, String), ByteString>;

impl Fleet {
    pub(super) fn new(marks: Marks, machines: &Machines) -> Self {
        Self {
            marks,
            provider: machines.provider().to_owned(),
            deployments: machines.deployments(),
            sets: machines.sets(),
            machines: machines.machines(),
            classes: machines.classes(),
            turns: machines.turns(),
        }
    }

    /// Writes classes, their Secrets and deployments, and returns the generation of each deployment.
    ///
    /// # Errors
    /// Those of the API server; the operation is to be called again, with `waiting` or a wait that begins: a deployment is still
    /// going under a name that is wanted.
    pub(super) async fn deploy(
        &self,
        context: &Context,
        namespace: &str,
        planned: &[Planned],
        hibernated: bool,
        waiting: Option<&Waiting>,
    ) -> Result<Vec<i64>, Fault> {
        let user_data = self.user_data(context, namespace, planned).await?;
        // Classes that a migration or a restore was given up with: the machines of a deployment that goes may be of them.
        self.wake(context, namespace).await?;
        let mut generations = Vec::new();
        for plan in planned {
            self.apply_class(context, namespace, plan, &user_data).await?;
            self.wait_removed(context, namespace, plan.name(), waiting).await?;
            generations.push(self.write_deployment(context, namespace, plan, hibernated).await?);
        }
        Ok(generations)
    }

    /// What the machines of `planned` do when they boot.
    ///
    /// # Errors
    /// A dependency fault: there is no such Secret or key.
    pub(super) async fn user_data(
        &self,
        context: &Context,
        namespace: &str,
        planned: &[Planned],
    ) -> Result<UserData, Fault> {
        let secrets: Api<Secret> = api(context, namespace);
        let mut found = UserData::new();
        for plan in planned {
            if found.contains_key(&plan.user_data) {
                continue;
            }
            let (secret, key) = &plan.user_data;
            let data = get(&secrets, secret).await?.and_then(|secret| secret.data);
            let user_data = data.and_then(|mut data| data.remove(key)).ok_or_else(|| {
                Fault::dependency(format!(
                    "pool {}: Secret {secret} has no user data in key {key}",
                    plan.pool
                ))
                .hint("wait until the pool's OperatingSystemConfig has succeeded")
            })?;
            found.insert(plan.user_data.clone(), user_data);
        }
        Ok(found)
    }

    /// Writes the class of `plan` after its Secret.
    pub(super) async fn apply_class(
        &self,
        context: &Context,
        namespace: &str,
        plan: &Planned,
        user_data: &UserData,
    ) -> Result<MachineClass, Fault> {
        let mut data: BTreeMap<String, ByteString> = plan
            .secret_data
            .iter()
            .map(|(key, bytes)| (key.clone(), ByteString(bytes.clone())))
            .collect();
        let of_machines = user_data.get(&plan.user_data).cloned().unwrap_or_default();
        data.insert(USER_DATA_KEY.to_owned(), of_machines);
        let secret = Secret {
            metadata: meta(namespace, plan.class_name(), self.marks),
            data: Some(data),
            type_: Some("Opaque".to_owned()),
            ..Default::default()
        };
        apply(&api::<Secret>(context, namespace), &secret, self.marks.manager).await?;
        apply(
            &api::<MachineClass>(context, namespace),
            &plan.class,
            self.marks.manager,
        )
        .await
    }

    /// Writes the deployment by what it is at this moment: an autoscaler may just have decided about its replicas.
    async fn write_deployment(
        &self,
        context: &Context,
        namespace: &str,
        plan: &Planned,
        hibernated: bool,
    ) -> Result<i64, Fault> {
        let deployments: Api<MachineDeployment> = api(context, namespace);
        let mut attempt = 1;
        loop {
            let present = get(&deployments, plan.name()).await?;
            let mut wanted = plan.deployment.clone();
            let replicas = present
                .as_ref()
                .map(|deployment| deployment.spec.replicas.unwrap_or_default());
            wanted.spec.replicas = Some(plan.replicas(replicas, hibernated));
            let written = match &present {
                None => apply(&deployments, &wanted, self.marks.manager).await,
                Some(present) => patch_changed(&deployments, present, &onto(present, wanted))
                    .await
                    .map(|written| written.unwrap_or_else(|| present.clone())),
            };
            match written {
                Ok(deployment) => return Ok(deployment.metadata.generation.unwrap_or_default()),
                Err(fault) if fault.class == FaultClass::Transient && attempt < ATTEMPTS_MAX => attempt += 1,
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Has the machine controllers work on all machines of the Workers in the namespace.
    pub(super) async fn wake(&self, context: &Context, namespace: &str) -> Result<(), Fault> {
        let classes: Api<MachineClass> = api(context, namespace);
        for class in list(&classes, &self.marks.selector()).await? {
            leave_alone(&classes, &class, None).await?;
        }
        Ok(())
    }

    /// Has the machine controllers leave all machines of the Workers in the namespace alone, and returns once no turn of theirs
    /// runs that began before: none is in the middle of a call of the cloud.
    ///
    /// # Errors
    /// Those of the API server; the operation is to be called again: a turn still runs.
    pub(super) async fn freeze(&self, context: &Context, namespace: &str, reason: &str) -> Result<(), Fault> {
        let classes: Api<MachineClass> = api(context, namespace);
        for class in list(&classes, &self.marks.selector()).await? {
            leave_alone(&classes, &class, Some(reason)).await?;
        }
        let known = self
            .classes
            .wait_in(namespace, "machine classes to be cached", FREEZE.limit, |classes| {
                let ours = |class: &MachineClass| self.marks.are_on(&class.metadata);
                let awake = classes
                    .list_in(namespace)
                    .into_iter()
                    .find(|class| ours(class) && !is_left_alone(class));
                awake.map_or(WaitState::Done(()), |class| {
                    WaitState::NotYet(format!("{} is not yet", class.name_any()))
                })
            });
        let quiet = async {
            known.await.map_err(Fault::from)?;
            self.turns.all_ended(namespace).await;
            Ok(())
        };
        match tokio::time::timeout(IN_PLACE, context.unless_obsolete(quiet)).await {
            Ok(ended) => ended,
            Err(_) => {
                let waiting = context.carried().cloned().unwrap_or_else(Waiting::begun);
                Err(FREEZE.goes_on(context, "calls of the cloud to end that have begun", &waiting))
            }
        }
    }
}

/// The deployment as it is to be: whatever others have set beside what is planned stays.
fn onto(present: &MachineDeployment, wanted: MachineDeployment) -> MachineDeployment {
    let mut after = present.clone();
    let labels = wanted.metadata.labels.unwrap_or_default();
    after.labels_mut().extend(labels);
    let planned = wanted.spec;
    let spec = &mut after.spec;
    spec.replicas = planned.replicas;
    spec.min_ready_seconds = planned.min_ready_seconds;
    spec.revision_history_limit = planned.revision_history_limit;
    spec.selector = planned.selector;
    spec.strategy = planned.strategy;
    spec.template = planned.template;
    after
}
