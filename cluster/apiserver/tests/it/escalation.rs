//! Users get no more than they hold: not by aggregation, not by a certificate, not by a write that creates.

use base_clock::Entropy;
use base_secrets::{PrivateKey, SigningRequest};
use http::Method;
use kube::Client;
use serde_json::{Value, json};

use crate::server::{CONFIG_MAPS, Server, call, config_map, get, merge, post, put, start};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const CLIENT: &str = "kubernetes.io/kube-apiserver-client";

/// Grants a user rules in the whole cluster, and returns a client.
async fn user_with(server: &Server, user: &str, rules: &Value) -> Client {
    let admin = server.admin();
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": user}, "rules": rules,
    });
    let (code, made) = post(&admin, &format!("{RBAC}/clusterroles"), &role).await;
    assert_eq!(code, 201, "{made}");
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    let (code, made) = post(&admin, &format!("{RBAC}/clusterrolebindings"), &binding).await;
    assert_eq!(code, 201, "{made}");
    server.user(user, &[])
}

fn message_contains(status: &Value, part: &str) -> bool {
    status["message"].as_str().is_some_and(|message| message.contains(part))
}

#[tokio::test(start_paused = true)]
async fn a_user_who_may_write_roles_cannot_collect_the_rules_of_others() {
    let server = start().await;
    let rules = json!([{"verbs": ["*"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"],
                        "resourceNames": ["bob", "collector", "plain", "powerful"]},
                       {"verbs": ["create"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"]}]);
    // Everything on roles includes `escalate`; what is meant is writing them.
    let mut rules = rules;
    rules[0]["verbs"] = json!(["get", "update", "patch"]);
    let bob = user_with(&server, "bob", &rules).await;
    let path = format!("{RBAC}/clusterroles");
    let role = |name: &str, more: Value| {
        let mut role =
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}});
        role.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        role
    };
    let everything = json!({"aggregationRule": {"clusterRoleSelectors": [{}]}});
    let (code, refused) = post(&bob, &path, &role("collector", everything.clone())).await;
    assert_eq!(code, 403, "{refused}");
    assert!(
        message_contains(&refused, "must have cluster-admin privileges to use an aggregationRule"),
        "{refused}"
    );
    let (code, made) = post(&bob, &path, &role("plain", json!({"rules": []}))).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(merge(&bob, &format!("{path}/plain"), &everything).await.0, 403);
    // One without selectors collects nothing.
    let nothing = json!({"aggregationRule": {"clusterRoleSelectors": []}});
    assert_eq!(merge(&bob, &format!("{path}/plain"), &nothing).await.0, 200);

    // A user who lacks a role's rules cannot put it where others collect it, or stop others from collecting it.
    let powerful = json!({"rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]});
    assert_eq!(post(&server.admin(), &path, &role("powerful", powerful)).await.0, 201);
    let label = json!({"metadata": {"labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}});
    let (code, refused) = merge(&bob, &format!("{path}/powerful"), &label).await;
    assert_eq!(code, 403, "{refused}");
    assert_eq!(merge(&bob, &format!("{path}/plain"), &label).await.0, 200);
    let note = json!({"metadata": {"annotations": {"a": "b"}, "finalizers": ["example.org/waits"]}});
    assert_eq!(merge(&bob, &format!("{path}/powerful"), &note).await.0, 200);

    assert_eq!(
        post(&server.admin(), &path, &role("collector", everything)).await.0,
        201
    );
    let fewer = json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}});
    let (code, refused) = merge(&bob, &format!("{path}/collector"), &fewer).await;
    assert_eq!(code, 403, "{refused}");
    assert_eq!(
        merge(&server.admin(), &format!("{path}/collector"), &fewer).await.0,
        200
    );
}

#[tokio::test(start_paused = true)]
async fn apply_and_put_create_only_with_the_permission_to_create() {
    let server = start().await;
    let rule = json!([{"verbs": ["get", "update", "patch"], "apiGroups": ["", "coordination.k8s.io"],
                       "resources": ["configmaps", "leases"]}]);
    let bob = user_with(&server, "bob", &rule).await;
    let path = format!("{CONFIG_MAPS}/a?fieldManager=bob");
    let apply = async |client: &Client| {
        let body = config_map("a", &json!({"k": "v"})).to_string();
        call(client, Method::PATCH, &path, "application/apply-patch+yaml", body).await
    };
    let (code, refused) = apply(&bob).await;
    assert_eq!(code, 403, "{refused}");
    assert!(
        message_contains(
            &refused,
            r#"User "bob" cannot create resource "configmaps" in API group """#
        ),
        "{refused}"
    );
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}, "spec": {}});
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases/a";
    let (code, refused) = put(&bob, leases, &lease).await;
    assert_eq!(code, 403, "{refused}");
    assert!(
        message_contains(&refused, r#"User "bob" cannot create resource "leases""#),
        "{refused}"
    );
    assert_eq!(get(&server.admin(), leases).await.0, 404);

    assert_eq!(apply(&server.admin()).await.0, 201);
    assert_eq!(put(&server.admin(), leases, &lease).await.0, 201);
    assert_eq!(
        merge(&bob, leases, &json!({"spec": {"holderIdentity": "b"}})).await.0,
        200
    );
    let forced = format!("{CONFIG_MAPS}/a?fieldManager=bob&force=true");
    let body = config_map("a", &json!({"k": "w"})).to_string();
    let (code, _) = call(&bob, Method::PATCH, &forced, "application/apply-patch+yaml", body).await;
    assert_eq!(code, 200, "what exists needs no permission to create");
}

fn request(name: &str, signer: &str, organizations: &[&str]) -> Value {
    use base64::Engine;
    let key = PrivateKey::generate(&Entropy::seeded(1));
    let organizations: Vec<String> = organizations.iter().map(|name| (*name).to_owned()).collect();
    let request = SigningRequest::create(&key, "me", &organizations, &[], &[]).unwrap();
    let request = base64::engine::general_purpose::STANDARD.encode(request.to_pem());
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {"request": request, "signerName": signer, "usages": ["client auth"]},
    })
}

fn condition(type_: &str) -> Value {
    json!({"type": type_, "status": "True", "reason": "Because", "message": "m"})
}

#[tokio::test(start_paused = true)]
async fn a_certificate_is_approved_and_signed_only_with_permission_for_its_signer() {
    let server = start().await;
    let admin = server.admin();
    let all = |more: Value| {
        let mut rules = vec![json!({
            "verbs": ["create", "get", "update", "patch"], "apiGroups": ["certificates.k8s.io"],
            "resources": ["certificatesigningrequests", "certificatesigningrequests/approval", "certificatesigningrequests/status"],
        })];
        rules.extend(more.as_array().cloned().unwrap_or_default());
        Value::from(rules)
    };
    let signers = |verb: &str, name: &str| json!([{"verbs": [verb], "apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "resourceNames": [name]}]);
    let bob = user_with(&server, "bob", &all(json!([]))).await;
    let approver = user_with(&server, "approver", &all(signers("approve", CLIENT))).await;
    let signer = user_with(&server, "signer", &all(signers("sign", "kubernetes.io/*"))).await;
    assert_eq!(post(&bob, REQUESTS, &request("r", CLIENT, &["team"])).await.0, 201);

    let approval = format!("{REQUESTS}/r/approval");
    let approved = json!({"status": {"conditions": [condition("Approved")]}});
    for client in [&bob, &signer] {
        let (code, refused) = merge(client, &approval, &approved).await;
        assert_eq!(code, 403, "{refused}");
        let expected =
            r#"user not permitted to approve requests with signerName "kubernetes.io/kube-apiserver-client""#;
        assert!(message_contains(&refused, expected), "{refused}");
    }
    // A user who may sign cannot approve by writing the status.
    let status = format!("{REQUESTS}/r/status");
    merge(&signer, &status, &approved).await;
    let (_, stored) = get(&admin, &format!("{REQUESTS}/r")).await;
    assert!(
        stored["status"]["conditions"].as_array().is_none_or(Vec::is_empty),
        "{stored}"
    );
    let (code, stored) = merge(&approver, &approval, &approved).await;
    assert_eq!(
        (code, &stored["status"]["conditions"][0]["type"]),
        (200, &json!("Approved"))
    );

    let signed = json!({"status": {"certificate": "Y2VydA=="}});
    for client in [&bob, &approver] {
        let (code, refused) = merge(client, &status, &signed).await;
        assert_eq!(code, 403, "{refused}");
        let expected = r#"user not permitted to sign requests with signerName "kubernetes.io/kube-apiserver-client""#;
        assert!(message_contains(&refused, expected), "{refused}");
    }
    let (code, stored) = merge(&signer, &status, &signed).await;
    assert_eq!((code, &stored["status"]["certificate"]), (200, &json!("Y2VydA==")));
    assert_eq!(stored["status"]["conditions"][0]["type"], "Approved", "{stored}");
}

#[tokio::test(start_paused = true)]
async fn certificate_for_the_group_system_masters_is_refused() {
    let server = start().await;
    let admin = server.admin();
    let (code, refused) = post(&admin, REQUESTS, &request("r", CLIENT, &["team", "system:masters"])).await;
    assert_eq!(code, 403, "{refused}");
    let expected = "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed";
    assert!(message_contains(&refused, expected), "{refused}");
    let (code, made) = post(&admin, REQUESTS, &request("r", "example.org/own", &["system:masters"])).await;
    assert_eq!(code, 201, "another's signer gives no rights here: {made}");
}
