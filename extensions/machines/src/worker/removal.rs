//! Removing deployments, classes and Secrets of Workers that are wanted no more. A machine can only be removed by its class, so
//! classes go last.

use std::collections::BTreeSet;
use std::time::Duration;

use api_machine::{Machine, MachineClass, MachineDeployment, MachineSet, NAME_LABEL};
use api_meta::{Fault, FaultClass};
use base_client::{Judgement, delete, list, patch_changed, read_again, remove_finalizer};
use extensions_sdk::Context;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::fleet::{Fleet, api};
use super::plan::Planned;
use crate::names::{FINALIZER, FORCE_DELETION_LABEL, TRY_AGAIN_ANNOTATION};

/// How long machines may take to go.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// How long machines may take to go where their cloud may be out of reach. Then they are forgotten.
const FORCE_TIMEOUT: Duration = Duration::from_secs(60);

impl Fleet {
    /// Deletes deployments, then classes and their Secrets, that are not among `keep`, and waits until their machines are gone.
    pub(super) async fn remove_others(
        &self,
        context: &Context,
        namespace: &str,
        keep: &[Planned],
    ) -> Result<(), Fault> {
        let retained: BTreeSet<&str> = keep.iter().map(Planned::name).collect();
        let stale = self.delete_deployments(context, namespace, &retained).await?;
        if !stale.is_empty() {
            self.wait_gone(context, namespace, &stale, REMOVAL_TIMEOUT).await?;
        }
        let retained: BTreeSet<&str> = keep.iter().map(Planned::class_name).collect();
        self.wait_unused(context, namespace, &retained).await?;
        self.delete_classes(context, namespace, &retained).await
    }

    /// Deletes all machines of the namespace without draining their nodes: the cluster goes as a whole.
    pub(super) async fn remove_all(&self, context: &Context, namespace: &str) -> Result<(), Fault> {
        self.wake(context, namespace).await?;
        self.force_machines(context, namespace).await?;
        self.delete_deployments(context, namespace, &BTreeSet::new()).await?;
        // Those that were made between the two calls.
        self.force_machines(context, namespace).await?;
        self.remove_others(context, namespace, &[]).await
    }

    /// Deletes all machines as far as the cloud lets it within a minute, and forgets the others.
    pub(super) async fn forget_all(&self, context: &Context, namespace: &str) -> Result<(), Fault> {
        self.wake(context, namespace).await?;
        self.force_machines(context, namespace).await?;
        let stale = self.delete_deployments(context, namespace, &BTreeSet::new()).await?;
        self.force_machines(context, namespace).await?;
        if let Err(fault) = self.wait_gone(context, namespace, &stale, FORCE_TIMEOUT).await {
            if context.obsolete.is_cancelled() {
                return Err(fault);
            }
            self.forget_machines(context, namespace).await?;
        }
        self.release::<MachineSet>(context, namespace).await?;
        self.release::<MachineDeployment>(context, namespace).await?;
        self.delete_classes(context, namespace, &BTreeSet::new()).await
    }

    /// Lets go of the machines that are left, and logs which ones stay behind in the cloud.
    async fn forget_machines(&self, context: &Context, namespace: &str) -> Result<(), Fault> {
        let machines: Api<Machine> = api(context, namespace);
        for machine in list(&machines, &self.marks.selector()).await? {
            let (name, id) = (machine.name_any(), machine.spec.provider_id.as_deref());
            tracing::warn!(namespace, name, id, "forgotten: it may be left behind at the provider");
        }
        self.release::<Machine>(context, namespace).await
    }

    /// Deletes the objects of a kind that are left, and takes the machine controllers' finalizer from them.
    async fn release<K>(&self, context: &Context, namespace: &str) -> Result<(), Fault>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Serialize
            + DeserializeOwned
            + std::fmt::Debug
            + Send
            + Sync
            + 'static,
    {
        let objects: Api<K> = api(context, namespace);
        for object in list(&objects, &self.marks.selector()).await? {
            delete(&objects, &object.name_any()).await?;
            // Boxed because it carries whole objects, once for each kind.
            Box::pin(async {
                match read_again(&objects, &object).await? {
                    Some(left) => remove_finalizer(&objects, left, FINALIZER).await.map(drop),
                    None => Ok(()),
                }
            })
            .await?;
        }
        Ok(())
    }

    /// Deletes deployments that are not among `retained`, and returns their names.
    async fn delete_deployments(
        &self,
        context: &Context,
        namespace: &str,
        retained: &BTreeSet<&str>,
    ) -> Result<BTreeSet<String>, Fault> {
        let deployments: Api<MachineDeployment> = api(context, namespace);
        let stale: BTreeSet<String> = list(&deployments, &self.marks.selector())
            .await?
            .iter()
            .map(|deployment| deployment.name_any())
            .filter(|name| !retained.contains(name.as_str()))
            .collect();
        for name in &stale {
            delete(&deployments, name).await?;
        }
        Ok(stale)
    }

    /// Deletes classes and their Secrets that are not among `retained`.
    async fn delete_classes(&self, context: &Context, namespace: &str, retained: &BTreeSet<&str>) -> Result<(), Fault> {
        let ours = self.marks.selector();
        let classes: Api<MachineClass> = api(context, namespace);
        let secrets: Api<Secret> = api(context, namespace);
        for name in list(&classes, &ours).await?.iter().map(|class| class.name_any()) {
            if !retained.contains(name.as_str()) {
                delete(&classes, &name).await?;
            }
        }
        for name in list(&secrets, &ours).await?.iter().map(|secret| secret.name_any()) {
            if !retained.contains(name.as_str()) {
                delete(&secrets, &name).await?;
            }
        }
        Ok(())
    }

    /// Waits until no machine set is of a class that is not among `retained`: a machine can only be removed by its
    /// class.
    async fn wait_unused(&self, context: &Context, namespace: &str, retained: &BTreeSet<&str>) -> Result<(), Fault> {
        let what = "replaced machines to go";
        let unused = self.sets.wait_in(namespace, what, REMOVAL_TIMEOUT, |sets| {
            let old = sets.list_in(namespace).into_iter().find(|set| {
                let spec = set.spec.template.as_ref().and_then(|template| template.spec.as_ref());
                let class = spec
                    .and_then(|spec| spec.class.as_ref())
                    .and_then(|class| class.name.as_deref());
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

    /// Waits until a deployment that is being deleted is gone with its machines.
    pub(super) async fn wait_removed(&self, context: &Context, namespace: &str, name: &str) -> Result<(), Fault> {
        self.wait_gone(context, namespace, &BTreeSet::from([name.to_owned()]), REMOVAL_TIMEOUT)
            .await
    }

    /// Waits until these deployments and their machines are gone.
    async fn wait_gone(
        &self,
        context: &Context,
        namespace: &str,
        stale: &BTreeSet<String>,
        timeout: Duration,
    ) -> Result<(), Fault> {
        let is_stale = |machine: &Machine| {
            machine
                .labels()
                .get(NAME_LABEL)
                .is_some_and(|name| stale.contains(name))
        };
        let deployments = &self.deployments;
        let gone = deployments.wait_in(namespace, "machines to go", timeout, |deployments| {
            let left = deployments
                .list_in(namespace)
                .iter()
                .any(|deployment| stale.contains(&deployment.name_any()));
            if !left {
                return Judgement::Done(());
            }
            let machines = self.machines.list_in(namespace);
            let left = machines.iter().filter(|machine| is_stale(machine));
            let names: Vec<String> = left.map(|machine| machine.name_any()).collect();
            Judgement::NotYet(format!("still there: {}", names.join(", ")))
        });
        context.unless_obsolete(async { gone.await.map_err(Fault::from) }).await
    }

    /// Marks all machines so that no drain waits for their nodes.
    async fn force_machines(&self, context: &Context, namespace: &str) -> Result<(), Fault> {
        let machines: Api<Machine> = api(context, namespace);
        for machine in list(&machines, &self.marks.selector()).await? {
            let mut after = machine.clone();
            let labels = after.labels_mut();
            labels.insert(FORCE_DELETION_LABEL.to_owned(), "True".to_owned());
            write_beside_its_controller(&machines, &machine, &after).await?;
        }
        Ok(())
    }

    /// Has machines that cannot be made tried again at once: what was missing may be there now, and their pause may be
    /// half an hour.
    pub(super) async fn try_again(&self, context: &Context, namespace: &str) -> Result<(), Fault> {
        let machines: Api<Machine> = api(context, namespace);
        for machine in self.machines.list_in(namespace) {
            let last = machine
                .status
                .as_ref()
                .and_then(|status| status.last_operation.as_ref());
            let failing = last.is_some_and(|last| last.state == Some(api_machine::MachineState::Failed));
            let ours = machine.labels().get(self.marks.label).map(String::as_str) == Some(self.marks.value);
            if failing && ours {
                let mut after = (*machine).clone();
                let annotations = after.annotations_mut();
                annotations.insert(TRY_AGAIN_ANNOTATION.to_owned(), context.clock.now().to_string());
                write_beside_its_controller(&machines, &machine, &after).await?;
            }
        }
        Ok(())
    }
}

/// Writes a machine unless its controller writes it at the same time, or has finished with it.
async fn write_beside_its_controller(api: &Api<Machine>, before: &Machine, after: &Machine) -> Result<(), Fault> {
    match patch_changed(api, before, after).await {
        Err(fault) if !matches!(fault.class, FaultClass::Transient | FaultClass::Dependency) => Err(fault),
        _ => Ok(()),
    }
}
