//! Admission of the garden's kinds by objects of the Kubernetes in front: references, namespaces, webhooks, policies, quotas.

use base_client::{WaitState, wait_until};
use http::Method;
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tests_conformance::real::Options;
use tests_production::PATIENCE;
use tests_production::garden::{Garden, call, create};
use tests_production::objects::{CORE, NAMESPACE, binding, internal_secret, secret, shoot};

use crate::garden::{create_all, landscape, running};
use crate::provider_configuration;

/// How a quota names the objects that are counted.
const COUNTED: &str = "count/internalsecrets.core.gardener.cloud";
const HOOKS: &str = "admissionregistration.k8s.io/v1";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_objects_name_has_to_be_in_kubernetes() {
    let (garden, _replica, operator) = running(Options::default()).await;
    landscape(&operator).await;
    let (code, refusal) = create(&operator, &binding("lost", "missing")).await;
    assert_eq!(code, 403, "{refusal}");
    let why = refusal["message"].as_str().unwrap();
    assert!(why.contains("there is no Secret garden-p/missing"), "{why}");
    create_all(&operator, [secret("missing"), binding("lost", "missing")]).await;
    let mut elsewhere = internal_secret("i");
    elsewhere["metadata"]["namespace"] = json!("nowhere");
    let (code, refusal) = create(&operator, &elsewhere).await;
    assert_eq!(code, 404, "{refusal}");
    assert!(
        refusal["message"]
            .as_str()
            .unwrap()
            .contains("namespaces \"nowhere\" not found")
    );
    // Without controllers a namespace that is deleted stays in deletion.
    garden.kubectl("admin", &["create", "namespace", "nowhere"], "");
    create_all(&operator, [elsewhere.clone()]).await;
    garden.kubectl("admin", &["delete", "namespace", "nowhere", "--wait=false"], "");
    elsewhere["metadata"]["name"] = json!("j");
    let (code, refusal) = create(&operator, &elsewhere).await;
    assert_eq!(code, 403, "{refusal}");
    assert!(
        refusal["message"]
            .as_str()
            .unwrap()
            .contains("because it is being terminated")
    );
}

/// Creates Shoots until one is refused, or the other way round: what is configured in front counts once a watch has shown it.
async fn until_refused(operator: &kube::Client, name: &str) -> String {
    let begun = std::time::Instant::now();
    loop {
        let (code, answer) = create(operator, &shoot(name)).await;
        if code != 201 {
            return format!("{code} {}", answer["message"].as_str().unwrap_or_default());
        }
        assert!(begun.elapsed() < PATIENCE, "it is never refused");
        let path = format!("{CORE}/namespaces/{NAMESPACE}/shoots/{name}");
        let confirmed = json!({"metadata": {"annotations": {"confirmation.gardener.cloud/deletion": "true"}}});
        call(operator, Method::PATCH, &path, &confirmed).await;
        call(operator, Method::DELETE, &path, &Value::Null).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_and_webhooks_of_kubernetes_hold_for_shoots() {
    let (garden, _replica, operator) = running(Options::default()).await;
    landscape(&operator).await;
    let rules = json!([{"apiGroups": ["core.gardener.cloud"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"],
        "resources": ["shoots"]}]);
    // A policy with parameters from a ConfigMap, and one that asks what the user may do.
    let policy = json!({"apiVersion": HOOKS, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "names"}, "spec": {
    "failurePolicy": "Fail", "matchConstraints": {"resourceRules": rules},
    "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
    "validations": [
        {"expression": "object.metadata.name != params.data.forbidden", "message": "that name is taken"},
        {"expression": "object.metadata.name != 'guarded' || \
            authorizer.group('example.com').resource('guards').check('use').allowed()", "message": "you may not guard"},
    ]}});
    let bound = json!({"apiVersion": HOOKS, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "names"},
        "spec": {"policyName": "names", "validationActions": ["Deny"],
            "paramRef": {"name": "names", "namespace": NAMESPACE, "parameterNotFoundAction": "Deny"}}});
    let params = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "names", "namespace": NAMESPACE},
        "data": {"forbidden": "bad"}});
    for object in [params, policy, bound] {
        garden.kubectl("admin", &["create", "-f", "-"], &object.to_string());
    }
    let refusal = until_refused(&operator, "bad").await;
    assert!(refusal.contains("that name is taken"), "{refusal}");
    let (code, refusal) = create(&operator, &shoot("guarded")).await;
    assert_eq!(code, 422, "{refusal}");
    assert!(
        refusal["message"].as_str().unwrap().contains("you may not guard"),
        "{refusal}"
    );
    let (code, answer) = create(&garden.admin, &shoot("guarded")).await;
    assert_eq!(code, 201, "{answer}");
    create_all(&operator, [shoot("good")]).await;

    // Webhooks without a server: one by URL, one by a Service without a server behind it.
    let hook = |name: &str, config: Value, policy: &str| {
        json!({"apiVersion": HOOKS, "kind": "ValidatingWebhookConfiguration", "metadata": {"name": name}, "webhooks": [{
            "name": format!("{name}.example.com"), "clientConfig": config, "rules": rules, "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "failurePolicy": policy, "timeoutSeconds": 2,
            "namespaceSelector": {"matchLabels": {"project.gardener.cloud/name": "p"}}}]})
    };
    let url = hook("url", json!({"url": "https://127.0.0.1:1/validate"}), "Fail");
    garden.kubectl("admin", &["create", "-f", "-"], &url.to_string());
    let refusal = until_refused(&operator, "hooked").await;
    assert!(
        refusal.contains("failed calling webhook \"url.example.com\""),
        "{refusal}"
    );
    garden.kubectl("admin", &["delete", "validatingwebhookconfiguration", "url"], "");
    let by_service = json!({"service": {"name": "garden-apiserver", "namespace": "garden", "port": 1}});
    let by_service = hook("service", by_service, "Fail");
    garden.kubectl("admin", &["create", "-f", "-"], &by_service.to_string());
    let refusal = until_refused_by(&operator, "service.example.com").await;
    assert!(refusal.contains("garden-apiserver.garden.svc:1"), "{refusal}");
    garden.kubectl("admin", &["delete", "validatingwebhookconfiguration", "service"], "");
    until_taken(&operator, "free").await;
    Box::pin(provider_configuration::is_completed_and_refused(&garden, &operator)).await;
}

async fn until_refused_by(operator: &kube::Client, webhook: &str) -> String {
    for attempt in 0.. {
        let refusal = until_refused(operator, &format!("w{attempt}")).await;
        if refusal.contains(webhook) {
            return refusal;
        }
    }
    unreachable!("it is refused by the webhook")
}

async fn until_taken(operator: &kube::Client, name: &str) {
    let begun = std::time::Instant::now();
    loop {
        let (code, answer) = create(operator, &shoot(name)).await;
        if code == 201 {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "it is never taken: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quotas_of_kubernetes_count_objects_of_the_garden() {
    let (garden, _replica, operator) = running(Options {
        controllers: true,
        ..Options::default()
    })
    .await;
    landscape(&operator).await;
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": NAMESPACE},
        "spec": {"hard": {COUNTED: "2"}}});
    garden.kubectl("admin", &["create", "-f", "-"], &quota.to_string());
    until_counted(&garden).await;
    create_all(&operator, ["a", "b"].map(internal_secret)).await;
    let (code, refusal) = create(&operator, &internal_secret("c")).await;
    assert_eq!(code, 403, "{refusal}");
    let why = refusal["message"].as_str().unwrap();
    assert!(
        why.contains("exceeded quota: few, requested: count/internalsecrets.core.gardener.cloud=1"),
        "{why}"
    );
    until_used(&garden, "2").await;
}

/// Waits until kube-controller-manager counts the kind: it learns of new kinds every half minute, and looks at a quota again when
/// that changes.
async fn until_counted(garden: &Garden) {
    let quotas: Api<ResourceQuota> = Api::namespaced(garden.admin.clone(), NAMESPACE);
    let begun = std::time::Instant::now();
    for pods in 100.. {
        let patch = json!({"spec": {"hard": {"pods": pods.to_string()}}});
        let patched = quotas.patch("few", &PatchParams::default(), &Patch::Merge(patch)).await;
        let used = patched
            .unwrap()
            .status
            .and_then(|status| status.used)
            .unwrap_or_default();
        if used.contains_key(COUNTED) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{used:?}");
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    }
}

/// Waits until so many objects are counted.
async fn until_used(garden: &Garden, wanted: &str) {
    let quotas: Api<ResourceQuota> = Api::namespaced(garden.admin.clone(), NAMESPACE);
    let waited = wait_until(&quotas, "few", PATIENCE, |quota| {
        let used = quota.and_then(|quota| quota.status.as_ref()?.used.as_ref()?.get(COUNTED));
        match used {
            Some(used) if used.0 == wanted => WaitState::Done(()),
            _ => WaitState::NotYet(format!("{quota:?}")),
        }
    });
    waited.await.unwrap_or_else(|why| panic!("{why}"));
}
