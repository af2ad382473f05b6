//! The seed controller: makes a cluster fit to be a seed, registers it in the garden, and reports its status.

mod alive;
mod apply;
mod cluster;
mod extensions;
mod going;
mod observe;
mod owner;
mod plan;
mod report;
mod secrets;

use std::sync::Arc;
use std::time::Duration;

use api_core::v1beta1::Seed;
use api_extensions::Extension;
use api_meta::{Fault, finalizers, labels, names};
use api_resources::ManagedResource;
use base_client::add_finalizer;
use base_controller::{Controller, Next, ObjectKey, changed_by_others};
use components_seed::RESOURCE_MANAGER;
use futures::FutureExt;
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use alive::Silence;

pub(crate) use apply::register;
pub use cluster::kinds_of_seed;
pub(crate) use cluster::prepare_cluster;
pub use owner::cluster_identity;
pub(crate) use owner::refuse_other_cluster;

/// How often certificates are looked at, if nothing else calls for a turn: they are renewed many days before they expire.
const CERTIFICATES_CHECKED: Duration = Duration::from_secs(24 * 3600);

/// Keeps our Seed's status true, and its lease alive, until `stop`.
pub(crate) async fn run(context: Arc<Context>, stop: CancellationToken) {
    let name = context.config.seed_name().to_owned();
    let (silent, silence) = watch::channel(None);
    let beating = alive::beat(context.clone(), silent, stop.clone());
    let caches = &context.garden_caches;
    // A Seed in deletion waits for what is on it to go.
    let call = |concerned: bool, name: &str| -> Vec<ObjectKey> {
        concerned.then(|| ObjectKey::cluster(name)).into_iter().collect()
    };
    let [
        ours,
        system,
        role,
        binding,
        bucket,
        shoot,
        entry,
        installation,
        extension,
        registration,
        resource,
    ] = std::array::from_fn(|_| name.clone());
    let controller = Controller::new("seed", caches.seeds.clone())
        .only(move |seed: &Seed| seed.name_any() == ours)
        .watches(&context.seed_caches.deployments, move |change| {
            call(is_resource_manager(&change.object), &system)
        })
        .watches(&context.seed_caches.manager_roles, move |_| call(true, &role))
        .watches(&context.seed_caches.manager_role_bindings, move |_| {
            call(true, &binding)
        })
        .watches(context.seed_caches.of::<Extension>(), move |change| {
            call(extensions::is_of_seed(&change.object), &extension)
        })
        .watches(&caches.registrations, move |change| {
            let concerned = change.deleted || changed_by_others(change.old.as_deref(), &change.object);
            call(concerned, &registration)
        })
        .watches(&caches.backup_buckets, move |_| call(true, &bucket))
        .watches(&caches.shoots, move |change| {
            call(change.deleted && going::has_shoot(&shoot, &change.object), &shoot)
        })
        .watches(&caches.backup_entries, move |change| {
            call(change.deleted && going::has_entry(&entry, &change.object), &entry)
        })
        .watches(&caches.installations, move |change| {
            let concerned = change.deleted && going::has_installation(&installation, &change.object);
            call(concerned, &installation)
        });
    let controller = controller
        .watches(&context.seed_caches.managed_resources, move |change| {
            call(is_system_component(&change.object), &resource)
        })
        .called_by(alive::changes(&silence, &name));
    let reconciling = controller.run(stop.clone(), {
        let context = context.clone();
        move |seed| reconcile(context.clone(), seed, silence.clone()).boxed()
    });
    tokio::join!(beating, reconciling);
}

/// Whether it is the seed's own: one that another writer has changed or deleted is restored.
fn is_resource_manager(deployment: &Deployment) -> bool {
    let place = (
        deployment.metadata.namespace.as_deref(),
        deployment.metadata.name.as_deref(),
    );
    place == (Some(names::GARDEN_NAMESPACE), Some(RESOURCE_MANAGER))
}

/// Whether it holds something that all shoots of the seed share. What an installation of an extension holds counts for that
/// installation.
fn is_system_component(resource: &ManagedResource) -> bool {
    let in_garden = resource.metadata.namespace.as_deref() == Some(names::GARDEN_NAMESPACE);
    let of_seed = resource.spec.class.as_deref().is_some_and(|class| !class.is_empty());
    let of_installation = resource.labels().contains_key(labels::CONTROLLER_INSTALLATION_NAME);
    in_garden && of_seed && !of_installation
}

async fn reconcile(context: Arc<Context>, seed: Arc<Seed>, silence: Silence) -> Result<Next, Fault> {
    if seed.metadata.deletion_timestamp.is_some() {
        return going::reconcile(&context, &seed).await;
    }
    let seeds: kube::Api<Seed> = kube::Api::all(context.garden.clone());
    let seed = add_finalizer(&seeds, (*seed).clone(), finalizers::GARDENER).await?;
    let seen = match observe::observe(&context, &seed).await {
        Ok(seen) => seen,
        Err(fault) => {
            let why = silence.borrow().clone();
            if let Some(why) = why {
                alive::report_silence(&context, &seed, &why).await?;
            }
            return Err(fault);
        }
    };
    let secrets = secrets::serving(&context).await?;
    let plan = plan::plan(&seed, &seen, &secrets, &context.config, context.clock.now());
    apply::apply(&context, &plan).await?;
    report::report(&context, &seed, plan.status).await?;
    Ok(Next::After(CERTIFICATES_CHECKED))
}
