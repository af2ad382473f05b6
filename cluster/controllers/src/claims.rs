//! Protects claims that pods use: the finalizer is removed when the claim is deleted and no unfinished pod names it. It
//! never deletes a claim, and knows nothing of volumes.
//! After kubernetes v1.35 `pkg/controller/volume/pvcprotection`.

use std::sync::Arc;

use api_meta::Fault;
use base_client::{list, remove_finalizer};
use base_controller::{Change, ObjectKey};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::{Api, ResourceExt};

use crate::Context;
use crate::pods::is_finished;

/// The finalizer of claims, under upstream's name.
pub(crate) const PROTECTION: &str = "kubernetes.io/pvc-protection";

/// The claims that a change of a pod may release: those of a pod that has finished or gone.
pub(crate) fn released_by(change: &Change<Pod>) -> Vec<ObjectKey> {
    let was_finished = change.old.as_deref().is_some_and(is_finished);
    if was_finished || !(change.deleted || is_finished(&change.object)) {
        return Vec::new();
    }
    let namespace = change.object.namespace().unwrap_or_default();
    names(&change.object)
        .map(|name| ObjectKey::namespaced(&namespace, name))
        .collect()
}

/// The claims that a pod names. (`ephemeral` volumes, which create a claim of their own, are not supported.)
fn names(pod: &Pod) -> impl Iterator<Item = &str> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(|volume| Some(volume.persistent_volume_claim.as_ref()?.claim_name.as_str()))
}

fn uses(pod: &Pod, claim: &str) -> bool {
    !is_finished(pod) && names(pod).any(|name| name == claim)
}

/// Removes the finalizer of a deleted claim once no pod uses it. Pods without a node count too, unlike upstream: here they
/// can still be placed on a node while their claim is deleted.
pub(crate) async fn release(claim: &Arc<PersistentVolumeClaim>, context: &Context) -> Result<(), Fault> {
    let (name, namespace) = (claim.name_any(), claim.namespace().unwrap_or_default());
    if !claim.finalizers().iter().any(|finalizer| finalizer == PROTECTION) {
        return Ok(());
    }
    let pods = context.caches.pods();
    pods.ready().await;
    if pods.list_in(&namespace).iter().any(|pod| uses(pod, &name)) {
        // Each of them calls again when it ends.
        return Ok(());
    }
    // The cache may be behind, and a claim that is released cannot be restored.
    let there = list(&Api::<Pod>::namespaced(context.client.clone(), &namespace), "").await?;
    if there.iter().any(|pod| uses(pod, &name)) {
        return Ok(());
    }
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(context.client.clone(), &namespace);
    remove_finalizer(&claims, (**claim).clone(), PROTECTION).await.map(drop)
}
