//! What has to be known before a shoot can be worked on. Reads only.

use std::sync::Arc;

use api_core::security::CredentialsBinding;
use api_core::v1beta1 as core;
use api_meta::labels::PROJECT_NAME;
use api_meta::{Fault, LastOperationType, Seen, annotations};
use api_rules::project_of_namespace;
use base_client::{get, list_by, observe};
use base_controller::ObjectKey;
use components_hosted::{ComponentId, component};
use control_plane_shoot_flow::{DeletionFacts, Goal, HibernationFacts, Managed, ShootFacts, Tunnel};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{Api, ResourceExt};

use super::required::{extension_timeouts, shoot_extensions};
use super::task::{is_requested, shoot_system};
use super::validated::ValidatedShoot;
use crate::context::Context;

/// Everything around a shoot, as it was when work on it began.
pub(crate) struct Observed {
    /// The seed it lives on.
    pub seed: Arc<core::Seed>,
    /// Its cloud profile: it cannot go before the last shoot that names it.
    pub cloud_profile: core::CloudProfile,
    /// Its cloud credentials.
    pub credentials: Option<Secret>,
    /// Itself, read once.
    pub validated: ValidatedShoot,
}

/// Reads what is around the shoot.
///
/// # Errors
/// Faults that name the object which is missing or cannot be read.
pub(crate) async fn observe_surroundings(context: &Context, shoot: &core::Shoot) -> Result<Observed, Fault> {
    let namespace = shoot.namespace().unwrap_or_default();
    let project = project_of(context, &namespace).await?;
    let seed = context.our_seed()?;
    let registrations = context.garden_caches.registrations.list();
    let registrations: Vec<&core::ControllerRegistration> = registrations.iter().map(AsRef::as_ref).collect();
    let extensions = shoot_extensions(shoot, &registrations);
    let validated = ValidatedShoot::new(shoot, &project.name_any(), &seed, extensions)?;
    let cloud_profile = cloud_profile(context, shoot).await?;
    let credentials = credentials(context, shoot).await?;
    Ok(Observed {
        seed,
        cloud_profile,
        credentials,
        validated,
    })
}

/// Only those that name the namespace may be listed; where several do, its label decides.
async fn project_of(context: &Context, namespace: &str) -> Result<Arc<core::Project>, Fault> {
    let all: Api<core::Project> = Api::all(context.garden.clone());
    let projects = list_by(&all, &format!("spec.namespace={namespace}")).await?;
    let label = match projects.len() {
        0 | 1 => None,
        _ => {
            let found = get(&Api::<Namespace>::all(context.garden.clone()), namespace).await?;
            found.and_then(|found| found.labels().get(PROJECT_NAME).cloned())
        }
    };
    project_of_namespace(namespace, label.as_deref(), projects.into_iter().map(Arc::new))
        .map_err(|several| Fault::dependency(several.to_string()))?
        .ok_or_else(|| {
            Fault::dependency(format!("namespace {namespace} belongs to no Project that is known"))
                .hint("create a Project with this namespace, or wait until it is known")
        })
}

async fn cloud_profile(context: &Context, shoot: &core::Shoot) -> Result<core::CloudProfile, Fault> {
    let reference = shoot
        .spec
        .cloud_profile
        .clone()
        .unwrap_or_else(|| core::CloudProfileReference {
            kind: "CloudProfile".to_owned(),
            name: shoot.spec.cloud_profile_name.clone().unwrap_or_default(),
        });
    let missing = || {
        Fault::dependency(format!("{} {} does not exist", reference.kind, reference.name))
            .hint("create the cloud profile that the shoot names")
    };
    if reference.kind == "NamespacedCloudProfile" {
        let api: Api<core::NamespacedCloudProfile> = context.in_garden(&shoot.namespace().unwrap_or_default());
        let profile = get(&api, &reference.name).await?.ok_or_else(missing)?;
        let spec = profile
            .status
            .and_then(|status| status.cloud_profile_spec)
            .unwrap_or_default();
        return Ok(core::CloudProfile {
            metadata: profile.metadata,
            spec,
            status: None,
        });
    }
    let api: Api<core::CloudProfile> = Api::all(context.garden.clone());
    get(&api, &reference.name).await?.ok_or_else(missing)
}

async fn credentials(context: &Context, shoot: &core::Shoot) -> Result<Option<Secret>, Fault> {
    let namespace = shoot.namespace().unwrap_or_default();
    let absent = |kind: &str, name: &str| {
        Fault::user(format!("{kind} {namespace}/{name} does not exist"))
            .hint("create the credentials that the shoot names")
    };
    let (secret_namespace, secret_name) = if let Some(name) = &shoot.spec.credentials_binding_name {
        let api: Api<CredentialsBinding> = context.in_garden(&namespace);
        let binding = get(&api, name)
            .await?
            .ok_or_else(|| absent("CredentialsBinding", name))?;
        let reference = binding.credentials_ref;
        if reference.kind.as_deref() != Some("Secret") {
            return Err(Fault::user(format!(
                "credentials of kind {} are not supported yet",
                reference.kind.unwrap_or_default()
            ))
            .hint("bind a Secret instead"));
        }
        (reference.namespace, reference.name)
    } else if let Some(name) = &shoot.spec.secret_binding_name {
        let api: Api<core::SecretBinding> = context.in_garden(&namespace);
        let binding = get(&api, name).await?.ok_or_else(|| absent("SecretBinding", name))?;
        (binding.secret_ref.namespace, binding.secret_ref.name)
    } else {
        return Ok(None);
    };
    let (secret_namespace, secret_name) = (
        secret_namespace.unwrap_or(namespace.clone()),
        secret_name.unwrap_or_default(),
    );
    let api: Api<Secret> = context.in_garden(&secret_namespace);
    let missing = || {
        Fault::user(format!(
            "Secret {secret_namespace}/{secret_name} with the cloud credentials does not exist"
        ))
        .hint("create the Secret that the shoot's binding names")
    };
    get(&api, &secret_name).await?.ok_or_else(missing).map(Some)
}

/// What decides on the tasks of the shoot's flow.
#[must_use]
pub(crate) fn facts(context: &Context, observed: &Observed, shoot: &core::Shoot) -> ShootFacts {
    let validated = &observed.validated;
    let nodes = shoot
        .spec
        .networking
        .as_ref()
        .and_then(|networking| networking.nodes.as_ref());
    let reported = shoot.status.as_ref().and_then(|status| status.networking.as_ref());
    let skip_readiness = shoot.annotations().contains_key(annotations::SHOOT_SKIP_READINESS);
    ShootFacts {
        workerless: validated.workerless,
        has_credentials: observed.credentials.is_some(),
        has_backup: observed.seed.spec.backup.is_some(),
        has_internal_domain: validated.internal_domain.is_some(),
        has_external_domain: validated.external_domain.is_some(),
        // contract F.3, `hasNodesCIDR`.
        nodes_cidr_known: validated.workerless || (nodes.is_some() && (reported.is_some() || skip_readiness)),
        skip_readiness,
        restart_requested: is_requested(&shoot.metadata, annotations::task::RESTART_CONTROL_PLANE_PODS),
        tunnel: tunnel(context, validated),
        extension_timeouts: extension_timeouts(&validated.extensions),
    }
}

/// Whether a tunnel is wanted, or is there from before.
fn tunnel(context: &Context, validated: &ValidatedShoot) -> Tunnel {
    let server = component(ComponentId::VpnSeedServer);
    if server.exists(&validated.hosted(&context.config)) {
        return Tunnel::Wanted;
    }
    match has_tunnel(context, &validated.namespace) {
        true => Tunnel::Leftover,
        false => Tunnel::None,
    }
}

/// Whether an end of the tunnel is there. By the caches: it is from an earlier operation, and looking for it costs no call.
pub(crate) fn has_tunnel(context: &Context, namespace: &str) -> bool {
    let key = |name: &str| ObjectKey::namespaced(namespace, name);
    let caches = &context.seed_caches;
    let server = component(ComponentId::VpnSeedServer).name();
    let agent = shoot_system::name(Managed::VpnShoot);
    caches.deployments.get(&key(server)).is_some() || caches.managed_resources.get(&key(agent)).is_some()
}

/// Where the shoot is to be taken.
///
/// # Errors
/// When something cannot be looked at: neither a deletion nor a hibernation is planned from what is unknown.
pub(crate) async fn goal(
    context: &Context,
    observed: &Observed,
    shoot: &core::Shoot,
    type_: &LastOperationType,
) -> Result<Goal, Fault> {
    let validated = &observed.validated;
    if *type_ == LastOperationType::Delete {
        return Ok(Goal::Delete(deletion_facts(context, validated).await?));
    }
    if validated.hibernated {
        return Ok(Goal::Hibernate(HibernationFacts {
            api_server_runs: api_server_runs(context, &validated.namespace).await?,
        }));
    }
    match shoot.status.as_ref().is_some_and(|status| status.hibernated) {
        true => Ok(Goal::Wake),
        false => Ok(Goal::Reconcile),
    }
}

/// Whether the API server of the shoot with this namespace runs, or is meant to: its Deployment has replicas. Not by the
/// cache: it may be behind what was scaled down a moment ago.
///
/// # Errors
/// When it cannot be looked at.
pub(crate) async fn api_server_runs(context: &Context, namespace: &str) -> Result<bool, Fault> {
    let deployments: Api<Deployment> = context.in_seed(namespace);
    let api_server = known(observe(&deployments, components_hosted::API_SERVER).await)?;
    let replicas = api_server.map(|found| found.spec.and_then(|spec| spec.replicas).unwrap_or(1));
    Ok(replicas.is_some_and(|replicas| replicas > 0))
}

/// What is there when a deletion begins.
///
/// # Errors
/// When something cannot be looked at: a deletion must not be planned from what is unknown.
async fn deletion_facts(context: &Context, validated: &ValidatedShoot) -> Result<DeletionFacts, Fault> {
    let namespace = &validated.namespace;
    let namespaces: Api<Namespace> = Api::all(context.seed.clone());
    let namespace_active =
        known(observe(&namespaces, namespace).await)?.is_some_and(|found| found.metadata.deletion_timestamp.is_none());
    let deployments: Api<Deployment> = context.in_seed(namespace);
    let api_server = known(observe(&deployments, components_hosted::API_SERVER).await)?;
    let infrastructures: Api<api_extensions::Infrastructure> = context.in_seed(namespace);
    let infrastructure = known(observe(&infrastructures, &validated.name).await)?;
    let control_planes: Api<api_extensions::ControlPlane> = context.in_seed(namespace);
    let control_plane = known(observe(&control_planes, &validated.name).await)?;
    let answered = infrastructure
        .as_ref()
        .and_then(|infrastructure| infrastructure.status.as_ref())
        .is_some_and(|status| status.provider_status.is_some());
    Ok(DeletionFacts {
        namespace_active,
        shoot_cleanup: namespace_active
            && api_server.is_some_and(|found| found.metadata.deletion_timestamp.is_none())
            && (infrastructure.is_some() || validated.workerless),
        control_plane_needed: answered
            && control_plane.is_some_and(|found| found.metadata.deletion_timestamp.is_none()),
    })
}

fn known<K>(seen: Seen<K>) -> Result<Option<K>, Fault> {
    match seen {
        Seen::Present(object) => Ok(Some(object)),
        Seen::Absent => Ok(None),
        Seen::Unknown(why) => Err(Fault::dependency(why).hint("look at the seed's API server")),
    }
}
