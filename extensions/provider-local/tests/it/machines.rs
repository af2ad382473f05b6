//! Workers and their machines.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use api_extensions::Worker;
use api_machine::{Machine, MachineClass, MachinePhase, MachineState};
use api_meta::LastOperationState;
use extensions_provider_local::{MACHINE_ADDRESS_ENV, ledger};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tests_kit::{until, until_gone};

use crate::landscape::{Landscape, NAMESPACE};

#[tokio::test(start_paused = true)]
async fn machines_join_are_scaled_rolled_and_leave_nothing_behind() {
    let landscape = Landscape::new().await;
    landscape.start();
    landscape.let_machines_join();
    let infrastructure = landscape.infrastructure().await;
    let worker = landscape
        .worker(landscape.worker_spec(&infrastructure, "agent-1", 1))
        .await;
    let info = worker.status.unwrap().machine_deployments;
    assert_eq!(
        (info[0].name.as_str(), info[0].minimum, info[0].maximum),
        ("shoot--zoo--ape-p-z1", 1, 1)
    );
    let first = landscape.ready_nodes().await;
    assert_eq!(first.len(), 1);
    let labels = landscape.nodes.get(&first[0]).await.unwrap().metadata.labels.unwrap();
    assert_eq!(labels["worker.gardener.cloud/pool"], "p");

    landscape
        .worker(landscape.worker_spec(&infrastructure, "agent-1", 2))
        .await;
    assert_eq!(landscape.ready_nodes().await.len(), 2);

    landscape
        .worker(landscape.worker_spec(&infrastructure, "agent-2", 2))
        .await;
    let rolled = landscape.ready_nodes().await;
    assert_eq!(rolled.len(), 2);
    assert!(!rolled.contains(&first[0]), "{rolled:?} were all replaced");

    landscape.cluster(true).await;
    landscape
        .worker(landscape.worker_spec(&infrastructure, "agent-2", 2))
        .await;
    assert!(
        landscape.ready_nodes().await.is_empty(),
        "a hibernated shoot has no machines"
    );
    landscape.cluster(false).await;
    landscape
        .worker(landscape.worker_spec(&infrastructure, "agent-2", 2))
        .await;
    assert_eq!(landscape.ready_nodes().await.len(), 2);

    landscape.take_down::<Worker>("ape").await;
    assert!(landscape.ready_nodes().await.is_empty());
    assert_eq!(
        ledger(&landscape.client, NAMESPACE).await.unwrap(),
        ["ConfigMap/local-network"]
    );
}

#[tokio::test(start_paused = true)]
async fn machines_made_at_once_have_addresses_of_their_own_in_their_subnet() {
    let landscape = Landscape::new().await;
    landscape.start();
    landscape.let_machines_join();
    let infrastructure = landscape.infrastructure().await;
    landscape
        .worker(landscape.worker_spec(&infrastructure, "agent", 8))
        .await;
    let addresses = || async {
        let pods = landscape.api::<Pod>().list(&Default::default()).await.unwrap();
        let address = |pod: &Pod| -> Option<Ipv4Addr> {
            let variables = pod.spec.as_ref()?.containers[0].env.as_ref()?;
            let variable = variables.iter().find(|variable| variable.name == MACHINE_ADDRESS_ENV)?;
            variable.value.as_ref()?.parse().ok()
        };
        pods.iter().filter_map(address).collect::<Vec<_>>()
    };
    let given = addresses().await;
    let distinct: BTreeSet<_> = given.iter().copied().collect();
    assert_eq!((given.len(), distinct.len()), (8, 8), "{given:?}");
    let class = landscape
        .api::<MachineClass>()
        .list(&Default::default())
        .await
        .unwrap()
        .items
        .remove(0);
    let spec: serde_json::Value = class.provider_spec.decode().unwrap();
    let subnet: ipnet::Ipv4Net = spec["subnet"].as_str().unwrap().parse().unwrap();
    assert!(
        given.iter().all(|address| subnet.contains(address)),
        "{given:?} in {subnet}"
    );

    landscape
        .worker(landscape.worker_spec(&infrastructure, "agent", 9))
        .await;
    let grown = addresses().await;
    let distinct: BTreeSet<_> = grown.iter().copied().collect();
    assert_eq!((grown.len(), distinct.len()), (9, 9), "{grown:?}");
    assert!(
        given.iter().all(|address| grown.contains(address)),
        "no machine was moved"
    );
}

#[tokio::test(start_paused = true)]
async fn pool_labels_and_taints_are_added_to_and_removed_from_existing_nodes() {
    let landscape = Landscape::new().await;
    landscape.start();
    landscape.let_machines_join();
    let infrastructure = landscape.infrastructure().await;
    let pool = |extra: serde_json::Value| {
        let mut spec = landscape.worker_spec(&infrastructure, "agent", 1);
        let pool = spec["pools"][0].as_object_mut().unwrap();
        pool.extend(extra.as_object().unwrap().clone());
        spec
    };
    let taint = |key: &str| json!({"key": key, "value": "v", "effect": "PreferNoSchedule"});
    let marked = |label: &str, timeout: &str| {
        pool(json!({
            "labels": {"worker.gardener.cloud/pool": "p", label: "1"}, "annotations": {label: "2"}, "taints": [taint(label)],
            "machineControllerManager": {"machineDrainTimeout": timeout},
        }))
    };
    landscape.worker(marked("first", "1m0s")).await;
    let name = landscape.ready_nodes().await.remove(0);
    let theirs = json!({
        "metadata": {"labels": {"theirs": "1"}, "annotations": {"theirs": "2"}},
        "spec": {"taints": [taint("first"), taint("theirs")]},
    });
    let params = PatchParams::default();
    landscape
        .nodes
        .patch(&name, &params, &Patch::Merge(theirs))
        .await
        .unwrap();

    landscape.worker(marked("second", "2m0s")).await;
    let node = until(&landscape.nodes, &name, "marked again", |node: &Node| {
        node.labels().contains_key("second")
    })
    .await;
    let has = |key: &str| {
        let taints = node
            .spec
            .as_ref()
            .and_then(|spec| spec.taints.as_deref())
            .unwrap_or_default();
        let tainted = taints.iter().filter(|taint| taint.key == key).count();
        (node.labels().get(key), node.annotations().get(key), tainted)
    };
    let [one, two] = ["1", "2"].map(str::to_owned);
    assert_eq!(has("second"), (Some(&one), Some(&two), 1));
    assert_eq!(has("theirs"), (Some(&one), Some(&two), 1));
    assert_eq!(has("first"), (None, None, 0));
    assert_eq!(node.labels()["worker.gardener.cloud/pool"], "p");
    let machines = landscape
        .api::<Machine>()
        .list(&Default::default())
        .await
        .unwrap()
        .items;
    let known: Vec<String> = machines.iter().map(ResourceExt::name_any).collect();
    assert_eq!(known, std::slice::from_ref(&name), "no machine was recreated");
    assert_eq!(machines[0].spec.drain_timeout.unwrap().to_string(), "2m0s");

    landscape.worker(pool(json!({}))).await;
    let node = until(&landscape.nodes, &name, "marked no more", |node: &Node| {
        !node.labels().contains_key("second")
    })
    .await;
    assert_eq!(node.annotations().get("second"), None);
    let taints = node.spec.unwrap().taints.unwrap();
    assert_eq!(taints.len(), 1, "{taints:?}");
    assert_eq!(landscape.ready_nodes().await, [name]);
}

#[tokio::test(start_paused = true)]
async fn a_machine_reports_why_its_node_cannot_have_its_labels() {
    let landscape = Landscape::new().await;
    landscape.start();
    landscape.let_machines_join();
    let infrastructure = landscape.infrastructure().await;
    let mut spec = landscape.worker_spec(&infrastructure, "agent", 1);
    spec["pools"][0]["labels"]["a b"] = json!("c d");
    landscape.write::<Worker>("ape", spec).await;
    let reported = |worker: &Worker| {
        let last = worker.status.as_ref().and_then(|status| status.last_operation.as_ref());
        last.is_some_and(|last| {
            last.description
                .contains("cannot be brought into its cluster: patch Node")
        })
    };
    until(&landscape.api::<Worker>(), "ape", "reported", reported).await;
    let machines = landscape.api::<Machine>().list(&Default::default()).await.unwrap();
    let last = machines.items[0].status.clone().unwrap().last_operation.unwrap();
    assert_eq!(last.error_code.as_deref(), Some("InvalidArgument"), "{last:?}");
    assert_eq!(last.state, Some(MachineState::Failed));
    assert!(last.description.unwrap().contains("a b"));
}

#[tokio::test(start_paused = true)]
async fn a_worker_reports_which_machine_has_not_joined() {
    let landscape = Landscape::new().await;
    landscape.start();
    let infrastructure = landscape.infrastructure().await;
    landscape
        .write::<Worker>("ape", landscape.worker_spec(&infrastructure, "agent", 1))
        .await;
    let api = landscape.api::<Worker>();
    let described = |worker: &Worker, text: &str| {
        let last = worker.status.as_ref().and_then(|status| status.last_operation.as_ref());
        last.is_some_and(|last| last.description.contains(text))
    };
    let waiting = until(&api, "ape", "waiting", |worker| {
        described(worker, "has not joined: its node does not exist")
    })
    .await;
    let status = waiting.status.unwrap();
    assert_eq!(status.last_operation.unwrap().state, LastOperationState::Processing);
    assert_eq!(status.machine_deployments.len(), 1, "published before the wait");
    let failed = until(&api, "ape", "timed out", |worker| {
        described(worker, "not joined within 5 minutes")
    })
    .await;
    let error = failed.status.unwrap().last_error.unwrap().description;
    assert!(error.contains("Machine shoot--zoo--ape-p-z1-"), "{error}");
    landscape.let_machines_join();
    until(&api, "ape", "joined", |worker| {
        described(worker, "Successfully created worker")
    })
    .await;
    landscape.take_down::<Worker>("ape").await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_without_its_pod_is_replaced_once_its_node_is_unready() {
    let landscape = Landscape::new().await;
    landscape.start();
    landscape.let_machines_join();
    let infrastructure = landscape.infrastructure().await;
    landscape
        .worker(landscape.worker_spec(&infrastructure, "agent", 1))
        .await;
    let lost = landscape.ready_nodes().await.remove(0);
    landscape
        .api::<Pod>()
        .delete(&format!("machine-{lost}"), &DeleteParams::default())
        .await
        .unwrap();
    until_gone(&landscape.nodes, &lost).await;
    until_gone(&landscape.api::<Machine>(), &lost).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let now = landscape.ready_nodes().await;
    assert_eq!(now.len(), 1);
    assert_ne!(now[0], lost);
    let machine = landscape.api::<Machine>().get(&now[0]).await.unwrap();
    let phase = machine.status.unwrap().current_status.unwrap().phase;
    assert_eq!(phase, Some(MachinePhase::Running));
}

#[tokio::test(start_paused = true)]
async fn a_replaced_node_is_cordoned_and_emptied_before_its_machine_goes() {
    let landscape = Landscape::new().await;
    landscape.start();
    landscape.let_machines_join();
    let infrastructure = landscape.infrastructure().await;
    landscape
        .worker(landscape.worker_spec(&infrastructure, "agent-1", 1))
        .await;
    let node = landscape.ready_nodes().await.remove(0);
    let pods: Api<Pod> = Api::namespaced(landscape.shoot.admin(), "default");
    let pod = serde_json::from_value(json!({
        "metadata": {"name": "guest"},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 30},
    }))
    .unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    landscape
        .write::<Worker>("ape", landscape.worker_spec(&infrastructure, "agent-2", 1))
        .await;
    until(&pods, "guest", "deletion requested", |pod| {
        pod.metadata.deletion_timestamp.is_some()
    })
    .await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let cordoned = landscape.nodes.get(&node).await.unwrap();
    assert_eq!(cordoned.spec.unwrap().unschedulable, Some(true));
    let machine = landscape.api::<Pod>().get(&format!("machine-{node}")).await.unwrap();
    assert_eq!(
        machine.metadata.deletion_timestamp, None,
        "the machine waits for its guest"
    );
    pods.delete("guest", &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    until_gone(&landscape.nodes, &node).await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_extension_sends_no_requests_and_resumes_after_a_restart() {
    let mut landscape = Landscape::new().await;
    landscape.start();
    landscape.let_machines_join();
    let infrastructure = landscape.infrastructure().await;
    landscape
        .worker(landscape.worker_spec(&infrastructure, "agent", 2))
        .await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    landscape.calls();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(landscape.calls(), Vec::<String>::new());

    let uids = || async {
        let pods = landscape.api::<Pod>().list(&Default::default()).await.unwrap();
        pods.iter().map(|pod| pod.uid().unwrap()).collect::<Vec<_>>()
    };
    let before = uids().await;
    landscape.stop.cancel();
    landscape.stop = tokio_util::sync::CancellationToken::new();
    landscape.start();
    landscape
        .worker(landscape.worker_spec(&infrastructure, "agent", 2))
        .await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let pods = landscape.api::<Pod>().list(&Default::default()).await.unwrap();
    assert_eq!(
        pods.iter().map(|pod| pod.uid().unwrap()).collect::<Vec<_>>(),
        before,
        "no machine was touched"
    );
}
