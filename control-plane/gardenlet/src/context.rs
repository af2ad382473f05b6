//! What all controllers of a gardenlet share: clients, clock, caches. Holds no state of its own.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use api_core::v1::ControllerDeployment;
use api_core::v1beta1 as core;
use api_extensions::ExtensionObject;
use api_meta::{Fault, labels, names};
use api_resources::ManagedResource;
use base_client::Connector;
use base_clock::{Clock, Entropy};
use base_controller::{Cache, Index, Recorder};
use components_seed::CLUSTER_ROLE;
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::extension::ExtensionCaches;
use crate::extension_status::ExtensionStatus;
use crate::installation::{Apis, Charts, GENERIC_KUBECONFIG, Referenced, Rendering};
use crate::shoot::Inside;

/// Field manager of everything gardenlet applies.
pub(crate) const MANAGER: &str = "gardenlet";

/// What gardenlet needs from its program.
pub struct Clients {
    /// The garden, as `gardener.cloud:system:seed:<seed>`.
    pub garden: Client,
    /// The seed, as gardenlet's service account.
    pub seed: Client,
    /// Makes clients for shoots.
    pub shoots: Arc<dyn Connector>,
}

/// Shared by all controllers of one gardenlet.
pub(crate) struct Context {
    /// Client of the garden.
    pub garden: Client,
    /// Client of the seed.
    pub seed: Client,
    /// Makes clients for shoots.
    pub connector: Arc<dyn Connector>,
    /// The time.
    pub clock: Clock,
    /// Randomness.
    pub entropy: Entropy,
    /// Settings.
    pub config: Config,
    /// Caches of the garden.
    pub garden_caches: GardenCaches,
    /// Caches of the seed.
    pub seed_caches: SeedCaches,
    /// The policy by which only primary extensions write the main status of extension objects.
    pub extension_status: ExtensionStatus,
    /// Caches of what care sees inside of shoots.
    pub inside: Inside,
    /// Charts of extensions.
    pub charts: Charts,
    /// Renders them.
    pub rendering: Rendering,
    /// What the seed's API server can do.
    pub apis: Apis,
    /// The last timestamp of a request to an extension.
    pub stamped: Mutex<Timestamp>,
    /// Writes events into the garden.
    pub events: Recorder,
}

/// Caches of garden objects.
pub(crate) struct GardenCaches {
    /// Those that are on our seed, or are to be.
    pub shoots: Cache<core::Shoot>,
    /// The same by technical ID, which is the name of their namespace in the seed; those that have none yet are not in it.
    pub shoots_by_id: Index<core::Shoot>,
    /// Ours alone.
    pub seeds: Cache<core::Seed>,
    pub registrations: Cache<core::ControllerRegistration>,
    /// Those in our seed.
    pub installations: Cache<core::ControllerInstallation>,
    /// Those of our seed.
    pub backup_buckets: Cache<core::BackupBucket>,
    /// Those that are on our seed, or are to be.
    pub backup_entries: Cache<core::BackupEntry>,
    /// In the version that holds charts.
    pub deployments: Cache<ControllerDeployment>,
    /// Those that ControllerDeployments refer to.
    pub secrets: Referenced<Secret>,
    /// The same.
    pub config_maps: Referenced<ConfigMap>,
}

/// The names of what ControllerDeployments refer to, whenever it has changed.
pub(crate) struct ReferencedChanges {
    pub secrets: UnboundedReceiver<String>,
    pub config_maps: UnboundedReceiver<String>,
}

/// Caches of seed objects.
pub(crate) struct SeedCaches {
    /// The caches of all kinds of extension objects.
    pub extension_objects: ExtensionCaches,
    pub managed_resources: Cache<ManagedResource>,
    pub deployments: Cache<Deployment>,
    pub stateful_sets: Cache<StatefulSet>,
    pub extension_namespaces: Cache<Namespace>,
    /// The heartbeats of extensions.
    pub heartbeats: Cache<Lease>,
    /// Those that are filled with tokens of the garden, and the kubeconfigs that go with them.
    pub access_secrets: Cache<Secret>,
    /// Those of the seed's gardener-resource-manager.
    pub manager_roles: Cache<ClusterRole>,
    /// The same.
    pub manager_role_bindings: Cache<ClusterRoleBinding>,
}

impl GardenCaches {
    /// Starts caching what is of a seed: more of it the garden does not let its gardenlet see.
    pub(crate) fn start(garden: &Client, seed: &str, stop: &CancellationToken) -> (Self, ReferencedChanges) {
        let fields = |field: &str| watcher::Config::default().fields(&format!("{field}={seed}"));
        // The garden's API server writes it for the seed of the spec and for that of the status.
        let labelled = || watcher::Config::default().labels(&format!("{}{seed}=true", labels::SEED_NAME_PREFIX));
        let shoots: Cache<core::Shoot> = some(garden, labelled(), stop);
        let (secrets, of_secrets) = Referenced::new(garden, stop);
        let (config_maps, of_config_maps) = Referenced::new(garden, stop);
        let caches = Self {
            shoots_by_id: shoots.index(technical_id),
            shoots,
            seeds: some(garden, fields("metadata.name"), stop),
            registrations: start_cache(garden, stop),
            installations: some(garden, fields("spec.seedRef.name"), stop),
            backup_buckets: some(garden, fields("spec.seedName"), stop),
            backup_entries: some(garden, labelled(), stop),
            deployments: start_cache(garden, stop),
            secrets,
            config_maps,
        };
        let changes = ReferencedChanges {
            secrets: of_secrets,
            config_maps: of_config_maps,
        };
        (caches, changes)
    }
}

/// The name of a Shoot's namespace in its seed, once it has one.
pub(crate) fn technical_id(shoot: &core::Shoot) -> Option<String> {
    let id = shoot.status.as_ref().map(|status| status.technical_id.clone());
    id.filter(|id| !id.is_empty())
}

impl SeedCaches {
    /// Starts caching. The kinds must exist: their watch would fail until they do.
    pub(crate) fn start(seed: &Client, stop: &CancellationToken) -> Self {
        let control_planes =
            watcher::Config::default().labels(&format!("{}={}", labels::ROLE, labels::role::CONTROLPLANE));
        let extensions = watcher::Config::default().labels(&format!("{}={}", labels::ROLE, labels::role::EXTENSION));
        let named = |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));
        let access = watcher::Config::default().labels(&format!(
            "{} in ({}, {GENERIC_KUBECONFIG}),{}={}",
            labels::RESOURCES_PURPOSE,
            labels::resources::PURPOSE_TOKEN_REQUESTOR,
            labels::RESOURCES_CLASS,
            labels::resources::CLASS_GARDEN
        ));
        Self {
            extension_objects: ExtensionCaches::start(seed, stop),
            managed_resources: start_cache(seed, stop),
            deployments: Cache::start(Api::all(seed.clone()), control_planes.clone(), stop.clone()),
            stateful_sets: Cache::start(Api::all(seed.clone()), control_planes, stop.clone()),
            extension_namespaces: Cache::start(Api::all(seed.clone()), extensions, stop.clone()),
            heartbeats: Cache::start(Api::all(seed.clone()), named(names::HEARTBEAT_LEASE), stop.clone()),
            access_secrets: Cache::start(Api::all(seed.clone()), access, stop.clone()),
            manager_roles: Cache::start(Api::all(seed.clone()), named(CLUSTER_ROLE), stop.clone()),
            manager_role_bindings: Cache::start(Api::all(seed.clone()), named(CLUSTER_ROLE), stop.clone()),
        }
    }

    /// The cache of a kind of extension objects.
    pub(crate) fn of<K: ExtensionObject>(&self) -> &Cache<K> {
        self.extension_objects.of()
    }
}

fn start_cache<K>(client: &Client, stop: &CancellationToken) -> Cache<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    some(client, watcher::Config::default(), stop)
}

fn some<K>(client: &Client, config: watcher::Config, stop: &CancellationToken) -> Cache<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    Cache::start(Api::all(client.clone()), config, stop.clone())
}

impl Context {
    /// The timestamp of a request to an extension: no two are the same, however fast they follow each other.
    pub(crate) fn next_stamp(&self) -> Timestamp {
        let mut last = self.stamped.lock().unwrap_or_else(PoisonError::into_inner);
        let after = last.checked_add(std::time::Duration::from_nanos(1)).unwrap_or(*last);
        *last = self.clock.now().max(after);
        *last
    }

    /// Objects of a kind in a namespace of the seed.
    pub(crate) fn in_seed<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.seed.clone(), namespace)
    }

    /// Objects of a kind in a namespace of the garden.
    pub(crate) fn in_garden<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.garden.clone(), namespace)
    }

    /// Our Seed as it is known.
    ///
    /// # Errors
    /// While it has not been registered.
    pub(crate) fn our_seed(&self) -> Result<Arc<core::Seed>, Fault> {
        let key = base_controller::ObjectKey::cluster(self.config.seed_name());
        self.garden_caches.seeds.get(&key).ok_or_else(|| {
            Fault::dependency(format!("the Seed {} is not registered yet", self.config.seed_name()))
                .hint("wait until gardenlet has registered its Seed")
        })
    }
}
