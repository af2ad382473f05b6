//! Kubeconfigs that name a port of this machine's loopback: programs that read them through the API or find them mounted
//! reach the API server, with namespaces and without, as network policies allow. Where a machine's users have no namespaces,
//! the tests with them print why and prove nothing.

use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::cluster::World;

const TESTEE: &str = env!("CARGO_BIN_EXE_programs-testee");
const SECRET: &str = "access";
const MOUNTED: &str = "/etc/access/kubeconfig";
const LABEL: &str = "networking.gardener.cloud/to-runtime-apiserver";
const LISTED: &str = "namespaces: default kube-node-lease kube-public kube-system ns\n";

/// The port in the cluster's kubeconfigs.
fn port(world: &World) -> &str {
    world.cluster.url().rsplit_once(':').unwrap().1
}

/// A Secret with a kubeconfig of an administrator, which the pods' service account may read.
async fn give_access(world: &World) {
    let kubeconfig = serde_json::to_string(world.cluster.kubeconfig()).unwrap();
    assert!(kubeconfig.contains("https://127.0.0.1:"), "{kubeconfig}");
    let secret = json!({"metadata": {"name": SECRET}, "stringData": {"kubeconfig": kubeconfig}});
    world.create::<Secret>(secret).await;
    let binding = json!({
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "ns"}],
    });
    let binding = serde_json::from_value(binding).unwrap();
    let bindings = Api::<ClusterRoleBinding>::all(world.cluster.client());
    bindings.create(&PostParams::default(), &binding).await.unwrap();
}

/// The fields of a container and of its pod that mount the Secret.
fn mounting(args: &[&str]) -> (Value, Value) {
    let mounts = json!([{"name": "access", "mountPath": "/etc/access"}]);
    let volumes = json!([{"name": "access", "secret": {"secretName": SECRET}}]);
    (
        json!({"args": args, "volumeMounts": mounts}),
        json!({"volumes": volumes}),
    )
}

async fn lists_by_both(world: &World) {
    give_access(world).await;
    let read = json!({"args": ["namespaces-by-secret", SECRET]});
    world.pod("read", "testee", read, json!({})).await;
    let (container, spec) = mounting(&["namespaces-by-file", MOUNTED]);
    world.pod("mounted", "testee", container, spec).await;
    for name in ["read", "mounted"] {
        assert_eq!(
            world.outcome(name).await,
            ("Succeeded".to_owned(), LISTED.to_owned()),
            "{name}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubeconfigs_work_with_namespaces_whether_read_through_the_api_or_mounted() {
    if let Some(world) = World::isolated(&[]).await {
        lists_by_both(&world).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubeconfigs_work_without_namespaces_whether_read_through_the_api_or_mounted() {
    lists_by_both(&World::new(&[]).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_for_a_kubeconfigs_address_are_those_for_the_api_servers_service() {
    let retry = format!("until {TESTEE} namespaces-by-file $1; do sleep 0.2; done");
    let Some(world) = World::isolated(&[("retry", &retry)]).await else {
        return;
    };
    give_access(&world).await;
    let server = json!([{"ipBlock": {"cidr": "10.96.0.1/32"}}]);
    for policy in [
        json!({"metadata": {"name": "deny-all"}, "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}}),
        json!({"metadata": {"name": "allow-to-runtime-apiserver"}, "spec": {
            "podSelector": {"matchLabels": {LABEL: "allowed"}}, "policyTypes": ["Egress"],
            "egress": [{"to": server, "ports": [{"protocol": "TCP", "port": 443}]}],
        }}),
    ] {
        world.create::<NetworkPolicy>(policy).await;
    }
    let (container, spec) = mounting(&[MOUNTED]);
    world.pod("p", "retry", container, spec).await;
    let event = world.event("p", "RefusedByNetworkPolicy").await;
    assert_eq!(
        event,
        format!(
            "connect to 10.96.0.1:443: refused by network policies: egress of pod ns/p is not allowed by deny-all; the label \
             {LABEL}: allowed on pod ns/p would allow it (policy ns/allow-to-runtime-apiserver)"
        )
    );
    assert!(!world.log("p", "main").await.contains("namespaces:"));
    let labelled = Patch::Merge(json!({"metadata": {"labels": {LABEL: "allowed"}}}));
    let pods = world.api::<Pod>();
    pods.patch("p", &PatchParams::default(), &labelled).await.unwrap();
    let (phase, log) = world.outcome("p").await;
    assert!(phase == "Succeeded" && log.ends_with(LISTED), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_on_the_api_servers_port_is_reached_by_its_own_pod() {
    // Before it listens, the API server answers.
    let both =
        format!("{TESTEE} serve $1 & until {TESTEE} get 127.0.0.1:$1 /x | grep 'p to'; do sleep 0.1; done; kill $!");
    let Some(world) = World::isolated(&[("both", &both)]).await else {
        return;
    };
    world.pod("p", "both", json!({"args": [port(&world)]}), json!({})).await;
    let (phase, log) = world.outcome("p").await;
    assert!(phase == "Succeeded" && log.contains("p to 100.64."), "{log}");
    // Without it, its neighbour reaches the API server there, which speaks TLS.
    let get = json!({"args": ["get", format!("127.0.0.1:{}", port(&world)), "/x"]});
    world.pod("neighbour", "testee", get, json!({})).await;
    let (_, log) = world.outcome("neighbour").await;
    assert!(!log.contains("p to 100.64."), "{log}");
}
