//! Removing deployments, classes and Secrets of Workers that are wanted no more. A machine can only be removed by its class, so
//! classes go last.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api_machine::{Machine, MachineClass, MachineDeployment, MachineSet, NAME_LABEL};
use api_meta::{Fault, FaultClass};
use base_client::{WaitState, Waited, delete, get, list, patch_changed, read_again, remove_finalizer, some_of};
use extensions_sdk::Context;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::fleet::{Fleet, api};
use super::plan::Planned;
use super::waiting::{REMOVAL, Waiting, again};
use crate::machine::is_failed;
use crate::names::{FINALIZER, FORCE_DELETION_LABEL, TRY_AGAIN_ANNOTATION};

/// How long machines may take to go where their cloud may be out of reach. Then they are forgotten.
const FORCE_TIMEOUT: Duration = Duration::from_secs(60);
/// How often a machine is written that its controller writes at the same time: it writes a few times in each turn.
const ATTEMPTS_MAX: usize = 20;

impl Fleet {
    /// Deletes deployments, then classes and their Secrets, that are not among `keep`, once their machines are gone.
    ///
    /// # Errors
    /// Those of the API server; machines are still there, and the operation is to be called again with `waiting`.
    pub(super) async fn remove_others(
        &self,
        context: &Context,
        namespace: &str,
        keep: &[Planned],
        waiting: &Waiting,
    ) -> Result<(), Fault> {
        let retained: BTreeSet<&str> = keep.iter().map(Planned::name).collect();
        let stale = self.delete_deployments(context, namespace, &retained).await?;
        let retained: BTreeSet<&str> = keep.iter().map(Planned::class_name).collect();
        let moment = waiting.moment(context);
        let going = async {
            match self.gone(namespace, &stale, moment).await? {
                None => self.unused(namespace, &retained, moment).await,
                left => Ok(left),
            }
        };
        if let Some(left) = context.unless_obsolete(going).await? {
            return Err(REMOVAL.goes_on(context, &left, waiting));
        }
        let used = self.remove_left_over(context, namespace, &retained).await?;
        let names = used.keys().map(String::as_str).chain(retained).collect();
        self.delete_classes(context, namespace, &names).await?;
        match first_of(&used) {
            Some(left) => Err(REMOVAL.goes_on(context, &left, waiting)),
            None => Ok(()),
        }
    }

    /// Deletes all machines of the namespace without draining their nodes: the cluster goes as a whole.
    ///
    /// # Errors
    /// As [`Fleet::remove_others`].
    pub(super) async fn remove_all(&self, context: &Context, namespace: &str) -> Result<(), Fault> {
        let waiting = match Waiting::of_deletion(context, false) {
            Some(waiting) => waiting,
            None => {
                self.delete_all(context, namespace).await?;
                Waiting::begun()
            }
        };
        self.remove_others(context, namespace, &[], &waiting).await
    }

    async fn delete_all(&self, context: &Context, namespace: &str) -> Result<(), Fault> {
        self.wake(context, namespace).await?;
        self.force_machines(context, namespace).await?;
        self.delete_deployments(context, namespace, &BTreeSet::new()).await?;
        // Those that were made between the two calls.
        self.force_machines(context, namespace).await
    }

    /// Deletes all machines as far as the cloud lets it within a minute, and forgets the others.
    ///
    /// # Errors
    /// Those of the API server; the minute is not over, and the operation is to be called again.
    pub(super) async fn forget_all(&self, context: &Context, namespace: &str) -> Result<(), Fault> {
        let waiting = match Waiting::of_deletion(context, true) {
            Some(waiting) => waiting,
            None => {
                self.delete_all(context, namespace).await?;
                Waiting {
                    forced: true,
                    ..Waiting::begun()
                }
            }
        };
        let stale = self.delete_deployments(context, namespace, &BTreeSet::new()).await?;
        let none = BTreeSet::new();
        let going = self.gone(namespace, &stale, waiting.moment(context));
        let left = match context.unless_obsolete(going).await? {
            None => {
                let used = self.remove_left_over(context, namespace, &none).await?;
                first_of(&used)
            }
            left => left,
        };
        if let Some(left) = left {
            let time = FORCE_TIMEOUT.saturating_sub(waiting.since.elapsed());
            if !time.is_zero() {
                return Err(again(context, time, &left, &waiting));
            }
        }
        // Those without a class as well, which nothing else could remove.
        self.forget_machines(context, namespace).await?;
        self.release::<MachineSet>(context, namespace).await?;
        self.release::<MachineDeployment>(context, namespace).await?;
        self.delete_classes(context, namespace, &none).await
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

    /// The machines of classes that are not among `retained`, by their class, as the API server has them now: the caches may not
    /// show the last of them yet. Those that no set would remove are deleted: no set, or none that still exists, owns them.
    async fn remove_left_over(
        &self,
        context: &Context,
        namespace: &str,
        retained: &BTreeSet<&str>,
    ) -> Result<BTreeMap<String, String>, Fault> {
        let machines: Api<Machine> = api(context, namespace);
        let mut used = BTreeMap::new();
        for machine in list(&machines, &self.marks.selector()).await? {
            let class = machine.spec.class.as_ref().and_then(|class| class.name.clone());
            let Some(class) = class.filter(|class| !retained.contains(class.as_str())) else {
                continue;
            };
            if machine.metadata.deletion_timestamp.is_none() {
                delete(&machines, &machine.name_any()).await?;
            }
            used.insert(class, machine.name_any());
        }
        Ok(used)
    }

    /// Waits for `moment` until no machine set is of a class that is not among `retained`, and returns what is left: a machine can
    /// only be removed by its class.
    async fn unused(
        &self,
        namespace: &str,
        retained: &BTreeSet<&str>,
        moment: Duration,
    ) -> Result<Option<String>, Fault> {
        let unused = self.sets.wait_in(namespace, "replaced machines to go", moment, |sets| {
            let old = sets.list_in(namespace).into_iter().find(|set| {
                let spec = set.spec.template.as_ref().and_then(|template| template.spec.as_ref());
                let class = spec
                    .and_then(|spec| spec.class.as_ref())
                    .and_then(|class| class.name.as_deref());
                class.is_some_and(|class| !retained.contains(class))
            });
            old.map_or(WaitState::Done(()), |set| {
                WaitState::NotYet(format!("still there: {}", set.name_any()))
            })
        });
        left_of(unused.await)
    }

    /// Fine once no deployment of this name is being deleted.
    ///
    /// # Errors
    /// As [`Fleet::remove_others`], with `waiting` or a wait that begins.
    pub(super) async fn wait_removed(
        &self,
        context: &Context,
        namespace: &str,
        name: &str,
        waiting: Option<&Waiting>,
    ) -> Result<(), Fault> {
        let present = get(&api::<MachineDeployment>(context, namespace), name).await?;
        if present.is_none_or(|deployment| deployment.metadata.deletion_timestamp.is_none()) {
            return Ok(());
        }
        let waiting = waiting.cloned().unwrap_or_else(Waiting::begun);
        let stale = BTreeSet::from([name.to_owned()]);
        let going = self.gone(namespace, &stale, waiting.moment(context));
        match context.unless_obsolete(going).await? {
            Some(left) => Err(REMOVAL.goes_on(context, &left, &waiting)),
            None => Ok(()),
        }
    }

    /// Waits for `moment` until these deployments and their machines are gone, and returns what is left.
    async fn gone(&self, namespace: &str, stale: &BTreeSet<String>, moment: Duration) -> Result<Option<String>, Fault> {
        let is_stale = |machine: &Machine| {
            machine
                .labels()
                .get(NAME_LABEL)
                .is_some_and(|name| stale.contains(name))
        };
        let deployments = &self.deployments;
        let gone = deployments.wait_in(namespace, "machines to go", moment, |deployments| {
            let mut left = deployments.list_in(namespace);
            left.retain(|deployment| stale.contains(&deployment.name_any()));
            let Some(first) = left.first() else {
                return WaitState::Done(());
            };
            let machines = self.machines.list_in(namespace);
            let names: Vec<String> = machines
                .iter()
                .filter(|machine| is_stale(machine))
                .map(|machine| machine.name_any())
                .collect();
            if names.is_empty() {
                return WaitState::NotYet(format!("still there: MachineDeployment {}", first.name_any()));
            }
            WaitState::NotYet(format!("still there: {}", some_of(names.iter())))
        });
        left_of(gone.await)
    }

    /// Marks all machines so that no drain waits for their nodes.
    async fn force_machines(&self, context: &Context, namespace: &str) -> Result<(), Fault> {
        let machines: Api<Machine> = api(context, namespace);
        for machine in list(&machines, &self.marks.selector()).await? {
            let force = |machine: &mut Machine| {
                let labels = machine.labels_mut();
                labels.insert(FORCE_DELETION_LABEL.to_owned(), "True".to_owned());
            };
            edit(&machines, machine, force).await?;
        }
        Ok(())
    }

    /// Has machines that cannot be made tried again at once: what was missing may be there now, and their pause may be
    /// half an hour.
    pub(super) async fn try_again(&self, context: &Context, namespace: &str) -> Result<(), Fault> {
        let machines: Api<Machine> = api(context, namespace);
        for machine in self.machines.list_in(namespace) {
            let ours = machine.labels().get(self.marks.label).map(String::as_str) == Some(self.marks.value);
            if is_failed(&machine) && ours {
                let now = context.clock.now().to_string();
                let call = |machine: &mut Machine| {
                    let annotations = machine.annotations_mut();
                    annotations.insert(TRY_AGAIN_ANNOTATION.to_owned(), now.clone());
                };
                edit(&machines, (*machine).clone(), call).await?;
            }
        }
        Ok(())
    }
}

/// The first of the machines that are left over, as a reason to wait.
fn first_of(used: &BTreeMap<String, String>) -> Option<String> {
    used.values().next().map(|machine| format!("still there: {machine}"))
}

/// What a wait in place has found left.
fn left_of(waited: Result<(), Waited>) -> Result<Option<String>, Fault> {
    match waited {
        Ok(()) => Ok(None),
        Err(Waited::TimedOut { reason, .. }) => Ok(Some(reason)),
        Err(Waited::Failed(fault)) => Err(fault),
    }
}

/// Writes what `change` does to a machine, beside its controller, which writes it too. Fine when it has gone.
async fn edit(api: &Api<Machine>, mut machine: Machine, change: impl Fn(&mut Machine) + Send) -> Result<(), Fault> {
    let mut attempt = 1;
    loop {
        let mut after = machine.clone();
        change(&mut after);
        let written = patch_changed(api, &machine, &after).await;
        let Err(fault) = written else { return Ok(()) };
        match read_again(api, &machine).await? {
            None => return Ok(()),
            Some(fresh) if fault.class == FaultClass::Transient && attempt < ATTEMPTS_MAX => machine = fresh,
            Some(_) => return Err(fault),
        }
        attempt += 1;
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Namespace;
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
    use serde_json::json;
    use tests_kit::embedded;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_its_controller_writes_meanwhile_is_changed_all_the_same() {
        let embedded = embedded().await;
        let client = embedded.admin();
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for definition in api_machine::crds() {
            definitions.create(&PostParams::default(), &definition).await.unwrap();
        }
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": "ns"}})).unwrap();
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        let api: Api<Machine> = Api::namespaced(client, "ns");
        let machine: Machine = serde_json::from_value(json!({"metadata": {"name": "m"}, "spec": {}})).unwrap();
        let old = api.create(&PostParams::default(), &machine).await.unwrap();
        let theirs = Patch::Merge(json!({"spec": {"providerID": "theirs"}}));
        api.patch("m", &PatchParams::default(), &theirs).await.unwrap();

        let ours = |machine: &mut Machine| drop(machine.labels_mut().insert("ours".to_owned(), "1".to_owned()));
        edit(&api, old.clone(), ours).await.unwrap();
        let now = api.get("m").await.unwrap();
        assert_eq!(now.labels().get("ours").map(String::as_str), Some("1"));
        assert_eq!(now.spec.provider_id.as_deref(), Some("theirs"));

        api.delete("m", &DeleteParams::default()).await.unwrap();
        edit(&api, old, ours).await.unwrap();
        assert!(api.get_opt("m").await.unwrap().is_none());
    }
}
