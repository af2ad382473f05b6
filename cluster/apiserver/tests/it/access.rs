//! Authentication and authorization: certificates, tokens, RBAC, reviews, the audit record.

use cluster_apiserver::Identity;
use http::{Method, Request};
use serde_json::{Value, json};

use crate::server::{CONFIG_MAPS, call, config_map, delete, get, post, send, start};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

async fn grant(client: &kube::Client, user: &str, verbs: &[&str], resource: &str) {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": user},
        "rules": [{"verbs": verbs, "apiGroups": [""], "resources": [resource]}],
    });
    let (code, made) = post(client, &format!("{RBAC}/namespaces/default/roles"), &role).await;
    assert_eq!(code, 201, "{made}");
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    let (code, made) = post(client, &format!("{RBAC}/namespaces/default/rolebindings"), &binding).await;
    assert_eq!(code, 201, "{made}");
}

#[tokio::test(start_paused = true)]
async fn role_allows_its_requests_and_others_get_the_refusal_of_kubernetes() {
    let server = start().await;
    let alice = server.user("alice", &[]);
    let (code, refused) = get(&alice, &format!("{CONFIG_MAPS}/a")).await;
    assert_eq!((code, &refused["reason"]), (403, &json!("Forbidden")));
    assert_eq!(
        refused["message"],
        r#"configmaps "a" is forbidden: User "alice" cannot get resource "configmaps" in API group "" in the namespace "default""#
    );
    assert_eq!(refused["details"], json!({"name": "a", "kind": "configmaps"}));
    grant(&server.admin(), "alice", &["get", "create"], "configmaps").await;
    assert_eq!(post(&alice, CONFIG_MAPS, &config_map("a", &json!({}))).await.0, 201);
    assert_eq!(get(&alice, &format!("{CONFIG_MAPS}/a")).await.0, 200);
    assert_eq!(get(&alice, CONFIG_MAPS).await.0, 403);
    delete(
        &server.admin(),
        &format!("{RBAC}/namespaces/default/rolebindings/alice"),
    )
    .await;
    assert_eq!(
        get(&alice, &format!("{CONFIG_MAPS}/a")).await.0,
        403,
        "a rule that is gone allows nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn a_user_cannot_grant_more_than_they_hold() {
    let server = start().await;
    grant(&server.admin(), "bob", &["get"], "configmaps").await;
    let roles = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "writer"},
        "rules": [{"verbs": ["*"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"]}],
    });
    let narrow = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "writer"},
        "rules": [{"verbs": ["create"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"]}],
    });
    let path = format!("{RBAC}/namespaces/default/roles");
    post(&server.admin(), &path, &narrow).await;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "bob-writes"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "writer"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}],
    });
    post(
        &server.admin(),
        &format!("{RBAC}/namespaces/default/rolebindings"),
        &binding,
    )
    .await;
    let mut wide = roles;
    wide["metadata"]["name"] = json!("wide");
    let (code, refused) = post(&server.user("bob", &[]), &path, &wide).await;
    assert_eq!(code, 403);
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .contains("is attempting to grant RBAC permissions not currently held"),
        "{refused}"
    );
}

#[tokio::test(start_paused = true)]
async fn anonymous_users_see_health_and_version_and_nothing_else() {
    let server = start().await;
    let anonymous = server.api.client_for(Identity::Anonymous);
    for path in ["/healthz", "/livez", "/readyz", "/version"] {
        assert_eq!(get(&anonymous, path).await.0, 200, "{path}");
    }
    let (code, refused) = get(&anonymous, "/metrics").await;
    assert_eq!(
        (code, &refused["message"]),
        (
            403,
            &json!(r#"forbidden: User "system:anonymous" cannot get path "/metrics""#)
        )
    );
    let impostor = server.api.client_for(Identity::Token("nonsense".to_owned()));
    assert_eq!(get(&impostor, "/version").await.0, 401);
    server.api.readiness().add("storage", || Err("not yet".to_owned()));
    let (code, text) = get(&anonymous, "/readyz").await;
    assert_eq!(
        (code, text.as_str().unwrap().contains("[-]storage failed: not yet")),
        (500, true)
    );
    assert_eq!(get(&anonymous, "/livez").await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn a_token_is_issued_used_reviewed_and_dies_with_its_account() {
    let server = start().await;
    let admin = server.admin();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    post(&admin, accounts, &account).await;
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}});
    let (code, issued) = post(&admin, &format!("{accounts}/robot/token"), &request).await;
    assert_eq!(
        (code, &issued["status"]["expirationTimestamp"]),
        (201, &json!("2026-01-01T01:00:00Z")),
        "{issued}"
    );
    let token = issued["status"]["token"].as_str().unwrap().to_owned();
    let robot = server.api.client_for(Identity::Token(token.clone()));
    let question = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let (code, me) = post(&robot, "/apis/authentication.k8s.io/v1/selfsubjectreviews", &question).await;
    assert_eq!(
        (code, &me["status"]["userInfo"]["username"]),
        (201, &json!("system:serviceaccount:default:robot"))
    );
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
    let (_, reviewed) = post(&admin, "/apis/authentication.k8s.io/v1/tokenreviews", &review).await;
    assert_eq!(reviewed["status"]["authenticated"], true);
    delete(&admin, &format!("{accounts}/robot")).await;
    assert_eq!(get(&robot, "/version").await.0, 401);
}

#[tokio::test(start_paused = true)]
async fn access_reviews_match_the_decision_about_the_request() {
    let server = start().await;
    grant(&server.admin(), "alice", &["get"], "configmaps").await;
    let question = |verb: &str| {
        json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": verb, "resource": "configmaps", "namespace": "default"}},
        })
    };
    let alice = server.user("alice", &[]);
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let (code, yes) = post(&alice, path, &question("get")).await;
    assert_eq!((code, &yes["status"]["allowed"]), (201, &json!(true)), "{yes}");
    assert_eq!(
        post(&alice, path, &question("delete")).await.1["status"]["allowed"],
        false
    );
    let rules = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": "default"}});
    let (_, rules) = post(&alice, "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", &rules).await;
    let held = rules["status"]["resourceRules"].as_array().unwrap();
    assert!(
        held.iter().any(|rule| rule["resources"] == json!(["configmaps"])),
        "{rules}"
    );
}

#[tokio::test(start_paused = true)]
async fn impersonation_needs_permission_and_then_acts_as_the_user() {
    let server = start().await;
    let as_alice = |path: &str| {
        Request::get(path)
            .header("impersonate-user", "alice")
            .body(Vec::new())
            .unwrap()
    };
    let (code, refused) = send(&server.user("bob", &[]), as_alice(CONFIG_MAPS)).await;
    assert_eq!(code, 403);
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .contains(r#"User "bob" cannot impersonate resource "users""#),
        "{refused}"
    );
    let (code, refused) = send(&server.admin(), as_alice(CONFIG_MAPS)).await;
    assert_eq!(code, 403);
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .contains(r#"User "alice" cannot list"#),
        "{refused}"
    );
    // The record has both, whether it was allowed or not.
    let records = server.api.audit().records();
    let shown: Vec<[&str; 2]> = records.iter().map(|r| [&*r.user, &*r.impersonator]).collect();
    assert_eq!(shown[shown.len() - 2..], [["bob", ""], ["alice", "system:apiserver"]]);
}

#[tokio::test(start_paused = true)]
async fn every_request_is_recorded_with_its_user_and_target() {
    let server = start().await;
    let admin = server.admin();
    server.api.audit().clear();
    post(&admin, CONFIG_MAPS, &config_map("a", &json!({}))).await;
    get(&server.user("alice", &["team"]), &format!("{CONFIG_MAPS}/a")).await;
    call(&admin, Method::GET, "/version", "application/json", "").await;
    let shown: Vec<String> = server
        .api
        .audit()
        .records()
        .iter()
        .map(|r| {
            format!(
                "{} {} {}/{}/{} {}",
                r.user, r.verb, r.namespace, r.resource, r.name, r.code
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            "system:apiserver create default/configmaps/ 201",
            "alice get default/configmaps/a 403",
            "system:apiserver get // 200",
        ]
    );
    assert!(server.api.audit().records()[1].groups.contains(&"team".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn certificate_request_records_its_user_and_is_approved_separately() {
    let server = start().await;
    let admin = server.admin();
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let request = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "csr"},
        "spec": {"request": csr(), "signerName": "example.org/signer", "usages": ["client auth"], "username": "somebody-else"},
    });
    let (code, made) = post(&admin, path, &request).await;
    assert_eq!(
        (code, &made["spec"]["username"]),
        (201, &json!("system:apiserver")),
        "{made}"
    );
    let approval = json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "Because", "message": "m"}]}});
    let (code, approved) = crate::server::merge(&admin, &format!("{path}/csr/approval"), &approval).await;
    assert_eq!(
        (code, &approved["status"]["conditions"][0]["type"]),
        (200, &json!("Approved")),
        "{approved}"
    );
    let (_, list) = get(
        &admin,
        &format!("{path}?fieldSelector=spec.signerName%3Dexample.org%2Fsigner"),
    )
    .await;
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
}

fn csr() -> Value {
    use base64::Engine;
    let key = base_secrets::PrivateKey::generate(&base_clock::Entropy::seeded(1));
    let request = base_secrets::SigningRequest::create(&key, "me", &[], &[], &[]).unwrap();
    json!(base64::engine::general_purpose::STANDARD.encode(request.to_pem()))
}

#[tokio::test(start_paused = true)]
async fn aggregated_role_shows_and_grants_the_rules_of_its_parts() {
    let server = start().await;
    let admin = server.admin();
    let path = format!("{RBAC}/clusterroles");
    let whole = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "whole"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"part": "yes"}}]},
    });
    let part = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "part", "labels": {"part": "yes"}},
        "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}],
    });
    post(&admin, &path, &whole).await;
    post(&admin, &path, &part).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let (_, shown) = get(&admin, &format!("{path}/whole")).await;
    assert_eq!(shown["rules"], part["rules"], "{shown}");
    let (_, view) = get(&admin, &format!("{path}/view")).await;
    assert!(
        view["rules"].as_array().is_some_and(|rules| !rules.is_empty()),
        "{view}"
    );
}
