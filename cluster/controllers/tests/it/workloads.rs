//! Deployments, StatefulSets, DaemonSets, Jobs, Services and claims, from the object to its pods and back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use base_client::{Injected, Verb, inject_faults};
use cluster_controllers::Name;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Endpoints, Event, PersistentVolume, PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};
use tests_kit::{until, until_gone};
use tokio::sync::Notify;

use crate::cluster::{Cluster, start, start_over};

fn template(image: &str) -> Value {
    let port = json!({"name": "http", "containerPort": 8080});
    json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": image, "ports": [port]}]}})
}

fn deployment(replicas: i32, image: &str) -> Value {
    json!({
        "metadata": {"name": "d"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "a"}}, "template": template(image)},
    })
}

async fn rolled_out(cluster: &Cluster, replicas: i32) -> Deployment {
    until(&cluster.api::<Deployment>(), "d", "rolled out", |deployment| {
        let status = deployment.status.clone().unwrap_or_default();
        status.observed_generation == deployment.metadata.generation
            && status.updated_replicas.unwrap_or(0) == replicas
            && status.replicas.unwrap_or(0) == replicas
            && status.available_replicas.unwrap_or(0) == replicas
    })
    .await
}

async fn images(cluster: &Cluster) -> Vec<String> {
    let pods = cluster.api::<Pod>().list(&ListParams::default()).await.unwrap();
    pods.iter()
        .map(|pod| pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn deployment_rolls_its_pods_and_scales_to_nothing_and_back() {
    let cluster = start().await;
    cluster.node("node").await;
    cluster.create::<Deployment>(deployment(3, "one")).await;
    let done = rolled_out(&cluster, 3).await;
    assert_eq!(done.annotations()["deployment.kubernetes.io/revision"], "1");
    let api = cluster.api::<Deployment>();
    cluster
        .patch(&api, "d", json!({"spec": {"template": template("two")}}))
        .await;
    let done = rolled_out(&cluster, 3).await;
    assert_eq!(done.annotations()["deployment.kubernetes.io/revision"], "2");
    assert_eq!(images(&cluster).await, ["two"; 3]);
    cluster.patch(&api, "d", json!({"spec": {"replicas": 0}})).await;
    rolled_out(&cluster, 0).await;
    assert_eq!(images(&cluster).await.len(), 0);
    cluster.patch(&api, "d", json!({"spec": {"replicas": 2}})).await;
    rolled_out(&cluster, 2).await;
    assert_eq!(images(&cluster).await, ["two"; 2]);
    let events = cluster.api::<Event>().list(&ListParams::default()).await.unwrap();
    let reported = |text: &str| {
        events
            .iter()
            .any(|event| event.message.as_deref().is_some_and(|it| it.contains(text)))
    };
    assert!(reported("Scaled up replica set d-") && reported("from 0 to 3") && reported("Created pod: d-"));
    // A template that never works keeps the old pods.
    cluster
        .patch(
            &api,
            "d",
            json!({"spec": {"progressDeadlineSeconds": 30, "template": template("broken")}}),
        )
        .await;
    let stuck = until(&api, "d", "stuck", |deployment| {
        let conditions = deployment
            .status
            .clone()
            .and_then(|status| status.conditions)
            .unwrap_or_default();
        conditions
            .iter()
            .any(|condition| condition.reason.as_deref() == Some("ProgressDeadlineExceeded"))
    });
    assert_eq!(stuck.await.status.unwrap().available_replicas, Some(2));
    api.delete("d", &DeleteParams::background()).await.unwrap();
    until_empty::<ReplicaSet>(&cluster).await;
    until_empty::<Pod>(&cluster).await;
}

async fn until_empty<K>(cluster: &Cluster)
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + serde::de::DeserializeOwned
        + std::fmt::Debug
        + Send
        + 'static,
{
    let api = cluster.api::<K>();
    for object in api.list(&ListParams::default()).await.unwrap() {
        until_gone(&api, &object.name_any()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn stateful_set_gets_ordinals_and_claims_that_outlive_it() {
    let cluster = start().await;
    cluster.node("node").await;
    let claim = json!({"metadata": {"name": "etcd-main"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    cluster
        .create::<StatefulSet>(json!({"metadata": {"name": "etcd-main"}, "spec": {
            "replicas": 2, "serviceName": "etcd-main", "selector": {"matchLabels": {"app": "a"}},
            "template": template("one"), "volumeClaimTemplates": [claim]}}))
        .await;
    let sets = cluster.api::<StatefulSet>();
    let ready = |count| {
        move |set: &StatefulSet| {
            let status = set.status.clone().unwrap_or_default();
            status.ready_replicas.unwrap_or(0) == count
                && status.replicas == count
                && status.observed_generation == set.metadata.generation
        }
    };
    until(&sets, "etcd-main", "ready", ready(2)).await;
    let claims = cluster.api::<PersistentVolumeClaim>();
    let claim = until(&claims, "etcd-main-etcd-main-1", "bound", |claim| {
        claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
    });
    let volume = claim.await.spec.unwrap().volume_name.unwrap();
    let pod = cluster.api::<Pod>().get("etcd-main-1").await.unwrap();
    let claimed = pod
        .spec
        .unwrap()
        .volumes
        .unwrap()
        .iter()
        .find_map(|v| v.persistent_volume_claim.clone());
    assert_eq!(claimed.unwrap().claim_name, "etcd-main-etcd-main-1");
    cluster
        .patch(&sets, "etcd-main", json!({"spec": {"replicas": 0}}))
        .await;
    until(&sets, "etcd-main", "empty", ready(0)).await;
    assert_eq!(claims.list(&ListParams::default()).await.unwrap().items.len(), 2);
    claims
        .delete("etcd-main-etcd-main-1", &DeleteParams::default())
        .await
        .unwrap();
    until_gone(&cluster.all::<PersistentVolume>(), &volume).await;
}

#[tokio::test(start_paused = true)]
async fn endpoints_follow_the_ready_pods_behind_a_service() {
    let cluster = start().await;
    cluster.node("node").await;
    cluster
        .create::<Service>(json!({"metadata": {"name": "web"}, "spec": {
            "selector": {"app": "a"}, "ports": [{"port": 80, "targetPort": "http"}]}}))
        .await;
    let slices = cluster.api::<EndpointSlice>();
    let ready = |count: usize| {
        move |slice: &EndpointSlice| {
            let is_ready =
                |e: &&k8s_openapi::api::discovery::v1::Endpoint| e.conditions.as_ref().unwrap().ready == Some(true);
            slice.endpoints.iter().filter(is_ready).count() == count
        }
    };
    until(&slices, "web-0", "there", ready(0)).await;
    cluster.create::<Deployment>(deployment(2, "one")).await;
    let slice = until(&slices, "web-0", "full", ready(2)).await;
    assert_eq!(slice.ports.unwrap()[0].port, Some(8080));
    let endpoints = cluster.api::<Endpoints>().get("web").await.unwrap();
    let subsets = endpoints.subsets;
    assert_eq!(subsets.as_ref().unwrap()[0].addresses.as_ref().unwrap().len(), 2);
    // Changes by other writers are reverted.
    let all = cluster.api::<Endpoints>();
    all.delete("web", &DeleteParams::default()).await.unwrap();
    until(&all, "web", "whole again", |endpoints| endpoints.subsets == subsets).await;
    cluster.patch(&slices, "web-0", json!({"endpoints": []})).await;
    until(&slices, "web-0", "full again", ready(2)).await;
    let service = "kubernetes.io/service-name";
    cluster
        .patch(&slices, "web-0", json!({"metadata": {"labels": {service: null}}}))
        .await;
    until(&slices, "web-0", "marked again", |slice| {
        slice.labels().contains_key(service)
    })
    .await;
    cluster.patch(&all, "web", json!({"subsets": null})).await;
    until(&all, "web", "full again", |endpoints| endpoints.subsets == subsets).await;
    cluster
        .patch(&cluster.api::<Deployment>(), "d", json!({"spec": {"replicas": 0}}))
        .await;
    until(&slices, "web-0", "empty", ready(0)).await;
    cluster
        .api::<Service>()
        .delete("web", &DeleteParams::default())
        .await
        .unwrap();
    until_gone(&slices, "web-0").await;
    until_gone(&cluster.api::<Endpoints>(), "web").await;
}

#[tokio::test(start_paused = true)]
async fn endpoints_of_another_address_type_get_a_slice_of_their_own() {
    let cluster = start().await;
    let slices = cluster.api::<EndpointSlice>();
    let foreign =
        json!({"metadata": {"name": "web-0"}, "addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.1"]}]});
    let foreign = cluster.create::<EndpointSlice>(foreign).await;
    cluster
        .create::<Service>(
            json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "a"}, "ports": [{"port": 80}]}}),
        )
        .await;
    until(&slices, "web-1", "there", |slice| slice.address_type == "IPv4").await;
    let container = json!({"name": "c", "image": "x"});
    cluster
        .create::<Pod>(json!({"metadata": {"name": "p", "labels": {"app": "a"}}, "spec": {"containers": [container]}}))
        .await;
    let running = json!({"status": {"phase": "Running", "podIP": "fd00::1", "podIPs": [{"ip": "fd00::1"}]}});
    let pods = cluster.api::<Pod>();
    pods.patch_status(
        "p",
        &kube::api::PatchParams::default(),
        &kube::api::Patch::Merge(running),
    )
    .await
    .unwrap();
    let slice = until(&slices, "web-2", "published", |slice| slice.endpoints.len() == 1).await;
    assert_eq!(
        (slice.address_type.as_str(), &*slice.endpoints[0].addresses[0]),
        ("IPv6", "fd00::1")
    );
    until_gone(&slices, "web-1").await;
    assert_eq!(slices.get("web-0").await.unwrap(), foreign);
}

#[tokio::test(start_paused = true)]
async fn slice_gets_another_name_once_the_cache_shows_a_foreign_one() {
    let watched = Arc::new(Notify::new());
    let watches = watched.clone();
    let cluster = start_over(
        // No other controller watches slices.
        |options| options.controllers = [Name::EndpointSlice].into(),
        |client| {
            inject_faults(client, move |call| {
                if call.resource != "endpointslices" || call.verb != Verb::Watch {
                    return Injected::Pass;
                }
                watches.notify_one();
                Injected::Delay(Duration::from_secs(60))
            })
        },
    )
    .await;
    // The cache has its first list and shows nothing more for a minute.
    watched.notified().await;
    let slices = cluster.api::<EndpointSlice>();
    let foreign = json!({"metadata": {"name": "web-0"}, "addressType": "IPv4", "endpoints": []});
    let foreign = cluster.create::<EndpointSlice>(foreign).await;
    let ports = json!([{"port": 80}]);
    cluster
        .create::<Service>(json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "a"}, "ports": ports}}))
        .await;
    until(&slices, "web-1", "there", |slice| slice.address_type == "IPv4").await;
    assert_eq!(slices.get("web-0").await.unwrap(), foreign);
}

#[tokio::test(start_paused = true)]
async fn daemons_run_on_every_node_and_unschedulable_pods_report_why_once() {
    let cluster = start().await;
    cluster
        .create::<DaemonSet>(json!({"metadata": {"name": "ds"}, "spec": {
            "selector": {"matchLabels": {"app": "a"}}, "template": template("one")}}))
        .await;
    let lonely = json!({"metadata": {"name": "lonely"}, "spec": {
        "nodeSelector": {"disk": "ssd"}, "containers": [{"name": "c", "image": "x"}]}});
    cluster.create::<Pod>(lonely).await;
    cluster.node("a").await;
    cluster.node("b").await;
    let sets = cluster.api::<DaemonSet>();
    let done = until(&sets, "ds", "everywhere", |set| {
        set.status.as_ref().is_some_and(|status| status.number_ready == 2)
    });
    assert_eq!(done.await.status.unwrap().desired_number_scheduled, 2);
    let pods = cluster.api::<Pod>();
    let message = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.";
    until(&pods, "lonely", "refused", |pod| {
        let conditions = pod
            .status
            .clone()
            .and_then(|status| status.conditions)
            .unwrap_or_default();
        conditions
            .iter()
            .any(|condition| condition.message.as_deref() == Some(message))
    })
    .await;
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    let events = cluster.api::<Event>().list(&ListParams::default()).await.unwrap();
    let matching = events.iter().filter(|event| event.message.as_deref() == Some(message));
    assert_eq!(matching.map(|event| event.count).collect::<Vec<_>>(), [Some(1)]);
}

#[tokio::test(start_paused = true)]
async fn job_runs_to_its_end_and_expires() {
    let cluster = start().await;
    cluster.node("node").await;
    let pod = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}});
    cluster
        .create::<Job>(json!({"metadata": {"name": "j"}, "spec": {
            "completions": 1, "ttlSecondsAfterFinished": 30, "template": pod}}))
        .await;
    let jobs = cluster.api::<Job>();
    until(&jobs, "j", "active", |job| {
        job.status.as_ref().is_some_and(|status| status.active == Some(1))
    })
    .await;
    let pods = cluster.api::<Pod>();
    let name = pods.list(&ListParams::default()).await.unwrap().items[0].name_any();
    let ended = kube::api::Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    pods.patch_status(&name, &kube::api::PatchParams::default(), &ended)
        .await
        .unwrap();
    until(&jobs, "j", "complete", |job| {
        let conditions = job
            .status
            .clone()
            .and_then(|status| status.conditions)
            .unwrap_or_default();
        conditions.iter().any(|condition| condition.type_ == "Complete")
    })
    .await;
    until_gone(&jobs, "j").await;
    until_gone(&pods, &name).await;
}

#[tokio::test(start_paused = true)]
async fn pods_are_not_made_twice_while_the_watch_of_pods_is_away() {
    let (lists, away) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(true)));
    let (listed, is_away) = (lists.clone(), away.clone());
    let cluster = start_over(
        |_| {},
        |client| {
            inject_faults(client, move |call| {
                let of_all_pods = call.resource == "pods" && call.namespace.is_none();
                let first = || call.verb == Verb::List && listed.fetch_add(1, Ordering::SeqCst) == 0;
                match of_all_pods && is_away.load(Ordering::SeqCst) && !first() {
                    true => Injected::Answer(503),
                    false => Injected::Pass,
                }
            })
        },
    )
    .await;
    cluster.node("a").await;
    cluster
        .create::<ReplicaSet>(json!({"metadata": {"name": "d"}, "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "a"}}, "template": template("x")}}))
        .await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(lists.load(Ordering::SeqCst) > 1, "or the next lines prove nothing");
    assert_eq!(images(&cluster).await.len(), 1, "the first, which was never seen");
    away.store(false, Ordering::SeqCst);
    until(&cluster.api::<ReplicaSet>(), "d", "whole", |set| {
        set.status.as_ref().and_then(|status| status.ready_replicas) == Some(3)
    })
    .await;
    assert_eq!(images(&cluster).await.len(), 3);
}
