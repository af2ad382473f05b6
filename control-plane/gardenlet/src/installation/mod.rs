//! ControllerInstallations of our seed whose ControllerDeployment has a Helm chart: what the chart holds is put into the
//! seed, updated, and deleted again (contract D). Installations of any other type are their operator's; for
//! them only the condition Required is written.
//!
//! Nothing here applies a chart's objects: a ManagedResource carries them to the seed's gardener-resource-manager.

mod access;
mod apply;
mod care;
mod chart;
mod observe;
mod plan;
mod pods;
mod problem;
mod referenced;
mod remove;
mod rendering;
mod report;
mod required;
mod resources;
mod values;

use std::sync::Arc;
use std::time::Duration;

use api_core::v1::ControllerDeployment;
use api_core::v1beta1 as core;
use api_meta::{Fault, finalizers, labels, names};
use base_client::add_finalizer;
use base_controller::{Cache, Change, Controller, Next, ObjectKey, changed_by_others};
use futures::stream::{BoxStream, unfold};
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Resource, ResourceExt};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use crate::context::{Context, GardenCaches, ReferencedChanges};
use crate::extension_status::{self, is_of_seed};
use plan::Plan;
use problem::Halt;

pub(crate) use access::GENERIC_KUBECONFIG;
pub(crate) use chart::Charts;
pub(crate) use observe::Apis;
pub(crate) use referenced::Referenced;
pub(crate) use rendering::Rendering;

/// Installations worked on at the same time: a registry that does not answer holds each of its charts up for 30 s, and
/// those of other registries, and removals, must go on meanwhile. Rendering has a bound of its own.
const INSTALLATIONS_MAX: usize = 64;
/// How soon an installation is tried again that waits for something that nothing here watches, such as a registry.
const RETRY_PERIOD: Duration = Duration::from_secs(30);

/// Installs and removes, and keeps the conditions true, until `stop`.
pub(crate) async fn run(context: Arc<Context>, referenced: ReferencedChanges, stop: CancellationToken) {
    let installing = async {
        let known = async {
            context.seed_caches.managed_resources.ready().await;
            context.seed_caches.extension_namespaces.ready().await;
            context.seed_caches.access_secrets.ready().await;
        };
        // What is there must be known before anything is written over it.
        if stop.run_until_cancelled(known).await.is_some() {
            tokio::join!(
                install(context.clone(), referenced, stop.clone()).boxed(),
                care::run(context.clone(), stop.clone()).boxed(),
            );
        }
    };
    tokio::join!(required::run(context.clone(), stop.clone()).boxed(), installing.boxed());
}

/// Fills the Secrets of the seed that request access to the garden, until `stop`: tokens of ServiceAccounts in our
/// seed's own namespace of the garden, whatever else a Secret names.
pub(crate) async fn request_tokens(context: Arc<Context>, stop: CancellationToken) {
    let options = base_token_requestor::Options {
        class: labels::resources::CLASS_GARDEN.to_owned(),
        account_namespace: Some(names::seed_namespace(context.config.seed_name())),
        ..base_token_requestor::Options::default()
    };
    let (seed, garden) = (context.seed.clone(), context.garden.clone());
    base_token_requestor::run(seed, garden, options, context.clock.clone(), stop).await;
}

async fn install(context: Arc<Context>, referenced: ReferencedChanges, stop: CancellationToken) {
    let (garden, in_seed) = (&context.garden_caches, &context.seed_caches);
    let users = Users {
        installations: garden.installations.clone(),
        deployments: garden.deployments.clone(),
        seed: context.config.seed_name().to_owned(),
    };
    let [of_seed, of_deployment, of_registration, of_secret, of_map] = std::array::from_fn(|_| users.clone());
    let ReferencedChanges { secrets, config_maps } = referenced;
    let closing = context.clone();
    Controller::new("installation", garden.installations.clone())
        .only(move |one| is_of_seed(one, &users.seed))
        .watches(&garden.seeds, move |change| of_seed.of_seed(change))
        .watches(&garden.deployments, move |change| {
            of_deployment.close_unwanted(&closing.garden_caches);
            of_deployment.of_deployment(&change.object.name_any())
        })
        .watches(&garden.registrations, move |change| {
            of_registration.of_registration(change)
        })
        .called_by(of_changed(secrets, move |name| of_secret.of_referenced("Secret", name)))
        .called_by(of_changed(config_maps, move |name| {
            of_map.of_referenced("ConfigMap", name)
        }))
        .watches(&in_seed.managed_resources, |change| {
            // One that is not applied may lack the Secret with its objects.
            let concerns = change.deleted
                || changed_by_others(change.old.as_deref(), &change.object)
                || !care::is_applied(&change.object);
            if concerns { owner(&*change.object) } else { Vec::new() }
        })
        .watches(&in_seed.access_secrets, |change| match change.deleted {
            true => of_namespace(&change.object.namespace().unwrap_or_default()),
            false => Vec::new(),
        })
        .watches(&in_seed.extension_namespaces, |change: &Change<Namespace>| {
            of_namespace(&change.object.name_any())
        })
        .concurrency(INSTALLATIONS_MAX)
        .run(stop, {
            let context = context.clone();
            move |one| reconcile(context.clone(), one).boxed()
        })
        .await;
}

async fn reconcile(context: Arc<Context>, installation: Arc<core::ControllerInstallation>) -> Result<Next, Fault> {
    if installation.metadata.deletion_timestamp.is_some() {
        return remove::reconcile(&context, &installation).await;
    }
    match turn(&context, &installation).await {
        Ok(Turn::Done { is_old }) => {
            report::installed(&context, &installation).await?;
            if is_old {
                return Ok(Next::After(RETRY_PERIOD));
            }
        }
        Ok(Turn::NotOurs) => {}
        Err(Halt::Fault(fault)) => return Err(fault),
        Err(Halt::Refused(fault)) => {
            report::refused(&context, &installation, &fault).await?;
            return Err(fault);
        }
        Err(Halt::Problem(problem)) => {
            report::problem(&context, &installation, &problem).await?;
            if !problem.waits_for_change() {
                return Ok(Next::After(RETRY_PERIOD));
            }
        }
    }
    Ok(Next::Change)
}

/// How a turn ended.
enum Turn {
    /// The installation has no chart.
    NotOurs,
    /// What is wanted is in the seed; where the chart `is_old`, its registry has to be queried again.
    Done { is_old: bool },
}

/// Observes, plans and applies.
async fn turn(context: &Context, installation: &core::ControllerInstallation) -> Result<Turn, Halt> {
    let Some(seen) = observe::observe(context, installation).await? else {
        observe::check_chart_is_there(context, installation)?;
        return Ok(Turn::NotOurs);
    };
    let is_old = seen.chart.is_old;
    if let Plan::Install(wanted) = plan::plan(installation, &seen, &context.config)? {
        let chart = seen.chart.chart?;
        let render = move || {
            let made = resources::make(&wanted, &chart);
            (wanted, made)
        };
        let (wanted, made) = context.rendering.run(render).await?;
        let made = made?;
        // Before anything is there to be taken down.
        let installations: Api<core::ControllerInstallation> = Api::all(context.garden.clone());
        add_finalizer(
            &installations,
            installation.clone(),
            finalizers::CONTROLLER_INSTALLATION,
        )
        .await?;
        // Before its program starts, which may write at once.
        extension_status::write_parameters(context).await?;
        apply::apply(context, &wanted, &made).await.map_err(Halt::Refused)?;
    }
    Ok(Turn::Done { is_old })
}

/// The installation that an object in namespace `garden` of the seed belongs to.
fn owner<K: Resource>(object: &K) -> Vec<ObjectKey> {
    let meta = object.meta();
    let labels = meta
        .labels
        .as_ref()
        .filter(|_| meta.namespace.as_deref() == Some(names::GARDEN_NAMESPACE));
    let name = labels.and_then(|labels| labels.get(labels::CONTROLLER_INSTALLATION_NAME));
    name.map(ObjectKey::cluster).into_iter().collect()
}

/// The installation that a namespace of the seed belongs to.
fn of_namespace(namespace: &str) -> Vec<ObjectKey> {
    let installation = namespace.strip_prefix(names::EXTENSION_NAMESPACE_PREFIX);
    installation.map(ObjectKey::cluster).into_iter().collect()
}

/// The installations that a referenced object concerns, whenever one has changed.
fn of_changed(
    changes: UnboundedReceiver<String>,
    concerned: impl Fn(&str) -> Vec<ObjectKey> + Send + 'static,
) -> BoxStream<'static, ObjectKey> {
    let names = unfold(changes, |mut changes| async {
        let name = changes.recv().await?;
        Some((name, changes))
    });
    names
        .flat_map(move |name| futures::stream::iter(concerned(&name)))
        .boxed()
}

/// Finds the installations that something concerns.
#[derive(Clone)]
struct Users {
    installations: Cache<core::ControllerInstallation>,
    deployments: Cache<ControllerDeployment>,
    seed: String,
}

impl Users {
    fn find(&self, concerns: impl Fn(&core::ControllerInstallation) -> bool) -> Vec<ObjectKey> {
        let all = self.installations.list();
        let found = all.iter().filter(|one| is_of_seed(one, &self.seed) && concerns(one));
        found.map(|one| ObjectKey::of(&**one)).collect()
    }

    fn of_deployment(&self, name: &str) -> Vec<ObjectKey> {
        self.find(|one| {
            let reference = one.spec.deployment_ref.as_ref();
            reference.and_then(|reference| reference.name.as_deref()) == Some(name)
        })
    }

    fn of_registration(&self, change: &Change<core::ControllerRegistration>) -> Vec<ObjectKey> {
        let name = change.object.name_any();
        let is_news = change.deleted || change.old.is_none();
        self.find(|one| is_news && one.spec.registration_ref.name.as_ref() == Some(&name))
    }

    /// A Seed's status is written often; of all in it only the identity is mixed into values.
    fn of_seed(&self, change: &Change<core::Seed>) -> Vec<ObjectKey> {
        let identity = |seed: &core::Seed| seed.status.as_ref().and_then(|status| status.cluster_identity.clone());
        let old = change.old.as_deref();
        let concerns = change.object.name_any() == self.seed
            && (change.deleted
                || changed_by_others(old, &change.object)
                || old.and_then(identity) != identity(&change.object));
        self.find(|_| concerns)
    }

    /// Lets go of what no ControllerDeployment refers to any more.
    fn close_unwanted(&self, caches: &GardenCaches) {
        let deployments = self.deployments.list();
        let wanted = |kind: &str, name: &str| deployments.iter().any(|deployment| refers_to(deployment, kind, name));
        caches.secrets.retain(|name| wanted("Secret", name));
        caches.config_maps.retain(|name| wanted("ConfigMap", name));
    }

    fn of_referenced(&self, kind: &str, name: &str) -> Vec<ObjectKey> {
        let deployments = self.deployments.list();
        let users = deployments
            .iter()
            .filter(|deployment| refers_to(deployment, kind, name));
        users
            .flat_map(|deployment| self.of_deployment(&deployment.name_any()))
            .collect()
    }
}

fn refers_to(deployment: &ControllerDeployment, kind: &str, name: &str) -> bool {
    let repository = deployment.helm.as_ref().and_then(|helm| helm.oci_repository.as_ref());
    let of_registry = repository
        .into_iter()
        .flat_map(|repository| [&repository.pull_secret_ref, &repository.ca_bundle_secret_ref])
        .flatten()
        .any(|reference| kind == "Secret" && reference.name == name);
    let mut resources = deployment.resources.iter().map(|resource| &resource.resource_ref);
    of_registry || resources.any(|resource| resource.kind == kind && resource.name == name)
}
