//! Webhooks, policies and quota: what a client cannot see. Their answers are compared with Kubernetes' by `tests/conformance`.

use std::sync::Arc;
use std::time::Duration;

use base_clock::{Clock, Entropy};
use cluster_apiserver::ApiServer;
use cluster_store::{MemoryStore, Store};
use futures::future::join_all;
use http::Method;
use kube::Client;
use serde_json::{Value, json};

use crate::hook::Hook;
use crate::server::{CONFIG_MAPS, DEPLOYMENTS, answer, config_map, delete, get, post, put, start, start_with};

const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
/// Longer than anything here takes.
const TIMEOUT: Duration = Duration::from_secs(20);

async fn configure(client: &Client, path: &str, webhook: Value) {
    let configuration = json!({"metadata": {"name": "hooks"}, "webhooks": [webhook]});
    let (code, refused) = post(client, path, &configuration).await;
    assert_eq!(code, 201, "{refused}");
}

fn service(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}})
}

#[tokio::test]
async fn connections_are_reused_until_the_configuration_changes() {
    let (server, hook) = (start().await, Hook::start().await);
    let client = server.admin();
    configure(&client, VALIDATING, hook.webhook("allow", &["configmaps"])).await;
    for name in ["a", "b", "c", "d"] {
        assert_eq!(post(&client, CONFIG_MAPS, &config_map(name, &json!({}))).await.0, 201);
    }
    assert_eq!((hook.connections(), hook.requests()), (1, 4));
    let path = format!("{VALIDATING}/hooks");
    let mut configuration = get(&client, &path).await.1;
    configuration["webhooks"][0]["timeoutSeconds"] = json!(7);
    assert_eq!(put(&client, &path, &configuration).await.0, 200);
    assert_eq!(post(&client, CONFIG_MAPS, &config_map("e", &json!({}))).await.0, 201);
    assert_eq!(hook.connections(), 1, "the webhook is reached as before");
    assert_eq!(delete(&client, &path).await.0, 200);
    assert_eq!(post(&client, CONFIG_MAPS, &config_map("f", &json!({}))).await.0, 201);
    assert_eq!(hook.requests(), 5);
}

#[tokio::test]
async fn no_other_write_waits_for_a_webhook() {
    for path in [MUTATING, VALIDATING] {
        let (server, hook) = (start().await, Hook::start().await);
        let client = server.admin();
        let mut webhook = hook.webhook("hold", &["configmaps", "services"]);
        webhook["objectSelector"] = json!({"matchLabels": {"held": "true"}});
        configure(&client, path, webhook).await;
        let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"services": "9"}}});
        assert_eq!(post(&client, QUOTAS, &quota).await.0, 201);
        let held = |mut object: Value| {
            object["metadata"]["labels"] = json!({"held": "true"});
            object
        };
        let (map, first) = (held(config_map("a", &json!({}))), held(service("a")));
        let waiting = async { tokio::join!(post(&client, CONFIG_MAPS, &map), post(&client, SERVICES, &first)) };
        let others = async {
            hook.has_received(2).await;
            let (code, made) = post(&client, SERVICES, &service("b")).await;
            assert_eq!(code, 201, "{made}");
            assert_eq!(post(&client, CONFIG_MAPS, &config_map("b", &json!({}))).await.0, 201);
            assert_eq!(get(&client, &format!("{CONFIG_MAPS}/a")).await.0, 404);
            hook.release(2);
            made
        };
        let both = tokio::time::timeout(TIMEOUT, async { tokio::join!(waiting, others) });
        let (((code, _), (code_of_service, made)), other) = both.await.unwrap();
        assert_eq!((code, code_of_service), (201, 201), "{made}");
        assert_ne!(
            made["spec"]["clusterIP"], other["spec"]["clusterIP"],
            "an address that is reserved for a Service is given to no other"
        );
    }
}

#[tokio::test]
async fn a_write_is_completed_after_its_client_has_disconnected() {
    let (server, hook) = (start().await, Hook::start().await);
    let client = server.admin();
    configure(&client, VALIDATING, hook.webhook("hold", &["configmaps"])).await;
    let map = config_map("a", &json!({}));
    tokio::select! {
        _ = post(&client, CONFIG_MAPS, &map) => panic!("nothing has released it"),
        () = hook.has_received(1) => {}
    }
    hook.release(1);
    let made = async {
        while get(&client, &format!("{CONFIG_MAPS}/a")).await.0 != 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TIMEOUT, made).await.unwrap();
}

#[tokio::test]
async fn a_webhook_that_fails_midway_leaves_the_store_untouched() {
    for path in ["close", "flood"] {
        for form in [MUTATING, VALIDATING] {
            let store = Arc::new(MemoryStore::new());
            let (shared, hook) = (store.clone(), Hook::start().await);
            let server = start_with(|builder| builder.shared_store(shared)).await;
            let client = server.admin();
            let mut webhook = hook.webhook(path, &["configmaps"]);
            configure(&client, form, webhook.clone()).await;
            let before = store.revision().await.unwrap();
            let (code, refused) = post(&client, CONFIG_MAPS, &config_map("a", &json!({}))).await;
            assert_eq!(code, 500, "{refused}");
            assert_eq!(store.revision().await.unwrap(), before);
            webhook["failurePolicy"] = json!("Ignore");
            assert_eq!(delete(&client, &format!("{form}/hooks")).await.0, 200);
            configure(&client, form, webhook).await;
            assert_eq!(post(&client, CONFIG_MAPS, &config_map("a", &json!({}))).await.0, 201);
            assert_eq!(hook.requests(), 2);
        }
    }
}

#[tokio::test]
async fn admission_configuration_applies_after_a_restart() {
    let store = Arc::new(MemoryStore::new());
    let hook = Hook::start().await;
    let build = || {
        ApiServer::builder("test")
            .shared_store(store.clone())
            .clock(Clock::real())
            .entropy(Entropy::os())
            .build()
    };
    let client = build().await.unwrap().loopback_client();
    configure(&client, VALIDATING, hook.webhook("deny", &["configmaps"])).await;
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"secrets": "0"}}});
    assert_eq!(post(&client, QUOTAS, &quota).await.0, 201);
    let mut limited = get(&client, &format!("{QUOTAS}/q")).await.1;
    limited["status"] = json!({"hard": {"secrets": "0"}, "used": {"secrets": "0"}});
    assert_eq!(put(&client, &format!("{QUOTAS}/q/status"), &limited).await.0, 200);
    let client = build().await.unwrap().loopback_client();
    let (code, refused) = post(&client, CONFIG_MAPS, &config_map("a", &json!({}))).await;
    assert_eq!(code, 400, "{refused}");
    let secret = json!({"metadata": {"name": "a"}});
    let (code, refused) = post(&client, "/api/v1/namespaces/default/secrets", &secret).await;
    assert_eq!(code, 403, "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_quota_limits_whatever_numbers_its_status_has() {
    let server = start().await;
    let client = server.admin();
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "5"}}});
    assert_eq!(post(&client, QUOTAS, &quota).await.0, 201);
    let path = format!("{QUOTAS}/q");
    for (hard, used, code) in [
        ("9223372036854775807", "9223372036854775807", 403),
        ("9223372036854775807", "9223372036854775806", 201),
        ("5", "99999999999999999999", 403),
        ("1T", "7k", 201),
        ("1e3", "999", 201),
        ("1e3", "1000", 403),
    ] {
        let mut limited = get(&client, &path).await.1;
        limited["status"] = json!({"hard": {"configmaps": hard}, "used": {"configmaps": used}});
        assert_eq!(put(&client, &format!("{path}/status"), &limited).await.0, 200);
        let map = json!({"metadata": {"generateName": "m-"}});
        let (answered, answer) = post(&client, CONFIG_MAPS, &map).await;
        assert_eq!(answered, code, "{used} of {hard}: {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_creates_stay_within_the_quota() {
    let server = start().await;
    let client = server.admin();
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "5"}}});
    assert_eq!(post(&client, QUOTAS, &quota).await.0, 201);
    let path = format!("{QUOTAS}/q");
    let mut limited = get(&client, &path).await.1;
    limited["status"] = json!({"hard": {"configmaps": "5"}, "used": {"configmaps": "0"}});
    assert_eq!(put(&client, &format!("{path}/status"), &limited).await.0, 200);
    let create = async |index: usize| {
        let map = config_map(&format!("m{index}"), &json!({}));
        post(&client, CONFIG_MAPS, &map).await.0
    };
    let codes = join_all((0..20).map(create)).await;
    assert_eq!(codes.iter().filter(|code| **code == 201).count(), 5, "{codes:?}");
    assert!(codes.iter().all(|code| matches!(code, 201 | 403)), "{codes:?}");
    assert_eq!(get(&client, &path).await.1["status"]["used"]["configmaps"], "5");
    let listed = get(&client, CONFIG_MAPS).await.1;
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(5));
}

#[tokio::test]
async fn audit_records_hold_the_annotations_of_webhooks_and_policies() {
    let (server, hook) = (start().await, Hook::start().await);
    let client = server.admin();
    configure(&client, VALIDATING, hook.webhook("allow", &["configmaps"])).await;
    let rules =
        json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]);
    let policy = json!({"metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": "false", "message": "not good"}],
        "auditAnnotations": [{"key": "name", "valueExpression": "'it is ' + object.metadata.name"}],
    }});
    let (code, refused) = post(&client, POLICIES, &policy).await;
    assert_eq!(code, 201, "{refused}");
    let binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Audit"]}});
    assert_eq!(post(&client, BINDINGS, &binding).await.0, 201);
    server.api.audit().clear();
    assert_eq!(post(&client, CONFIG_MAPS, &config_map("a", &json!({}))).await.0, 201);
    let records = server.api.audit().records();
    let annotation = |key: &str| records[0].annotations.get(key).map(String::as_str);
    assert_eq!(annotation("hook.example.com/seen"), Some("a"));
    assert_eq!(annotation("p/name"), Some("it is a"));
    let failure = annotation("validation.policy.admission.k8s.io/validation_failure").unwrap();
    assert!(failure.contains("not good"), "{failure}");
}

/// Creates a pod, a Deployment and a budget that select it, and an account.
async fn create_what_is_acted_on(client: &Client) {
    let pods = "/api/v1/namespaces/default/pods";
    let labels = json!({"app": "web"});
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    let template = json!({"metadata": {"labels": labels}, "spec": spec});
    for (path, object) in [
        (pods, json!({"metadata": {"name": "p", "labels": labels}, "spec": spec})),
        (
            DEPLOYMENTS,
            json!({"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}),
        ),
        (
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}}}),
        ),
        (
            "/api/v1/namespaces/default/serviceaccounts",
            json!({"metadata": {"name": "a"}}),
        ),
    ] {
        let (code, answer) = post(client, path, &object).await;
        assert_eq!(code, 201, "{path}: {answer}");
    }
}

/// Creates a policy that warns of every request, and one that refuses some.
async fn create_warning_and_denying_policies(client: &Client) {
    for (name, groups, resources, action) in [
        ("seen", json!(["*"]), json!(["*/*"]), "Warn"),
        (
            "denied",
            json!(["", "apps", "coordination.k8s.io"]),
            json!(["deployments/scale", "configmaps", "leases"]),
            "Deny",
        ),
    ] {
        let rules = json!([{"apiGroups": groups, "apiVersions": ["*"], "operations": ["*"], "resources": resources}]);
        let policy = json!({"metadata": {"name": name}, "spec": {
            "matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "false", "message": name}],
        }});
        let (code, answer) = post(client, POLICIES, &policy).await;
        assert_eq!(code, 201, "{answer}");
        let binding = json!({"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": [action]}});
        assert_eq!(post(client, BINDINGS, &binding).await.0, 201);
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_has_the_warnings_that_were_given_before_it() {
    let server = start().await;
    let client = server.admin();
    create_what_is_acted_on(&client).await;
    let pods = "/api/v1/namespaces/default/pods";
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}).to_string();
    let bind = format!("{pods}/p/binding");
    let (code, message, _) = answer(&client, Method::POST, &bind, "application/json", &binding).await;
    assert_eq!(code, 201, "{message}");
    create_warning_and_denying_policies(&client).await;

    let lease = json!({"metadata": {"name": "l"}, "spec": {}}).to_string();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}).to_string();
    let scale = json!({"metadata": {"name": "web"}, "spec": {"replicas": 2}}).to_string();
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}).to_string();
    let token = json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "none"}}}).to_string();
    let (json, apply) = ("application/json", "application/apply-patch+yaml");
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    for (method, path, media, body, code) in [
        (Method::PUT, &format!("{leases}/l"), json, &*lease, 422),
        (
            Method::PATCH,
            &format!("{CONFIG_MAPS}/m?fieldManager=me"),
            apply,
            &map,
            422,
        ),
        (Method::PUT, &format!("{DEPLOYMENTS}/web/scale"), json, &scale, 422),
        (Method::POST, &bind, json, &binding, 409),
        (Method::POST, &format!("{pods}/p/eviction"), json, &eviction, 501),
        (
            Method::POST,
            &"/api/v1/namespaces/default/serviceaccounts/a/token".to_owned(),
            json,
            &token,
            404,
        ),
        (Method::DELETE, &"/api/v1/namespaces/default".to_owned(), json, "", 403),
    ] {
        let (answered, message, warnings) = answer(&client, method, path, media, body).await;
        assert_eq!(answered, code, "{path}: {message}");
        let seen = warnings.iter().filter(|warning| warning.contains("'seen'"));
        assert_eq!(seen.count(), 1, "{path}: {warnings:?}");
    }
}
