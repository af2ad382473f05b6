//! Worker: machine classes and deployments for every pool and zone, and the wait until their machines have joined.
//! The machines themselves are made by the machine controllers.

mod plan;
mod readiness;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api_extensions::{MachineDeployment as DeploymentInfo, Worker};
use api_machine::{Machine, MachineClass, MachineDeployment, MachineSet};
use api_meta::{Fault, FaultClass, without_hint};
use async_trait::async_trait;
use base_client::{Judgement, apply, delete, get, list, patch_changed};
use base_controller::Cache;
use extensions_machines::{FORCE_DELETION_LABEL, Machines};
use extensions_sdk::{Actuator, Context, Outcome, WorkerOwn};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Api, ResourceExt};

use crate::driver::USER_DATA_KEY;
use crate::objects::{MADE_FOR_LABEL, apply_secret, meta};
use crate::provider_status::InfrastructureStatus;
use crate::run::EXTENSION_NAME;
use plan::{Facts, MADE_FOR, NAME_LABEL, Planned, plan};
use readiness::{Missing, Wanted, missing};

/// How long machines may take to join before the Worker reports an error and tries on (upstream's value).
const JOIN_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// How long a reason stands before the status shows it: most waits are over sooner and need no write.
const SAY_AFTER: Duration = Duration::from_secs(2);
/// How long machines may take to go.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// The actuator of Workers.
pub(crate) struct Workers {
    provider: String,
    deployments: Cache<MachineDeployment>,
    sets: Cache<MachineSet>,
    machines: Cache<Machine>,
}

impl Workers {
    pub(crate) fn new(provider: &str, machines: &Machines) -> Self {
        Self {
            provider: provider.to_owned(),
            deployments: machines.deployments(),
            sets: machines.sets(),
            machines: machines.machines(),
        }
    }

    /// Writes classes, their Secrets and deployments, and returns the generation of each deployment.
    async fn deploy(&self, context: &Context, namespace: &str, planned: &[Planned]) -> Result<Vec<i64>, Fault> {
        let secrets: Api<Secret> = Api::namespaced(context.client.clone(), namespace);
        let classes: Api<MachineClass> = Api::namespaced(context.client.clone(), namespace);
        let deployments: Api<MachineDeployment> = Api::namespaced(context.client.clone(), namespace);
        let mut generations = Vec::new();
        for plan in planned {
            let (secret, key) = &plan.user_data;
            let data = get(&secrets, secret).await?.and_then(|secret| secret.data);
            let user_data = data.and_then(|mut data| data.remove(key)).ok_or_else(|| {
                Fault::dependency(format!(
                    "pool {}: Secret {secret} has no user data in key {key}",
                    plan.pool
                ))
                .hint("wait until the pool's OperatingSystemConfig has succeeded")
            })?;
            let name = plan.class.name_any();
            let data = BTreeMap::from([(USER_DATA_KEY.to_owned(), user_data.0)]);
            apply_secret(&context.client, meta(namespace, &name, MADE_FOR), data).await?;
            apply(&classes, &plan.class, EXTENSION_NAME).await?;
            let applied = apply(&deployments, &plan.deployment, EXTENSION_NAME).await?;
            generations.push(applied.metadata.generation.unwrap_or_default());
        }
        Ok(generations)
    }

    /// Waits until all machines have joined, and shows in the status what it waits for.
    async fn wait(
        &self,
        context: &Context,
        object: &Worker,
        planned: &[Planned],
        generations: &[i64],
    ) -> Result<(), Fault> {
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        let wanted: Vec<Wanted<'_>> = planned
            .iter()
            .zip(generations)
            .map(|(plan, generation)| Wanted {
                name: plan.deployment.metadata.name.as_deref().unwrap_or_default(),
                class: plan.class.metadata.name.as_deref().unwrap_or_default(),
                replicas: plan.deployment.spec.replicas.unwrap_or_default(),
                generation: *generation,
            })
            .collect();
        let look = || {
            let (deployments, machines) = (self.deployments.list_in(namespace), self.machines.list_in(namespace));
            let deployments: Vec<&MachineDeployment> = deployments.iter().map(|deployment| &**deployment).collect();
            let machines: Vec<&Machine> = machines.iter().map(|machine| &**machine).collect();
            missing(&wanted, &deployments, &machines)
        };
        let check = |_: &Cache<MachineDeployment>| match look() {
            None => Judgement::Done(()),
            Some(Missing { reason, .. }) => Judgement::NotYet(reason),
        };
        let joined = async {
            self.deployments
                .wait_in(namespace, "machines to join", JOIN_TIMEOUT, check)
                .await
                .map_err(|waited| {
                    // The deployment's own change is the last of a chain; the machines' reason may be newer than it.
                    let missing = look().unwrap_or_else(|| Missing::because(waited.to_string()));
                    match Fault::from(waited) {
                        fault if fault.class == FaultClass::Dependency => not_joined(&missing),
                        fault => fault,
                    }
                })
        };
        let saying = async {
            let mut changes = self.machines.subscribe_in(namespace);
            let mut message = None;
            loop {
                tokio::time::sleep(SAY_AFTER).await;
                let reason = look().map(|missing| missing.reason);
                if reason.is_some() && reason != message {
                    let reported = context
                        .say(object, &format!("Waiting: {}", reason.as_deref().unwrap_or_default()))
                        .await;
                    if let Err(fault) = reported {
                        tracing::debug!("{fault}");
                    }
                    message = reason;
                }
                changes.next().await;
            }
        };
        tokio::select! {
            biased;
            joined = context.unless_obsolete(joined) => joined,
            never = saying => never,
        }
    }

    /// Deletes deployments, then classes and their Secrets, that are not among `keep`.
    async fn remove_stale(&self, context: &Context, namespace: &str, keep: &[Planned]) -> Result<(), Fault> {
        let ours = format!("{MADE_FOR_LABEL}={MADE_FOR}");
        let deployments: Api<MachineDeployment> = Api::namespaced(context.client.clone(), namespace);
        let retained: BTreeSet<String> = keep.iter().map(|plan| plan.deployment.name_any()).collect();
        let stale: BTreeSet<String> = list(&deployments, &ours)
            .await?
            .iter()
            .map(|deployment| deployment.name_any())
            .filter(|name| !retained.contains(name))
            .collect();
        for name in &stale {
            delete(&deployments, name).await?;
        }
        if !stale.is_empty() {
            self.wait_gone(context, namespace, &stale).await?;
        }
        let retained: BTreeSet<String> = keep.iter().map(|plan| plan.class.name_any()).collect();
        self.wait_unused(context, namespace, &retained).await?;
        let classes: Api<MachineClass> = Api::namespaced(context.client.clone(), namespace);
        let secrets: Api<Secret> = Api::namespaced(context.client.clone(), namespace);
        for name in list(&classes, &ours).await?.iter().map(|class| class.name_any()) {
            if !retained.contains(&name) {
                delete(&classes, &name).await?;
            }
        }
        for name in list(&secrets, &ours).await?.iter().map(|secret| secret.name_any()) {
            if !retained.contains(&name) {
                delete(&secrets, &name).await?;
            }
        }
        Ok(())
    }

    /// Waits until no machine set is of a class that is not among `retained`: a machine can only be removed by its
    /// class.
    async fn wait_unused(&self, context: &Context, namespace: &str, retained: &BTreeSet<String>) -> Result<(), Fault> {
        let what = "replaced machines to go";
        let unused = self.sets.wait_in(namespace, what, REMOVAL_TIMEOUT, |sets| {
            let old = sets.list_in(namespace).into_iter().find(|set| {
                let spec = set.spec.template.as_ref().and_then(|template| template.spec.as_ref());
                let class = spec
                    .and_then(|spec| spec.class.as_ref())
                    .and_then(|class| class.name.as_ref());
                class.is_some_and(|class| !retained.contains(class))
            });
            old.map_or(Judgement::Done(()), |set| {
                Judgement::NotYet(format!("still there: {}", set.name_any()))
            })
        });
        context
            .unless_obsolete(async { unused.await.map_err(Fault::from) })
            .await
    }

    /// Waits until these deployments and their machines are gone.
    async fn wait_gone(&self, context: &Context, namespace: &str, stale: &BTreeSet<String>) -> Result<(), Fault> {
        let is_stale = |machine: &Machine| {
            machine
                .labels()
                .get(NAME_LABEL)
                .is_some_and(|name| stale.contains(name))
        };
        let gone = self
            .deployments
            .wait_in(namespace, "machines to go", REMOVAL_TIMEOUT, |deployments| {
                let left = deployments
                    .list_in(namespace)
                    .iter()
                    .any(|deployment| stale.contains(&deployment.name_any()));
                if !left {
                    return Judgement::Done(());
                }
                let machines = self.machines.list_in(namespace);
                let names: Vec<String> = machines
                    .iter()
                    .filter(|machine| is_stale(machine))
                    .map(|machine| machine.name_any())
                    .collect();
                Judgement::NotYet(format!("still there: {}", names.join(", ")))
            });
        context.unless_obsolete(async { gone.await.map_err(Fault::from) }).await
    }

    /// Marks all machines so that no drain waits for their nodes: the cluster goes as a whole.
    async fn force_machines(&self, context: &Context, namespace: &str) -> Result<(), Fault> {
        let machines: Api<Machine> = Api::namespaced(context.client.clone(), namespace);
        let ours = format!("{MADE_FOR_LABEL}={MADE_FOR}");
        for machine in list(&machines, &ours).await? {
            let mut after = machine.clone();
            after
                .labels_mut()
                .insert(FORCE_DELETION_LABEL.to_owned(), "True".to_owned());
            match patch_changed(&machines, &machine, &after).await {
                // Its controller writes it at the same time, or has finished with it.
                Err(fault) if !matches!(fault.class, FaultClass::Transient | FaultClass::Dependency) => {
                    return Err(fault);
                }
                _ => {}
            }
        }
        Ok(())
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
impl Actuator<Worker> for Workers {
    async fn reconcile(&self, context: &Context, object: &Worker) -> Result<Outcome<Worker>, Fault> {
        let namespace = object.namespace().unwrap_or_default();
        let raw = object.spec.infrastructure_provider_status.as_ref();
        let infrastructure = InfrastructureStatus::read(raw, "the Worker")?;
        let hibernated = context.cluster()?.is_hibernated();
        let deployments: Api<MachineDeployment> = Api::namespaced(context.client.clone(), &namespace);
        let present: BTreeMap<String, i32> = list(&deployments, &format!("{MADE_FOR_LABEL}={MADE_FOR}"))
            .await?
            .iter()
            .map(|deployment| (deployment.name_any(), deployment.spec.replicas.unwrap_or_default()))
            .collect();
        let facts = Facts {
            provider: &self.provider,
            infrastructure: &infrastructure,
            hibernated,
            present: &present,
        };
        let planned = plan(object, facts)?;
        let generations = self.deploy(context, &namespace, &planned).await?;
        let own = own_status(context, &planned);
        context.publish(object, own.clone()).await?;
        self.wait(context, object, &planned, &generations).await?;
        self.remove_stale(context, &namespace, &planned).await?;
        Ok(Outcome::own(own))
    }

    async fn delete(&self, context: &Context, object: &Worker) -> Result<(), Fault> {
        let namespace = object.namespace().unwrap_or_default();
        self.force_machines(context, &namespace).await?;
        self.remove_stale(context, &namespace, &[]).await
    }

    async fn force_delete(&self, context: &Context, object: &Worker) -> Result<(), Fault> {
        self.delete(context, object).await
    }
}

/// The fault of machines that had their time; a machine's own hint is the better one.
fn not_joined(missing: &Missing) -> Fault {
    let minutes = JOIN_TIMEOUT.as_secs() / 60;
    let unexplained = "look at the machine named, at its pod's log and at its OperatingSystemConfig";
    let (reason, hint) = match without_hint(&missing.reason, &missing.to_do) {
        Some(reason) => (reason, missing.to_do.as_str()),
        None => (missing.reason.as_str(), unexplained),
    };
    Fault::dependency(format!("machines have not joined within {minutes} minutes: {reason}")).hint(hint)
}
