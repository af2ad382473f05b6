//! What was left behind by an owner that was deleted alone, and adopted by the next of its name.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, PropagationPolicy};
use serde_json::{Value, json};
use tests_kit::{until, until_gone};

use crate::cluster::{Cluster, start};

fn workload(more: Value) -> Value {
    let mut spec = json!({
        "replicas": 2, "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}},
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"metadata": {"name": "d"}, "spec": spec})
}

fn orphaning() -> DeleteParams {
    DeleteParams {
        propagation_policy: Some(PropagationPolicy::Orphan),
        ..DeleteParams::default()
    }
}

async fn pods(cluster: &Cluster) -> Vec<(String, Option<String>)> {
    let pods = cluster.api::<Pod>().list(&ListParams::default()).await.unwrap();
    pods.iter().map(|pod| (pod.name_any(), pod.uid())).collect()
}

async fn deployed(cluster: &Cluster) -> Deployment {
    until(&cluster.api::<Deployment>(), "d", "whole", |deployment| {
        let status = deployment.status.clone().unwrap_or_default();
        status.observed_generation == deployment.metadata.generation && status.available_replicas == Some(2)
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_deployment_adopts_the_replica_set_of_its_predecessor_and_scales_nothing() {
    let cluster = start().await;
    cluster.node("a").await;
    cluster.create::<Deployment>(workload(json!({}))).await;
    deployed(&cluster).await;
    let (deployments, sets) = (cluster.api::<Deployment>(), cluster.api::<ReplicaSet>());
    let before = pods(&cluster).await;
    let set = sets.list(&ListParams::default()).await.unwrap().items.remove(0);
    deployments.delete("d", &orphaning()).await.unwrap();
    until_gone(&deployments, "d").await;
    assert_eq!(sets.get(&set.name_any()).await.unwrap().owner_references(), []);

    let again = cluster.create::<Deployment>(workload(json!({}))).await;
    let name = set.name_any();
    let adopted = until(&sets, &name, "adopted", |set| {
        set.owner_references()
            .iter()
            .any(|owner| Some(&owner.uid) == again.metadata.uid.as_ref())
    });
    assert_eq!(adopted.await.uid(), set.uid());
    deployed(&cluster).await;
    assert_eq!(pods(&cluster).await, before);
    assert_eq!(sets.list(&ListParams::default()).await.unwrap().items.len(), 1);
    let events = cluster.api::<Event>().list(&ListParams::default()).await.unwrap();
    let messages = events
        .iter()
        .filter(|event| event.involved_object.uid == again.metadata.uid)
        .map(|event| event.reason.clone().unwrap_or_default());
    assert_eq!(messages.collect::<Vec<_>>(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_deployment_adopts_a_replica_set_of_another_template_and_removes_its_pods() {
    let cluster = start().await;
    cluster.node("a").await;
    cluster.create::<Deployment>(workload(json!({}))).await;
    deployed(&cluster).await;
    let (deployments, sets) = (cluster.api::<Deployment>(), cluster.api::<ReplicaSet>());
    let old = sets.list(&ListParams::default()).await.unwrap().items.remove(0);
    deployments.delete("d", &orphaning()).await.unwrap();
    until_gone(&deployments, "d").await;

    let mut other = workload(json!({}));
    other["spec"]["template"]["spec"]["containers"][0]["image"] = json!("y");
    cluster.create::<Deployment>(other).await;
    until(&sets, &old.name_any(), "empty", |set| {
        set.status.as_ref().is_some_and(|status| status.replicas == 0)
    })
    .await;
    deployed(&cluster).await;
    let own = deployments.get("d").await.unwrap();
    assert_eq!(own.annotations()["deployment.kubernetes.io/revision"], "2");
    assert_eq!(pods(&cluster).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_replica_set_adopts_ownerless_pods_and_leaves_others_alone() {
    let cluster = start().await;
    cluster.node("a").await;
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u", "controller": true});
    for (name, owners) in [("free", json!([])), ("owned", json!([owner]))] {
        let pod = json!({"metadata": {"name": name, "labels": {"app": "a"}, "ownerReferences": owners},
            "spec": {"containers": [{"name": "c", "image": "x"}]}});
        cluster.create::<Pod>(pod).await;
    }
    let set = cluster.create::<ReplicaSet>(workload(json!({}))).await;
    let sets = cluster.api::<ReplicaSet>();
    until(&sets, "d", "whole", |set| {
        set.status
            .as_ref()
            .is_some_and(|status| status.available_replicas == Some(2))
    })
    .await;
    let pods = cluster.api::<Pod>().list(&ListParams::default()).await.unwrap();
    let of_set = pods.iter().filter(|pod| {
        pod.owner_references()
            .iter()
            .any(|owner| Some(&owner.uid) == set.metadata.uid.as_ref())
    });
    let names: Vec<String> = of_set.map(ResourceExt::name_any).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(
        names.contains(&"free".to_owned()) && !names.contains(&"owned".to_owned()),
        "{names:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_deployment_whose_replica_sets_name_is_another_owners_takes_another_name() {
    let cluster = start().await;
    cluster.node("a").await;
    cluster.create::<Deployment>(workload(json!({}))).await;
    deployed(&cluster).await;
    let (deployments, sets) = (cluster.api::<Deployment>(), cluster.api::<ReplicaSet>());
    let set = sets.list(&ListParams::default()).await.unwrap().items.remove(0);
    let theirs = cluster
        .create::<StatefulSet>(json!({"metadata": {"name": "other"}, "spec": {
            "replicas": 0, "serviceName": "s", "selector": {"matchLabels": {"app": "b"}},
            "template": {"metadata": {"labels": {"app": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}}}))
        .await;
    let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "other", "uid": theirs.uid(), "controller": true});
    deployments.delete("d", &orphaning()).await.unwrap();
    until_gone(&deployments, "d").await;
    cluster
        .patch(
            &sets,
            &set.name_any(),
            json!({"metadata": {"ownerReferences": [owner]}}),
        )
        .await;
    cluster.create::<Deployment>(workload(json!({}))).await;
    let whole = deployed(&cluster).await;
    assert_eq!(whole.status.unwrap().collision_count, Some(1));
    assert_eq!(sets.list(&ListParams::default()).await.unwrap().items.len(), 2);
    assert_eq!(
        sets.get(&set.name_any()).await.unwrap().owner_references()[0].name,
        "other"
    );
}

#[tokio::test(start_paused = true)]
async fn stateful_set_adopts_pods_of_its_predecessor_and_names_a_blocking_owner() {
    let cluster = start().await;
    cluster.node("a").await;
    let service = || json!({"serviceName": "s"});
    cluster.create::<StatefulSet>(workload(service())).await;
    let sets = cluster.api::<StatefulSet>();
    let is_whole = |set: &StatefulSet| set.status.as_ref().and_then(|status| status.ready_replicas) == Some(2);
    until(&sets, "d", "whole", is_whole).await;
    let before = pods(&cluster).await;
    sets.delete("d", &orphaning()).await.unwrap();
    until_gone(&sets, "d").await;
    let stranger = json!({"metadata": {"name": "d-2", "labels": {"app": "other"}}, "spec": {
        "containers": [{"name": "c", "image": "x"}]}});
    cluster.create::<Pod>(stranger).await;
    let mut more = service();
    more["replicas"] = json!(3);
    let again = cluster.create::<StatefulSet>(workload(more)).await;
    until(&sets, "d", "whole again", is_whole).await;
    assert_eq!(pods(&cluster).await[..2], before);
    let owners = cluster.api::<Pod>().get("d-1").await.unwrap().metadata.owner_references;
    assert_eq!(owners.unwrap()[0].uid, again.uid().unwrap());
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    let events = cluster.api::<Event>().list(&ListParams::default()).await.unwrap();
    let failed = |event: &&Event| event.reason.as_deref() == Some("FailedCreate");
    let message = events.iter().find(failed).unwrap().message.clone().unwrap();
    assert!(message.contains("n/d-2") && message.contains("another"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_adopts_pods_of_an_older_template_and_rolls_them() {
    let cluster = start().await;
    cluster.node("a").await;
    let service = json!({"serviceName": "s"});
    cluster.create::<StatefulSet>(workload(service.clone())).await;
    let sets = cluster.api::<StatefulSet>();
    let is_whole = |set: &StatefulSet| {
        let status = set.status.clone().unwrap_or_default();
        status.ready_replicas == Some(2) && status.updated_replicas == Some(2)
    };
    until(&sets, "d", "whole", is_whole).await;
    let before = pods(&cluster).await;
    sets.delete("d", &orphaning()).await.unwrap();
    until_gone(&sets, "d").await;
    let mut other = workload(service);
    other["spec"]["template"]["spec"]["containers"][0]["image"] = json!("y");
    cluster.create::<StatefulSet>(other).await;
    until(&sets, "d", "whole again", is_whole).await;
    let after = pods(&cluster).await;
    assert_eq!((before.len(), after.len()), (2, 2));
    assert!(before.iter().all(|pod| !after.contains(pod)), "{after:?}");
}
