//! A seed that is its own shoot, a yard of machines, a process of the extension, and gardenlet's part.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use api_core::v1beta1::Shoot;
use api_extensions::{Cluster, Worker};
use api_machine::{Machine, MachineClass, MachineDeployment, MachineSet, SavedMachines};
use api_meta::{LastOperationState, RawJson};
use base_client::{WaitState, apply, wait_until, wait_until_none};
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, Node, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tests_kit::{Embedded, embedded};

use crate::pool::Pool;
use crate::process::{MARKS, Process, TYPE};
use crate::yard::Yard;

/// The name of the Worker.
pub(crate) const NAME: &str = "b";
/// Longer than anything takes, in virtual time.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

pub(crate) struct World {
    pub(crate) embedded: Embedded,
    pub(crate) client: Client,
    pub(crate) yard: Yard,
    pub(crate) process: Option<Process>,
    /// The shoot's namespace.
    pub(crate) namespace: String,
}

impl World {
    /// A seed without a shoot.
    pub(crate) async fn new() -> Self {
        let embedded = embedded().await;
        let client = embedded.admin();
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let wanted = ["workers", "clusters"];
        let mut all = api_extensions::crds();
        all.retain(|definition| wanted.contains(&definition.spec.names.plural.as_str()));
        all.extend(api_machine::crds());
        for definition in all {
            definitions.create(&PostParams::default(), &definition).await.unwrap();
        }
        Self {
            yard: Yard::new(client.clone()),
            embedded,
            client,
            process: None,
            namespace: String::new(),
        }
    }

    /// Starts a process in place of the one that runs.
    pub(crate) fn restart(&mut self) {
        let started = Process::start(&self.embedded, self.embedded.admin(), Arc::new(self.yard.clone()));
        if let Some(former) = self.process.replace(started) {
            former.kill();
        }
    }

    /// The namespace of a shoot, with what gardenlet puts there.
    pub(crate) async fn shoot(&mut self, namespace: &str) {
        self.namespace = namespace.to_owned();
        let object: Namespace = serde_json::from_value(json!({"metadata": {"name": namespace}})).unwrap();
        let namespaces = Api::all(self.client.clone());
        namespaces.create(&PostParams::default(), &object).await.unwrap();
        self.secret("shoot-access-machine-controller-manager", "kubeconfig", "{}")
            .await;
        self.secret("user-data", "cloud_config", "boot").await;
        self.secret("cloudprovider", "key", "first").await;
        self.hibernate(false).await;
    }

    pub(crate) async fn secret(&self, name: &str, key: &str, value: &str) {
        let secret: Secret =
            serde_json::from_value(json!({"metadata": {"name": name}, "stringData": {key: value}})).unwrap();
        apply(&self.all::<Secret>(), &secret, "gardenlet").await.unwrap();
    }

    pub(crate) async fn hibernate(&self, enabled: bool) {
        let shoot: Shoot = serde_json::from_value(json!({
            "apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot",
            "metadata": {"name": NAME, "namespace": "garden-t"},
            "spec": {"hibernation": {"enabled": enabled}},
        }))
        .unwrap();
        self.cluster(&shoot).await;
    }

    /// Has the deletion of the shoot forced.
    pub(crate) async fn force_deletion(&self) {
        let shoot: Shoot = serde_json::from_value(json!({
            "apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot",
            "metadata": {"name": NAME, "namespace": "garden-t",
                "annotations": {"confirmation.gardener.cloud/force-deletion": "true"}},
        }))
        .unwrap();
        self.cluster(&shoot).await;
    }

    async fn cluster(&self, shoot: &Shoot) {
        let mut cluster = Cluster::default();
        cluster.metadata.name = Some(self.namespace.clone());
        cluster.spec.shoot = RawJson::of(shoot).unwrap();
        apply(&Api::all(self.client.clone()), &cluster, "gardenlet")
            .await
            .unwrap();
    }

    pub(crate) fn all<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) async fn list<K>(&self, selector: &str) -> Vec<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let params = ListParams::default().labels(selector);
        self.all::<K>().list(&params).await.unwrap().items
    }

    /// Writes the Worker with an operation, as gardenlet does.
    pub(crate) async fn write(&self, pools: &[Pool], operation: &str) {
        let now = self.embedded.clock.now().to_string();
        let pools: Vec<Value> = pools.iter().map(Pool::spec).collect();
        let worker = json!({
            "apiVersion": Worker::api_version(&()), "kind": "Worker",
            "metadata": {"name": NAME,
                "annotations": {"gardener.cloud/operation": operation, "gardener.cloud/timestamp": now}},
            "spec": {"type": TYPE, "region": "r", "pools": pools,
                "secretRef": {"name": "cloudprovider", "namespace": self.namespace}},
        });
        let params = PatchParams::apply("gardenlet").force();
        self.all::<Worker>()
            .patch(NAME, &params, &Patch::Apply(worker))
            .await
            .unwrap();
    }

    /// Requests an operation on the Worker as it is.
    pub(crate) async fn request(&self, operation: &str) {
        let now = self.embedded.clock.now().to_string();
        let annotations = json!({"gardener.cloud/operation": operation, "gardener.cloud/timestamp": now});
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        let params = PatchParams::default();
        self.all::<Worker>().patch(NAME, &params, &patch).await.unwrap();
    }

    /// Waits until the Worker is as `check` wants it.
    async fn worker(&self, check: impl Fn(Option<&Worker>) -> Option<bool>) -> Option<Worker> {
        let check = |worker: Option<&Worker>| match check(worker) {
            Some(true) => WaitState::Done(worker.cloned()),
            _ => WaitState::NotYet(String::new()),
        };
        match wait_until(&self.all::<Worker>(), NAME, PATIENCE, check).await {
            Ok(worker) => worker,
            Err(waited) => panic!("{waited}: {:#?}", self.all::<Worker>().get_opt(NAME).await),
        }
    }

    /// Waits until the last request has succeeded.
    pub(crate) async fn succeeds(&self) -> Worker {
        let worker = self.worker(|worker| Some(is_answered(worker?, &LastOperationState::Succeeded)));
        worker.await.unwrap()
    }

    /// Waits until an error with this text is reported.
    pub(crate) async fn fails_with(&self, text: &str) -> Worker {
        let has = |worker: &Worker| {
            let error = worker.status.as_ref().and_then(|status| status.last_error.as_ref());
            error.is_some_and(|error| error.description.contains(text))
        };
        self.worker(|worker| Some(has(worker?))).await.unwrap()
    }

    /// Deletes the Worker.
    pub(crate) async fn delete(&self) {
        let params = DeleteParams::default();
        self.all::<Worker>().delete(NAME, &params).await.unwrap();
    }

    /// Waits until there is no Worker.
    pub(crate) async fn goes(&self) {
        self.worker(|worker| Some(worker.is_none())).await;
    }

    /// What gardenlet stores of the machines.
    pub(crate) async fn saved(&self) -> SavedMachines {
        let deployments: Vec<MachineDeployment> = self.list("").await;
        let (sets, machines): (Vec<MachineSet>, Vec<Machine>) = (self.list("").await, self.list("").await);
        SavedMachines::of(&deployments, &sets, &machines)
    }

    /// Deletes all machine objects without anything that they stand for, as gardenlet does at the end of a migration: in the
    /// unlucky order, in which a controller sees them going before their finalizers are gone.
    pub(crate) async fn delete_objects(&self) {
        self.delete_kind::<MachineDeployment>().await;
        self.delete_kind::<MachineSet>().await;
        self.delete_kind::<Machine>().await;
        self.delete_kind::<MachineClass>().await;
        for secret in self.list::<Secret>(&selector()).await {
            let params = DeleteParams::default();
            self.all::<Secret>().delete(&secret.name_any(), &params).await.unwrap();
        }
    }

    async fn delete_kind<K>(&self)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let api = self.all::<K>();
        let names: Vec<String> = self.list::<K>("").await.iter().map(ResourceExt::name_any).collect();
        for name in &names {
            api.delete(name, &DeleteParams::default()).await.unwrap();
        }
        tokio::time::sleep(Duration::from_secs(30)).await;
        for name in &names {
            let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            drop(api.patch(name, &PatchParams::default(), &patch).await);
        }
    }

    /// Creates the Worker as on another seed and restores it.
    pub(crate) async fn restore(&self, pools: &[Pool], saved: &SavedMachines) {
        self.write(pools, "wait-for-state").await;
        let status = Patch::Merge(json!({"status": {"state": saved}}));
        let params = PatchParams::default();
        self.all::<Worker>().patch_status(NAME, &params, &status).await.unwrap();
        self.request("restore").await;
    }

    /// Waits until no machine is going any more: a Worker that has fewer machines does not wait for that.
    pub(crate) async fn settles(&self) {
        let going = |machine: &Machine| machine.metadata.deletion_timestamp.is_some();
        let config = watcher::Config::default();
        wait_until_none(&self.all::<Machine>(), config, PATIENCE, going, |_| {})
            .await
            .unwrap();
    }

    /// Names of the machines that are not going.
    pub(crate) async fn machine_names(&self) -> BTreeSet<String> {
        let machines: Vec<Machine> = self.list("").await;
        let staying = machines.iter().filter(|one| one.metadata.deletion_timestamp.is_none());
        staying.map(ResourceExt::name_any).collect()
    }

    /// The machines are exactly those that the deployments want, of their classes; nothing is unused; and all others agree.
    pub(crate) async fn check_settled(&self, row: &str) {
        let deployments: Vec<MachineDeployment> = self.list("").await;
        let machines: Vec<Machine> = self.list("").await;
        let class_of = |spec: &api_machine::MachineSpec| spec.class.clone().unwrap().name.unwrap();
        let mut wanted: BTreeMap<(String, String), i32> = BTreeMap::new();
        for deployment in &deployments {
            let class = class_of(deployment.spec.template.spec.as_ref().unwrap());
            let replicas = deployment.spec.replicas.unwrap();
            wanted.insert((deployment.name_any(), class), replicas);
        }
        let classes: BTreeSet<String> = wanted.keys().map(|(_, class)| class.clone()).collect();
        assert_eq!(self.names::<MachineClass>("").await, classes, "{row}: classes");
        assert_eq!(self.names::<Secret>(&selector()).await, classes, "{row}: Secrets");
        let mut have: BTreeMap<(String, String), i32> = wanted.keys().map(|key| (key.clone(), 0)).collect();
        for machine in &machines {
            let key = (
                machine.labels()[api_machine::NAME_LABEL].clone(),
                class_of(&machine.spec),
            );
            *have.entry(key).or_default() += 1;
        }
        assert_eq!(have, wanted, "{row}: machines");
        let worker = self.all::<Worker>().get(NAME).await.unwrap();
        let reported = worker.status.unwrap().machine_deployments;
        let reported: BTreeSet<String> = reported.into_iter().map(|one| one.name).collect();
        let names: BTreeSet<String> = deployments.iter().map(ResourceExt::name_any).collect();
        assert_eq!(reported, names, "{row}: status");
        self.check_yard(row, &machines).await;
    }

    /// What the yard holds is what the objects name, and so are the nodes.
    async fn check_yard(&self, row: &str, machines: &[Machine]) {
        let ids = machines
            .iter()
            .map(|machine| (machine.name_any(), machine.spec.provider_id.clone().unwrap()));
        let held = self.yard.machines();
        let held: BTreeMap<String, String> = held.into_iter().map(|(name, made)| (name, made.id)).collect();
        assert_eq!(held, ids.collect(), "{row}: yard");
        let nodes = Api::<Node>::all(self.client.clone());
        let nodes = nodes.list(&ListParams::default()).await.unwrap();
        let nodes: BTreeSet<String> = nodes.iter().map(ResourceExt::name_any).collect();
        assert_eq!(nodes, held.into_keys().collect(), "{row}: nodes");
    }

    /// Nothing is left of a Worker; `held`: so many machines were forgotten.
    pub(crate) async fn check_gone(&self, row: &str, held: usize) {
        let none = BTreeSet::new();
        assert_eq!(self.names::<Machine>("").await, none, "{row}");
        assert_eq!(self.names::<MachineSet>("").await, none, "{row}");
        assert_eq!(self.names::<MachineDeployment>("").await, none, "{row}");
        assert_eq!(self.names::<MachineClass>("").await, none, "{row}");
        assert_eq!(self.names::<Secret>(&selector()).await, none, "{row}");
        assert_eq!(self.yard.machines().len(), held, "{row}: yard");
    }

    async fn names<K>(&self, selector: &str) -> BTreeSet<String>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        self.list::<K>(selector)
            .await
            .iter()
            .map(ResourceExt::name_any)
            .collect()
    }
}

fn selector() -> String {
    format!("{}={}", MARKS.label, MARKS.value)
}

fn is_answered(worker: &Worker, state: &LastOperationState) -> bool {
    let annotations = worker.annotations();
    let Some(status) = &worker.status else { return false };
    let Some(last) = &status.last_operation else {
        return false;
    };
    let requested: Option<Timestamp> = annotations
        .get("gardener.cloud/timestamp")
        .map(|text| text.parse().unwrap());
    let answered = requested.is_none_or(|at| last.last_update_time.0.as_second() >= at.as_second());
    last.state == *state
        && answered
        && status.observed_generation == worker.metadata.generation
        && !annotations.contains_key("gardener.cloud/operation")
}
