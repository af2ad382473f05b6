//! A server that serves a kind of its own alone, behind one that has all the others.

use std::sync::Arc;

use cluster_apiserver::kind::ResourceInfo;
use cluster_apiserver::{ApiServer, Authorities, Kind};
use cluster_store::MemoryStore;
use kube::Client;
use serde_json::{Value, json};

use crate::server::{Server, delete, get, post, start};

const THINGS: &str = "/apis/things.example/v1/namespaces/default/things";
const NAMESPACES: &str = "/api/v1/namespaces";
const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1";

struct Thing(ResourceInfo);

impl Kind for Thing {
    fn resource(&self) -> &ResourceInfo {
        &self.0
    }

    fn schema(&self, _: &str) -> Option<cluster_apiserver::schema::Schema> {
        None
    }
}

/// The server behind, and a client of it as the administrator of the one in front.
async fn behind(front: &Server) -> (ApiServer, Client) {
    let info = ResourceInfo::namespaced("things.example", "v1", "Thing", "things");
    let api = ApiServer::builder("behind")
        .store(MemoryStore::new())
        .clock(front.clock.clone())
        .kinds([Arc::new(Thing(info)) as Arc<dyn Kind>])
        .authorities(Authorities {
            client_authorities: front.authority(),
            ..Authorities::default()
        })
        .behind(front.admin())
        .delegate(front.admin())
        .build()
        .await
        .unwrap();
    let client = api.client_for(front.certificates("admin", &["system:masters"]));
    (api, client)
}

fn thing(name: &str) -> Value {
    json!({"apiVersion": "things.example/v1", "kind": "Thing", "metadata": {"name": name}})
}

/// Creates things with this name prefix until one is refused.
async fn until_refused(client: &Client, name: &str) -> (u16, Value) {
    for attempt in 0.. {
        let (code, answer) = post(client, THINGS, &thing(&format!("{name}-{attempt}"))).await;
        if code != 201 {
            return (code, answer);
        }
        tokio::task::yield_now().await;
    }
    unreachable!("it never ends otherwise")
}

#[tokio::test(start_paused = true)]
async fn server_behind_serves_its_kinds_alone_and_finds_the_rest_in_front() {
    let front = start().await;
    let (_behind, client) = behind(&front).await;
    let (code, made) = post(&client, THINGS, &thing("a")).await;
    assert_eq!(code, 201, "{made}");
    // Its store has nothing else, and nothing else is served.
    for path in [
        "/api",
        "/api/v1/namespaces",
        "/apis/apps/v1",
        "/apis/authorization.k8s.io/v1",
    ] {
        assert_eq!(get(&client, path).await.0, 404, "{path}");
    }
    let (code, groups) = get(&client, "/apis").await;
    assert_eq!((code, groups["groups"].as_array().unwrap().len()), (200, 1), "{groups}");
    assert_eq!(get(&front.admin(), THINGS).await.0, 404);
    // Namespaces are those of the server in front, as they are now.
    let elsewhere = THINGS.replace("default", "later");
    assert_eq!(post(&client, &elsewhere, &thing("a")).await.0, 404);
    let later = json!({"metadata": {"name": "later"}});
    assert_eq!(post(&front.admin(), NAMESPACES, &later).await.0, 201);
    assert_eq!(post(&client, &elsewhere, &thing("a")).await.0, 201);
    assert_eq!(delete(&front.admin(), &format!("{NAMESPACES}/later")).await.0, 200);
    let (code, refusal) = post(&client, &elsewhere, &thing("b")).await;
    assert_eq!(code, 403, "{refusal}");
    // A token of its own grants no access.
    let (behind, _) = behind(&front).await;
    assert_eq!(get(&behind.loopback_client(), THINGS).await.0, 403);
}

#[tokio::test(start_paused = true)]
async fn policies_and_quotas_of_the_server_in_front_apply() {
    let front = start().await;
    let (_behind, client) = behind(&front).await;
    let rules = json!([{"apiGroups": ["things.example"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["things"]}]);
    let policy = json!({"metadata": {"name": "p"}, "spec": {"matchConstraints": {"resourceRules": rules},
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "object.metadata.name.startsWith(params.data.prefix) || \
            authorizer.group('').resource('pods').check('list').allowed()", "message": "not here"}]}});
    let binding = json!({"metadata": {"name": "p"}, "spec": {"policyName": "p", "validationActions": ["Deny"],
        "paramRef": {"name": "p", "parameterNotFoundAction": "Deny"}}});
    let params = json!({"metadata": {"name": "p"}, "data": {"prefix": "good"}});
    let admin = front.admin();
    assert_eq!(
        post(&admin, "/api/v1/namespaces/default/configmaps", &params).await.0,
        201
    );
    assert_eq!(
        post(&admin, &format!("{HOOKS}/validatingadmissionpolicies"), &policy)
            .await
            .0,
        201
    );
    let path = format!("{HOOKS}/validatingadmissionpolicybindings");
    assert_eq!(post(&admin, &path, &binding).await.0, 201);
    let role = json!({"metadata": {"name": "things"}, "rules": [
        {"apiGroups": ["things.example"], "resources": ["things"], "verbs": ["*"]}]});
    let bound = json!({"metadata": {"name": "things"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "things"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]});
    for (kind, object) in [("clusterroles", role), ("clusterrolebindings", bound)] {
        let path = format!("/apis/rbac.authorization.k8s.io/v1/{kind}");
        assert_eq!(post(&admin, &path, &object).await.0, 201);
    }
    let (behind, _) = behind(&front).await;
    let jane = behind.client_for(front.certificates("jane", &[]));
    let (code, refusal) = until_refused(&jane, "bad").await;
    assert_eq!(code, 422, "{refusal}");
    assert!(refusal["message"].as_str().unwrap().contains("not here"), "{refusal}");
    assert_eq!(post(&jane, THINGS, &thing("good")).await.0, 201);
    assert_eq!(
        post(&client, THINGS, &thing("bad-for-others")).await.0,
        201,
        "a user who may list pods may do it"
    );
    assert_eq!(delete(&admin, &format!("{path}/p")).await.0, 200);

    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"count/things.things.example": "1"}}});
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    assert_eq!(post(&admin, quotas, &quota).await.0, 201);
    let counted = json!({"metadata": {"name": "q"}, "status": {
        "hard": {"count/things.things.example": "1"}, "used": {"count/things.things.example": "0"}}});
    let (code, answer) = crate::server::put(&admin, &format!("{quotas}/q/status"), &counted).await;
    assert_eq!(code, 200, "{answer}");
    let (code, refusal) = until_refused(&client, "counted").await;
    assert_eq!(code, 403, "{refusal}");
    assert!(
        refusal["message"].as_str().unwrap().contains("exceeded quota: q"),
        "{refusal}"
    );
    let (_, quota) = get(&admin, &format!("{quotas}/q")).await;
    assert_eq!(quota["status"]["used"]["count/things.things.example"], "1");
}

#[tokio::test(start_paused = true)]
async fn writes_wait_for_the_configuration_of_the_server_in_front() {
    let front = start().await;
    front.api.shutdown().await;
    let (behind, client) = behind(&front).await;
    let (code, refusal) = post(&client, THINGS, &thing("a")).await;
    assert_eq!(code, 503, "{refusal}");
    assert!(
        refusal["message"].as_str().unwrap().contains("not yet ready"),
        "{refusal}"
    );
    assert!(!behind.readiness().is_ready());
    assert_eq!(get(&client, THINGS).await.0, 200, "reads need nothing of it");
}
