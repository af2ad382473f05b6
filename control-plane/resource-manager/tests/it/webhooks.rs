//! The webhooks as an API server calls them, with accounts of an embedded API server.

use base_client::HttpService;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use control_plane_resource_manager::webhooks;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::PostParams;
use kube::client::Body;
use serde_json::{Value, json};
use tests_kit::embedded_with;
use tower::ServiceExt;

const PATH: &str = "/webhooks/mount-projected-service-account-token";

async fn post(server: &HttpService, path: &str, body: String) -> (StatusCode, Vec<u8>) {
    let request = Request::post(path).body(Body::from(body.into_bytes())).unwrap();
    let response = server.clone().oneshot(request).await.unwrap();
    let code = response.status();
    (code, response.into_body().collect().await.unwrap().to_bytes().to_vec())
}

/// Names of the volumes that a pod of an account gets.
async fn volumes(server: &HttpService, account: &str) -> Vec<String> {
    let pod = json!({"spec": {"serviceAccountName": account, "containers": [{"name": "c"}]}});
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": "u", "namespace": "default", "object": pod}});
    let (code, answer) = post(server, PATH, review.to_string()).await;
    assert_eq!(code, StatusCode::OK);
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(
        (&answer["response"]["uid"], &answer["response"]["allowed"]),
        (&json!("u"), &json!(true)),
        "{answer}"
    );
    let Some(patch) = answer["response"]["patch"].as_str() else {
        return Vec::new();
    };
    let patch: Vec<Value> = serde_json::from_slice(&STANDARD.decode(patch).unwrap()).unwrap();
    let added = patch.iter().filter(|operation| operation["path"] == "/spec/volumes");
    added
        .map(|operation| operation["value"][0]["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn only_pods_of_accounts_without_automount_get_a_token() {
    let target = embedded_with("target", Vec::new(), |builder| builder).await;
    let accounts: Api<ServiceAccount> = Api::namespaced(target.admin(), "default");
    for (name, automount) in [("off", json!(false)), ("on", json!(true)), ("unset", json!(null))] {
        let account = json!({"metadata": {"name": name}, "automountServiceAccountToken": automount});
        let account = serde_json::from_value(account).unwrap();
        accounts.create(&PostParams::default(), &account).await.unwrap();
    }
    let server = webhooks(target.admin());
    assert_eq!(volumes(&server, "off").await, ["kube-api-access-gardener"]);
    for account in ["on", "unset", "missing", "default", ""] {
        assert!(volumes(&server, account).await.is_empty(), "{account}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_no_review_is_refused() {
    let target = embedded_with("target", Vec::new(), |builder| builder).await;
    let server = webhooks(target.admin());
    assert_eq!(post(&server, PATH, "{".to_owned()).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(post(&server, "/other", String::new()).await.0, StatusCode::NOT_FOUND);
    let large = " ".repeat(9 << 20);
    assert_eq!(post(&server, PATH, large).await.0, StatusCode::BAD_REQUEST);
}
