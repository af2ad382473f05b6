//! Deployments: one ReplicaSet per template, scaled so that enough pods stay available while the newest takes over.
//! Never touches pods and never takes ReplicaSets from others: it adopts ownerless ones that its selector selects.
//! After kubernetes v1.35 `pkg/controller/deployment`.

mod report;
mod rollout;

use std::sync::Arc;

use api_meta::Fault;
use base_client::{delete, patch_changed, patch_status_if_changed};
use base_controller::{Controller, EventType, Next, ObjectKey};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::Context;
use crate::adoption::{Found, adopt, claim};
use crate::pods::{controller_of, is_finished, managed_by};
use crate::seen::{Made, create_seen};
pub(crate) use rollout::share;

use report::report;
use rollout::{Plan, plan, size};

/// The number of a rollout, on Deployment and ReplicaSet.
pub(crate) const REVISION: &str = "deployment.kubernetes.io/revision";

/// A Deployment and what belongs to it.
pub(crate) struct Seen {
    pub(crate) deployment: Arc<Deployment>,
    /// Oldest first.
    pub(crate) sets: Vec<Arc<ReplicaSet>>,
    /// Some pod of a set other than the newest still runs or is on its way out.
    pub(crate) old_pods_run: bool,
}

impl Seen {
    /// The set made from the Deployment's present template.
    pub(crate) fn newest(&self) -> Option<&Arc<ReplicaSet>> {
        self.sets
            .iter()
            .find(|set| rollout::is_made_from(set, &self.deployment))
    }
}

pub(crate) async fn run(context: Context, stop: CancellationToken) {
    let (deployments, sets, pods) = (
        context.caches.deployments(),
        context.caches.replica_sets(),
        context.caches.pods(),
    );
    if stop
        .run_until_cancelled(async { tokio::join!(sets.ready(), pods.ready()) })
        .await
        .is_none()
    {
        return;
    }
    let of_set = sets.clone();
    let controller = Controller::new("deployment", deployments)
        .owns(&sets)
        .watches(&pods, move |change| {
            // Only the end of a pod matters here: `Recreate` waits for it. All else shows in the set's status.
            let owner =
                controller_of(&change.object.metadata).filter(|owner| change.deleted && owner.kind == "ReplicaSet");
            let namespace = change.object.namespace().unwrap_or_default();
            let set = owner.and_then(|owner| of_set.get(&ObjectKey::namespaced(&namespace, &owner.name)));
            let deployment = set.as_ref().and_then(|set| controller_of(&set.metadata));
            deployment
                .map(|owner| ObjectKey::namespaced(namespace, &owner.name))
                .into_iter()
                .collect()
        });
    controller
        .run(stop, move |deployment| reconcile(deployment, context.clone()))
        .await;
}

async fn reconcile(deployment: Arc<Deployment>, context: Context) -> Result<Next, Fault> {
    if deployment.metadata.deletion_timestamp.is_some() {
        return Ok(Next::Change);
    }
    if let Some(spec) = &deployment.spec {
        claim(
            &context.client,
            &context.caches.replica_sets(),
            &*deployment,
            &spec.selector,
        )
        .await?;
    }
    let mut seen = observe(deployment, &context);
    let plan = plan(&seen);
    seen.deployment = Box::pin(apply(&seen, plan, &context)).await?;
    // What was written shows up as changes of the sets, which call again.
    let (after, next) = report(&seen, context.clock.now());
    let api = Api::namespaced(context.client.clone(), &seen.deployment.namespace().unwrap_or_default());
    patch_status_if_changed(&api, &*seen.deployment, &after).await?;
    Ok(next)
}

fn observe(deployment: Arc<Deployment>, context: &Context) -> Seen {
    let mut sets = managed_by(&context.caches.replica_sets(), &*deployment);
    sets.sort_by_key(|set| {
        (
            set.metadata.creation_timestamp.as_ref().map(|time| time.0),
            set.name_any(),
        )
    });
    let mut seen = Seen {
        deployment,
        sets,
        old_pods_run: false,
    };
    let newest = seen.newest().map(|set| set.name_any());
    let pods = context.caches.pods();
    let runs = |pod: &Arc<Pod>| !is_finished(pod);
    seen.old_pods_run = seen
        .sets
        .iter()
        .filter(|set| Some(set.name_any()) != newest)
        .any(|set| managed_by(&pods, &**set).iter().any(runs));
    seen
}

/// Writes the plan; returns the Deployment as it is then.
async fn apply(seen: &Seen, plan: Plan, context: &Context) -> Result<Arc<Deployment>, Fault> {
    let namespace = seen.deployment.namespace().unwrap_or_default();
    let sets: Api<ReplicaSet> = Api::namespaced(context.client.clone(), &namespace);
    let deployments: Api<Deployment> = Api::namespaced(context.client.clone(), &namespace);
    let Plan {
        create,
        change,
        delete: obsolete,
        revision,
        collision,
    } = plan;
    if collision {
        return Err(collide(seen, &deployments).await?);
    }
    for (before, after) in change {
        patch_changed(&sets, &*before, &after).await?;
        report_scaled(seen, context, &after.name_any(), size(&before), size(&after)).await;
    }
    if let Some(set) = create {
        match create_seen(&context.client, &context.caches.replica_sets(), &set).await? {
            Made::Created(set) => report_scaled(seen, context, &set.name_any(), 0, size(&set)).await,
            Made::Exists => match adopt(&context.client, &*seen.deployment, &set).await? {
                Found::Ours => {}
                Found::Other(_) => return Err(collide(seen, &deployments).await?),
            },
            Made::NamespaceGoes => {}
        }
    }
    for name in obsolete {
        delete(&sets, &name).await?;
    }
    if let Some(revision) = revision.filter(|revision| seen.deployment.annotations().get(REVISION) != Some(revision)) {
        let mut after = (*seen.deployment).clone();
        after.annotations_mut().insert(REVISION.to_owned(), revision);
        if let Some(written) = patch_changed(&deployments, &*seen.deployment, &after).await? {
            return Ok(Arc::new(written));
        }
    }
    Ok(seen.deployment.clone())
}

/// Counts one more name that the template cannot have, so that it hashes to another; returns the fault to retry with.
async fn collide(seen: &Seen, deployments: &Api<Deployment>) -> Result<Fault, Fault> {
    let mut after = (*seen.deployment).clone();
    let status = after.status.get_or_insert_default();
    status.collision_count = Some(status.collision_count.unwrap_or(0) + 1);
    patch_status_if_changed(deployments, &*seen.deployment, &after).await?;
    Ok(Fault::transient(
        "another ReplicaSet has the name this template hashes to; another hash is tried",
    ))
}

async fn report_scaled(seen: &Seen, context: &Context, set: &str, from: i32, to: i32) {
    let direction = match from.cmp(&to) {
        std::cmp::Ordering::Less => "up",
        std::cmp::Ordering::Equal => return,
        std::cmp::Ordering::Greater => "down",
    };
    let message = format!("Scaled {direction} replica set {set} from {from} to {to}");
    context
        .events
        .record(&*seen.deployment, EventType::Normal, "ScalingReplicaSet", &message)
        .await;
}
