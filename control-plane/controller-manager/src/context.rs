//! What every controller here needs: the client, the clock, and one cache per kind that all share.

use std::collections::BTreeSet;
use std::fmt::Debug;

use api_core::security::CredentialsBinding;
use api_core::v1beta1::{
    BackupBucket, BackupEntry, ControllerDeployment, ControllerInstallation, ControllerRegistration, Project,
    SecretBinding, Seed, Shoot,
};
use api_meta::labels;
use api_meta::names::SEED_LEASE_NAMESPACE;
use base_clock::Clock;
use base_controller::{Cache, Index, ObjectKey, Recorder};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

/// Caches of the kinds that controllers here read.
#[derive(Clone)]
pub(crate) struct Caches {
    pub(crate) seeds: Cache<Seed>,
    pub(crate) shoots: Cache<Shoot>,
    /// By the seeds in spec and status.
    pub(crate) shoots_by_seed: Index<Shoot>,
    /// By the SecretBinding that they name, as `<namespace>/<name>`.
    pub(crate) shoots_by_secret_binding: Index<Shoot>,
    /// The same by CredentialsBinding.
    pub(crate) shoots_by_credentials_binding: Index<Shoot>,
    pub(crate) projects: Cache<Project>,
    pub(crate) registrations: Cache<ControllerRegistration>,
    pub(crate) deployments: Cache<ControllerDeployment>,
    pub(crate) installations: Cache<ControllerInstallation>,
    pub(crate) buckets: Cache<BackupBucket>,
    pub(crate) entries: Cache<BackupEntry>,
    /// By [`seed_and_bucket`].
    pub(crate) entries_by_place: Index<BackupEntry>,
    pub(crate) secret_bindings: Cache<SecretBinding>,
    pub(crate) credentials_bindings: Cache<CredentialsBinding>,
    /// Without what is in them: no copy of credentials is stored here.
    pub(crate) secrets: Cache<PartialObjectMeta<Secret>>,
    pub(crate) namespaces: Cache<Namespace>,
    pub(crate) leases: Cache<Lease>,
    /// Those of seeds' namespaces, by label.
    pub(crate) seed_roles: Cache<Role>,
    /// The same.
    pub(crate) seed_role_bindings: Cache<RoleBinding>,
    pub(crate) signing_requests: Cache<CertificateSigningRequest>,
}

/// Shared by all controllers; cheap to clone.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) caches: Caches,
    pub(crate) recorder: Recorder,
}

/// The seeds that a Shoot's control plane is, was or will be in.
pub(crate) fn seeds_of(shoot: &Shoot) -> BTreeSet<String> {
    let in_status = shoot.status.as_ref().and_then(|status| status.seed_name.clone());
    shoot.spec.seed_name.clone().into_iter().chain(in_status).collect()
}

/// Where a BackupEntry lies.
pub(crate) fn seed_and_bucket(seed: &str, bucket: &str) -> String {
    format!("{seed}/{bucket}")
}

/// The binding of this name in the Shoot's namespace.
fn named(shoot: &Shoot, binding: Option<&String>) -> Option<String> {
    Some(ObjectKey::namespaced(shoot.metadata.namespace.clone()?, binding?).to_string())
}

/// Field manager of everything written here by server-side apply.
pub(crate) const MANAGER: &str = "gardener-controller-manager";

impl Context {
    pub(crate) fn start(client: Client, clock: Clock, stop: &CancellationToken) -> Self {
        fn start_cache<K>(api: Api<K>, stop: &CancellationToken) -> Cache<K>
        where
            K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        {
            Cache::start(api, watcher::Config::default(), stop.clone())
        }
        let of_seeds = watcher::Config::default().labels(&format!("{}={}", labels::ROLE, labels::role::SEED));
        let shoots: Cache<Shoot> = start_cache(Api::all(client.clone()), stop);
        let entries: Cache<BackupEntry> = start_cache(Api::all(client.clone()), stop);
        let caches = Caches {
            seeds: start_cache(Api::all(client.clone()), stop),
            shoots_by_seed: shoots.index(seeds_of),
            shoots_by_secret_binding: shoots.index(|shoot| named(shoot, shoot.spec.secret_binding_name.as_ref())),
            shoots_by_credentials_binding: shoots
                .index(|shoot| named(shoot, shoot.spec.credentials_binding_name.as_ref())),
            shoots,
            projects: start_cache(Api::all(client.clone()), stop),
            registrations: start_cache(Api::all(client.clone()), stop),
            deployments: start_cache(Api::all(client.clone()), stop),
            installations: start_cache(Api::all(client.clone()), stop),
            buckets: start_cache(Api::all(client.clone()), stop),
            entries_by_place: entries.index(|entry| {
                let seed = entry.spec.seed_name.as_deref()?;
                Some(seed_and_bucket(seed, &entry.spec.bucket_name))
            }),
            entries,
            secret_bindings: start_cache(Api::all(client.clone()), stop),
            credentials_bindings: start_cache(Api::all(client.clone()), stop),
            secrets: start_cache(Api::all(client.clone()), stop),
            namespaces: start_cache(Api::all(client.clone()), stop),
            leases: start_cache(Api::namespaced(client.clone(), SEED_LEASE_NAMESPACE), stop),
            seed_roles: Cache::start(Api::all(client.clone()), of_seeds.clone(), stop.clone()),
            seed_role_bindings: Cache::start(Api::all(client.clone()), of_seeds, stop.clone()),
            signing_requests: start_cache(Api::all(client.clone()), stop),
        };
        let recorder = Recorder::new(client.clone(), MANAGER, clock.clone());
        Self {
            client,
            clock,
            caches,
            recorder,
        }
    }

    /// An API of a cluster-scoped kind.
    pub(crate) fn cluster<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::ClusterResourceScope>,
    {
        Api::all(self.client.clone())
    }

    /// An API of a kind in a namespace.
    pub(crate) fn namespaced<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }
}
