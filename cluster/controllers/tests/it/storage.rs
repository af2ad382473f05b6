//! Claims and their volumes, to the end of both.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tests_kit::{until, until_gone};

use crate::cluster::{Cluster, start};

const PROTECTION: &str = "kubernetes.io/pvc-protection";

fn claim(name: &str, class: Option<&str>) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "storageClassName": class, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
}

/// Makes a claim and waits for its volume, whose name is returned.
async fn bound(cluster: &Cluster, name: &str, class: Option<&str>) -> String {
    cluster.create::<PersistentVolumeClaim>(claim(name, class)).await;
    let claims = cluster.api::<PersistentVolumeClaim>();
    let is_bound = |claim: &PersistentVolumeClaim| {
        claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
    };
    until(&claims, name, "bound", is_bound)
        .await
        .spec
        .unwrap()
        .volume_name
        .unwrap()
}

fn mounting(name: &str, claim: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "containers": [{"name": "c", "image": "x"}],
        "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": claim}}]}})
}

fn phase(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.phase.as_deref()
}

#[tokio::test(start_paused = true)]
async fn a_retained_volume_outlives_its_claim_until_its_policy_changes() {
    let cluster = start().await;
    cluster
        .create::<StorageClass>(
            json!({"metadata": {"name": "kept"}, "provisioner": "x.org/y", "reclaimPolicy": "Retain"}),
        )
        .await;
    cluster
        .create::<StorageClass>(json!({"metadata": {"name": "dropped"}, "provisioner": "x.org/y"}))
        .await;
    let volumes = cluster.all::<PersistentVolume>();
    let claims = cluster.api::<PersistentVolumeClaim>();
    let retained = bound(&cluster, "by-class", Some("kept")).await;
    let changed = bound(&cluster, "by-hand", Some("dropped")).await;
    let dropped = bound(&cluster, "none", Some("unheard-of")).await;
    cluster
        .patch(
            &volumes,
            &changed,
            json!({"spec": {"persistentVolumeReclaimPolicy": "Retain"}}),
        )
        .await;
    for name in ["by-class", "by-hand", "none"] {
        claims.delete(name, &DeleteParams::default()).await.unwrap();
    }
    until_gone(&volumes, &dropped).await;
    for name in [&retained, &changed] {
        let released = until(&volumes, name, "released", |volume| {
            volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Released")
        });
        assert_eq!(released.await.metadata.deletion_timestamp, None);
    }
    // A claim of the same name is another claim.
    assert_ne!(bound(&cluster, "by-class", Some("kept")).await, retained);
    cluster
        .patch(
            &volumes,
            &retained,
            json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}}),
        )
        .await;
    until_gone(&volumes, &retained).await;
    assert!(volumes.get_opt(&changed).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_deleted_stays_until_no_unfinished_pod_names_it() {
    let cluster = start().await;
    cluster.node("a").await;
    let claims = cluster.api::<PersistentVolumeClaim>();
    let volumes = cluster.all::<PersistentVolume>();
    let pods = cluster.api::<Pod>();
    let used = bound(&cluster, "used", None).await;
    assert_eq!(claims.get("used").await.unwrap().finalizers(), [PROTECTION]);
    let by_hand = json!({"metadata": {"name": "by-hand"}, "spec": {"volumeName": "mine", "storageClassName": "",
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    cluster.create::<PersistentVolumeClaim>(by_hand).await;
    let is_protected = |claim: &PersistentVolumeClaim| claim.finalizers() == [PROTECTION];
    until(&claims, "by-hand", "protected", is_protected).await;
    claims.delete("by-hand", &DeleteParams::default()).await.unwrap();
    until_gone(&claims, "by-hand").await;

    for name in ["goes", "ends"] {
        cluster.create::<Pod>(mounting(name, "used")).await;
        until(&pods, name, "running", |pod| phase(pod) == Some("Running")).await;
    }
    claims.delete("used", &DeleteParams::default()).await.unwrap();
    let is_there = async || {
        // A controller that would release it has had the time.
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        let claim = claims.get_opt("used").await.unwrap();
        claim.is_some_and(|claim| claim.metadata.deletion_timestamp.is_some())
            && volumes.get_opt(&used).await.unwrap().is_some()
    };
    assert!(is_there().await, "two pods use it");
    pods.delete("goes", &DeleteParams::default()).await.unwrap();
    until_gone(&pods, "goes").await;
    assert!(is_there().await, "one pod uses it");
    let ended = kube::api::Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    pods.patch_status("ends", &kube::api::PatchParams::default(), &ended)
        .await
        .unwrap();
    until_gone(&claims, "used").await;
    until_gone(&volumes, &used).await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_goes_with_its_claims_and_the_pods_that_use_them() {
    let cluster = start().await;
    cluster.node("a").await;
    let volume = bound(&cluster, "used", None).await;
    cluster.create::<Pod>(mounting("p", "used")).await;
    let pods = cluster.api::<Pod>();
    until(&pods, "p", "running", |pod| phase(pod) == Some("Running")).await;
    let namespaces = cluster.all::<Namespace>();
    namespaces.delete("n", &DeleteParams::default()).await.unwrap();
    until_gone(&namespaces, "n").await;
    until_gone(&cluster.all::<PersistentVolume>(), &volume).await;
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_pod_gets_a_new_claim_if_the_old_was_deleted() {
    let cluster = start().await;
    cluster.node("a").await;
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
    cluster
        .create::<StatefulSet>(json!({"metadata": {"name": "s"}, "spec": {
            "replicas": 1, "serviceName": "s", "selector": {"matchLabels": {"app": "a"}}, "template": template,
            "volumeClaimTemplates": [claim("data", None)]}}))
        .await;
    let claims = cluster.api::<PersistentVolumeClaim>();
    let pods = cluster.api::<Pod>();
    until(&pods, "s-0", "running", |pod| phase(pod) == Some("Running")).await;
    let old = claims.get("data-s-0").await.unwrap().uid();
    claims.delete("data-s-0", &DeleteParams::default()).await.unwrap();
    let going = claims.get("data-s-0").await.unwrap();
    assert!(going.metadata.deletion_timestamp.is_some(), "the pod uses it");
    let pod = pods.get("s-0").await.unwrap().uid();
    pods.delete("s-0", &DeleteParams::default()).await.unwrap();
    until(&claims, "data-s-0", "another", |claim| claim.uid() != old).await;
    until(&pods, "s-0", "another", |now| {
        now.uid() != pod && phase(now) == Some("Running")
    })
    .await;
}
