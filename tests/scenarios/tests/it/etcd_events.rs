//! A shoot that was made before Events had a store of their own: it gets one, and loses its old Events and nothing else.

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Event, PersistentVolumeClaim, Service};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;
use tests_scenarios::{NAME, NAMESPACE, TECHNICAL_ID, wait};

use crate::scene::Scene;

const FLAG: &str = "--etcd-servers-overrides=";
const LABEL: &str = "networking.resources.gardener.cloud/to-etcd-events-client-tcp-2379";

fn seed<K>(scene: &Scene) -> Api<K>
where
    K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>,
{
    Api::namespaced(scene.world.seed.clone(), TECHNICAL_ID)
}

/// The example Shoot with the objects that an earlier version gave it: no etcd for Events, and an API server that knows of
/// none. It holds a ConfigMap and an Event.
async fn of_an_earlier_version() -> Scene {
    let scene = Scene::start().await;
    scene.created(|_| {}).await;
    let servers: Api<Deployment> = seed(&scene);
    let mut server = servers.get("kube-apiserver").await.unwrap();
    let template = &mut server.spec.as_mut().unwrap().template;
    template
        .metadata
        .as_mut()
        .unwrap()
        .labels
        .as_mut()
        .unwrap()
        .remove(LABEL)
        .unwrap();
    let args = template.spec.as_mut().unwrap().containers[0].args.as_mut().unwrap();
    let count = args.len();
    args.retain(|arg| !arg.starts_with(FLAG));
    assert_eq!(args.len(), count - 1);
    servers
        .replace("kube-apiserver", &PostParams::default(), &server)
        .await
        .unwrap();
    rolled_out(&scene).await;

    let gone = DeleteParams::foreground();
    let sets: Api<StatefulSet> = seed(&scene);
    sets.delete("etcd-events", &gone).await.unwrap();
    wait(&sets, "etcd-events", |set| set.is_none().then_some(())).await;
    for service in ["etcd-events-client", "etcd-events-peer"] {
        seed::<Service>(&scene).delete(service, &gone).await.unwrap();
    }
    let claims: Api<PersistentVolumeClaim> = seed(&scene);
    claims.delete("etcd-events-etcd-events-0", &gone).await.unwrap();

    let note = json!({"metadata": {"name": "note"}, "data": {"of": "before"}});
    maps(&scene)
        .await
        .create(&PostParams::default(), &serde_json::from_value(note).unwrap())
        .await
        .unwrap();
    write_event(&scene, "old").await;
    scene
}

/// Waits until the newest API server runs and no other.
async fn rolled_out(scene: &Scene) {
    wait(&seed::<Deployment>(scene), "kube-apiserver", |server| {
        let status = server?.status.as_ref()?;
        let newest = status.observed_generation == server?.metadata.generation && status.updated_replicas == Some(1);
        (newest && status.replicas == Some(1) && status.ready_replicas == Some(1)).then_some(())
    })
    .await;
}

async fn maps(scene: &Scene) -> Api<ConfigMap> {
    Api::namespaced(scene.shoot_client().await, "default")
}

async fn events(scene: &Scene) -> Api<Event> {
    Api::namespaced(scene.shoot_client().await, "default")
}

async fn write_event(scene: &Scene, name: &str) {
    let about = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "note", "namespace": "default"});
    let event = json!({"metadata": {"name": name}, "involvedObject": about, "reason": "Tested", "type": "Normal"});
    let event = serde_json::from_value(event).unwrap();
    events(scene)
        .await
        .create(&PostParams::default(), &event)
        .await
        .unwrap();
}

/// Everything but Events is there, and Events are written to the store that is theirs.
async fn assert_carried_over(scene: &Scene) {
    rolled_out(scene).await;
    let server = seed::<Deployment>(scene).get("kube-apiserver").await.unwrap();
    let pod = server.spec.unwrap().template.spec.unwrap();
    assert!(
        pod.containers[0]
            .args
            .as_ref()
            .unwrap()
            .iter()
            .any(|arg| arg.starts_with(FLAG))
    );
    let set = seed::<StatefulSet>(scene).get("etcd-events").await.unwrap();
    assert_eq!(set.status.unwrap().ready_replicas, Some(1));
    let note = maps(scene).await.get("note").await.unwrap();
    assert_eq!(note.data.unwrap()["of"], "before");
    assert!(events(scene).await.get_opt("old").await.unwrap().is_none());
    write_event(scene, "new").await;
    events(scene).await.get("new").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_shoot_of_an_earlier_version_gets_an_event_store_without_loss() {
    let scene = of_an_earlier_version().await;
    wait(&scene.world.shoots(NAMESPACE), NAME, |shoot| {
        let conditions = &shoot?.status.as_ref()?.conditions;
        let unhealthy = |message: &str| message == "StatefulSet etcd-events is missing";
        conditions
            .iter()
            .any(|one| one.type_ == "ControlPlaneHealthy" && unhealthy(&one.message))
            .then_some(())
    })
    .await;
    scene
        .change(json!({"metadata": {"annotations": {"gardener.cloud/operation": "reconcile"}}}))
        .await;
    let shoot = scene.succeeded().await;
    assert_carried_over(&scene).await;
    assert_eq!(shoot.status.unwrap().last_operation.unwrap().progress, 100);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_shoot_of_an_earlier_version_hibernates_and_wakes_with_an_event_store() {
    let scene = of_an_earlier_version().await;
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    scene.change(json!({"spec": {"hibernation": {"enabled": true}}})).await;
    scene.succeeded().await;
    let set = seed::<StatefulSet>(&scene).get("etcd-events").await.unwrap();
    assert_eq!(set.status.unwrap().replicas, 0);
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    scene.change(json!({"spec": {"hibernation": {"enabled": false}}})).await;
    scene.succeeded().await;
    assert_carried_over(&scene).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_shoot_of_an_earlier_version_is_deleted_without_a_trace() {
    let scene = of_an_earlier_version().await;
    scene.end().await;
    let left = seed::<PersistentVolumeClaim>(&scene)
        .list(&ListParams::default())
        .await
        .unwrap();
    assert!(left.items.is_empty());
}
