//! Nodes that join, fall silent and go; tokens that end; and that no request is sent while nothing happens.

use std::time::Duration;

use api_meta::FaultClass;
use base_client::{Injected, Verb, fault_of, inject_faults, is_namespace_terminating};
use base_secrets::{Certificate, PrivateKey, SigningRequest};
use cluster_controllers::Options;
use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, Secret};
use kube::Api;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;
use tests_kit::{until, until_gone};
use tokio_util::sync::CancellationToken;

use crate::cluster::{Cluster, start, start_over};

#[tokio::test(start_paused = true)]
async fn a_terminating_namespace_is_finished_by_controllers_that_start_later() {
    let server = tests_kit::embedded().await;
    let namespaces: Api<Namespace> = Api::all(server.admin());
    let left: Namespace = serde_json::from_value(json!({"metadata": {"name": "left"}})).unwrap();
    namespaces.create(&PostParams::default(), &left).await.unwrap();
    namespaces.delete("left", &DeleteParams::default()).await.unwrap();
    let stop = CancellationToken::new();
    let options = Options::all(server.clock.clone(), server.entropy.clone());
    let client = server.client("controllers", &[tests_kit::ADMINS]);
    tokio::spawn(cluster_controllers::run(client, options, stop.clone()));
    until_gone(&namespaces, "left").await;
    stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn joining_node_gets_its_certificate() {
    let cluster = start().await;
    let key = PrivateKey::generate(&cluster.server.entropy);
    let signing_request =
        SigningRequest::create(&key, "system:node:a", &["system:nodes".to_owned()], &[], &[]).unwrap();
    let request = CertificateSigningRequest {
        metadata: ObjectMeta {
            name: Some("csr".to_owned()),
            ..ObjectMeta::default()
        },
        spec: CertificateSigningRequestSpec {
            request: ByteString(signing_request.to_pem().into_bytes()),
            signer_name: "kubernetes.io/kube-apiserver-client-kubelet".to_owned(),
            usages: Some(vec!["digital signature".to_owned(), "client auth".to_owned()]),
            ..CertificateSigningRequestSpec::default()
        },
        status: None,
    };
    // The server itself writes the requester; here it is one who may do anything else.
    let groups = ["system:bootstrappers", tests_kit::ADMINS];
    let bootstrap: Api<CertificateSigningRequest> = Api::all(cluster.server.client("system:bootstrap:abcdef", &groups));
    bootstrap.create(&PostParams::default(), &request).await.unwrap();
    let signed = until(&bootstrap, "csr", "signed", |request| {
        request
            .status
            .as_ref()
            .is_some_and(|status| status.certificate.is_some())
    });
    let pem = signed.await.status.unwrap().certificate.unwrap();
    let certificate = Certificate::from_pem(std::str::from_utf8(&pem.0).unwrap()).unwrap();
    assert_eq!(
        (certificate.common_name(), certificate.organizations()),
        ("system:node:a".to_owned(), vec!["system:nodes".to_owned()])
    );
    assert!(certificate.is_for_clients());
}

#[tokio::test(start_paused = true)]
async fn other_users_get_no_node_certificate_even_if_it_is_approved() {
    let cluster = start().await;
    let requests: Api<CertificateSigningRequest> = cluster.all();
    let key = PrivateKey::generate(&cluster.server.entropy);
    for (name, user, group) in [("a", "admin", "system:nodes"), ("b", "system:node:b", "system:masters")] {
        let signing_request = SigningRequest::create(&key, user, &[group.to_owned()], &[], &[]).unwrap();
        let mut request = CertificateSigningRequest {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            spec: CertificateSigningRequestSpec {
                request: ByteString(signing_request.to_pem().into_bytes()),
                signer_name: "kubernetes.io/kube-apiserver-client-kubelet".to_owned(),
                usages: Some(vec!["client auth".to_owned()]),
                ..CertificateSigningRequestSpec::default()
            },
            status: None,
        };
        request = requests.create(&PostParams::default(), &request).await.unwrap();
        let approved =
            json!({"conditions": [{"type": "Approved", "status": "True", "reason": "ByPerson", "message": ""}]});
        request.status = serde_json::from_value(approved).unwrap();
        let options = PostParams::default();
        let approving = requests.replace_subresource("approval", name, &options, &request);
        approving.await.unwrap();
        let decided = until(&requests, name, "decided", |request| {
            let status = request.status.clone().unwrap_or_default();
            status.certificate.is_some() || status.conditions.iter().flatten().any(|it| it.type_ == "Failed")
        });
        assert!(decided.await.status.unwrap().certificate.is_none(), "{user} of {group}");
    }
}

#[tokio::test(start_paused = true)]
async fn silent_node_is_not_ready_and_its_pods_leave_after_their_tolerance() {
    let cluster = start().await;
    let kubelet = cluster.node("a").await;
    cluster
        .create::<Pod>(json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}))
        .await;
    let (nodes, pods) = (cluster.all::<Node>(), cluster.api::<Pod>());
    let ready = |pod: &Pod| {
        let conditions = pod
            .status
            .clone()
            .and_then(|status| status.conditions)
            .unwrap_or_default();
        conditions
            .iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
    };
    until(&pods, "p", "ready", ready).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(
        ready(&pods.get("p").await.unwrap()),
        "a node that reports keeps its pods"
    );
    kubelet.cancel();
    let silent_from = cluster.server.clock.now();
    let lost = until(&nodes, "a", "unreachable", |node| {
        let taints = node.spec.clone().and_then(|spec| spec.taints).unwrap_or_default();
        taints
            .iter()
            .any(|taint| taint.key == "node.kubernetes.io/unreachable" && taint.effect == "NoExecute")
    });
    lost.await;
    let took = cluster.server.clock.since(silent_from);
    assert!(
        took >= Duration::from_secs(30) && took <= Duration::from_secs(41),
        "{took:?}"
    );
    until(&pods, "p", "not ready", |pod| !ready(pod)).await;
    until(&pods, "p", "leaving", |pod| pod.metadata.deletion_timestamp.is_some()).await;
    let took = cluster.server.clock.since(silent_from);
    assert!(
        took >= Duration::from_secs(330) && took <= Duration::from_secs(342),
        "{took:?}"
    );
    // The pod stays until its node is gone.
    nodes.delete("a", &DeleteParams::default()).await.unwrap();
    until_gone(&pods, "p").await;
}

#[tokio::test(start_paused = true)]
async fn bootstrap_token_goes_when_it_expires() {
    let cluster = start().await;
    cluster
        .create::<Secret>(json!({
            "metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system"},
            "type": "bootstrap.kubernetes.io/token",
            "stringData": {"token-id": "abcdef", "token-secret": "0123456789abcdef", "expiration": "2026-01-01T00:10:00Z"},
        }))
        .await;
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), "kube-system");
    tokio::time::sleep(Duration::from_secs(500)).await;
    assert!(secrets.get_opt("bootstrap-token-abcdef").await.unwrap().is_some());
    until_gone(&secrets, "bootstrap-token-abcdef").await;
    assert_eq!(
        cluster.server.clock.now().as_second() - "2026-01-01T00:10:00Z".parse::<jiff::Timestamp>().unwrap().as_second(),
        0
    );
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_certificate_request_is_deleted_after_a_day() {
    let cluster = start().await;
    let key = PrivateKey::generate(&cluster.server.entropy);
    let signing_request = SigningRequest::create(&key, "somebody", &[], &[], &[]).unwrap();
    let request = json!({"metadata": {"name": "csr"}, "spec": {
        "request": ByteString(signing_request.to_pem().into_bytes()), "signerName": "example.org/mine", "usages": ["client auth"]}});
    cluster.create::<CertificateSigningRequest>(request).await;
    let requests: Api<CertificateSigningRequest> = Api::all(cluster.client.clone());
    tokio::time::sleep(Duration::from_secs(24 * 3600 - 60)).await;
    assert!(requests.get_opt("csr").await.unwrap().is_some());
    until_gone(&requests, "csr").await;
}

#[tokio::test(start_paused = true)]
async fn no_pods_are_created_again_in_a_terminating_namespace() {
    let cluster = start().await;
    cluster.node("a").await;
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.org/held"]}});
    cluster.create::<ConfigMap>(held).await;
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
    cluster
        .create::<ReplicaSet>(json!({"metadata": {"name": "rs"}, "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "a"}}, "template": template}}))
        .await;
    let sets = cluster.api::<ReplicaSet>();
    until(&sets, "rs", "whole", |set| {
        set.status.as_ref().and_then(|status| status.ready_replicas) == Some(3)
    })
    .await;
    let namespaces: Api<Namespace> = cluster.all();
    namespaces.delete("n", &DeleteParams::default()).await.unwrap();
    let late: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "late"}})).unwrap();
    let maps = cluster.api::<ConfigMap>();
    let refused = maps.create(&PostParams::default(), &late).await.unwrap_err();
    assert!(is_namespace_terminating(&refused), "{refused}");
    let fault = fault_of(refused, "create");
    assert_eq!(fault.class, FaultClass::Dependency);
    assert!(
        fault
            .hint
            .contains("the namespace is being deleted: see its conditions"),
        "{}",
        fault.hint
    );
    tokio::time::sleep(Duration::from_secs(60)).await;
    let records = cluster.server.server.audit().records();
    let tried = |resource: &str| {
        let theirs = records.iter().filter(|record| record.user == "controllers");
        theirs
            .filter(|record| (record.verb.as_str(), record.resource.as_str()) == ("create", resource))
            .filter(|record| record.code == 403)
            .count()
    };
    assert!(tried("pods") <= 1, "{}", tried("pods"));
    assert_eq!(tried("events"), 0, "it is nothing that has failed");
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("held", &PatchParams::default(), &free).await.unwrap();
    until_gone(&namespaces, "n").await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_cannot_be_evicted_does_not_hold_up_the_others() {
    let cluster = start_over(
        |_| {},
        |client| {
            inject_faults(client, |call| match (call.verb, call.name.as_deref()) {
                (Verb::Delete, Some("a")) if call.resource == "pods" => Injected::Answer(403),
                _ => Injected::Pass,
            })
        },
    )
    .await;
    cluster.node("node").await;
    let pods = cluster.api::<Pod>();
    for name in ["a", "b", "c"] {
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
        cluster.create::<Pod>(pod).await;
        let is_bound = |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        until(&pods, name, "bound", is_bound).await;
    }
    let taint = json!({"spec": {"taints": [{"key": "away", "effect": "NoExecute"}]}});
    cluster.patch(&cluster.all::<Node>(), "node", taint).await;
    until_gone(&pods, "b").await;
    until_gone(&pods, "c").await;
    assert!(pods.get_opt("a").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn idle_controllers_send_no_requests() {
    let cluster = start().await;
    cluster.node("a").await;
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
    cluster
        .create::<k8s_openapi::api::apps::v1::Deployment>(json!({"metadata": {"name": "d"}, "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "a"}}, "template": template}}))
        .await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(
        cluster
            .api::<Pod>()
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        2
    );
    assert!(!requests(&cluster).is_empty(), "or the next lines prove nothing");
    cluster.server.server.audit().clear();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(requests(&cluster), [""; 0]);
}

/// What the controllers and the scheduler have sent.
fn requests(cluster: &Cluster) -> Vec<String> {
    let records = cluster.server.server.audit().records();
    let theirs = records
        .iter()
        .filter(|record| matches!(record.user.as_str(), "controllers" | "scheduler"));
    theirs
        .map(|record| format!("{} {}", record.verb, record.path))
        .collect()
}
