//! What an installation is made from, and what of it is in the seed. Reads only.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api_core::v1::{ControllerDeployment, HelmControllerDeployment, OCIRepository};
use api_core::v1beta1 as core;
use api_meta::{Fault, NamedResourceReference, annotations, conditions::installation as reason, names};
use api_resources::ManagedResource;
use base_client::{fault_of, get};
use base_controller::ObjectKey;
use base_helm::engine::{Capabilities, KubeVersion};
use base_oci::Keyring;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::core::discovery::v2::APIGroupDiscoveryList;
use kube::{Client, ResourceExt};

use super::chart::{Access, Source};
use super::problem::{Halt, Problem};
use super::report;
use super::values::Resources;
use crate::context::Context;

/// How old a look at the seed's APIs may be: installations that change together share one, and a new kind is seen soon.
const CAPABILITIES_AGE_MAX: Duration = Duration::from_secs(10);
/// Key of registry credentials.
const DOCKER_CONFIG_KEY: &str = ".dockerconfigjson";
/// Key of a registry's authorities.
const BUNDLE_KEY: &str = "bundle.crt";

/// All that an installation is planned from.
pub(crate) struct Seen {
    /// Its registration.
    pub registration: Arc<core::ControllerRegistration>,
    /// Our Seed.
    pub seed: Arc<core::Seed>,
    /// Its identity.
    pub seed_identity: String,
    /// Describes the chart.
    pub deployment: Arc<ControllerDeployment>,
    /// What the deployment refers to.
    pub resources: Resources,
    /// The chart.
    pub chart: Source,
    /// What the seed's API server can do.
    pub capabilities: Arc<Capabilities>,
    /// Its namespace.
    pub namespace: Option<Arc<Namespace>>,
    /// Carries its objects.
    pub managed_resource: Option<Arc<ManagedResource>>,
    /// Whether the Secrets that `managed_resource` names are there.
    pub has_data: bool,
    /// Names of the Secrets for access to the garden that are in its namespace.
    pub access: Vec<String>,
}

/// The ControllerDeployment of an installation, if it is known and has a chart: any other is its operator's.
pub(crate) fn deployment(
    context: &Context,
    installation: &core::ControllerInstallation,
) -> Option<Arc<ControllerDeployment>> {
    let name = installation.spec.deployment_ref.as_ref()?.name.clone()?;
    let deployment = context.garden_caches.deployments.get(&ObjectKey::cluster(name))?;
    deployment.helm.is_some().then_some(deployment)
}

/// Looks; nothing for an installation without a chart.
///
/// # Errors
/// What the installation's conditions report, or what an API server returns.
pub(crate) async fn observe(
    context: &Context,
    installation: &core::ControllerInstallation,
) -> Result<Option<Seen>, Halt> {
    let Some(deployment) = deployment(context, installation) else {
        return Ok(None);
    };
    let Some(helm) = &deployment.helm else { return Ok(None) };
    let registration = registration(context, installation)?;
    let (seed, seed_identity) = seed(context)?;
    let resources = resources(context, &deployment.resources).await?;
    let name = installation.name_any();
    let managed_resource = ObjectKey::namespaced(names::GARDEN_NAMESPACE, &name);
    let managed_resource = match context.seed_caches.managed_resources.get(&managed_resource) {
        Some(known) => Some(known),
        // The cache may not have seen yet what was written a moment ago; a chart with random values would be made again.
        None => get(&context.in_seed(names::GARDEN_NAMESPACE), &name)
            .await?
            .map(Arc::new),
    };
    let chart = chart(context, helm, managed_resource.as_deref()).await?;
    let inside = names::extension_namespace(&name);
    let access = context.seed_caches.access_secrets.list_in(&inside);
    let namespace = ObjectKey::cluster(inside);
    Ok(Some(Seen {
        registration,
        seed,
        seed_identity,
        resources,
        chart,
        capabilities: context.apis.capabilities(context).await?,
        namespace: context.seed_caches.extension_namespaces.get(&namespace),
        has_data: has_data(context, managed_resource.as_deref()).await?,
        managed_resource,
        deployment,
        access: access.iter().map(|secret| secret.name_any()).collect(),
    }))
}

/// Refuses an installation whose chart is gone although what it installed is there: that stays, and follows no change.
/// Where an operator has taken it over, the condition Valid is the operator's.
pub(crate) fn check_chart_is_there(
    context: &Context,
    installation: &core::ControllerInstallation,
) -> Result<(), Problem> {
    let resource = ObjectKey::namespaced(names::GARDEN_NAMESPACE, installation.name_any());
    let is_installed = context.seed_caches.managed_resources.get(&resource).is_some();
    if !is_installed || !report::has_own_valid(installation) {
        return Ok(());
    }
    let reference = installation.spec.deployment_ref.as_ref();
    let name = reference.and_then(|reference| reference.name.clone());
    let known = name
        .as_ref()
        .and_then(|name| context.garden_caches.deployments.get(&ObjectKey::cluster(name)));
    let why = match (name, known) {
        (None, _) => "the ControllerRegistration names no ControllerDeployment any more".to_owned(),
        (Some(name), None) => format!("there is no ControllerDeployment {name}"),
        (Some(name), Some(_)) => format!("ControllerDeployment {name} has no chart any more"),
    };
    let fault = Fault::user(format!("{why}; what was installed from a chart stays as it is"))
        .hint("give the ControllerRegistration a ControllerDeployment with a chart, or delete it");
    Err(Problem::invalid(reason::DEPLOYMENT_GONE, fault))
}

fn registration(
    context: &Context,
    installation: &core::ControllerInstallation,
) -> Result<Arc<core::ControllerRegistration>, Problem> {
    let name = installation.spec.registration_ref.name.clone().unwrap_or_default();
    let found = context.garden_caches.registrations.get(&ObjectKey::cluster(&name));
    found.ok_or_else(|| {
        let fault = Fault::user(format!("there is no ControllerRegistration {name}"))
            .hint("create it again, or delete this ControllerInstallation");
        Problem::invalid(reason::REGISTRATION_NOT_FOUND, fault)
    })
}

fn seed(context: &Context) -> Result<(Arc<core::Seed>, String), Problem> {
    let name = context.config.seed_name();
    let seed = context.our_seed().map_err(|_| {
        let fault = Fault::user(format!("there is no Seed {name}")).hint("start its gardenlet, which registers it");
        Problem::invalid(reason::SEED_NOT_FOUND, fault)
    })?;
    let identity = seed.status.as_ref().and_then(|status| status.cluster_identity.clone());
    let identity = identity.ok_or_else(|| {
        let fault = Fault::user(format!("status.clusterIdentity of Seed {name} is not set yet"))
            .hint("wait until gardenlet has written it; look at the Seed's conditions if it does not");
        Problem::undecided(reason::SEED_READ_ERROR, fault)
    })?;
    Ok((seed, identity))
}

/// What the deployment refers to (gardener/gardener v1.150 pkg/utils/chart/values.go).
async fn resources(context: &Context, references: &[NamedResourceReference]) -> Result<Resources, Halt> {
    let mut all = BTreeMap::new();
    for reference in references {
        let (kind, name) = (&reference.resource_ref.kind, &reference.resource_ref.name);
        let caches = &context.garden_caches;
        let data = match kind.as_str() {
            "Secret" => caches.secrets.get(name).await?.map(|secret| texts(&secret)),
            _ => {
                let map = caches.config_maps.get(name).await?;
                map.map(|map| map.data.clone().unwrap_or_default())
            }
        };
        let data = data.ok_or_else(|| {
            missing(
                reason::RENDERING_HELM_VALUES_FAILED,
                &format!("resource {:?}", reference.name),
                &format!("{kind} {name}"),
                "gardener.cloud/role=resource-reference",
            )
        })?;
        all.insert(reference.name.clone(), data);
    }
    Ok(Resources(all))
}

fn texts(secret: &Secret) -> BTreeMap<String, String> {
    let data = secret.data.iter().flatten();
    data.map(|(key, ByteString(bytes))| (key.clone(), String::from_utf8_lossy(bytes).into_owned()))
        .collect()
}

fn missing(reason: &'static str, whose: &str, what: &str, label: &str) -> Problem {
    let why = format!(
        "{whose} of the ControllerDeployment names {what}, which is not in namespace garden of the garden, or has not the \
         label {label}"
    );
    Problem::invalid(
        reason,
        Fault::user(why).hint("create it with that label, or `kubectl label` it"),
    )
}

async fn chart(
    context: &Context,
    helm: &HelmControllerDeployment,
    installed: Option<&ManagedResource>,
) -> Result<Source, Halt> {
    match (&helm.raw_chart, &helm.oci_repository) {
        (Some(ByteString(archive)), _) if !archive.is_empty() => Ok(context.charts.of_archive(archive)?),
        (_, Some(repository)) => {
            let access = access(context, repository).await?;
            let note = installed.and_then(|resource| resource.annotations().get(annotations::INSTALLATION_CHART));
            let note = note.map(String::as_str);
            Ok(context.charts.of_repository(repository, access, note).await?)
        }
        _ => {
            let fault = Fault::user("helm of the ControllerDeployment has neither rawChart nor ociRepository")
                .hint("give one of them");
            Err(Problem::invalid(reason::CHART_INFORMATION_INVALID, fault).into())
        }
    }
}

async fn access(context: &Context, repository: &OCIRepository) -> Result<Access, Halt> {
    let mut access = Access::default();
    if let Some(reference) = &repository.pull_secret_ref {
        let field = ("pullSecretRef", DOCKER_CONFIG_KEY, "helm-pull-secret");
        let config = content(context, &reference.name, field).await?;
        access.keyring =
            Keyring::of_docker_config(&config, &format!("Secret garden/{}", reference.name)).map_err(|why| {
                let fault = Fault::user(why).hint("create it with `kubectl create secret docker-registry`");
                Problem::invalid(reason::OCI_CHART_CANNOT_BE_PULLED, fault)
            })?;
    }
    if let Some(reference) = &repository.ca_bundle_secret_ref {
        let field = ("caBundleSecretRef", BUNDLE_KEY, "oci-ca-bundle");
        let bundle = content(context, &reference.name, field).await?;
        access.ca_bundle = Some(String::from_utf8_lossy(&bundle).into_owned());
    }
    Ok(access)
}

/// What a Secret of the garden holds: the field that names it, its key, and its role.
async fn content(context: &Context, name: &str, (field, key, role): (&str, &str, &str)) -> Result<Vec<u8>, Halt> {
    let found = context.garden_caches.secrets.get(name).await?;
    let secret = found.ok_or_else(|| {
        missing(
            reason::OCI_CHART_CANNOT_BE_PULLED,
            field,
            &format!("Secret {name}"),
            &format!("gardener.cloud/role={role}"),
        )
    })?;
    let data = secret.data.as_ref().and_then(|data| data.get(key));
    data.map(|ByteString(bytes)| bytes.clone()).ok_or_else(|| {
        let fault = Fault::user(format!("Secret garden/{name}, which {field} names, has no key {key}"))
            .hint(format!("write {key} into it"));
        Problem::invalid(reason::OCI_CHART_CANNOT_BE_PULLED, fault).into()
    })
}

async fn has_data(context: &Context, resource: Option<&ManagedResource>) -> Result<bool, Fault> {
    let Some(resource) = resource else { return Ok(false) };
    let secrets = context.in_seed::<Secret>(names::GARDEN_NAMESPACE);
    for reference in &resource.spec.secret_refs {
        if get(&secrets, &reference.name).await?.is_none() {
            return Ok(false);
        }
    }
    Ok(!resource.spec.secret_refs.is_empty())
}

/// What the seed's API server can do, as it was seen last.
#[derive(Default)]
pub(crate) struct Apis(Mutex<Option<(Timestamp, Arc<Capabilities>)>>);

impl Apis {
    async fn capabilities(&self, context: &Context) -> Result<Arc<Capabilities>, Fault> {
        let now = context.clock.now();
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, known)) = known.filter(|(read, _)| context.clock.since(*read) < CAPABILITIES_AGE_MAX) {
            return Ok(known);
        }
        let fresh = Arc::new(discover(&context.seed).await?);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, fresh.clone()));
        Ok(fresh)
    }
}

/// Reads version and APIs, as Helm does (Helm 4.1 `pkg/action/action.go`).
async fn discover(seed: &Client) -> Result<Capabilities, Fault> {
    let failed = |error| fault_of(error, "ask the seed for its APIs");
    let version = seed.apiserver_version().await.map_err(failed)?;
    let kube_version = KubeVersion::read(&version.git_version).map_err(Fault::dependency)?;
    let mut api_versions = Vec::new();
    for list in [
        seed.list_core_api_versions_aggregated().await.map_err(failed)?,
        seed.list_api_groups_aggregated().await.map_err(failed)?,
    ] {
        add_versions(&list, &mut api_versions);
    }
    // In an order that does not depend on when a kind came.
    api_versions.sort();
    api_versions.dedup();
    Ok(Capabilities {
        kube_version,
        api_versions,
    })
}

/// `apps/v1` and `apps/v1/Deployment`, for each.
fn add_versions(list: &APIGroupDiscoveryList, versions: &mut Vec<String>) {
    for group in &list.items {
        let name = group.metadata.as_ref().and_then(|metadata| metadata.name.as_deref());
        for version in &group.versions {
            let number = version.version.as_deref().unwrap_or_default();
            let whole = match name.unwrap_or_default() {
                "" => number.to_owned(),
                group => format!("{group}/{number}"),
            };
            let kinds = version.resources.iter();
            let kinds = kinds.filter_map(|resource| resource.response_kind.as_ref()?.kind.clone());
            versions.extend(kinds.map(|kind| format!("{whole}/{kind}")));
            versions.push(whole);
        }
    }
}
