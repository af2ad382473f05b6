//! A server that stands behind another one: whom it trusts, and which server it calls.

use std::time::Duration;

use base_clock::Clock;
use cluster_apiserver::{FrontProxies, Identity};
use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};

use crate::server::{CONFIG_MAPS, Others, get, post, send, start, start_with};

const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// Code and user of a request whose headers name the user root.
async fn user_of_request(client: &Client) -> (u16, Value) {
    let request = Request::builder()
        .method(Method::POST)
        .uri(WHO)
        .header("content-type", "application/json")
        .header("x-remote-user", "root")
        .header("x-remote-uid", "7")
        .header("x-remote-group", "system:masters")
        .header("x-remote-extra-example.com%2fscope", "all")
        .body(b"{}".to_vec())
        .unwrap();
    let (code, body) = send(client, request).await;
    (code, body["status"]["userInfo"].clone())
}

#[tokio::test]
async fn identity_headers_require_the_certificate_of_a_front_proxy() {
    let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
    let others = Others::new(&clock);
    let front = FrontProxies {
        authorities: others.authority.certificate_pem(),
        allowed_names: vec!["proxy".to_owned()],
        ..FrontProxies::default()
    };
    let server = start_with(|builder| builder.front_proxies(front)).await;
    let (code, user) = user_of_request(&others.client(&server, "proxy")).await;
    assert_eq!(
        (code, &user["username"], &user["uid"]),
        (201, &json!("root"), &json!("7"))
    );
    assert_eq!(user["groups"], json!(["system:masters", "system:authenticated"]));
    assert_eq!(user["extra"], json!({"example.com/scope": ["all"]}));
    // Another name, another authority, no certificate.
    assert_eq!(user_of_request(&others.client(&server, "other")).await.0, 401);
    let (code, user) = user_of_request(&server.user("proxy", &[])).await;
    assert_eq!((code, &user["username"]), (201, &json!("proxy")));
    assert_eq!(
        user_of_request(&server.api.client_for(Identity::Anonymous)).await.0,
        403
    );
    // A front proxy that names no user is not authenticated.
    assert_eq!(post(&others.client(&server, "proxy"), WHO, &json!({})).await.0, 401);
    let plain = start().await;
    assert_eq!(user_of_request(&others.client(&plain, "proxy")).await.0, 401);
}

/// How many requests the server in front got.
fn requests_of(front: &crate::server::Server, resource: &str) -> usize {
    let records = front.api.audit().records();
    records.iter().filter(|record| record.resource == resource).count()
}

#[tokio::test(start_paused = true)]
async fn server_behind_queries_the_server_in_front_and_caches_its_answers() {
    let front = start().await;
    let behind = start_with(|builder| builder.delegate(front.admin())).await;
    let account = json!({"metadata": {"name": "robot"}});
    assert_eq!(
        post(&front.admin(), "/api/v1/namespaces/default/serviceaccounts", &account)
            .await
            .0,
        201
    );
    let path = "/api/v1/namespaces/default/serviceaccounts/robot/token";
    let (code, token) = post(&front.admin(), path, &json!({"spec": {"audiences": []}})).await;
    assert_eq!(code, 201, "{token}");
    let token = token["status"]["token"].as_str().unwrap().to_owned();
    let robot = behind.api.client_for(Identity::Token(token));
    for _ in 0..3 {
        let (code, body) = get(&robot, CONFIG_MAPS).await;
        assert_eq!(code, 403, "{body}");
    }
    assert_eq!(
        (
            requests_of(&front, "tokenreviews"),
            requests_of(&front, "subjectaccessreviews")
        ),
        (1, 1)
    );
    let role = json!({
        "metadata": {"name": "reads"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "robot"}],
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    assert_eq!(post(&front.admin(), bindings, &role).await.0, 201);
    assert_eq!(get(&robot, CONFIG_MAPS).await.0, 403, "the decision is still cached");
    tokio::time::advance(Duration::from_secs(11)).await;
    assert_eq!(get(&robot, CONFIG_MAPS).await.0, 200);
    assert_eq!(
        (
            requests_of(&front, "tokenreviews"),
            requests_of(&front, "subjectaccessreviews")
        ),
        (2, 2)
    );
    let stranger = behind.api.client_for(Identity::Token("nobody's".to_owned()));
    for _ in 0..2 {
        assert_eq!(get(&stranger, CONFIG_MAPS).await.0, 401);
    }
    assert_eq!(requests_of(&front, "tokenreviews"), 3);
    // Superusers and liveness probes do not wait for the server in front.
    front.api.shutdown().await;
    assert_eq!(get(&behind.admin(), CONFIG_MAPS).await.0, 200);
    assert_eq!(get(&behind.user("jane", &[]), "/livez").await.0, 200);
    assert_eq!(get(&behind.user("jane", &[]), CONFIG_MAPS).await.0, 500);
}

#[tokio::test]
async fn servers_behind_find_out_whom_to_trust() {
    let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
    let front = FrontProxies {
        authorities: Others::new(&clock).authority.certificate_pem(),
        allowed_names: vec!["proxy".to_owned()],
        ..FrontProxies::default()
    };
    let server = start_with(|builder| builder.front_proxies(front.clone())).await;
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let (code, map) = get(&server.user("system:kube-scheduler", &[]), path).await;
    assert_eq!(code, 200, "{map}");
    assert_eq!(map["data"]["requestheader-allowed-names"], "[\"proxy\"]");
    assert_eq!(map["data"]["requestheader-username-headers"], "[\"X-Remote-User\"]");
    assert_eq!(map["data"]["requestheader-client-ca-file"], front.authorities.as_str());
    assert_eq!(get(&server.user("jane", &[]), path).await.0, 403);
}
