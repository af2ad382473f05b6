//! One operation on one shoot while it runs: what its tasks share. What they leave for each other stands in [`Slots`].

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use api_core::v1beta1 as core;
use api_meta::{Fault, Subject};
use base_client::{WaitState, Waited};
use base_controller::{Cache, ObjectKey};
use base_secrets::{Credential, KubeconfigSpec, Managed, kubeconfig};
use components_hosted::{HostedCluster, NodeAccess, Power};
use control_plane_shoot_flow::{ExtensionVerb, Goal};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Secret;
use kube::config::Kubeconfig;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::given::Slots;
use super::observe::{Observed, has_tunnel};
use super::report::ShootStatusWriter;
use super::validated::ValidatedShoot;
use crate::config::Addressing;
use crate::context::Context;
use crate::extension::{Kind, Waiting, object_name, write_request};

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
    /// Which of its components are to run.
    pub power: Power,
    /// How its API server is to reach its nodes.
    pub node_access: NodeAccess,
    /// What extension objects are asked for.
    pub verb: ExtensionVerb,
    /// What tasks leave for later ones.
    pub slots: Slots,
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

impl Operation {
    /// Begins an operation.
    #[must_use]
    pub(crate) fn new(
        context: Arc<Context>,
        observed: Observed,
        status: ShootStatusWriter,
        goal: &Goal,
        nodes: Vec<String>,
    ) -> Self {
        let waiting = Waiting::new(context.clock.clone());
        let Observed {
            seed,
            cloud_profile,
            credentials,
            validated,
        } = observed;
        // A deletion builds no tunnel: an API server that was to use one that is not there would reach no webhook of the shoot.
        let node_access = match goal {
            Goal::Delete(_) if !has_tunnel(&context, &validated.namespace) => NodeAccess::Direct,
            _ => context.config.node_access,
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
            waiting,
            power: power(goal),
            node_access,
            verb: goal.way().verb(),
            slots: Slots::new(nodes),
        }
    }

    /// Requests `desired` of its extension.
    ///
    /// # Errors
    /// What the API server returns.
    pub(crate) async fn request<K: Kind>(&self, api: &Api<K>, desired: K) -> Result<K, Fault> {
        write_request(&self.context, api, self.verb, desired).await
    }

    /// The Shoot as extensions are to see it: what is being worked on, with how it stands.
    pub(crate) fn shoot_at_work(&self) -> core::Shoot {
        let mut spec = self.shoot.spec.clone();
        if let (Some(networking), Some(first)) = (&mut spec.networking, self.slots.nodes().first()) {
            networking.nodes.get_or_insert_with(|| first.clone());
        }
        self.status.known().with(spec)
    }

    /// The shoot as its hosted components know it.
    pub(crate) fn hosted_cluster(&self) -> HostedCluster {
        HostedCluster {
            node_access: self.node_access,
            ..self.shoot.hosted(&self.context.config)
        }
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

    /// A kubeconfig for the shoot, for clients in the seed. `authority`: that of its API server.
    ///
    /// # Errors
    /// A bug if the authority cannot be read.
    pub(crate) fn kubeconfig(&self, authority: &Managed, credential: Credential) -> Result<Kubeconfig, Fault> {
        kubeconfig_of(&self.context, &self.shoot, authority, credential)
    }

    /// A kubeconfig for the shoot, for clients outside the seed: by the shoot's domain instead of its Service.
    ///
    /// # Errors
    /// As [`Operation::kubeconfig`].
    pub(crate) fn external_kubeconfig(&self, authority: &Managed, credential: Credential) -> Result<Kubeconfig, Fault> {
        kubeconfig_at(&self.context, &self.shoot, self.shoot.api_host(), authority, credential)
    }

    /// Waits, by a cache of the shoot's namespace, until `why_not` finds nothing wrong with the object `name`.
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
        let name = object_name::<K>(&key);
        let subject = Subject::Object(name.clone());
        let check = |object: Option<&K>| {
            let why = match object {
                None => Some("it is not visible yet".to_owned()),
                Some(object) => why_not(object),
            };
            match why {
                None => WaitState::Done(()),
                Some(why) => {
                    self.waiting.note(&subject, &why);
                    WaitState::NotYet(why)
                }
            }
        };
        let timeout = left(deadline);
        let waited = cache.wait_until(&key, timeout, check).await;
        self.waiting.over(&subject);
        waited.map_err(|waited| match waited {
            Waited::TimedOut { reason, .. } => {
                Fault::dependency(format!("{name}: {reason} (waited {}s)", timeout.as_secs()))
                    .hint("look at the named object and at the pods it stands for")
                    .about(name)
            }
            Waited::Failed(fault) => fault,
        })
    }

    /// The key of an object in the shoot's namespace.
    pub(crate) fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::namespaced(self.namespace(), name)
    }
}

/// Which components are to run on the way to a goal.
#[must_use]
fn power(goal: &Goal) -> Power {
    match goal {
        Goal::Hibernate(there) if there.api_server_runs => Power::Hibernating,
        Goal::Hibernate(_) => Power::Hibernated,
        Goal::Wake => Power::Waking,
        Goal::Reconcile | Goal::Migrate | Goal::Restore | Goal::Delete(_) | Goal::ForceDelete => Power::Awake,
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
