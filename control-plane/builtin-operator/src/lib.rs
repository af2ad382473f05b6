//! The operator of the registration document's Scenario 2: installs extensions whose ControllerDeployment has type
//! [`TYPE`] into one seed, and reports in their ControllerInstallation whether they are valid, installed, healthy and
//! progressing.
//!
//! It knows no extension and no provider by name: what is installed stands in the ControllerDeployment's
//! `providerConfig` (see [`ProviderConfig`]). It never touches installations of any other type.

mod apply;
mod config;
mod objects;
mod observe;
mod plan;
mod report;
mod standing;

use std::sync::Arc;

use api_core::v1beta1::{ControllerDeployment, ControllerInstallation};
use api_meta::{Fault, labels};
use base_clock::Clock;
use base_controller::{Cache, Change, Controller, Next, ObjectKey};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use tokio_util::sync::CancellationToken;

pub use config::ProviderConfig;

/// The type of the ControllerDeployments it installs.
pub const TYPE: &str = "builtin";
/// Its field manager.
pub(crate) const MANAGER: &str = "builtin-operator";
/// Its finalizer on ControllerInstallations; gardenlet's own stands for those that gardenlet installs.
pub const FINALIZER: &str = "orangery.dev/builtin-operator";
/// On everything it makes in the seed.
pub(crate) const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "builtin-operator");

/// What a reconcile works with.
pub(crate) struct Context {
    pub(crate) garden: Client,
    pub(crate) seed: Client,
    pub(crate) seed_name: String,
    pub(crate) clock: Clock,
    pub(crate) controller_deployments: Cache<ControllerDeployment>,
    pub(crate) deployments: Cache<Deployment>,
    pub(crate) namespaces: Cache<Namespace>,
    pub(crate) pods: Cache<Pod>,
}

/// Installs into the seed `seed_name` what the garden wants there, until `stop`. It watches ControllerInstallations
/// and ControllerDeployments in the garden, its own Deployments with their pods and its Namespaces in the seed.
pub async fn run(garden: Client, seed: Client, seed_name: String, clock: Clock, stop: CancellationToken) {
    let in_seed = watcher::Config::default().fields(&format!("spec.seedRef.name={seed_name}"));
    let installations: Cache<ControllerInstallation> = Cache::start(Api::all(garden.clone()), in_seed, stop.clone());
    let ours = watcher::Config::default().labels(&format!("{}={}", MANAGED_BY.0, MANAGED_BY.1));
    let their_pods = watcher::Config::default().labels(labels::CONTROLLER_INSTALLATION_NAME);
    let context = Arc::new(Context {
        controller_deployments: Cache::start(Api::all(garden.clone()), watcher::Config::default(), stop.clone()),
        deployments: Cache::start(Api::all(seed.clone()), ours.clone(), stop.clone()),
        namespaces: Cache::start(Api::all(seed.clone()), ours, stop.clone()),
        pods: Cache::start(Api::all(seed.clone()), their_pods, stop.clone()),
        garden,
        seed,
        seed_name: seed_name.clone(),
        clock,
    });
    let users = installations.clone();
    let controller = Controller::new("builtin-operator", installations)
        .only(move |installation| plan::seed_of(installation) == Some(seed_name.as_str()))
        .watches(&context.controller_deployments, move |change| {
            installations_of(&users, change)
        })
        .watches(&context.deployments, owner)
        .watches(&context.namespaces, owner)
        .watches(&context.pods, owner);
    let reading = context.clone();
    let ready = async move {
        reading.controller_deployments.ready().await;
        reading.deployments.ready().await;
        reading.namespaces.ready().await;
        reading.pods.ready().await;
    };
    // What exists must be known before anything counts as gone.
    if stop.run_until_cancelled(ready).await.is_none() {
        return;
    }
    controller
        .run(stop, move |installation| reconcile(installation, context.clone()))
        .await;
}

async fn reconcile(installation: Arc<ControllerInstallation>, context: Arc<Context>) -> Result<Next, Fault> {
    let seen = observe::observe(&installation, &context);
    let plan = plan::plan(&installation, &seen, &context.seed_name);
    let done = apply::apply(plan, &installation, &context).await;
    report::report(&installation, &seen, done, &context).await
}

fn installations_of(
    installations: &Cache<ControllerInstallation>,
    change: &Change<ControllerDeployment>,
) -> Vec<ObjectKey> {
    let name = change.object.metadata.name.as_deref();
    let uses = |installation: &ControllerInstallation| {
        installation
            .spec
            .deployment_ref
            .as_ref()
            .and_then(|reference| reference.name.as_deref())
            == name
    };
    installations
        .list()
        .iter()
        .filter(|installation| uses(installation))
        .map(|installation| ObjectKey::of(&**installation))
        .collect()
}

/// The installation that an object in the seed belongs to.
fn owner<K: Resource>(change: &Change<K>) -> Vec<ObjectKey> {
    let labels = change.object.meta().labels.as_ref();
    let name = labels.and_then(|labels| labels.get(labels::CONTROLLER_INSTALLATION_NAME));
    name.map(ObjectKey::cluster).into_iter().collect()
}
