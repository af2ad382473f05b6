//! What shoots show of themselves (gardener/gardener v1.150 pkg/controllermanager/controller/shoot/statuslabel,
//! controller/seed/lifecycle): the label `shoot.gardener.cloud/status`, conditions that are unknown while the
//! seed's gardenlet is gone, and extension types that are not registered any more.

mod plan;

use std::sync::Arc;

use api_core::v1beta1::{Seed, Shoot};
use api_meta::conditions::seed::GARDENLET_READY;
use api_meta::{Condition, ConditionStatus, Fault};
use base_client::{patch_changed, patch_status_if_changed};
use base_controller::{Cache, Change, Controller, Next, ObjectKey};
use kube::{Api, Resource, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::context::Context;

/// Keeps label, conditions and constraint of all shoots.
pub(crate) async fn run(context: Context, stop: CancellationToken) {
    let caches = context.caches.clone();
    Controller::new("shoot-status", caches.shoots.clone())
        .when(|_, _| true)
        .watches(&caches.registrations, all_shoots(&caches.shoots))
        .watches(&caches.seeds, shoots_of_seed(&caches.shoots))
        .run(stop, move |shoot| {
            let context = context.clone();
            async move { reconcile(&context, &shoot).await }
        })
        .await;
}

fn all_shoots<R: Resource>(shoots: &Cache<Shoot>) -> impl Fn(&Change<R>) -> Vec<ObjectKey> + Send + Sync + 'static {
    let shoots = shoots.clone();
    move |_| shoots.list().iter().map(|shoot| ObjectKey::of(&**shoot)).collect()
}

/// Whether the reports of the seed's gardenlet are outdated.
fn is_silent(seed: &Seed) -> bool {
    let conditions = seed.status.as_ref().map_or(&[][..], |status| &status.conditions);
    Condition::find(conditions, GARDENLET_READY).is_some_and(|ready| ready.status == ConditionStatus::Unknown)
}

/// A seed concerns its shoots when its gardenlet stops or resumes reporting.
fn shoots_of_seed(shoots: &Cache<Shoot>) -> impl Fn(&Change<Seed>) -> Vec<ObjectKey> + Send + Sync + 'static {
    let shoots = shoots.clone();
    move |change| {
        if change.old.as_deref().map(is_silent) == change.new().map(is_silent) {
            return Vec::new();
        }
        let name = change.object.name_any();
        let there = shoots
            .list()
            .into_iter()
            .filter(|shoot| seed_of(shoot) == Some(name.as_str()));
        there.map(|shoot| ObjectKey::of(&*shoot)).collect()
    }
}

/// The seed that runs the shoot's control plane now.
fn seed_of(shoot: &Shoot) -> Option<&str> {
    let in_status = shoot.status.as_ref().and_then(|status| status.seed_name.as_deref());
    in_status.or(shoot.spec.seed_name.as_deref())
}

async fn reconcile(context: &Context, shoot: &Arc<Shoot>) -> Result<Next, Fault> {
    context.caches.registrations.ready().await;
    context.caches.seeds.ready().await;
    let registrations: Vec<_> = context
        .caches
        .registrations
        .list()
        .iter()
        .map(|r| (**r).clone())
        .collect();
    let seed = seed_of(shoot).and_then(|name| context.caches.seeds.get(&ObjectKey::cluster(name)));
    let silent = seed.is_some_and(|seed| is_silent(&seed));
    let after = plan::plan(shoot, &registrations, silent, context.clock.now());
    let api: Api<Shoot> = context.namespaced(&shoot.namespace().unwrap_or_default());
    if after.status != shoot.status {
        // The write calls for the next turn, which labels what was written.
        patch_status_if_changed(&api, shoot, &after).await?;
    } else if after.metadata != shoot.metadata {
        patch_changed(&api, shoot, &after).await?;
    }
    Ok(Next::Change)
}
