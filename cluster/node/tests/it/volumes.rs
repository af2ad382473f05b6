//! What pods mount.

use cluster_node::{ContainerContext, Exit, ImageCatalogue};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolume, PersistentVolumeClaim, Pod, Secret};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use tokio::sync::mpsc;

use crate::cluster::{Cluster, is_ready, until};
use crate::pods::{reasons, serves};

#[tokio::test(start_paused = true)]
async fn missing_secret_is_reported_and_awaited_and_its_changes_reach_the_files() {
    let cluster = Cluster::new().await;
    let (sender, mut received) = mpsc::unbounded_channel();
    let app = move |context: ContainerContext| {
        let sender = sender.clone();
        async move {
            context.ready.set(true);
            let mut changes = context.files.changes();
            loop {
                sender
                    .send(context.files.read_text("/etc/s/k").unwrap_or_default())
                    .unwrap();
                tokio::select! {
                    biased;
                    () = context.stop.cancelled() => return Exit::done(),
                    changed = changes.changed() => changed.unwrap(),
                }
            }
        }
    };
    let _node = cluster.node("node-a", ImageCatalogue::new().with("app", app));
    let mount = json!({"volumeMounts": [{"name": "s", "mountPath": "/etc/s"}]});
    let volumes = json!([{"name": "s", "projected": {"sources": [
        {"secret": {"name": "s"}}, {"configMap": {"name": "m"}},
    ]}}]);
    cluster.pod("p", mount, json!({"volumes": volumes})).await;
    cluster
        .create(
            &cluster.api::<ConfigMap>(),
            json!({"metadata": {"name": "m"}, "data": {"x": "y"}}),
        )
        .await;
    let events: Api<k8s_openapi::api::core::v1::Event> = cluster.api();
    let mut waited = 0;
    while !reasons(&cluster).await.contains(&"FailedMount".to_owned()) {
        // Each round lets the node run; virtual time only.
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        waited += 1;
        assert!(waited < 100, "{:?}", events.list(&Default::default()).await);
    }
    let secrets: Api<Secret> = cluster.api();
    cluster
        .create(&secrets, json!({"metadata": {"name": "s"}, "data": {"k": "b25l"}}))
        .await;
    cluster.pod_until("p", is_ready).await;
    assert_eq!(received.recv().await.as_deref(), Some("one"));
    let change = Patch::Merge(json!({"data": {"k": "dHdv"}}));
    secrets.patch("s", &PatchParams::default(), &change).await.unwrap();
    assert_eq!(received.recv().await.as_deref(), Some("two"));
}

/// A persistent volume and a claim that is bound to it, both of this name.
pub(crate) async fn bind(cluster: &Cluster, name: &str) {
    let volume = json!({"metadata": {"name": name}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"},
    }});
    cluster
        .create(&Api::<PersistentVolume>::all(cluster.client.clone()), volume)
        .await;
    let claims: Api<PersistentVolumeClaim> = cluster.api();
    let claim = json!({"metadata": {"name": name}, "spec": {
        "volumeName": name, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
    }});
    cluster.create(&claims, claim).await;
    let bound = Patch::Merge(json!({"status": {"phase": "Bound"}}));
    claims
        .patch_status(name, &PatchParams::default(), &bound)
        .await
        .unwrap();
}

/// Counts its starts in its volume, and fails unless there were as many as its argument states.
async fn counts(context: ContainerContext) -> Exit {
    let Some(volume) = context.files.volume("/data/db") else {
        return Exit::failed("no volume");
    };
    let starts = volume.get_or_init(|| std::sync::atomic::AtomicU32::new(0));
    let before = starts.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    if context.args == [before.to_string()] {
        serves(context).await
    } else {
        Exit::failed(format!("{before} starts before"))
    }
}

#[tokio::test(start_paused = true)]
async fn a_volume_outlives_its_pods_and_ends_with_its_persistent_volume() {
    let cluster = Cluster::new().await;
    let _node = cluster.node("node-a", ImageCatalogue::new().with("app", counts));
    let volumes: Api<PersistentVolume> = Api::all(cluster.client.clone());
    let claims: Api<PersistentVolumeClaim> = cluster.api();
    let pods: Api<Pod> = cluster.api();
    let run = async |starts_before: &str| {
        let mount = json!({"args": [starts_before], "volumeMounts": [{"name": "d", "mountPath": "/data"}]});
        let spec = json!({"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "pv"}}]});
        cluster.pod("p", mount, spec).await;
        cluster.pod_until("p", is_ready).await;
        pods.delete("p", &DeleteParams::default()).await.unwrap();
        cluster.pod_gone("p").await;
    };
    bind(&cluster, "pv").await;
    run("0").await;
    run("1").await;
    assert_eq!(cluster.volumes.len(), 1);
    claims.delete("pv", &DeleteParams::default()).await.unwrap();
    // No controller runs that would remove its finalizer once no pod names it.
    let released = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    claims.patch("pv", &PatchParams::default(), &released).await.unwrap();
    volumes.delete("pv", &DeleteParams::default()).await.unwrap();
    until(&volumes, "pv", |volume: Option<&PersistentVolume>| {
        volume.is_none().then_some(())
    })
    .await;
    bind(&cluster, "pv").await;
    run("0").await;
}
