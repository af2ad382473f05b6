//! One operation on one shoot while it runs: what its tasks share. Tasks leave results for later tasks here.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api_core::v1beta1 as core;
use api_extensions::ExtensionObject;
use api_meta::{Fault, RawJson};
use base_client::{Judgement, Waited};
use base_controller::{Cache, ObjectKey};
use base_secrets::{Credential, KubeconfigSpec, Managed, kubeconfig};
use components_hosted::Mounted;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Secret;
use kube::config::Kubeconfig;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::observe::Observed;
use super::report::ShootStatusWriter;
use super::task::os_config::Pool;
use super::validated::ValidatedShoot;
use crate::config::Addressing;
use crate::context::Context;
use crate::extension::{Asked, Waiting};

/// One operation while it runs.
pub(crate) struct Operation {
    /// Clients, clock, settings, caches.
    pub context: Arc<Context>,
    /// The shoot, read once: what is wanted of it stays the same while the operation runs.
    pub shoot: ValidatedShoot,
    /// What is around it.
    pub observed: Observed0,
    /// The way to the status and the annotations of the Shoot in the garden.
    pub status: ShootStatusWriter,
    /// What is waited for at the moment.
    pub waiting: Waiting,
    /// What tasks have left for later ones.
    results: Mutex<Results>,
}

/// What is around the shoot, without itself.
pub(crate) struct Observed0 {
    /// Its seed.
    pub seed: Arc<core::Seed>,
    /// Its cloud profile.
    pub cloud_profile: core::CloudProfile,
    /// Its cloud credentials.
    pub credentials: Option<Secret>,
}

/// What tasks leave for later ones.
#[derive(Default)]
pub(crate) struct Results {
    /// Keys and certificates by name.
    pub secrets: BTreeMap<String, Managed>,
    /// Secrets of the namespace that nothing needs once all has been rolled out.
    pub obsolete_secrets: Vec<String>,
    /// The infrastructure's `status.providerStatus`, as read.
    pub infrastructure_status: Option<RawJson>,
    /// Networks of nodes.
    pub nodes: Vec<String>,
    /// A client of the shoot, once connected.
    pub shoot_client: Option<kube::Client>,
    /// Worker pools with what their nodes are to be.
    pub pools: Vec<Pool>,
    /// Requests to extensions, by kind and name: a wait waits for this very request.
    pub asked: BTreeMap<(String, String), Asked>,
    /// Generations of what was written, by kind and name: a wait does not believe a mirror that is behind.
    pub generations: BTreeMap<(String, String), i64>,
}

impl Operation {
    /// Begins an operation.
    #[must_use]
    pub(crate) fn new(
        context: Arc<Context>,
        observed: Observed,
        status: ShootStatusWriter,
        nodes: Vec<String>,
    ) -> Self {
        let Observed {
            seed,
            cloud_profile,
            credentials,
            validated,
        } = observed;
        let results = Results {
            nodes,
            ..Results::default()
        };
        Self {
            context,
            shoot: validated,
            observed: Observed0 {
                seed,
                cloud_profile,
                credentials,
            },
            status,
            waiting: Waiting::default(),
            results: Mutex::new(results),
        }
    }

    /// The Shoot as extensions are to see it: what is being worked on, with how it stands.
    pub(crate) async fn shoot_at_work(&self) -> core::Shoot {
        let mut spec = self.shoot.spec.clone();
        if let (Some(networking), Some(first)) = (&mut spec.networking, self.results().nodes.first()) {
            networking.nodes.get_or_insert_with(|| first.clone());
        }
        self.status.known().await.with(spec)
    }

    /// What tasks have left. Never held over an await.
    pub(crate) fn results(&self) -> MutexGuard<'_, Results> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The shoot's namespace in the seed.
    pub(crate) fn namespace(&self) -> &str {
        &self.shoot.namespace
    }

    /// Objects of a kind in the shoot's namespace.
    pub(crate) fn here<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        self.context.in_seed(&self.shoot.namespace)
    }

    /// A key or certificate.
    ///
    /// # Errors
    /// A bug of ours: secrets are initialised before anything uses them.
    pub(crate) fn secret(&self, name: &str) -> Result<Managed, Fault> {
        self.results()
            .secrets
            .get(name)
            .cloned()
            .ok_or_else(|| Fault::bug(format!("secret {name} is used before it is made")))
    }

    /// A Secret to mount.
    ///
    /// # Errors
    /// As [`Operation::secret`].
    pub(crate) fn mounted(&self, name: &str) -> Result<Mounted, Fault> {
        Ok(Mounted::of(&self.secret(name)?.current))
    }

    /// The bundle of an authority or signing key, to mount.
    ///
    /// # Errors
    /// As [`Operation::secret`].
    pub(crate) fn mounted_bundle(&self, name: &str) -> Result<Mounted, Fault> {
        let managed = self.secret(name)?;
        Ok(Mounted::of(managed.bundle.as_ref().unwrap_or(&managed.current)))
    }

    /// A kubeconfig for the shoot, for clients in the seed.
    ///
    /// # Errors
    /// As [`Operation::secret`]; a bug if the authority cannot be read.
    pub(crate) fn kubeconfig(&self, credential: Credential) -> Result<Kubeconfig, Fault> {
        kubeconfig_of(
            &self.context,
            &self.shoot,
            &self.secret(super::task::secrets::CA)?,
            credential,
        )
    }

    /// A kubeconfig for the shoot, for clients outside the seed: by the shoot's domain instead of its Service.
    ///
    /// # Errors
    /// As [`Operation::kubeconfig`].
    pub(crate) fn external_kubeconfig(&self, credential: Credential) -> Result<Kubeconfig, Fault> {
        kubeconfig_at(
            &self.context,
            &self.shoot,
            self.shoot.api_host(),
            &self.secret(super::task::secrets::CA)?,
            credential,
        )
    }

    /// The client of the shoot.
    ///
    /// # Errors
    /// A dependency fault while there is none.
    pub(crate) fn shoot_client(&self) -> Result<kube::Client, Fault> {
        self.results().shoot_client.clone().ok_or_else(|| {
            Fault::dependency("not connected to the shoot's API server").hint("wait until the shoot's API server is up")
        })
    }

    /// Remembers the request written onto an extension object.
    pub(crate) fn remember<K: ExtensionObject>(&self, object: &K) {
        let key = (
            <K as Resource>::kind(&()).into_owned(),
            object.meta().name.clone().unwrap_or_default(),
        );
        if let Some(asked) = Asked::of(object) {
            self.results().asked.insert(key, asked);
        }
    }
}

impl Operation {
    /// The request written onto an extension object in this operation.
    pub(crate) fn asked<K: Resource<DynamicType = ()>>(&self, name: &str) -> Option<Asked> {
        let key = (K::kind(&()).into_owned(), name.to_owned());
        self.results().asked.get(&key).cloned()
    }

    /// Remembers the generation of what was written.
    pub(crate) fn remember_generation<K: Resource<DynamicType = ()>>(&self, object: &K) {
        let meta = object.meta();
        let key = (K::kind(&()).into_owned(), meta.name.clone().unwrap_or_default());
        self.results()
            .generations
            .insert(key, meta.generation.unwrap_or_default());
    }

    /// The generation of what was written in this operation; 0 if nothing was.
    pub(crate) fn generation_of<K: Resource<DynamicType = ()>>(&self, name: &str) -> i64 {
        let key = (K::kind(&()).into_owned(), name.to_owned());
        self.results().generations.get(&key).copied().unwrap_or_default()
    }

    /// Waits, by a mirror of the shoot's namespace, until `why_not` finds nothing wrong with the object `name`.
    ///
    /// # Errors
    /// A dependency fault naming the object and what was wrong with it last.
    pub(crate) async fn wait_for<K>(
        &self,
        cache: &Cache<K>,
        name: &str,
        deadline: Option<Instant>,
        why_not: impl Fn(&K) -> Option<String>,
    ) -> Result<(), Fault>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let key = self.key(name);
        let title = format!("{} {key}", K::kind(&()));
        let judge = |object: Option<&K>| {
            let why = match object {
                None => Some("it is not visible yet".to_owned()),
                Some(object) => why_not(object),
            };
            match why {
                None => Judgement::Done(()),
                Some(why) => {
                    self.waiting.note(&title, &why);
                    Judgement::NotYet(why)
                }
            }
        };
        let timeout = left(deadline);
        let waited = cache.wait_until(&key, timeout, judge).await;
        self.waiting.over(&title);
        waited.map_err(|waited| match waited {
            Waited::TimedOut { reason, .. } => {
                Fault::dependency(format!("{title}: {reason} (waited {}s)", timeout.as_secs()))
                    .hint("look at the named object and at the pods it stands for")
            }
            Waited::Failed(fault) => fault,
        })
    }

    /// The key of an object in the shoot's namespace.
    pub(crate) fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::namespaced(self.namespace(), name)
    }
}

/// A kubeconfig for a shoot whose API server's authority is `authority`, for clients in the seed.
///
/// # Errors
/// A bug if the authority cannot be read.
pub(crate) fn kubeconfig_of(
    context: &Context,
    shoot: &ValidatedShoot,
    authority: &Managed,
    credential: Credential,
) -> Result<Kubeconfig, Fault> {
    kubeconfig_at(context, shoot, shoot.service_host(), authority, credential)
}

fn kubeconfig_at(
    context: &Context,
    shoot: &ValidatedShoot,
    host: String,
    authority: &Managed,
    credential: Credential,
) -> Result<Kubeconfig, Fault> {
    let (server, tls_server_name) = match &context.config.addressing {
        Addressing::PerService => (format!("https://{host}"), None),
        Addressing::Shared { url, .. } => (url.clone(), Some(host)),
    };
    let name = shoot.namespace.clone();
    let authorities = authority.authorities()?;
    Ok(kubeconfig(&KubeconfigSpec {
        name,
        server,
        tls_server_name,
        authorities,
        credential,
        namespace: None,
    }))
}

/// How long a wait may last that must be over at `deadline`.
#[must_use]
pub(crate) fn left(deadline: Option<Instant>) -> Duration {
    // Every task of the flows has a time-out; without one the longest of them is taken.
    deadline.map_or(Duration::from_secs(600), |at| {
        at.saturating_duration_since(Instant::now())
    })
}
