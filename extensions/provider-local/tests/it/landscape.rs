//! A seed with the extension running in it, a shoot, and the parts of others.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use api_core::v1beta1::Shoot;
use api_extensions::{Cluster, Infrastructure, Worker};
use api_meta::{Fault, LastOperation, LastOperationState, RawJson};
use base_client::{CallRecord, Connector, apply, record};
use base_controller::Cache;
use extensions_provider_local::{Options, run};
use extensions_sdk::ExtensionObject;
use k8s_openapi::ByteString;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, Node, NodeCondition, NodeStatus, Pod, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use kube::core::ObjectMeta;
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};
use tests_kit::{Embedded, embedded_with, until, until_gone};
use tokio_util::sync::CancellationToken;

/// The shoot's namespace in the seed; the names are such that nothing works by being called `local`.
pub(crate) const NAMESPACE: &str = "shoot--zoo--ape";
/// The provider type in these tests.
pub(crate) const TYPE: &str = "Jungle";

/// Connects every kubeconfig to the one shoot.
pub(crate) struct ToShoot(pub(crate) Client);

impl Connector for ToShoot {
    fn client(&self, _: &Kubeconfig) -> Result<Client, Fault> {
        Ok(self.0.clone())
    }
}

pub(crate) struct Landscape {
    pub(crate) seed: Embedded,
    pub(crate) shoot: Embedded,
    pub(crate) client: Client,
    pub(crate) nodes: Api<Node>,
    pub(crate) stop: CancellationToken,
    calls: Arc<Mutex<Vec<CallRecord>>>,
}

impl Drop for Landscape {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Landscape {
    pub(crate) async fn new() -> Self {
        let seed = embedded_with("seed", Vec::new(), |builder| builder).await;
        let shoot = embedded_with("shoot", Vec::new(), |builder| builder).await;
        let client = seed.admin();
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for definition in [api_extensions::crds(), api_machine::crds(), api_resources::crds()].concat() {
            definitions.create(&PostParams::default(), &definition).await.unwrap();
        }
        let metadata = ObjectMeta {
            name: Some(NAMESPACE.into()),
            ..Default::default()
        };
        let namespace = Namespace {
            metadata,
            ..Default::default()
        };
        Api::all(client.clone())
            .create(&PostParams::default(), &namespace)
            .await
            .unwrap();
        let nodes = Api::all(shoot.admin());
        let landscape = Self {
            seed,
            shoot,
            client,
            nodes,
            stop: CancellationToken::new(),
            calls: Arc::default(),
        };
        landscape
            .secret("shoot-access-machine-controller-manager", "kubeconfig", "{}")
            .await;
        landscape
            .secret("user-data", "cloud_config", "{\"files\": [], \"units\": []}")
            .await;
        landscape.cluster(false).await;
        landscape
    }

    /// Starts the extension.
    pub(crate) fn start(&self) {
        self.start_in(PathBuf::from("/nonexistent"));
    }

    /// Starts the extension with a data folder.
    pub(crate) fn start_in(&self, data_dir: PathBuf) {
        let calls = self.calls.clone();
        let client = record(self.seed.admin(), "", self.seed.clock.clone(), move |call| {
            calls.lock().unwrap().push(call)
        });
        let connector = Arc::new(ToShoot(self.shoot.admin()));
        let options = Options::new(data_dir).named(TYPE);
        let surroundings = (self.seed.clock.clone(), self.seed.entropy.clone());
        tokio::spawn(run(client, connector, None, options, surroundings, self.stop.clone()));
    }

    /// The calls since the last look.
    pub(crate) fn calls(&self) -> Vec<String> {
        let calls = std::mem::take(&mut *self.calls.lock().unwrap());
        calls
            .iter()
            .map(|record| format!("{} {}", record.call.verb, record.call.resource))
            .collect()
    }

    pub(crate) fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    async fn secret(&self, name: &str, key: &str, value: &str) {
        let metadata = ObjectMeta {
            name: Some(name.into()),
            ..Default::default()
        };
        let data = [(key.to_owned(), ByteString(value.into()))].into();
        let secret = Secret {
            metadata,
            data: Some(data),
            ..Default::default()
        };
        apply(&self.api::<Secret>(), &secret, "test").await.unwrap();
    }

    /// Writes the Cluster, as gardenlet does.
    pub(crate) async fn cluster(&self, hibernated: bool) {
        let shoot: Shoot = serde_json::from_value(json!({
            "apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot",
            "metadata": {"name": "ape", "namespace": "garden-zoo"},
            "spec": {
                "hibernation": {"enabled": hibernated},
                "networking": {"pods": "100.96.0.0/11", "services": "100.64.0.0/13"},
                "provider": {"type": TYPE, "workers": [{"name": "p", "zones": ["west"]}]},
            },
        }))
        .unwrap();
        let mut cluster = Cluster::default();
        cluster.metadata.name = Some(NAMESPACE.into());
        cluster.spec.shoot = RawJson::of(&shoot).unwrap();
        apply(&Api::all(self.client.clone()), &cluster, "gardenlet")
            .await
            .unwrap();
    }

    /// Writes an extension object with a request to reconcile, and waits until it has succeeded.
    pub(crate) async fn bring_about<K>(&self, name: &str, spec: Value) -> K
    where
        K: ExtensionObject + Resource<Scope = NamespaceResourceScope>,
    {
        let generation = self.write::<K>(name, spec).await;
        until(&self.api::<K>(), name, "reconciled", |object| {
            let (last, observed) = object.progress();
            observed == generation && last.is_some_and(is_success) && operation_of(object).is_none()
        })
        .await
    }

    /// Writes an extension object with a request to reconcile, and returns its generation.
    pub(crate) async fn write<K>(&self, name: &str, spec: Value) -> i64
    where
        K: ExtensionObject + Resource<Scope = NamespaceResourceScope>,
    {
        let body = json!({
            "apiVersion": K::api_version(&()), "kind": K::kind(&()),
            "metadata": {"name": name, "annotations": {"gardener.cloud/operation": "reconcile"}}, "spec": spec,
        });
        let params = PatchParams::apply("gardenlet").force();
        let written = self.api::<K>().patch(name, &params, &Patch::Apply(body)).await.unwrap();
        written.meta().generation.unwrap_or_default()
    }

    pub(crate) async fn take_down<K>(&self, name: &str)
    where
        K: ExtensionObject + Resource<Scope = NamespaceResourceScope>,
    {
        self.api::<K>().delete(name, &DeleteParams::default()).await.unwrap();
        until_gone(&self.api::<K>(), name).await;
    }

    /// An Infrastructure that has succeeded.
    pub(crate) async fn infrastructure(&self) -> Infrastructure {
        let spec = json!({"type": TYPE, "region": "r", "secretRef": {"name": "c", "namespace": NAMESPACE}});
        self.bring_about("ape", spec).await
    }

    /// The spec of a Worker with one pool.
    pub(crate) fn worker_spec(&self, infrastructure: &Infrastructure, agent: &str, machines: i32) -> Value {
        let status = infrastructure.status.clone().unwrap().provider_status.unwrap();
        json!({
            "type": TYPE, "region": "r", "secretRef": {"name": "c", "namespace": NAMESPACE},
            "infrastructureProviderStatus": serde_json::from_str::<Value>(status.get()).unwrap(),
            "pools": [{
                "name": "p", "machineType": "m", "minimum": machines, "maximum": machines,
                "maxSurge": 1, "maxUnavailable": 0, "nodeAgentSecretName": agent, "zones": ["west"],
                "labels": {"worker.gardener.cloud/pool": "p"},
                "userDataSecretRef": {"name": "user-data", "key": "cloud_config"},
                "machineImage": {"name": TYPE, "version": "1"},
            }],
        })
    }

    pub(crate) async fn worker(&self, spec: Value) -> Worker {
        self.bring_about("ape", spec).await
    }

    /// Lets every pod of a machine join the shoot as a ready node from now on, as the machine's own agent would,
    /// and lets its node be not ready once the pod is gone, as the shoot's node controller would.
    pub(crate) fn let_machines_join(&self) {
        let pods: Cache<Pod> = Cache::start(
            Api::all(self.client.clone()),
            watcher::Config::default().labels("app=machine"),
            self.stop.clone(),
        );
        let (nodes, mut changes) = (self.nodes.clone(), pods.subscribe());
        tokio::spawn(async move {
            loop {
                let change = changes.next().await;
                let name = change.object.name_any().trim_start_matches("machine-").to_owned();
                if !change.deleted {
                    let metadata = ObjectMeta {
                        name: Some(name.clone()),
                        ..Default::default()
                    };
                    apply(
                        &nodes,
                        &Node {
                            metadata,
                            ..Default::default()
                        },
                        "kubelet",
                    )
                    .await
                    .unwrap();
                }
                set_ready(&nodes, &name, if change.deleted { "Unknown" } else { "True" }).await;
            }
        });
    }

    /// The names of the nodes that are ready.
    pub(crate) async fn ready_nodes(&self) -> Vec<String> {
        let ready = |node: &Node| {
            node.status
                .iter()
                .flat_map(|s| s.conditions.iter().flatten())
                .any(|c| c.status == "True")
        };
        self.nodes
            .list(&Default::default())
            .await
            .unwrap()
            .iter()
            .filter(|n| ready(n))
            .map(|n| n.name_any())
            .collect()
    }
}

/// Writes whether a node is ready; one that is gone stays gone.
async fn set_ready(nodes: &Api<Node>, name: &str, ready: &str) {
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        ..Default::default()
    };
    let condition = NodeCondition {
        type_: "Ready".into(),
        status: ready.into(),
        reason: Some("Kubelet".into()),
        ..Default::default()
    };
    let status = Some(NodeStatus {
        conditions: Some(vec![condition]),
        ..Default::default()
    });
    let _ = base_client::apply_status(
        nodes,
        &Node {
            metadata,
            status,
            ..Default::default()
        },
        "kubelet",
    )
    .await;
}

fn is_success(last: &LastOperation) -> bool {
    last.state == LastOperationState::Succeeded
}

fn operation_of<K: Resource>(object: &K) -> Option<&String> {
    object.meta().annotations.as_ref()?.get("gardener.cloud/operation")
}
