//! The world around a gardenlet: a garden, a seed, a shoot's API server, and everybody who answers in the seed.

use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use api_core::v1beta1 as core;
use api_extensions as extensions;
use api_meta::{Fault, annotations};
use api_resources::ManagedResource;
use base_client::{Call, Connector, Injected, inject_faults};
use base_controller::Cache;
use cluster_controllers::{Name, Options};
use control_plane_gardenlet::{Addressing, Clients, Config, GardenAccess, Images, NodeAccess};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use kube::core::GroupVersionKind;
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tests_kit::{ADMINS, Embedded, embedded, embedded_with, until};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::extensions_there::Extensions;

pub(crate) const NAMESPACE: &str = "shoot--a--b";
pub(crate) const GARDENLET: &str = "gardener.cloud:system:seed:south";
pub(crate) const GARDEN_NAMESPACE: &str = "garden-a";
/// What the infrastructure answers: numbers that a float cannot hold, nesting, quotes. As an API server prints it.
pub(crate) const ANSWER: &str =
    r#"{"apiVersion":"moon/v1","big":9007199254740993,"nested":{"list":[1,{"deep":[]}],"text":"a \"b\" \\ é"}}"#;

pub(crate) struct World {
    pub(crate) garden: Embedded,
    pub(crate) seed: Embedded,
    pub(crate) shoot: Embedded,
    pub(crate) extensions: Extensions,
    stop: CancellationToken,
    /// Ends the gardenlet that runs.
    gardenlet: CancellationToken,
    _stop: DropGuard,
}

/// Any kubeconfig leads to the one shoot there is.
struct OneShoot(Client);

impl Connector for OneShoot {
    fn client(&self, _: &Kubeconfig) -> Result<Client, Fault> {
        Ok(self.0.clone())
    }
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| Injected::Pass).await
    }

    /// The same with faults in gardenlet's calls to the garden and the seed.
    pub(crate) async fn start_with(faults: impl Fn(&Call) -> Injected + Send + Sync + 'static) -> Self {
        Self::start_as(None, faults).await
    }

    /// The same with pods of the seed that can reach the garden.
    pub(crate) async fn start_with_garden_access() -> Self {
        let access = GardenAccess {
            server: "https://garden.example:443".into(),
            ca_pem: "PEM".into(),
            tls_server_name: Some("garden".into()),
        };
        Self::start_as(Some(access), |_| Injected::Pass).await
    }

    async fn start_as(
        access: Option<GardenAccess>,
        faults: impl Fn(&Call) -> Injected + Send + Sync + 'static,
    ) -> Self {
        let settings = control_plane_garden_api::GardenSettings {
            entropy: base_clock::Entropy::seeded(7),
            gateway: None,
            plugins: control_plane_garden_api::AdmissionPlugins::default(),
        };
        let garden = embedded_with("garden", control_plane_garden_api::kinds(&settings), |builder| builder).await;
        let (seed, shoot) = (embedded().await, embedded().await);
        let stop = CancellationToken::new();
        for server in [&garden, &seed] {
            let options = Options {
                controllers: Name::WITHOUT_WORKLOADS.into(),
                ..Options::all(server.clock.clone(), server.entropy.clone())
            };
            tokio::spawn(cluster_controllers::run(server.admin(), options, stop.clone()));
        }
        let extensions = Extensions::new(seed.admin(), seed.clock.clone(), stop.clone());
        let world = Self {
            garden,
            seed,
            shoot,
            extensions,
            stop: stop.clone(),
            gardenlet: stop.child_token(),
            _stop: stop.clone().drop_guard(),
        };
        world.furnish().await;
        world.register("moon", KINDS).await;
        world.start_gardenlet((access, NodeAccess::Direct), faults);
        // The seed's kinds exist once the gardenlet has registered its Seed.
        until(
            &Api::<core::Seed>::all(world.garden.admin()),
            "south",
            "registered",
            |_| true,
        )
        .await;
        world.install("moon").await;
        world.start_answers(&stop);
        let known = |seed: &core::Seed| {
            seed.status
                .as_ref()
                .is_some_and(|status| status.cluster_identity.is_some())
        };
        until(&Api::<core::Seed>::all(world.garden.admin()), "south", "known", known).await;
        world
    }

    /// Ends the gardenlet and starts another, whose shoots' API servers reach nodes so.
    pub(crate) fn restart_gardenlet(&mut self, node_access: NodeAccess) {
        self.restart_gardenlet_with(node_access, |_| Injected::Pass);
    }

    /// The same with faults in its calls.
    pub(crate) fn restart_gardenlet_with(
        &mut self,
        node_access: NodeAccess,
        faults: impl Fn(&Call) -> Injected + Send + Sync + 'static,
    ) {
        self.gardenlet.cancel();
        self.gardenlet = self.stop.child_token();
        self.start_gardenlet((None, node_access), faults);
    }

    fn start_gardenlet(
        &self,
        (access, node_access): (Option<GardenAccess>, NodeAccess),
        faults: impl Fn(&Call) -> Injected + Send + Sync + 'static,
    ) {
        let object: core::Seed = serde_json::from_value(json!({
            "metadata": {"name": "south"},
            "spec": {
                "provider": {"type": "moon", "region": "far"},
                "dns": {"internal": {"type": "moon", "domain": "internal.example", "credentialsRef":
                    {"apiVersion": "v1", "kind": "Secret", "name": "dns", "namespace": "garden"}}},
                "networks": {"nodes": "172.18.0.0/16", "pods": "10.1.0.0/16", "services": "10.2.0.0/16"},
            },
        }))
        .expect("a Seed");
        let faults = Arc::new(faults);
        let in_garden = faults.clone();
        let clients = Clients {
            garden: inject_faults(self.garden.client(GARDENLET, &[ADMINS]), move |call| in_garden(call)),
            seed: inject_faults(self.seed.client(GARDENLET, &[ADMINS]), move |call| faults(call)),
            shoots: Arc::new(OneShoot(self.shoot.admin())),
        };
        let addressing = Addressing::Shared {
            url: "https://127.0.0.1:6443".into(),
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        };
        let mut config = Config::new(object, Images::new("r.example", "v0"), addressing);
        config.garden_access = access;
        config.node_access = node_access;
        let (clock, entropy) = (self.seed.clock.clone(), self.seed.entropy.clone());
        let stop = self.gardenlet.clone();
        tokio::spawn(async move {
            Box::pin(control_plane_gardenlet::run(clients, config, clock, entropy, stop))
                .await
                .expect("the gardenlet runs");
        });
    }

    /// Namespaces, project, cloud profile and credentials of the garden.
    async fn furnish(&self) {
        for (name, labels) in [
            ("garden", json!({})),
            ("gardener-system-seed-lease", json!({})),
            (
                GARDEN_NAMESPACE,
                json!({"gardener.cloud/role": "project", "project.gardener.cloud/name": "a"}),
            ),
        ] {
            self.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}))
                .await;
        }
        self.create(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "dns", "namespace": "garden"}}))
            .await;
        self.create(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cloud", "namespace": GARDEN_NAMESPACE}, "stringData": {"key": "value"}})).await;
        self.create(json!({
            "apiVersion": "core.gardener.cloud/v1beta1", "kind": "Project",
            "metadata": {"name": "a"}, "spec": {"namespace": GARDEN_NAMESPACE},
        }))
        .await;
        self.create(json!({
            "apiVersion": "security.gardener.cloud/v1alpha1", "kind": "CredentialsBinding",
            "metadata": {"name": "cloud", "namespace": GARDEN_NAMESPACE}, "provider": {"type": "moon"},
            "credentialsRef": {"apiVersion": "v1", "kind": "Secret", "name": "cloud", "namespace": GARDEN_NAMESPACE},
        }))
        .await;
        self.create(json!({
            "apiVersion": "core.gardener.cloud/v1beta1", "kind": "CloudProfile", "metadata": {"name": "moons"},
            "spec": {
                "type": "moon",
                "kubernetes": {"versions": [{"version": "1.35.0", "classification": "supported"}]},
                "machineImages": [{"name": "dust", "versions": [{"version": "2.0.0", "architectures": ["amd64"], "cri": [{"name": "containerd"}]}]}],
                "machineTypes": [{"name": "crater", "cpu": "4", "gpu": "0", "memory": "8Gi", "usable": true, "architecture": "amd64"}],
                "regions": [{"name": "far"}],
            },
        }))
        .await;
    }

    pub(crate) async fn create(&self, object: Value) -> DynamicObject {
        create(&self.garden.admin(), object).await
    }

    pub(crate) async fn create_shoot(&self, shoot: &Value) {
        self.create(shoot.clone()).await;
    }

    pub(crate) async fn register(&self, name: &str, kinds: &[(&str, &str)]) {
        let resources: Vec<Value> = kinds
            .iter()
            .map(|(kind, type_)| json!({"kind": kind, "type": type_, "primary": true}))
            .collect();
        self.create(json!({
            "apiVersion": "core.gardener.cloud/v1beta1", "kind": "ControllerDeployment", "metadata": {"name": name},
            "type": "other", "providerConfig": {},
        }))
        .await;
        self.create(json!({
            "apiVersion": "core.gardener.cloud/v1beta1", "kind": "ControllerRegistration", "metadata": {"name": name},
            "spec": {"deployment": {"deploymentRefs": [{"name": name}]}, "resources": resources},
        }))
        .await;
    }

    pub(crate) async fn install(&self, name: &str) {
        self.create(json!({
            "apiVersion": "core.gardener.cloud/v1beta1", "kind": "ControllerInstallation", "metadata": {"name": name},
            "spec": {"registrationRef": {"name": name}, "seedRef": {"name": "south"}, "deploymentRef": {"name": name}},
        }))
        .await;
        let condition = |type_: &str| {
            json!({"type": type_, "status": "True", "reason": "R", "message": "m",
                "lastTransitionTime": tests_kit::EPOCH, "lastUpdateTime": tests_kit::EPOCH})
        };
        let api: Api<core::ControllerInstallation> = Api::all(self.garden.admin());
        let status = json!({"status": {"conditions": [condition("Valid"), condition("Installed")]}});
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(status))
            .await
            .expect("the installation is ready");
    }

    /// A webhook of an extension that is called for each new Infrastructure and that nothing serves.
    pub(crate) async fn guard_infrastructures(&self) {
        let configuration = json!({
            "metadata": {"name": "guard"},
            "webhooks": [{
                "name": "guard.moon.example", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "clientConfig": {"service": {"namespace": "extension-moon-abcde", "name": "guard"}},
                "rules": [{"apiGroups": ["extensions.gardener.cloud"], "apiVersions": ["*"], "operations": ["CREATE"],
                    "resources": ["infrastructures"]}],
            }],
        });
        let configurations: Api<MutatingWebhookConfiguration> = Api::all(self.seed.admin());
        let configuration = serde_json::from_value(configuration).expect("a configuration");
        configurations
            .create(&PostParams::default(), &configuration)
            .await
            .expect("the seed takes it");
    }

    pub(crate) fn shoots(&self) -> Api<core::Shoot> {
        self.garden_namespace()
    }

    pub(crate) fn garden_namespace<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.garden.admin(), GARDEN_NAMESPACE)
    }

    pub(crate) fn seed<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.seed.admin(), NAMESPACE)
    }

    pub(crate) async fn raw<K>(&self, name: &str) -> Value
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Serialize + Debug,
    {
        let object = self.seed::<K>().get(name).await.expect("the object is there");
        serde_json::to_value(object).expect("objects are JSON")
    }

    /// Extensions, workload controllers and resource manager, as quick as can be.
    fn start_answers(&self, stop: &CancellationToken) {
        self.extensions.answer::<extensions::Infrastructure>(|_| {
            json!({"providerStatus": serde_json::from_str::<Value>(ANSWER).expect("JSON"), "nodesCIDR": "10.9.0.0/16"})
        });
        self.extensions.answer::<extensions::ControlPlane>(|_| json!({}));
        self.extensions.answer::<extensions::Network>(|_| json!({}));
        self.extensions.answer::<extensions::DNSRecord>(|_| json!({}));
        self.extensions.answer::<extensions::Extension>(|_| json!({}));
        self.extensions.answer::<extensions::Worker>(
            |_| json!({"machineDeployments": [{"name": "m", "minimum": 1, "maximum": 1}]}),
        );
        self.extensions.answer::<extensions::OperatingSystemConfig>(|config| {
            let name = format!("osc-result-{}", config.name_any());
            json!({"cloudConfig": {"secretRef": {"name": name, "namespace": config.namespace()}}})
        });
        self.extensions
            .answer::<extensions::BackupBucket>(|_| json!({"providerStatus": {"pail": 1}}));
        self.extensions.answer::<extensions::BackupEntry>(|_| json!({}));
        self.run_pods::<Deployment>(stop);
        self.run_pods::<StatefulSet>(stop);
        self.run_manager(stop);
    }

    fn run_pods<K>(&self, stop: &CancellationToken)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + Debug
            + Send
            + Sync
            + 'static,
    {
        let client = self.seed.admin();
        let cache = start_cache::<K>(&client, stop);
        tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
            let mut changes = cache.subscribe();
            loop {
                let change = changes.next().await;
                let meta = change.object.meta();
                if change.deleted || change.old.as_ref().is_some_and(|old| old.meta().generation == meta.generation) {
                    continue;
                }
                let status = json!({"status": {"observedGeneration": meta.generation, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}});
                let api: Api<K> = Api::namespaced(client.clone(), &meta.namespace.clone().unwrap_or_default());
                // It may be gone by now.
                let _ = api.patch_status(&meta.name.clone().unwrap_or_default(), &PatchParams::default(), &Patch::Merge(status)).await;
            }
        }));
    }

    fn run_manager(&self, stop: &CancellationToken) {
        let client = self.seed.admin();
        let cache = start_cache::<ManagedResource>(&client, stop);
        tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
            let mut changes = cache.subscribe();
            loop {
                let change = changes.next().await;
                let meta = &change.object.metadata;
                // What installations have is answered by their tests.
                if change.deleted
                    || change.object.spec.class.as_deref() == Some("seed")
                    || change
                        .old
                        .as_ref()
                        .is_some_and(|old| old.metadata.generation == meta.generation)
                {
                    continue;
                }
                let condition = |type_: &str| {
                    json!({"type": type_, "status": "True", "reason": "R", "message": "m",
                        "lastTransitionTime": tests_kit::EPOCH, "lastUpdateTime": tests_kit::EPOCH})
                };
                let status = json!({"status": {"observedGeneration": meta.generation,
                    "conditions": [condition("ResourcesApplied"), condition("ResourcesHealthy")]}});
                let api: Api<ManagedResource> =
                    Api::namespaced(client.clone(), meta.namespace.as_deref().unwrap_or_default());
                let _ = api
                    .patch_status(
                        meta.name.as_deref().unwrap_or_default(),
                        &PatchParams::default(),
                        &Patch::Merge(status),
                    )
                    .await;
            }
        }));
    }
}

pub(crate) fn start_cache<K>(client: &Client, stop: &CancellationToken) -> Cache<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    Cache::start(Api::all(client.clone()), watcher::Config::default(), stop.clone())
}

async fn create(client: &Client, object: Value) -> DynamicObject {
    let object: DynamicObject = serde_json::from_value(object).expect("an object");
    let types = object.types.clone().expect("a kind");
    let gvk = GroupVersionKind::try_from(&types).expect("a kind");
    let resource = kube::api::ApiResource::from_gvk(&gvk);
    let api: Api<DynamicObject> = match object.namespace() {
        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let what = format!("{} {}", types.kind, object.name_any());
    api.create(&PostParams::default(), &object).await.expect(&what)
}

const KINDS: &[(&str, &str)] = &[
    ("Infrastructure", "moon"),
    ("ControlPlane", "moon"),
    ("Worker", "moon"),
    ("Network", "orbit"),
    ("OperatingSystemConfig", "dust"),
    ("DNSRecord", "moon"),
    ("Extension", "crew"),
    ("BackupBucket", "moon"),
    ("BackupEntry", "moon"),
];

/// A shoot with one pool and one extension, whose nodes' network is the infrastructure's business.
pub(crate) fn shoot() -> Value {
    json!({
        "apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot",
        "metadata": {"name": "b", "namespace": GARDEN_NAMESPACE, "annotations": {annotations::CONFIRMATION_DELETION: "true"}},
        "spec": {
            "cloudProfile": {"kind": "CloudProfile", "name": "moons"},
            "credentialsBindingName": "cloud", "region": "far", "seedName": "south",
            "kubernetes": {"version": "1.35.0"},
            "networking": {"type": "orbit"},
            "extensions": [{"type": "crew"}],
            "provider": {"type": "moon", "workers": [{
                "name": "pool-a", "minimum": 1, "maximum": 1,
                "machine": {"type": "crater", "image": {"name": "dust", "version": "2.0.0"}},
            }]},
        },
    })
}
