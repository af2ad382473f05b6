//! What a node may access: its own objects, its pods, and what these name. Nothing else, by any request.

use cluster_apiserver::ApiServer;
use cluster_store::MemoryStore;
use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};

use crate::server::{CONFIG_MAPS, Server, call, config_map, delete, get, merge, post, put, send, start};

const PODS: &str = "/api/v1/namespaces/default/pods";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const NODES: &str = "/api/v1/nodes";

fn node(server: &Server, name: &str) -> Client {
    server.user(&format!("system:node:{name}"), &["system:nodes"])
}

fn pod(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "nodeName": node, "serviceAccountName": format!("of-{name}"),
            "imagePullSecrets": [{"name": format!("pull-{name}")}],
            "containers": [{"name": "c", "image": "i",
                "env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": format!("env-{name}"), "key": "k"}}}],
                "envFrom": [{"configMapRef": {"name": format!("env-{name}")}}]}],
            "volumes": [
                {"name": "s", "secret": {"secretName": format!("volume-{name}")}},
                {"name": "p", "projected": {"sources": [{"secret": {"name": format!("projected-{name}")}},
                                                        {"configMap": {"name": format!("projected-{name}")}}]}},
                {"name": "c", "configMap": {"name": format!("volume-{name}")}},
                {"name": "v", "persistentVolumeClaim": {"claimName": format!("claim-{name}")}},
            ],
        },
    })
}

/// A server with nodes `a` and `b` and one pod on each, with all that they name.
async fn with_pods() -> Server {
    let server = start().await;
    let admin = server.admin();
    let made = async |path: &str, object: Value| {
        let (code, made) = post(&admin, path, &object).await;
        assert_eq!(code, 201, "{made}");
    };
    for name in ["a", "b"] {
        let own = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        made(NODES, own).await;
        for kind in ["pull", "env", "volume", "projected", "other"] {
            let meta = json!({"name": format!("{kind}-{name}")});
            made(SECRETS, json!({"apiVersion": "v1", "kind": "Secret", "metadata": meta})).await;
            made(CONFIG_MAPS, config_map(&format!("{kind}-{name}"), &json!({}))).await;
        }
        let meta = json!({"name": format!("of-{name}")});
        made(
            ACCOUNTS,
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}),
        )
        .await;
        made(
            CLAIMS,
            json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": format!("claim-{name}")},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }),
        )
        .await;
        made(PODS, pod(name, name)).await;
    }
    server
}

async fn code(client: &Client, path: &str) -> u16 {
    get(client, path).await.0
}

#[tokio::test(start_paused = true)]
async fn a_node_reads_what_its_pods_name_and_nothing_else() {
    let server = with_pods().await;
    let a = node(&server, "a");
    for name in ["pull-a", "env-a", "volume-a", "projected-a"] {
        assert_eq!(code(&a, &format!("{SECRETS}/{name}")).await, 200, "{name}");
        let selected = format!("{SECRETS}?fieldSelector=metadata.name%3D{name}");
        assert_eq!(code(&a, &selected).await, 200, "{name}");
    }
    for name in ["env-a", "volume-a", "projected-a"] {
        assert_eq!(code(&a, &format!("{CONFIG_MAPS}/{name}")).await, 200, "{name}");
    }
    // The server's authority belongs to every pod, by a volume that its node adds.
    let authority = config_map("kube-root-ca.crt", &json!({}));
    assert_eq!(post(&server.admin(), CONFIG_MAPS, &authority).await.0, 201);
    assert_eq!(code(&a, &format!("{CONFIG_MAPS}/kube-root-ca.crt")).await, 200);
    assert_eq!(
        code(&node(&server, "c"), &format!("{CONFIG_MAPS}/kube-root-ca.crt")).await,
        403
    );
    assert_eq!(code(&a, &format!("{CLAIMS}/claim-a")).await, 200);
    for path in [
        format!("{SECRETS}/other-a"),
        format!("{SECRETS}/volume-b"),
        format!("{SECRETS}?fieldSelector=metadata.name%3Dvolume-b"),
        SECRETS.to_owned(),
        "/api/v1/secrets".to_owned(),
        "/api/v1/secrets?fieldSelector=metadata.name%3Dvolume-a".to_owned(),
        format!("{CONFIG_MAPS}/pull-a"),
        format!("{CONFIG_MAPS}/volume-b"),
        CONFIG_MAPS.to_owned(),
        format!("{CLAIMS}/claim-b"),
        CLAIMS.to_owned(),
    ] {
        assert_eq!(code(&a, &path).await, 403, "{path}");
    }
    let (_, refused) = get(&a, &format!("{SECRETS}/volume-b")).await;
    assert_eq!(
        refused["message"],
        r#"secrets "volume-b" is forbidden: User "system:node:a" cannot get resource "secrets" in API group "" in the namespace "default": no relationship found between node 'a' and this object"#
    );
    // Without the pod the node has no access.
    let now = json!({"gracePeriodSeconds": 0});
    let gone = call(
        &server.admin(),
        Method::DELETE,
        &format!("{PODS}/a"),
        "application/json",
        now.to_string(),
    )
    .await;
    assert_eq!(gone.0, 200);
    assert_eq!(code(&a, &format!("{SECRETS}/volume-a")).await, 403);
    // The user name without the group is no node.
    let named = server.user("system:node:b", &[]);
    assert_eq!(code(&named, &format!("{SECRETS}/volume-b")).await, 403);
}

#[tokio::test(start_paused = true)]
async fn a_node_gets_tokens_bound_to_its_own_pods_alone() {
    let server = with_pods().await;
    let a = node(&server, "a");
    let uid = async |name: &str| get(&server.admin(), &format!("{PODS}/{name}")).await.1["metadata"]["uid"].clone();
    let (own, other) = (uid("a").await, uid("b").await);
    let request_token = async |account: &str, bound: Value| {
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"boundObjectRef": bound}});
        post(&a, &format!("{ACCOUNTS}/{account}/token"), &request).await
    };
    let bound = |name: &str, uid: &Value| json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid});
    let (code, issued) = request_token("of-a", bound("a", &own)).await;
    assert_eq!(code, 201, "{issued}");
    for (account, bound) in [
        ("of-a", Value::Null),
        ("of-a", json!({"apiVersion": "v1", "kind": "Pod", "name": "a"})),
        ("of-a", json!({"apiVersion": "v1", "kind": "Node", "name": "a"})),
        (
            "of-a",
            json!({"apiVersion": "v1", "kind": "Secret", "name": "volume-a"}),
        ),
        ("of-b", bound("b", &other)),
        ("of-b", bound("a", &own)),
        ("default", Value::Null),
    ] {
        let (code, refused) = request_token(account, bound.clone()).await;
        assert_eq!(code, 403, "{account} {bound}: {refused}");
    }
    // An account that both nodes' pods have is still bound to a pod of the requesting node.
    let mut second = pod("second", "a");
    second["spec"]["serviceAccountName"] = json!("of-b");
    assert_eq!(post(&server.admin(), PODS, &second).await.0, 201);
    let (code, refused) = request_token("of-b", bound("b", &other)).await;
    assert_eq!(code, 403, "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_node_lists_and_watches_its_own_pods() {
    let server = with_pods().await;
    let a = node(&server, "a");
    let (code_own, list) = get(&a, "/api/v1/pods?fieldSelector=spec.nodeName%3Da").await;
    assert_eq!((code_own, list["items"].as_array().map(Vec::len)), (200, Some(1)));
    assert_eq!(code(&a, &format!("{PODS}/a")).await, 200);
    for path in [
        "/api/v1/pods",
        PODS,
        "/api/v1/pods?fieldSelector=spec.nodeName%3Db",
        "/api/v1/pods?fieldSelector=spec.nodeName!%3Da",
        "/api/v1/pods?watch=1",
        "/api/v1/namespaces/default/pods/b",
        "/api/v1/nodes",
        "/api/v1/nodes/b",
    ] {
        assert_eq!(code(&a, path).await, 403, "{path}");
    }
    assert_eq!(code(&a, &format!("{NODES}/a")).await, 200);
    for path in [
        "/api/v1/services",
        "/apis/discovery.k8s.io/v1/endpointslices",
        "/api/v1/persistentvolumes",
    ] {
        assert_eq!(code(&a, path).await, 200, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_writes_its_own_objects_and_the_status_of_its_pods() {
    let server = with_pods().await;
    let a = node(&server, "a");
    let running = json!({"status": {"phase": "Running"}});
    let note = json!({"metadata": {"annotations": {"orangery.dev/simulated": "true"}}});
    assert_eq!(merge(&a, &format!("{PODS}/a/status"), &running).await.0, 200);
    assert_eq!(merge(&a, &format!("{PODS}/a"), &note).await.0, 200);
    assert_eq!(
        merge(
            &a,
            &format!("{NODES}/a/status"),
            &json!({"status": {"capacity": {"pods": "7"}}})
        )
        .await
        .0,
        200
    );
    for key in [
        "kubernetes.io/hostname",
        "worker.gardener.cloud/pool",
        "x.node.kubernetes.io/y",
        "plain",
    ] {
        assert_eq!(merge(&a, &format!("{NODES}/a"), &labels(key)).await.0, 200, "{key}");
    }
    assert_eq!(post(&a, LEASES, &lease("a")).await.0, 201);
    assert_eq!(
        merge(&a, &format!("{LEASES}/a"), &json!({"spec": {"holderIdentity": "a"}}))
            .await
            .0,
        200
    );
    assert_eq!(post(&a, &format!("{PODS}/a/eviction"), &eviction("a")).await.0, 201);
    assert_eq!(delete(&a, &format!("{PODS}/a")).await.0, 200);
}

fn eviction(pod: &str) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}})
}

fn lease(name: &str) -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}})
}

fn labels(key: &str) -> Value {
    json!({"metadata": {"labels": {key: "x"}}})
}

#[tokio::test(start_paused = true)]
async fn a_node_cannot_write_objects_of_others() {
    let server = with_pods().await;
    let a = node(&server, "a");
    let running = json!({"status": {"phase": "Running"}});
    let note = json!({"metadata": {"annotations": {"orangery.dev/simulated": "true"}}});
    let room = json!({"status": {"capacity": {"pods": "7"}}});
    let refused = [
        merge(&a, &format!("{PODS}/b/status"), &running).await,
        merge(&a, &format!("{PODS}/b"), &note).await,
        merge(&a, &format!("{PODS}/a"), &json!({"metadata": {"labels": {"app": "b"}}})).await,
        merge(
            &a,
            &format!("{PODS}/a"),
            &json!({"metadata": {"finalizers": ["example.org/x"]}}),
        )
        .await,
        delete(&a, &format!("{PODS}/b")).await,
        delete(&a, PODS).await,
        post(&a, &format!("{PODS}/b/eviction"), &eviction("b")).await,
        post(&a, PODS, &pod("new", "a")).await,
        merge(&a, &format!("{NODES}/b/status"), &room).await,
        merge(&a, &format!("{NODES}/b"), &labels("plain")).await,
        merge(
            &a,
            &format!("{NODES}/a"),
            &labels("node-restriction.kubernetes.io/team"),
        )
        .await,
        merge(
            &a,
            &format!("{NODES}/a"),
            &labels("node-role.kubernetes.io/control-plane"),
        )
        .await,
        merge(
            &a,
            &format!("{NODES}/a"),
            &json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}),
        )
        .await,
        delete(&a, &format!("{NODES}/a")).await,
        post(
            &a,
            NODES,
            &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "c"}}),
        )
        .await,
        post(&a, LEASES, &lease("b")).await,
        put(&a, &format!("{LEASES}/b"), &lease("b")).await,
        post(
            &a,
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            &lease("a"),
        )
        .await,
        post(
            &a,
            SECRETS,
            &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "new"}}),
        )
        .await,
        merge(&a, &format!("{SECRETS}/volume-a"), &json!({"data": {}})).await,
    ];
    for (index, (code, answer)) in refused.iter().enumerate() {
        assert_eq!(*code, 403, "request {index}: {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn reviews_of_a_node_match_the_answers_to_its_requests() {
    let server = with_pods().await;
    let review = async |name: &str| {
        let question = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": "system:node:a", "groups": ["system:nodes"],
                     "resourceAttributes": {"verb": "get", "resource": "secrets", "namespace": "default", "name": name}},
        });
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        post(&server.admin(), path, &question).await.1["status"]["allowed"].clone()
    };
    assert_eq!(review("volume-a").await, true);
    assert_eq!(review("volume-b").await, false);
    // Impersonating a node gives no more access.
    let request = Request::get(format!("{SECRETS}/volume-b"))
        .header("impersonate-user", "system:node:a")
        .header("impersonate-group", "system:nodes")
        .body(Vec::new())
        .unwrap();
    assert_eq!(send(&server.admin(), request).await.0, 403);
}

#[tokio::test(start_paused = true)]
async fn a_role_that_an_older_server_bound_to_all_nodes_is_unbound() {
    let store = MemoryStore::new();
    let build = || ApiServer::builder("test").store(store.clone()).build();
    let before = build().await.unwrap();
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/system:node";
    let subject = |name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": name});
    let subjects = json!({"subjects": [subject("system:nodes"), subject("own")]});
    assert_eq!(merge(&before.loopback_client(), path, &subjects).await.0, 200);
    before.shutdown().await;
    let after = build().await.unwrap();
    let (_, binding) = get(&after.loopback_client(), path).await;
    assert_eq!(binding["subjects"], json!([subject("own")]));
}
