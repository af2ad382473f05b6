//! Network policies of Services, in virtual time.

use control_plane_resource_manager::{NetworkPolicies, Options, run};
use k8s_openapi::api::core::v1::{Namespace, Pod, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tests_kit::{Embedded, embedded_with, until, until_gone};
use tokio_util::sync::CancellationToken;

const TO_ETCD: &str = "networking.resources.gardener.cloud/to-etcd-tcp-2379";
const TO_ALL_ETCDS: &str = "networking.resources.gardener.cloud/to-all-shoots-etcd-tcp-2379";
const INGRESS: &str = "ingress-to-etcd-tcp-2379";
const EGRESS: &str = "egress-to-etcd-tcp-2379";

/// A seed with namespaces `shoot--a` and `garden`, which are handled, and `other`, which is not.
struct Seed {
    server: Embedded,
    stop: CancellationToken,
}

impl Seed {
    async fn start() -> Self {
        let server = embedded_with("seed", Vec::new(), |builder| builder).await;
        for definition in api_resources::crds() {
            let definitions = Api::all(server.admin());
            definitions.create(&PostParams::default(), &definition).await.unwrap();
        }
        let seed = Self {
            server,
            stop: CancellationToken::new(),
        };
        for (name, role) in [("shoot--a", "shoot"), ("garden", "garden"), ("other", "none")] {
            let namespace = json!({"metadata": {"name": name, "labels": {"gardener.cloud/role": role}}});
            let namespace: Namespace = serde_json::from_value(namespace).unwrap();
            let namespaces = Api::all(seed.server.admin());
            namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        }
        let selectors = json!([
            {"matchLabels": {"gardener.cloud/role": "shoot"}},
            {"matchLabels": {"kubernetes.io/metadata.name": "garden"}},
        ]);
        let options = Options {
            class: Some("seed".to_owned()),
            network_policies: Some(NetworkPolicies {
                namespace_selectors: serde_json::from_value(selectors).unwrap(),
                ingress_controller: None,
            }),
            ..Options::default()
        };
        let (source, target) = (seed.server.admin(), seed.server.admin());
        tokio::spawn(run(
            source,
            target,
            options,
            seed.server.clock.clone(),
            seed.stop.clone(),
        ));
        seed
    }

    fn policies(&self, namespace: &str) -> Api<NetworkPolicy> {
        Api::namespaced(self.server.admin(), namespace)
    }

    async fn service(&self, namespace: &str, annotations: Value) {
        let service = json!({
            "metadata": {"name": "etcd", "annotations": annotations},
            "spec": {"selector": {"app": "etcd"}, "ports": [{"name": "client", "port": 2379}]},
        });
        let service: Service = serde_json::from_value(service).unwrap();
        let services = Api::namespaced(self.server.admin(), namespace);
        services.create(&PostParams::default(), &service).await.unwrap();
    }

    async fn pod(&self, namespace: &str, name: &str, label: &str) {
        let pod = json!({
            "metadata": {"name": name, "labels": {label: "allowed"}},
            "spec": {"containers": [{"name": "main", "image": "example.org/x"}]},
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        self.pods(namespace).create(&PostParams::default(), &pod).await.unwrap();
    }

    fn pods(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.server.admin(), namespace)
    }

    async fn names(&self, namespace: &str) -> Vec<String> {
        let policies = self.policies(namespace).list(&ListParams::default()).await.unwrap();
        policies.items.iter().map(ResourceExt::name_any).collect()
    }
}

impl Drop for Seed {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn there(policies: &Api<NetworkPolicy>, name: &str) -> NetworkPolicy {
    until(policies, name, "made", |_: &NetworkPolicy| true).await
}

#[tokio::test(start_paused = true)]
async fn first_pod_with_the_label_brings_policies_and_the_last_one_takes_them() {
    let seed = Seed::start().await;
    seed.service("shoot--a", json!({})).await;
    seed.service("other", json!({})).await;
    seed.pod("other", "client", TO_ETCD).await;
    seed.pod("shoot--a", "client", TO_ETCD).await;
    let policies = seed.policies("shoot--a");
    let ingress = there(&policies, INGRESS).await;
    there(&policies, EGRESS).await;
    assert_eq!(
        ingress.labels()["networking.resources.gardener.cloud/service-name"],
        "etcd"
    );
    assert!(seed.names("other").await.is_empty(), "its namespace is not handled");
    let label = json!({"metadata": {"labels": {TO_ETCD: null}}});
    let pods = seed.pods("shoot--a");
    pods.patch("client", &PatchParams::default(), &Patch::Merge(label))
        .await
        .unwrap();
    until_gone(&policies, INGRESS).await;
    until_gone(&policies, EGRESS).await;
}

#[tokio::test(start_paused = true)]
async fn policies_that_others_delete_or_change_are_restored_and_end_with_their_service() {
    let seed = Seed::start().await;
    seed.service("shoot--a", json!({})).await;
    seed.pod("shoot--a", "client", TO_ETCD).await;
    let policies = seed.policies("shoot--a");
    let first = there(&policies, EGRESS).await;
    policies.delete(EGRESS, &DeleteParams::default()).await.unwrap();
    until(&policies, EGRESS, "made again", |policy: &NetworkPolicy| {
        policy.uid() != first.uid()
    })
    .await;
    let wanted = there(&policies, INGRESS).await;
    let change = json!({"spec": {"ingress": [{}]}});
    policies
        .patch(INGRESS, &PatchParams::default(), &Patch::Merge(change))
        .await
        .unwrap();
    until(&policies, INGRESS, "restored", |policy: &NetworkPolicy| {
        policy.spec == wanted.spec && policy.metadata.generation != wanted.metadata.generation
    })
    .await;
    let services: Api<Service> = Api::namespaced(seed.server.admin(), "shoot--a");
    services.delete("etcd", &DeleteParams::default()).await.unwrap();
    until_gone(&policies, INGRESS).await;
    until_gone(&policies, EGRESS).await;
}

#[tokio::test(start_paused = true)]
async fn namespaces_that_a_service_selects_get_the_other_half() {
    let seed = Seed::start().await;
    let annotations = json!({
        "networking.resources.gardener.cloud/namespace-selectors": "[{\"matchLabels\":{\"kubernetes.io/metadata.name\":\"garden\"}}]",
        "networking.resources.gardener.cloud/pod-label-selector-namespace-alias": "all-shoots",
        "networking.resources.gardener.cloud/from-world-to-ports": "[{\"port\":2379,\"protocol\":\"TCP\"}]",
    });
    seed.service("shoot--a", annotations).await;
    seed.pod("garden", "prometheus", TO_ALL_ETCDS).await;
    there(&seed.policies("garden"), "egress-to-shoot--a-etcd-tcp-2379").await;
    there(&seed.policies("shoot--a"), "ingress-to-etcd-tcp-2379-from-garden").await;
    there(&seed.policies("shoot--a"), "ingress-to-etcd-from-world").await;
    let annotation = "networking.resources.gardener.cloud/namespace-selectors";
    let services: Api<Service> = Api::namespaced(seed.server.admin(), "shoot--a");
    let without = json!({"metadata": {"annotations": {annotation: null}}});
    services
        .patch("etcd", &PatchParams::default(), &Patch::Merge(without))
        .await
        .unwrap();
    until_gone(&seed.policies("garden"), "egress-to-shoot--a-etcd-tcp-2379").await;
    until_gone(&seed.policies("shoot--a"), "ingress-to-etcd-tcp-2379-from-garden").await;
    assert_eq!(seed.names("shoot--a").await, ["ingress-to-etcd-from-world"]);
}
