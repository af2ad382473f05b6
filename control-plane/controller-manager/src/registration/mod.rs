//! Which extensions a seed needs (gardener/gardener v1.150
//! pkg/controllermanager/controller/controllerregistration): for each seed, ControllerInstallations come and go.
//! A type that is not registered is reported where it is needed, and holds nothing else back.

mod apply;
mod finalizers;
mod hash;
mod needs;
mod observe;
mod plan;
mod report;
mod standing;

use std::sync::Arc;

use api_core::v1beta1::{ControllerInstallation, Seed, Shoot};
use api_meta::Fault;
use base_controller::{Cache, Change, Controller, Next, ObjectKey};
use kube::Resource;
use tokio_util::sync::CancellationToken;

use crate::context::Context;

use hash::Deployments;
use needs::ShootNeeds;

pub(crate) use finalizers::{run_deployment_finalizers, run_registration_finalizers};
pub(crate) use standing::run_standing;

/// Keeps the installations of every seed.
pub(crate) async fn run_installations(context: Context, stop: CancellationToken) {
    let caches = context.caches.clone();
    let (deployments, needs) = (Arc::new(Deployments::default()), Arc::new(ShootNeeds::default()));
    let noted = needs.clone();
    Controller::new("installations", caches.seeds.clone())
        .watches(&caches.registrations, all_seeds(&caches.seeds))
        .watches(&caches.deployments, all_seeds(&caches.seeds))
        .watches(&caches.installations, |change| installation_seed(&change.object))
        .watches(&caches.buckets, |change| {
            keys([change.object.spec.seed_name.as_deref()])
        })
        .watches(&caches.entries, |change| {
            keys([change.object.spec.seed_name.as_deref()])
        })
        .watches(&caches.shoots, move |change| {
            let (seeds, shoot) = (shoot_seeds(change), ObjectKey::of(&*change.object));
            seeds.iter().for_each(|seed| noted.note(&seed.name, &shoot));
            seeds
        })
        .run(stop, move |seed| {
            let (context, deployments, needs) = (context.clone(), deployments.clone(), needs.clone());
            async move { reconcile(&context, &deployments, &needs, &seed).await }
        })
        .await;
}

async fn reconcile(
    context: &Context,
    deployments: &Deployments,
    needs: &ShootNeeds,
    seed: &Arc<Seed>,
) -> Result<Next, Fault> {
    let seen = observe::observe(seed, &context.caches, deployments, needs).await;
    let plan = plan::plan(&seen);
    let done = apply::apply(context, &seen, &plan).await?;
    report::report(context, &seen, &plan, &done).await;
    Ok(Next::Change)
}

/// Any change of such an object concerns all seeds.
pub(crate) fn all_seeds<R: Resource>(
    seeds: &Cache<Seed>,
) -> impl Fn(&Change<R>) -> Vec<ObjectKey> + Send + Sync + 'static {
    let seeds = seeds.clone();
    move |_| seeds.list().iter().map(|seed| ObjectKey::of(&**seed)).collect()
}

/// The seed an installation is for.
pub(crate) fn installation_seed(installation: &ControllerInstallation) -> Vec<ObjectKey> {
    keys([plan::seed_of(installation)])
}

fn keys<'a>(names: impl IntoIterator<Item = Option<&'a str>>) -> Vec<ObjectKey> {
    names.into_iter().flatten().map(ObjectKey::cluster).collect()
}

/// The seeds a change of a shoot concerns; changes of the status alone concern none.
fn shoot_seeds(change: &Change<Shoot>) -> Vec<ObjectKey> {
    fn status_seed(shoot: &Shoot) -> Option<&str> {
        shoot.status.as_ref().and_then(|status| status.seed_name.as_deref())
    }
    let (now, before) = (&*change.object, change.old.as_deref());
    let unchanged = change.new().is_some()
        && before.is_some_and(|before| {
            before.meta().generation == now.meta().generation && status_seed(before) == status_seed(now)
        });
    if unchanged {
        return Vec::new();
    }
    let old_seed = before.and_then(|before| before.spec.seed_name.as_deref());
    keys([
        now.spec.seed_name.as_deref(),
        old_seed,
        status_seed(now),
        before.and_then(status_seed),
    ])
}
