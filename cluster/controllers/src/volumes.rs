//! Volumes for claims: each claim gets one of its own at once, which is deleted with its claim or retained by its reclaim
//! policy. What a volume holds is the node's business; of a class only the reclaim policy counts, and there are no volumes
//! made by hand to bind to.
//! After kubernetes v1.35 `pkg/controller/volume/persistentvolume`.

use std::sync::Arc;

use api_meta::Fault;
use base_client::{add_finalizer, create_or_get, delete, get, patch_changed, patch_status_if_changed};
use base_controller::{Controller, Next, ObjectKey};
use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, ObjectReference, PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimStatus,
    PersistentVolumeSpec, PersistentVolumeStatus,
};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::Context;
use crate::claims::{PROTECTION, release, released_by};

/// Who makes the volumes, in their spec and annotation.
const DRIVER: &str = "volumes.orangery.dev";
/// Marks on claims and volumes that binding is done, and by whom.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// The storage class name that forbids making a volume.
const NO_CLASS: &str = "";
/// The reclaim policy under which a volume goes with its claim: that of classes and volumes that name none.
const DELETE: &str = "Delete";

pub(crate) async fn run(context: Context, stop: CancellationToken) {
    let (claims, volumes) = (context.caches.claims(), context.caches.volumes());
    let of_volume = |volume: &PersistentVolume| {
        let claim = volume.spec.as_ref()?.claim_ref.clone()?;
        Some(ObjectKey::namespaced(claim.namespace?, claim.name?))
    };
    let binder = Controller::new("persistentvolumeclaim", claims.clone())
        .watches(&volumes, move |change| of_volume(&change.object).into_iter().collect())
        .watches(&context.caches.pods(), released_by);
    let reclaimer = Controller::new("persistentvolume", volumes.clone())
        .only(|volume| volume.annotations().get(PROVISIONED_BY).is_some_and(|by| by == DRIVER))
        .watches(&claims, |change| {
            let volume = change.object.spec.as_ref().and_then(|spec| spec.volume_name.clone());
            volume
                .map(ObjectKey::cluster)
                .into_iter()
                .filter(|_| change.deleted)
                .collect()
        });
    let (for_binder, for_reclaimer) = (context.clone(), context);
    tokio::join!(
        binder.run(stop.clone(), move |claim| bind(claim, for_binder.clone())),
        reclaimer.run(stop, move |volume| reclaim(volume, for_reclaimer.clone())),
    );
}

fn volume_name(claim: &PersistentVolumeClaim) -> String {
    format!("pvc-{}", claim.uid().unwrap_or_default())
}

/// The volume that a claim gets, to be reclaimed by this policy; none for claims that want another kind or none.
fn volume_for(claim: &PersistentVolumeClaim, policy: &str) -> Option<PersistentVolume> {
    let spec = claim.spec.as_ref()?;
    let class = spec.storage_class_name.as_deref();
    let name = volume_name(claim);
    let is_bound_elsewhere = spec
        .volume_name
        .as_ref()
        .is_some_and(|volume| !volume.is_empty() && *volume != name);
    if class == Some(NO_CLASS) || is_bound_elsewhere || claim.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let capacity = spec.resources.as_ref().and_then(|resources| resources.requests.clone());
    Some(PersistentVolume {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            annotations: Some([(PROVISIONED_BY.to_owned(), DRIVER.to_owned())].into()),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeSpec {
            access_modes: spec.access_modes.clone(),
            capacity,
            claim_ref: Some(ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("PersistentVolumeClaim".to_owned()),
                name: claim.metadata.name.clone(),
                namespace: claim.metadata.namespace.clone(),
                uid: claim.metadata.uid.clone(),
                ..ObjectReference::default()
            }),
            csi: Some(CSIPersistentVolumeSource {
                driver: DRIVER.to_owned(),
                volume_handle: name,
                ..CSIPersistentVolumeSource::default()
            }),
            persistent_volume_reclaim_policy: Some(policy.to_owned()),
            storage_class_name: spec.storage_class_name.clone(),
            volume_mode: spec.volume_mode.clone(),
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    })
}

/// The claim as bound to the volume, with the finalizer that protects it while pods use it.
fn bound(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> PersistentVolumeClaim {
    let mut after = claim.clone();
    after.spec.get_or_insert_default().volume_name = volume.metadata.name.clone();
    let annotations = after.annotations_mut();
    for mark in [BIND_COMPLETED, BOUND_BY_CONTROLLER] {
        annotations.insert(mark.to_owned(), "yes".to_owned());
    }
    let finalizers = after.finalizers_mut();
    if !finalizers.iter().any(|finalizer| finalizer == PROTECTION) {
        finalizers.push(PROTECTION.to_owned());
    }
    after
}

async fn bind(claim: Arc<PersistentVolumeClaim>, context: Context) -> Result<Next, Fault> {
    if claim.metadata.deletion_timestamp.is_some() {
        release(&claim, &context).await?;
        return Ok(Next::Change);
    }
    let volumes: Api<PersistentVolume> = Api::all(context.client.clone());
    let claims: Api<PersistentVolumeClaim> =
        Api::namespaced(context.client.clone(), &claim.namespace().unwrap_or_default());
    let known = context.caches.volumes().get(&ObjectKey::cluster(volume_name(&claim)));
    let policy = match known {
        // It has its own, and nothing is made.
        Some(_) => DELETE.to_owned(),
        None => policy_for(&claim, &context).await?,
    };
    let Some(wanted) = volume_for(&claim, &policy) else {
        add_finalizer(&claims, (*claim).clone(), PROTECTION).await?;
        return Ok(Next::Change);
    };
    let volume = match known {
        Some(volume) => (*volume).clone(),
        None => create_or_get(&volumes, &wanted).await?,
    };
    let mut volume_after = volume.clone();
    volume_after.status = Some(PersistentVolumeStatus {
        phase: Some("Bound".to_owned()),
        ..volume.status.clone().unwrap_or_default()
    });
    patch_status_if_changed(&volumes, &volume, &volume_after).await?;
    let now = patch_changed(&claims, &*claim, &bound(&claim, &volume))
        .await?
        .unwrap_or_else(|| (*claim).clone());
    let volume_spec = volume.spec.unwrap_or_default();
    let mut after = now.clone();
    after.status = Some(PersistentVolumeClaimStatus {
        phase: Some("Bound".to_owned()),
        access_modes: volume_spec.access_modes,
        capacity: volume_spec.capacity,
        ..now.status.clone().unwrap_or_default()
    });
    patch_status_if_changed(&claims, &now, &after).await?;
    Ok(Next::Change)
}

/// The reclaim policy of the claim's class. A claim may name a class that is not there.
async fn policy_for(claim: &PersistentVolumeClaim, context: &Context) -> Result<String, Fault> {
    let class = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.clone());
    let Some(class) = class.filter(|class| class != NO_CLASS) else {
        return Ok(DELETE.to_owned());
    };
    let classes: Api<StorageClass> = Api::all(context.client.clone());
    let policy = get(&classes, &class).await?.and_then(|class| class.reclaim_policy);
    Ok(policy.unwrap_or_else(|| DELETE.to_owned()))
}

/// Deletes a volume whose claim is gone, or reports it as released if it is retained.
async fn reclaim(volume: Arc<PersistentVolume>, context: Context) -> Result<Next, Fault> {
    let claim = volume.spec.as_ref().and_then(|spec| spec.claim_ref.clone());
    let Some(ObjectReference {
        namespace: Some(namespace),
        name: Some(name),
        uid,
        ..
    }) = claim
    else {
        return Ok(Next::Change);
    };
    let is_it = |claim: &PersistentVolumeClaim| claim.metadata.uid == uid;
    let cache = context.caches.claims();
    cache.ready().await;
    if cache
        .get(&ObjectKey::namespaced(&namespace, &name))
        .is_some_and(|claim| is_it(&claim))
    {
        return Ok(Next::Change);
    }
    // The cache may be behind, and a deleted volume cannot be restored.
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(context.client.clone(), &namespace);
    if get(&claims, &name).await?.is_some_and(|claim| is_it(&claim)) {
        return Ok(Next::Change);
    }
    let volumes: Api<PersistentVolume> = Api::all(context.client.clone());
    let policy = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    if policy.is_none_or(|policy| policy == DELETE) {
        delete(&volumes, &volume.name_any()).await?;
    } else {
        let mut released = (*volume).clone();
        released.status.get_or_insert_default().phase = Some("Released".to_owned());
        patch_status_if_changed(&volumes, &*volume, &released).await?;
    }
    Ok(Next::Change)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn claim(spec: Value) -> PersistentVolumeClaim {
        serde_json::from_value(json!({"metadata": {"name": "c", "namespace": "n", "uid": "u1"}, "spec": spec})).unwrap()
    }

    #[test]
    fn claim_gets_a_volume_of_its_own_under_its_uid() {
        let request = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        let volume = volume_for(&claim(request), "Retain").unwrap();
        let spec = volume.spec.clone().unwrap();
        assert_eq!(
            (volume.name_any(), spec.claim_ref.unwrap().uid),
            ("pvc-u1".to_owned(), Some("u1".to_owned()))
        );
        assert_eq!(spec.capacity.unwrap()["storage"].0, "1Gi");
        assert_eq!(spec.persistent_volume_reclaim_policy.as_deref(), Some("Retain"));
        let after = bound(&claim(json!({})), &volume);
        assert_eq!(
            volume_for(&after, DELETE).map(|it| it.name_any()),
            Some("pvc-u1".to_owned()),
            "bound claims stay bound"
        );
        assert_eq!(bound(&after, &volume), after);
    }

    #[test]
    fn claims_that_want_other_volumes_are_left_alone() {
        for spec in [json!({"storageClassName": ""}), json!({"volumeName": "by-hand"})] {
            assert_eq!(volume_for(&claim(spec.clone()), DELETE), None, "{spec}");
        }
    }
}
