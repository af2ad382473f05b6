//! A seed, a cloud and a shoot between them, and processes of the extension that can be ended at any of their calls.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api_core::v1beta1::Shoot;
use api_extensions::{Cluster, ControlPlane, ExtensionKind, ExtensionObject, Infrastructure};
use api_machine::Machine;
use api_meta::{Fault, LastOperation, LastOperationState, LastOperationType, RawJson};
use base_client::{Call, Connector, Verb, WaitState, apply, is_conflict, wait_until};
use base_telemetry::Metrics;
use cluster_controllers::Name;
use control_plane_resource_manager::Options;
use extensions_machines::Surroundings;
use extensions_provider_fake::cloud::{CallRecord, Calls, Cloud, CloudConnector, Held, Item, Keys, Kind, Settings};
use extensions_provider_fake::{ABOUT, CLUSTER_TAG, DEFAULT_TYPE, SLOT_TAG, UNIQUE_TAG, extend};
use extensions_sdk::Extension;
use http::Request;
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::config::Kubeconfig;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tests_kit::{Embedded, embedded};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The shoot's namespace in the seed.
pub(crate) const NAMESPACE: &str = "shoot--a--b";
/// The name of its objects.
pub(crate) const NAME: &str = "b";
pub(crate) const REGION: &str = "fake-1";
const CREDENTIALS: &str = "cloudprovider";
/// Longer than anything takes, in virtual time.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// Everything that outlives a process of the extension. Clones share it.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) embedded: Embedded,
    /// The test's own client, whose calls are not counted.
    pub(crate) client: Client,
    pub(crate) cloud: Cloud,
    pub(crate) keys: Keys,
}

/// Connects every kubeconfig to the seed, which is its own shoot.
struct ToItself(Client);

impl Connector for ToItself {
    fn client(&self, _: &Kubeconfig) -> Result<Client, Fault> {
        Ok(self.0.clone())
    }
}

/// A process of the extension.
pub(crate) struct Process {
    pub(crate) calls: Calls,
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl Process {
    /// Ends it wherever it is: none of its calls goes on.
    pub(crate) fn kill(self) {
        self.task.abort();
        self.stop.cancel();
    }
}

/// The definitions of what the tests use.
fn definitions() -> Vec<CustomResourceDefinition> {
    let mut all = api_extensions::crds();
    let wanted = [
        ExtensionKind::Infrastructure.plural(),
        ExtensionKind::ControlPlane.plural(),
        ExtensionKind::Worker.plural(),
        "clusters",
    ];
    all.retain(|definition| wanted.contains(&definition.spec.names.plural.as_str()));
    all.extend(api_resources::crds());
    all.extend(api_machine::crds());
    all
}

impl World {
    pub(crate) async fn new(settings: Settings) -> Self {
        Self::with_cloud(Cloud::new(settings)).await
    }

    /// A seed beside a cloud that may be in use.
    pub(crate) async fn with_cloud(cloud: Cloud) -> Self {
        let embedded = embedded().await;
        let client = embedded.admin();
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        for definition in definitions() {
            crds.create(&PostParams::default(), &definition).await.unwrap();
        }
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).unwrap();
        Api::all(client.clone())
            .create(&PostParams::default(), &namespace)
            .await
            .unwrap();
        let keys = cloud.issue_keys("account");
        let world = Self {
            embedded,
            client,
            cloud,
            keys,
        };
        world.give_keys(&world.keys).await;
        world.write_cluster(|_| {}).await;
        world
    }

    /// Writes the credentials as gardenlet does.
    pub(crate) async fn give_keys(&self, keys: &Keys) {
        let secret: Secret = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": CREDENTIALS, "namespace": NAMESPACE},
            "stringData": {"accessKeyID": keys.access_key_id, "secretAccessKey": keys.secret_access_key},
        }))
        .unwrap();
        let api: Api<Secret> = Api::namespaced(self.client.clone(), NAMESPACE);
        apply(&api, &secret, "gardenlet").await.unwrap();
    }

    /// Writes the Cluster of a shoot with one pool in the first zone.
    pub(crate) async fn write_cluster(&self, edit: impl FnOnce(&mut Shoot)) {
        let mut shoot: Shoot = serde_json::from_value(json!({
            "apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot",
            "metadata": {"name": NAME, "namespace": "garden-a"},
            "spec": {"networking": {"pods": "100.96.0.0/11", "services": "100.64.0.0/13"},
                "provider": {"type": DEFAULT_TYPE, "workers": [{"name": "pool", "zones": ["fake-1a"]}]}},
        }))
        .unwrap();
        let status = shoot.status.get_or_insert_default();
        status.last_operation = Some(LastOperation {
            state: LastOperationState::Processing,
            type_: LastOperationType::Reconcile,
            ..Default::default()
        });
        edit(&mut shoot);
        let mut cluster = Cluster::default();
        cluster.metadata.name = Some(NAMESPACE.into());
        cluster.spec.shoot = RawJson::of(&shoot).unwrap();
        apply(&Api::all(self.client.clone()), &cluster, "gardenlet")
            .await
            .unwrap();
    }

    /// Starts a process whose calls, of the seed and of the cloud, are counted by `calls`.
    pub(crate) fn start(&self, calls: Calls) -> Process {
        self.start_through(self.embedded.admin(), Arc::new(self.cloud.clone()), calls)
    }

    /// What the machine controllers of a process need.
    pub(crate) fn surroundings(&self, client: &Client, stop: &CancellationToken) -> Surroundings {
        Surroundings {
            client: client.clone(),
            connector: Arc::new(ToItself(client.clone())),
            clock: self.embedded.clock.clone(),
            entropy: self.embedded.entropy.clone(),
            metrics: Metrics::new(),
            stop: stop.clone(),
        }
    }

    /// Starts a process that calls the seed through `client`.
    pub(crate) fn start_through(&self, client: Client, cloud: Arc<dyn CloudConnector>, calls: Calls) -> Process {
        let stop = CancellationToken::new();
        let client = counted(client, calls.clone());
        let (clock, entropy) = (self.embedded.clock.clone(), self.embedded.entropy.clone());
        let cloud = calls.around(cloud);
        let surroundings = self.surroundings(&client, &stop);
        let extension = Extension::builder(ABOUT.name, client, clock, entropy, stop.clone());
        let extension = extend(extension, &cloud, surroundings, DEFAULT_TYPE).unwrap();
        Process {
            task: tokio::spawn(extension.run()),
            calls,
            stop,
        }
    }

    /// Starts what works on ManagedResources of the seed: the resource manager and a garbage collector, which deletions in the
    /// foreground need. Both run until the test ends.
    pub(crate) fn manage_resources(&self) {
        let (clock, entropy) = (self.embedded.clock.clone(), self.embedded.entropy.clone());
        let options = Options {
            class: Some("seed".to_owned()),
            ..Options::default()
        };
        let (client, stop) = (self.client.clone(), CancellationToken::new());
        let manager = control_plane_resource_manager::run(client.clone(), client, options, clock.clone(), stop.clone());
        tokio::spawn(manager);
        let options = cluster_controllers::Options {
            controllers: BTreeSet::from([Name::GarbageCollector]),
            ..cluster_controllers::Options::all(clock, entropy)
        };
        tokio::spawn(cluster_controllers::run(self.client.clone(), options, stop));
    }

    /// The names of all objects of a kind in the shoot's namespace.
    pub(crate) async fn names_of<K>(&self) -> Vec<String>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + DeserializeOwned,
    {
        let objects = self.all::<K>().list(&ListParams::default()).await.unwrap();
        objects.iter().map(ResourceExt::name_any).collect()
    }

    /// Creates the ControlPlane, as gardenlet does.
    pub(crate) async fn create_control_plane(&self, infrastructure_status: Value) {
        let object: ControlPlane = serde_json::from_value(json!({
            "metadata": {"name": NAME, "annotations": {"gardener.cloud/operation": "reconcile"}},
            "spec": {
                "type": DEFAULT_TYPE, "region": REGION, "infrastructureProviderStatus": infrastructure_status,
                "secretRef": {"name": CREDENTIALS, "namespace": NAMESPACE},
            },
        }))
        .unwrap();
        self.all().create(&PostParams::default(), &object).await.unwrap();
    }

    /// All objects of a kind in the shoot's namespace.
    pub(crate) fn all<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub(crate) fn infrastructures(&self) -> Api<Infrastructure> {
        self.all()
    }

    pub(crate) async fn infrastructure(&self) -> Option<Infrastructure> {
        self.infrastructures().get_opt(NAME).await.unwrap()
    }

    /// Creates the Infrastructure, as gardenlet does.
    pub(crate) async fn create(&self, config: Value, ssh_key: &str) {
        self.create_with(config, ssh_key, json!({"gardener.cloud/operation": "reconcile"}))
            .await;
    }

    pub(crate) async fn create_with(&self, config: Value, ssh_key: &str, annotations: Value) {
        let object: Infrastructure = serde_json::from_value(json!({
            "metadata": {"name": NAME, "annotations": annotations},
            "spec": spec(config, ssh_key),
        }))
        .unwrap();
        self.infrastructures()
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
    }

    /// Requests another operation, with another configuration if there is one.
    pub(crate) async fn request(&self, operation: &str, wanted: Option<(Value, &str)>) {
        self.edit(&self.infrastructures(), operation, |object| {
            if let Some((config, ssh_key)) = &wanted {
                object.spec = serde_json::from_value(spec(config.clone(), ssh_key)).unwrap();
            }
        })
        .await;
    }

    /// Changes an object and requests an operation.
    pub(crate) async fn edit<K: ExtensionObject>(&self, api: &Api<K>, operation: &str, change: impl Fn(&mut K)) {
        loop {
            let mut object = api.get(NAME).await.unwrap();
            change(&mut object);
            let annotations = object.meta_mut().annotations.get_or_insert_default();
            annotations.insert("gardener.cloud/operation".to_owned(), operation.to_owned());
            annotations.insert(
                "gardener.cloud/timestamp".to_owned(),
                self.embedded.clock.now().to_string(),
            );
            match api.replace(NAME, &PostParams::default(), &object).await {
                Err(error) if is_conflict(&error) => {}
                replaced => return drop(replaced.unwrap()),
            }
        }
    }

    /// Writes a status, as gardenlet does before a restore.
    pub(crate) async fn write_status(&self, status: Value) {
        let patch = Patch::Merge(status);
        self.infrastructures()
            .patch_status(NAME, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Waits until the last request is answered with this state, as gardenlet does.
    pub(crate) async fn becomes(&self, state: LastOperationState) -> Infrastructure {
        answered(&self.infrastructures(), state).await
    }

    pub(crate) async fn succeeds(&self) -> Infrastructure {
        self.becomes(LastOperationState::Succeeded).await
    }

    pub(crate) async fn delete(&self) {
        self.infrastructures()
            .delete(NAME, &DeleteParams::default())
            .await
            .unwrap();
    }

    pub(crate) async fn goes(&self) {
        gone(&self.infrastructures()).await;
    }

    /// What the cloud holds for the shoot beside instances, by slot; key pairs without their checksum.
    pub(crate) fn slots(&self) -> Vec<String> {
        let mut held = self.cloud.held().tagged(CLUSTER_TAG, NAMESPACE);
        held.0.retain(|item| item.kind() != Kind::Instance);
        let name = |item: &Item| match item.kind() {
            Kind::KeyPair => "key-pair".to_owned(),
            _ => item.tags[SLOT_TAG].clone(),
        };
        let mut slots: Vec<String> = held.0.iter().map(name).collect();
        slots.sort();
        slots
    }

    pub(crate) fn doubled(&self) -> Held {
        self.cloud.held().doubled(&[CLUSTER_TAG, SLOT_TAG])
    }

    /// Instances that no Machine object names.
    pub(crate) async fn unnamed_instances(&self) -> Vec<Item> {
        let machines: BTreeSet<String> = self.names_of::<Machine>().await.into_iter().collect();
        let mut held = self.cloud.held().tagged(CLUSTER_TAG, NAMESPACE).0;
        held.retain(|item| item.kind() == Kind::Instance);
        held.retain(|item| !machines.contains(item.tags[SLOT_TAG].trim_start_matches("machine/")));
        held
    }

    /// What the cloud holds and the state does not name, beside instances.
    pub(crate) async fn unnamed(&self) -> Vec<Item> {
        let object = self.infrastructure().await;
        let state = object
            .and_then(|object| object.status?.state)
            .map(|state| state.value());
        let entries = state.map(|state| state["resources"].as_array().cloned().unwrap_or_default());
        let entries = entries.unwrap_or_default();
        let named: BTreeSet<&str> = entries
            .iter()
            .flat_map(|entry| [entry["id"].as_str(), entry["tag"].as_str()])
            .flatten()
            .collect();
        let mut held = self.cloud.held().tagged(CLUSTER_TAG, NAMESPACE).0;
        held.retain(|item| item.kind() != Kind::Instance);
        held.retain(|item| !named.contains(item.id.as_str()) && !named.contains(item.tags[UNIQUE_TAG].as_str()));
        held
    }
}

fn spec(config: Value, ssh_key: &str) -> Value {
    use base64::Engine as _;
    json!({
        "type": DEFAULT_TYPE, "region": REGION, "providerConfig": config,
        "secretRef": {"name": CREDENTIALS, "namespace": NAMESPACE},
        "sshPublicKey": base64::engine::general_purpose::STANDARD.encode(ssh_key),
    })
}

/// A configuration with zones as (name, range).
pub(crate) fn config(zones: &[(&str, &str)], node_port_sources: &[&str]) -> Value {
    let zones: Vec<Value> = zones
        .iter()
        .map(|(name, range)| json!({"name": name, "workers": range}))
        .collect();
    json!({
        "apiVersion": "fake.provider.extensions.gardener.cloud/v1alpha1", "kind": "InfrastructureConfig",
        "networks": {"vpc": {"cidr": "10.250.0.0/16"}, "zones": zones, "nodePortSources": node_port_sources},
    })
}

/// Waits until the last request is answered with this state, as gardenlet does.
pub(crate) async fn answered<K: ExtensionObject>(api: &Api<K>, state: LastOperationState) -> K {
    let check = |object: Option<&K>| match object {
        Some(object) if is_answered(object, &state) => WaitState::Done(object.clone()),
        Some(object) => WaitState::NotYet(format!("{:?}", object.progress())),
        None => WaitState::NotYet("it does not exist".to_owned()),
    };
    wait_until(api, NAME, PATIENCE, check).await.unwrap()
}

/// Waits until there is no such object.
pub(crate) async fn gone<K: ExtensionObject>(api: &Api<K>) {
    let check = |object: Option<&K>| match object {
        None => WaitState::Done(()),
        Some(object) => WaitState::NotYet(format!("{:?}", object.progress())),
    };
    wait_until(api, NAME, PATIENCE, check).await.unwrap()
}

fn is_answered<K: ExtensionObject>(object: &K, state: &LastOperationState) -> bool {
    let annotations = object.meta().annotations.clone().unwrap_or_default();
    let requested = annotations
        .get("gardener.cloud/timestamp")
        .map(|text| text.parse().unwrap());
    let (Some(last), observed) = object.progress() else {
        return false;
    };
    let answered = requested.is_none_or(|at: Timestamp| last.last_update_time.0.as_second() >= at.as_second());
    last.state == *state
        && answered
        && observed == object.meta().generation.unwrap_or_default()
        && !annotations.contains_key("gardener.cloud/operation")
}

/// A client whose calls are counted.
fn counted(client: Client, calls: Calls) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, calls) = (client.clone(), calls.clone());
        let call = Call::of(&request);
        let subresource = call.subresource.map(|name| format!("/{name}")).unwrap_or_default();
        let record = CallRecord {
            what: format!("{} {}{subresource}", call.verb, call.resource),
            writes: !matches!(call.verb, Verb::Get | Verb::List | Verb::Watch),
        };
        async move { calls.make(record, client.send(request)).await }
    });
    Client::new(service, namespace)
}
