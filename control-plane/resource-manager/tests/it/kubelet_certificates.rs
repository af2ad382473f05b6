//! Certificates of kubelets: a node requests in the target, its machine is in the source.

use api_machine::Machine;
use base_clock::Entropy;
use base_secrets::{PrivateKey, SigningRequest};
use control_plane_resource_manager::Options;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{Event, Node};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tests_kit::{embedded_with, until};

use crate::{Landscape, NAMESPACE};

const USER: &str = "system:node:n";

async fn landscape() -> Landscape {
    let target = embedded_with("target", Vec::new(), |builder| builder).await;
    let client = target.admin();
    let options = Options {
        namespace: Some(NAMESPACE.to_owned()),
        machine_namespace: Some(NAMESPACE.to_owned()),
        ..Options::default()
    };
    Landscape::start_as(target, client, options).await
}

/// Requests as this user; what the request is named.
async fn request(client: Client, name: &str, dns_names: &[&str]) {
    let key = PrivateKey::generate(&Entropy::seeded(7));
    let dns_names: Vec<String> = dns_names.iter().map(|&name| name.to_owned()).collect();
    let wanted = SigningRequest::create(&key, USER, &["system:nodes".to_owned()], &dns_names, &[]).unwrap();
    let mut request: CertificateSigningRequest = serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"request": "", "signerName": "kubernetes.io/kubelet-serving",
            "usages": ["digital signature", "server auth"]},
    }))
    .unwrap();
    request.spec.request.0 = wanted.to_pem().into_bytes();
    Api::all(client).create(&PostParams::default(), &request).await.unwrap();
}

/// Waits until it is decided: the type of its condition and the message.
async fn decided(landscape: &Landscape, name: &str) -> (String, String) {
    let requests: Api<CertificateSigningRequest> = Api::all(landscape.target.admin());
    let is_decided = |request: &CertificateSigningRequest| {
        let status = request.status.as_ref();
        status.is_some_and(|status| status.conditions.is_some())
    };
    let request = until(&requests, name, "decided", is_decided).await;
    let condition = request.status.unwrap().conditions.unwrap().pop().unwrap();
    (condition.type_, condition.message.unwrap())
}

async fn node(landscape: &Landscape) {
    let nodes: Api<Node> = Api::all(landscape.target.admin());
    let node = |more: Value| -> Node { serde_json::from_value(more).unwrap() };
    let plain = node(json!({"metadata": {"name": "n"}}));
    nodes.create(&PostParams::default(), &plain).await.unwrap();
    let status = json!({"status": {"addresses": [{"type": "Hostname", "address": "n"}]}});
    let status = Patch::Merge(status);
    nodes.patch_status("n", &PatchParams::default(), &status).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_kubelets_certificate_is_approved_once_its_machine_names_the_node() {
    let landscape = landscape().await;
    let kubelet = landscape.target.client(USER, &["system:nodes"]);
    request(kubelet.clone(), "csr-1", &["n"]).await;
    let events: Api<Event> = Api::default_namespaced(landscape.target.admin());
    let about = ListParams::default().fields("involvedObject.name=csr-1");
    while events.list(&about).await.unwrap().items.is_empty() {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    let event = events.list(&about).await.unwrap().items.pop().unwrap();
    assert_eq!(event.message.as_deref(), Some("there is no node \"n\" yet"));
    node(&landscape).await;
    let machines: Api<Machine> = Api::namespaced(landscape.source.admin(), NAMESPACE);
    let machine = json!({"metadata": {"name": "m", "labels": {"node": "n"}},
        "spec": {"class": {"kind": "MachineClass", "name": "c"}}});
    let machine = serde_json::from_value(machine).unwrap();
    machines.create(&PostParams::default(), &machine).await.unwrap();
    assert_eq!(decided(&landscape, "csr-1").await.0, "Approved");
    request(kubelet, "csr-2", &["n", "api.example"]).await;
    let (type_, why) = decided(&landscape, "csr-2").await;
    assert!(type_ == "Denied" && why.contains("\"api.example\""), "{type_}: {why}");
}

#[tokio::test(start_paused = true)]
async fn the_certificate_of_another_user_is_denied() {
    let landscape = landscape().await;
    request(landscape.target.admin(), "csr-1", &["n"]).await;
    let (type_, why) = decided(&landscape, "csr-1").await;
    assert!(type_ == "Denied" && why.contains("a kubelet is"), "{type_}: {why}");
}
