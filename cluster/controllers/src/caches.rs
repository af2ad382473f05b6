//! One cache per kind and set of controllers, started when the first controller requests it: a set without
//! StatefulSets watches none.

use std::fmt::Debug;
use std::sync::{Arc, OnceLock};

use base_controller::Cache;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, Endpoints, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ResourceQuota, Secret,
    Service, ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::runtime::watcher::Config;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

/// The namespace of the nodes' heartbeats.
pub(crate) const NODE_LEASES: &str = "kube-node-lease";
/// The config map with the cluster's authority that is in every namespace.
pub(crate) const ROOT_CA: &str = "kube-root-ca.crt";

/// The caches of one set of controllers. Clones share them.
#[derive(Clone)]
pub(crate) struct Caches(Arc<Inner>);

struct Inner {
    client: Client,
    stop: CancellationToken,
    namespaces: OnceLock<Cache<Namespace>>,
    pods: OnceLock<Cache<Pod>>,
    nodes: OnceLock<Cache<Node>>,
    services: OnceLock<Cache<Service>>,
    endpoints: OnceLock<Cache<Endpoints>>,
    slices: OnceLock<Cache<EndpointSlice>>,
    claims: OnceLock<Cache<PersistentVolumeClaim>>,
    volumes: OnceLock<Cache<PersistentVolume>>,
    accounts: OnceLock<Cache<ServiceAccount>>,
    root_authorities: OnceLock<Cache<ConfigMap>>,
    bootstrap_tokens: OnceLock<Cache<Secret>>,
    leases: OnceLock<Cache<Lease>>,
    requests: OnceLock<Cache<CertificateSigningRequest>>,
    deployments: OnceLock<Cache<Deployment>>,
    replica_sets: OnceLock<Cache<ReplicaSet>>,
    stateful_sets: OnceLock<Cache<StatefulSet>>,
    daemon_sets: OnceLock<Cache<DaemonSet>>,
    jobs: OnceLock<Cache<Job>>,
    quotas: OnceLock<Cache<ResourceQuota>>,
    custom_kinds: OnceLock<Cache<CustomResourceDefinition>>,
}

macro_rules! caches {
    ($($name:ident: $kind:ty),* $(,)?) => {
        $(pub(crate) fn $name(&self) -> Cache<$kind> {
            self.all(&self.0.$name)
        })*
    };
}

impl Caches {
    pub(crate) fn new(client: Client, stop: CancellationToken) -> Self {
        Caches(Arc::new(Inner {
            client,
            stop,
            namespaces: OnceLock::new(),
            pods: OnceLock::new(),
            nodes: OnceLock::new(),
            services: OnceLock::new(),
            endpoints: OnceLock::new(),
            slices: OnceLock::new(),
            claims: OnceLock::new(),
            volumes: OnceLock::new(),
            accounts: OnceLock::new(),
            root_authorities: OnceLock::new(),
            bootstrap_tokens: OnceLock::new(),
            leases: OnceLock::new(),
            requests: OnceLock::new(),
            deployments: OnceLock::new(),
            replica_sets: OnceLock::new(),
            stateful_sets: OnceLock::new(),
            daemon_sets: OnceLock::new(),
            jobs: OnceLock::new(),
            quotas: OnceLock::new(),
            custom_kinds: OnceLock::new(),
        }))
    }

    caches! {
        namespaces: Namespace,
        pods: Pod,
        nodes: Node,
        services: Service,
        endpoints: Endpoints,
        slices: EndpointSlice,
        claims: PersistentVolumeClaim,
        volumes: PersistentVolume,
        accounts: ServiceAccount,
        requests: CertificateSigningRequest,
        deployments: Deployment,
        replica_sets: ReplicaSet,
        stateful_sets: StatefulSet,
        daemon_sets: DaemonSet,
        jobs: Job,
        quotas: ResourceQuota,
        custom_kinds: CustomResourceDefinition,
    }

    /// The config maps named [`ROOT_CA`] of all namespaces.
    pub(crate) fn root_authorities(&self) -> Cache<ConfigMap> {
        let config = Config::default().fields(&format!("metadata.name={ROOT_CA}"));
        self.start(&self.0.root_authorities, Api::all(self.0.client.clone()), config)
    }

    /// The bootstrap tokens.
    pub(crate) fn bootstrap_tokens(&self) -> Cache<Secret> {
        let config = Config::default().fields("type=bootstrap.kubernetes.io/token");
        self.start(
            &self.0.bootstrap_tokens,
            Api::namespaced(self.0.client.clone(), "kube-system"),
            config,
        )
    }

    /// The heartbeats of nodes.
    pub(crate) fn leases(&self) -> Cache<Lease> {
        self.start(
            &self.0.leases,
            Api::namespaced(self.0.client.clone(), NODE_LEASES),
            Config::default(),
        )
    }

    fn all<K>(&self, cell: &OnceLock<Cache<K>>) -> Cache<K>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        self.start(cell, Api::all(self.0.client.clone()), Config::default())
    }

    fn start<K>(&self, cell: &OnceLock<Cache<K>>, api: Api<K>, config: Config) -> Cache<K>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        cell.get_or_init(|| Cache::start(api, config, self.0.stop.clone()))
            .clone()
    }
}
