//! What the garden API server is connected with goes away and comes back.

use http::Method;
use serde_json::{Value, json};
use tests_conformance::real::Options;
use tests_production::PATIENCE;
use tests_production::garden::{Garden, Replica, call, create, text};
use tests_production::objects::{CORE, NAMESPACE, internal_secret};

use crate::garden::{create_all, landscape, operator, running};

async fn names(client: &kube::Client) -> Vec<String> {
    let path = format!("{CORE}/namespaces/{NAMESPACE}/internalsecrets");
    let (code, list) = call(client, Method::GET, &path, &Value::Null).await;
    assert_eq!(code, 200, "{list}");
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

/// Creates an object until it is taken.
async fn until_created(client: &kube::Client, object: &Value) {
    let begun = std::time::Instant::now();
    loop {
        let (code, answer) = create(client, object).await;
        if matches!(code, 201 | 409) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{code} {answer}");
        tokio::time::sleep(tests_production::LOOK_PAUSE).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_etcd_is_reported_and_loses_nothing() {
    let (mut garden, replica, operator) = running(Options::default()).await;
    landscape(&operator).await;
    create_all(&operator, ["a", "b"].map(internal_secret)).await;
    garden.etcd.kill();
    let report = replica.until("/readyz", |code, _| code == 500).await;
    assert!(report.contains("[-]etcd failed: the watches of etcd broke"), "{report}");
    assert_eq!(text(&replica.anonymous(), "/livez").await.0, 200);
    let (code, refusal) = create(&operator, &internal_secret("c")).await;
    assert!(code >= 500, "{code} {refusal}");
    garden.etcd.start_again().unwrap();
    replica.until_ready().await;
    until_created(&operator, &internal_secret("d")).await;
    let left = names(&operator).await;
    for name in ["a", "b", "d"] {
        assert!(left.contains(&name.to_owned()), "{left:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kube_apiserver_gone_and_back_is_found_again() {
    let (mut garden, replica, operator) = running(Options::default()).await;
    landscape(&operator).await;
    create_all(&operator, [internal_secret("a")]).await;
    garden.real.kill_kube_apiserver();
    // No server can authorize now; that is no reason to end.
    let direct = replica.client(&crate::garden::credentials(&garden, "olga"));
    let path = format!("{CORE}/namespaces/{NAMESPACE}/internalsecrets/b");
    let (code, refusal) = call(&direct, Method::GET, &path, &Value::Null).await;
    assert_eq!(code, 500, "{refusal}");
    assert!(
        refusal["message"]
            .as_str()
            .unwrap()
            .contains("the API server in front did not say whether this is allowed"),
        "{refusal}"
    );
    garden.real.start_kube_apiserver().await.unwrap();
    replica.until_ready().await;
    until_created(&operator, &internal_secret("b")).await;
    assert_eq!(names(&operator).await, ["a", "b"]);
    // What is configured from now on counts.
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "none"}, "spec": {"failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{"apiGroups": ["core.gardener.cloud"], "apiVersions": ["*"],
                "operations": ["CREATE"], "resources": ["internalsecrets"]}]},
            "validations": [{"expression": "false", "message": "no more of these"}]}});
    let bound = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "none"}, "spec": {"policyName": "none", "validationActions": ["Deny"]}});
    for object in [policy, bound] {
        garden.kubectl("admin", &["create", "-f", "-"], &object.to_string());
    }
    let begun = std::time::Instant::now();
    for attempt in 0.. {
        let (code, answer) = create(&operator, &internal_secret(&format!("n{attempt}"))).await;
        if code == 422 {
            assert!(
                answer["message"].as_str().unwrap().contains("no more of these"),
                "{answer}"
            );
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{code} {answer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_that_is_started_before_kube_apiserver_waits_for_it() {
    let mut garden = Garden::start(Options::default()).await;
    garden.real.kill_kube_apiserver();
    let port = tests_parts::free_port().unwrap();
    let replica = garden.start_replica("early", port, &[]);
    let text = replica.until("/readyz", |code, _| code == 500).await;
    assert!(
        text.contains("[-]authentication failed") && text.contains("[-]informer-sync failed"),
        "{text}"
    );
    garden.real.start_kube_apiserver().await.unwrap();
    replica.until_ready().await;
    garden.publish(port).await;
    let operator = operator(&garden).await;
    landscape(&operator).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificate_that_is_replaced_is_shown_from_then_on() {
    let (garden, replica, operator) = running(Options::default()).await;
    landscape(&operator).await;
    let before = shown(&replica).await;
    garden.write_certificate("tls", std::time::Duration::from_secs(7200));
    let wanted = std::fs::read_to_string(garden.path("tls.crt")).unwrap();
    let wanted = base_secrets::Certificate::from_pem(&wanted).unwrap().serial();
    let begun = std::time::Instant::now();
    while shown(&replica).await != wanted {
        assert!(begun.elapsed() < PATIENCE, "it still shows {before}");
        tokio::time::sleep(tests_production::LOOK_PAUSE).await;
    }
    create_all(&operator, [internal_secret("a")]).await;
    let status = replica.running.stop();
    assert!(status.success(), "{status}");
}

/// The serial number of the certificate that a replica shows.
async fn shown(replica: &Replica) -> String {
    replica.certificate().await.serial()
}
