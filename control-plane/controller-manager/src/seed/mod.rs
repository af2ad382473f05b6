//! The life of seeds as the garden sees it (gardener/gardener v1.150 pkg/controllermanager/controller/seed): a
//! namespace for each, whether its extensions are ready, whether its gardenlet still renews its lease.
//! What gardenlet itself reports is never overwritten while it renews.

mod access;
mod plan;

use std::collections::BTreeMap;
use std::sync::Arc;

use api_core::v1beta1::Seed;
use api_meta::names::{SEED_LEASE_NAMESPACE, seed_namespace};
use api_meta::{Fault, labels};
use base_client::{apply, patch_status_if_changed};
use base_controller::{Controller, Next, ObjectKey};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::RoleBinding;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Resource, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::context::{Context, MANAGER};
use crate::registration::{all_seeds, installation_seed};
use plan::Seen;

/// Keeps namespaces and conditions of all seeds.
pub(crate) async fn run(context: Context, stop: CancellationToken) {
    let caches = context.caches.clone();
    Controller::new("seeds", caches.seeds.clone())
        .watches(&caches.installations, |change| installation_seed(&change.object))
        .watches(&caches.registrations, all_seeds(&caches.seeds))
        .watches(&caches.deployments, all_seeds(&caches.seeds))
        .watches(&caches.leases, |change| {
            vec![ObjectKey::cluster(change.object.name_any())]
        })
        .run(stop, move |seed| {
            let context = context.clone();
            async move { reconcile(&context, &seed).await }
        })
        .await;
}

async fn reconcile(context: &Context, seed: &Arc<Seed>) -> Result<Next, Fault> {
    let seen = observe(context, seed).await;
    if seed.meta().deletion_timestamp.is_none() && !seen.has_namespace {
        apply_namespace(context, seed).await?;
    }
    let now = context.clock.now();
    let plan = plan::plan(&seen, now);
    let mut after = (**seed).clone();
    let conditions = &mut after.status.get_or_insert_default().conditions;
    let mut changed = false;
    for condition in plan.conditions {
        changed |= condition.put_into(conditions);
    }
    if changed {
        patch_status_if_changed(&context.cluster::<Seed>(), seed, &after).await?;
    }
    Ok(plan.look_again_after.map_or(Next::Change, Next::After))
}

async fn observe(context: &Context, seed: &Arc<Seed>) -> Seen {
    let caches = &context.caches;
    caches.installations.ready().await;
    caches.registrations.ready().await;
    caches.deployments.ready().await;
    caches.leases.ready().await;
    caches.namespaces.ready().await;
    let name = seed.name_any();
    let installations =
        caches.installations.list().into_iter().filter(|installation| {
            installation.spec.seed_ref.as_ref().and_then(|seed| seed.name.as_ref()) == Some(&name)
        });
    Seen {
        seed: seed.clone(),
        installations: installations.collect(),
        registrations: caches
            .registrations
            .list()
            .iter()
            .map(|registration| (**registration).clone())
            .collect(),
        deployment_types: caches
            .deployments
            .list()
            .iter()
            .map(|d| (d.name_any(), d.type_.clone()))
            .collect::<BTreeMap<_, _>>(),
        lease: caches.leases.get(&ObjectKey::namespaced(SEED_LEASE_NAMESPACE, &name)),
        has_namespace: caches
            .namespaces
            .get(&ObjectKey::cluster(seed_namespace(&name)))
            .is_some_and(|namespace| {
                let (key, value) = access::DONE;
                namespace.annotations().get(key).is_some_and(|done| done == value)
            }),
    }
}

/// Makes the namespace, and what may be done in it. Only then is it marked: a crash in between is made up for.
async fn apply_namespace(context: &Context, seed: &Seed) -> Result<(), Fault> {
    let namespaces = context.cluster::<Namespace>();
    let mut namespace = namespace(seed);
    apply(&namespaces, &namespace, MANAGER).await?;
    let bindings = Api::<RoleBinding>::namespaced(context.client.clone(), &namespace.name_any());
    for binding in access::bindings(seed) {
        apply(&bindings, &binding, MANAGER).await?;
    }
    let (key, value) = access::DONE;
    namespace.annotations_mut().insert(key.to_owned(), value.to_owned());
    apply(&namespaces, &namespace, MANAGER).await.map(drop)
}

/// The seed's namespace in the garden; it goes with the seed.
fn namespace(seed: &Seed) -> Namespace {
    Namespace {
        metadata: ObjectMeta {
            name: Some(seed_namespace(&seed.name_any())),
            labels: Some([(labels::ROLE.to_owned(), labels::role::SEED.to_owned())].into()),
            owner_references: seed.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    }
}
