//! Tokens of WorkloadIdentities: who gets one, what it claims, and that its issuer's keys are published.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use serde_json::{Value, json};

use crate::SHOOTS;
use crate::garden::{Garden, shoot};

const IDENTITIES: &str = "/apis/security.gardener.cloud/v1alpha1/namespaces/garden-p/workloadidentities";
const TOKEN: &str = "/apis/security.gardener.cloud/v1alpha1/namespaces/garden-p/workloadidentities/i/token";
const CORE: &str = "/apis/core.gardener.cloud/v1beta1";

async fn garden() -> (Garden, Value) {
    let garden = Garden::with_landscape().await;
    let identity = json!({"metadata": {"name": "i"},
        "spec": {"audiences": ["cloud"], "targetSystem": {"type": "prov", "providerConfig": {"a": 1}}}});
    let identity = garden.ok(Method::POST, IDENTITIES, &identity).await;
    (garden, identity)
}

/// Header and claims of the token in an answer.
fn parts(answer: &Value) -> (Value, Value) {
    let mut parts = answer["status"]["token"].as_str().unwrap().split('.');
    let mut part = || {
        let bytes = URL_SAFE_NO_PAD.decode(parts.next().unwrap()).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    };
    (part(), part())
}

#[tokio::test(start_paused = true)]
async fn a_token_names_its_identity_and_is_signed_with_a_published_key() {
    let (garden, identity) = garden().await;
    let (code, answer) = garden
        .call(Method::POST, TOKEN, &json!({"spec": {"expirationSeconds": 7200}}))
        .await;
    assert_eq!(code, 201, "{answer}");
    assert_eq!(answer["kind"], "TokenRequest");
    assert_eq!(answer["metadata"]["name"], "i");
    let (header, claims) = parts(&answer);
    let uid = identity["metadata"]["uid"].as_str().unwrap();
    assert_eq!(
        claims["sub"],
        format!("gardener.cloud:workloadidentity:garden-p:i:{uid}")
    );
    assert_eq!(claims["aud"], json!(["cloud"]));
    let own = json!({"workloadIdentity": {"name": "i", "namespace": "garden-p", "uid": uid}});
    assert_eq!(claims["gardener.cloud"], own);
    assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 7200);
    assert_eq!(claims["nbf"], claims["iat"]);

    let issuer = garden
        .ok(Method::GET, "/.well-known/openid-configuration", &Value::Null)
        .await;
    assert_eq!(claims["iss"], issuer["issuer"]);
    let keys = garden.read_as("/openid/v1/jwks", "application/jwk-set+json").await;
    let keys = keys["keys"].as_array().unwrap();
    assert!(keys.iter().any(|key| key["kid"] == header["kid"]), "{header} {keys:?}");

    let review = json!({"spec": {"token": answer["status"]["token"], "audiences": ["cloud"]}});
    let review = garden
        .ok(Method::POST, "/apis/authentication.k8s.io/v1/tokenreviews", &review)
        .await;
    assert_ne!(
        review["status"]["authenticated"], true,
        "the garden itself does not accept it"
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_wrong_is_refused_at_its_field() {
    let (garden, _) = garden().await;
    for (body, code, path) in [
        (
            json!({"spec": {"expirationSeconds": 599}}),
            422,
            "spec.expirationSeconds",
        ),
        (
            json!({"spec": {"contextObject": {"apiVersion": "v1", "kind": "", "name": "s", "uid": "u"}}}),
            422,
            "spec.contextObject.kind",
        ),
        (json!({"metadata": {"name": "other"}}), 422, "metadata.name"),
        (json!({"metadata": {"namespace": "other"}}), 400, ""),
    ] {
        let (got, answer) = garden.call(Method::POST, TOKEN, &body).await;
        assert_eq!(got, code, "{body} {answer}");
        assert!(answer["message"].as_str().unwrap().contains(path), "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn tokens_need_a_right_and_only_gardenlets_add_a_context() {
    let (garden, _) = garden().await;
    let mut bound = shoot("s");
    bound["spec"]["seedName"] = json!("seed");
    let shoot = garden.ok(Method::POST, SHOOTS, &bound).await;
    let uid = |object: &Value| object["metadata"]["uid"].clone();
    let request = |uid: Value| {
        json!({"spec": {"contextObject": {"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot",
            "name": "s", "namespace": "garden-p", "uid": uid}}})
    };
    let gardenlet = garden.as_user("gardener.cloud:system:seed:seed", &["gardener.cloud:system:seeds"]);
    assert_eq!(gardenlet.call(Method::POST, TOKEN, &request(uid(&shoot))).await.0, 403);
    let role = |name: &str, resource: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
            "rules": [{"apiGroups": ["security.gardener.cloud"], "resources": [resource], "verbs": ["create"]}]})
    };
    let bind = |name: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "gardener.cloud:system:seeds"}]})
    };
    for (name, resource, code) in [
        ("identities", "workloadidentities", 403),
        ("tokens", "workloadidentities/token", 201),
    ] {
        garden.create(&role(name, resource)).await;
        garden.create(&bind(name)).await;
        let (got, answer) = gardenlet.call(Method::POST, TOKEN, &request(uid(&shoot))).await;
        assert_eq!(got, code, "{name}: {answer}");
    }
    let (_, claims) = parts(&gardenlet.ok(Method::POST, TOKEN, &request(uid(&shoot))).await);
    let seed = garden
        .ok(Method::GET, &format!("{CORE}/seeds/seed"), &Value::Null)
        .await;
    let project = garden
        .ok(Method::GET, &format!("{CORE}/projects/p"), &Value::Null)
        .await;
    let claims = &claims["gardener.cloud"];
    assert_eq!(
        claims["shoot"],
        json!({"name": "s", "namespace": "garden-p", "uid": uid(&shoot)})
    );
    assert_eq!(claims["seed"], json!({"name": "seed", "uid": uid(&seed)}));
    assert_eq!(claims["project"], json!({"name": "p", "uid": uid(&project)}));
    let (code, answer) = gardenlet.call(Method::POST, TOKEN, &request(json!("other"))).await;
    assert_eq!(code, 500, "{answer}");
    assert!(
        answer["message"].as_str().unwrap().contains("spec.contextObject.uid"),
        "{answer}"
    );
    let (_, claims) = parts(&garden.ok(Method::POST, TOKEN, &request(uid(&shoot))).await);
    assert_eq!(
        claims["gardener.cloud"].get("shoot"),
        None,
        "whoever runs the landscape is no gardenlet"
    );
}
