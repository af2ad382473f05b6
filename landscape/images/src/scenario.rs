//! The images together, in virtual time: a control plane runs as pods of a cluster, and a machine joins it.

mod landscape;

use std::time::Duration;

use base_secrets::BootstrapToken;
use extensions_provider_local::EXIT_TOKEN_REFUSED;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Node, PersistentVolumeClaim, Pod, Secret};
use k8s_openapi::api::events::v1 as events_v1;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use landscape::{Landscape, until};

/// Where the machines' pool has its configuration.
const POOL_SECRET: &str = "gardener-node-agent-pool";

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_scaled_to_zero_refuses_connections_and_keeps_its_volume() {
    let landscape = Landscape::start().await;
    landscape.control_plane().await;
    let admin = landscape.admin();
    assert_eq!(admin.apiserver_version().await.unwrap().git_version, "v1.34.2");
    let maps: Api<ConfigMap> = Api::namespaced(admin, "default");
    maps.create(&PostParams::default(), &config_map("kept")).await.unwrap();

    landscape.scale::<Deployment>("kube-apiserver", 0).await;
    landscape.available("kube-apiserver", 0).await;
    assert!(landscape.front.names().is_empty());
    assert!(maps.get("kept").await.is_err());
    landscape.scale::<Deployment>("kube-apiserver", 1).await;
    landscape.available("kube-apiserver", 1).await;
    maps.get("kept").await.unwrap();

    landscape.scale::<Deployment>("kube-apiserver", 0).await;
    empty(&landscape, "etcd-main").await;
    landscape.scale::<Deployment>("kube-apiserver", 1).await;
    landscape.available("kube-apiserver", 1).await;
    assert!(maps.get_opt("kept").await.unwrap().is_none());
}

/// Starts an etcd on a new volume.
async fn empty(landscape: &Landscape, etcd: &str) {
    landscape.scale::<StatefulSet>(etcd, 0).await;
    until(&landscape.api(), &format!("{etcd}-0"), |pod: Option<&Pod>| {
        pod.is_none().then_some(())
    })
    .await;
    let (claims, claim): (Api<PersistentVolumeClaim>, _) = (landscape.api(), format!("{etcd}-{etcd}-0"));
    claims.delete(&claim, &DeleteParams::default()).await.unwrap();
    until(&claims, &claim, |claim: Option<&PersistentVolumeClaim>| {
        claim.is_none().then_some(())
    })
    .await;
    landscape.scale::<StatefulSet>(etcd, 1).await;
}

fn event(name: &str) -> Event {
    let about = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "kept", "namespace": "default"});
    let event = json!({"metadata": {"name": name}, "involvedObject": about, "reason": "Tested", "type": "Normal"});
    serde_json::from_value(event).unwrap()
}

#[tokio::test(start_paused = true)]
async fn events_are_lost_with_the_volume_of_their_etcd_and_nothing_else_is() {
    let landscape = Landscape::start().await;
    landscape.control_plane().await;
    let admin = landscape.admin();
    let maps: Api<ConfigMap> = Api::namespaced(admin.clone(), "default");
    let events: Api<Event> = Api::namespaced(admin.clone(), "default");
    let renamed: Api<events_v1::Event> = Api::namespaced(admin, "default");
    maps.create(&PostParams::default(), &config_map("kept")).await.unwrap();
    events.create(&PostParams::default(), &event("lost")).await.unwrap();
    assert_eq!(renamed.get("lost").await.unwrap().reason.as_deref(), Some("Tested"));

    empty(&landscape, "etcd-events").await;
    until(&landscape.api(), "etcd-events", |set: Option<&StatefulSet>| {
        (set?.status.as_ref()?.ready_replicas == Some(1)).then_some(())
    })
    .await;
    // An idle connection breaks unnoticed: the first request may still use the old one.
    events.get_opt("lost").await.ok();
    landscape.available("kube-apiserver", 1).await;
    maps.get("kept").await.unwrap();
    assert!(events.get_opt("lost").await.unwrap().is_none());
    assert!(renamed.get_opt("lost").await.unwrap().is_none());

    // And the other way round: what is lost with the main store is no Event.
    events.create(&PostParams::default(), &event("stays")).await.unwrap();
    landscape.scale::<Deployment>("kube-apiserver", 0).await;
    landscape.available("kube-apiserver", 0).await;
    empty(&landscape, "etcd-main").await;
    landscape.scale::<Deployment>("kube-apiserver", 1).await;
    landscape.available("kube-apiserver", 1).await;
    assert!(maps.get_opt("kept").await.unwrap().is_none());
    events.get("stays").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_is_unready_exactly_while_one_etcd_is_missing() {
    let landscape = Landscape::start().await;
    landscape.control_plane().await;
    let maps: Api<ConfigMap> = Api::namespaced(landscape.admin(), "default");
    let events: Api<Event> = Api::namespaced(landscape.admin(), "default");
    maps.create(&PostParams::default(), &config_map("kept")).await.unwrap();
    events.create(&PostParams::default(), &event("kept")).await.unwrap();
    for (etcd, maps_fail, events_fail) in [("etcd-main", true, false), ("etcd-events", false, true)] {
        landscape.scale::<StatefulSet>(etcd, 0).await;
        // An idle connection breaks unnoticed.
        until(&landscape.api(), &format!("{etcd}-0"), |pod: Option<&Pod>| {
            pod.is_none().then_some(())
        })
        .await;
        assert_eq!(maps.get("kept").await.is_err(), maps_fail, "{etcd}");
        assert_eq!(events.get("kept").await.is_err(), events_fail, "{etcd}");
        until(&landscape.api(), "kube-apiserver", |deployment: Option<&Deployment>| {
            (deployment?.status.as_ref()?.ready_replicas.unwrap_or(0) == 0).then_some(())
        })
        .await;
        // There is no request meanwhile.
        landscape.scale::<StatefulSet>(etcd, 1).await;
        landscape.available("kube-apiserver", 1).await;
        maps.get("kept").await.unwrap();
        events.get("kept").await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_joins_by_token_runs_pods_and_leaves_with_its_pod() {
    let landscape = Landscape::start().await;
    landscape.control_plane().await;
    let admin = landscape.admin();
    let token = pool(&landscape, &admin).await;
    landscape.machine("m1", token.text().expose()).await;

    let nodes: Api<Node> = Api::all(admin.clone());
    // A kubelet creates its Node before it says how it is, and the node-agent takes what there is.
    let applied = |wanted: &'static str| {
        move |node: Option<&Node>| {
            node?.status.as_ref()?.node_info.as_ref()?;
            let checksum = node?.annotations().get("checksum/cloud-config-data");
            (checksum.map(String::as_str) == Some(wanted)).then(|| node.cloned())?
        }
    };
    let node = until(&nodes, "m1", applied("c1")).await;
    assert_eq!(node.labels()["worker.gardener.cloud/pool"], "a");
    let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
    assert_eq!(taints.first().map(|taint| taint.key.as_str()), Some("soft"));
    let info = node.status.and_then(|status| status.node_info).unwrap();
    assert_eq!(info.kubelet_version, "v1.33.1");

    let system: Api<Secret> = Api::namespaced(admin.clone(), "kube-system");
    let change = Patch::Merge(json!({"metadata": {"annotations": {"checksum/data-script": "c2"}}}));
    system
        .patch(POOL_SECRET, &PatchParams::default(), &change)
        .await
        .unwrap();
    until(&nodes, "m1", applied("c2")).await;

    let pods: Api<Pod> = Api::namespaced(admin, "default");
    let web = json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}});
    let web = serde_json::from_value(web).unwrap();
    pods.create(&PostParams::default(), &web).await.unwrap();
    until(&pods, "web", |pod: Option<&Pod>| {
        (pod?.status.as_ref()?.phase.as_deref() == Some("Running")).then_some(())
    })
    .await;

    let machines: Api<Pod> = landscape.api();
    machines.delete("machine-m1", &DeleteParams::default()).await.unwrap();
    until(&nodes, "m1", |node: Option<&Node>| {
        let conditions = node?.status.as_ref()?.conditions.as_ref()?;
        let mut ready = conditions.iter().filter(|condition| condition.type_ == "Ready");
        ready.any(|condition| condition.status == "False").then_some(())
    })
    .await;
}

/// What machines of a pool find in their cluster: a token, their configuration, and the right to read it.
async fn pool(landscape: &Landscape, admin: &Client) -> BootstrapToken {
    let system: Api<Secret> = Api::namespaced(admin.clone(), "kube-system");
    let token = BootstrapToken::generate(&landscape.entropy);
    let expiration = landscape.clock.now() + Duration::from_secs(3600);
    let known = token.to_secret("machine m1", expiration, &[]);
    system.create(&PostParams::default(), &known).await.unwrap();
    let file = |path: &str, text: &str| json!({"path": path, "content": {"inline": {"encoding": "", "data": text}}});
    let kubelet = json!({"registerWithTaints": [{"key": "soft", "effect": "PreferNoSchedule"}]}).to_string();
    let unit = "ExecStart=/opt/bin/kubelet --node-labels=worker.gardener.cloud/pool=a";
    let osc = json!({"spec": {
        "type": "local",
        "purpose": "reconcile",
        "files": [file("/var/lib/kubelet/version", "1.33.1"), file("/var/lib/kubelet/config/kubelet", &kubelet)],
        "units": [{"name": "kubelet.service", "content": unit}],
    }});
    let secret = json!({
        "metadata": {"name": POOL_SECRET, "annotations": {"checksum/data-script": "c1"}},
        "stringData": {"osc.yaml": osc.to_string()},
    });
    let secret = serde_json::from_value(secret).unwrap();
    system.create(&PostParams::default(), &secret).await.unwrap();
    grant_node_agents(admin).await;
    token
}

#[tokio::test(start_paused = true)]
async fn a_machine_whose_token_is_refused_reports_it_in_its_pod() {
    let landscape = Landscape::start().await;
    landscape.control_plane().await;
    landscape.machine("m1", "abcdef.0123456789abcdef").await;
    let ended = until(&landscape.api(), "machine-m1", |pod: Option<&Pod>| {
        let status = pod?.status.as_ref()?.container_statuses.as_ref()?.first()?;
        status.last_state.as_ref()?.terminated.clone()
    })
    .await;
    assert_eq!(ended.exit_code, EXIT_TOKEN_REFUSED);
    let message = ended.message.unwrap_or_default();
    assert!(message.contains("https://api.cp.internal"), "{message}");
}

/// The rights that node agents are given by whoever makes the cluster.
async fn grant_node_agents(admin: &Client) {
    for object in components_hosted::shoot::node_agent_objects(&[]) {
        if object["kind"] == "Role" {
            let mut role: k8s_openapi::api::rbac::v1::Role = serde_json::from_value(object).unwrap();
            role.rules.as_mut().unwrap()[0].resource_names = Some(vec![POOL_SECRET.to_owned()]);
            let roles: Api<k8s_openapi::api::rbac::v1::Role> = Api::namespaced(admin.clone(), "kube-system");
            roles.create(&PostParams::default(), &role).await.unwrap();
        } else if object["kind"] == "RoleBinding" {
            let bindings: Api<k8s_openapi::api::rbac::v1::RoleBinding> = Api::namespaced(admin.clone(), "kube-system");
            bindings
                .create(&PostParams::default(), &serde_json::from_value(object).unwrap())
                .await
                .unwrap();
        }
    }
}
