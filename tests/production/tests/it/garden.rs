//! The garden's API through a real kube-apiserver: by people with rights by RBAC alone, and by kubectl.

use http::Method;
use serde_json::{Value, json};
use tests_conformance::real::Options;
use tests_production::garden::{Garden, Replica, call, call_with, create, text};
use tests_production::objects::{
    CORE, NAMESPACE, SECURITY, binding, profile, project, registration, secret, seed, shoot,
};

const OPERATOR: &str = "olga";

/// A garden with a replica that Kubernetes leads to, and an operator who may do everything with its kinds, by RBAC.
pub(crate) async fn running(options: Options) -> (Garden, Replica, kube::Client) {
    let garden = Garden::start(options).await;
    let replica = garden.replica("first", &["--cluster-identity=test"]).await;
    garden.publish(replica.port).await;
    let operator = operator(&garden).await;
    (garden, replica, operator)
}

/// The operator, with rights.
pub(crate) async fn operator(garden: &Garden) -> kube::Client {
    let rules = json!([
        {"apiGroups": ["core.gardener.cloud", "security.gardener.cloud", "operations.gardener.cloud",
            "seedmanagement.gardener.cloud"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["namespaces", "secrets", "configmaps"], "verbs": ["*"]},
    ]);
    grant(garden, OPERATOR, rules).await;
    garden.user(OPERATOR, &[])
}

/// Gives a user these rights everywhere.
async fn grant(garden: &Garden, user: &str, rules: Value) {
    const RBAC: &str = "rbac.authorization.k8s.io";
    let role =
        json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": {"name": user}, "rules": rules});
    let bound = json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": user},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": user},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}]});
    for object in [role, bound] {
        let (code, answer) = create(&garden.admin, &object).await;
        assert_eq!(code, 201, "{answer}");
    }
}

/// Creates objects that must be taken.
pub(crate) async fn create_all(client: &kube::Client, objects: impl IntoIterator<Item = Value>) {
    for object in objects {
        let (code, answer) = create(client, &object).await;
        assert_eq!(code, 201, "{object}: {answer}");
    }
}

/// A project with all that a Shoot in it needs.
pub(crate) async fn landscape(operator: &kube::Client) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": {"project.gardener.cloud/name": "p"}}});
    let all = [
        registration(),
        namespace,
        project(),
        profile(),
        seed(),
        secret("c"),
        binding("b", "c"),
    ];
    create_all(operator, all).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_with_rights_by_rbac_alone_make_shoots_and_others_are_refused() {
    let (garden, replica, operator) = running(Options::default()).await;
    landscape(&operator).await;
    let (code, made) = create(&operator, &shoot("s")).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(made["metadata"]["annotations"]["gardener.cloud/created-by"], OPERATOR);
    assert_eq!(made["spec"]["kubernetes"]["version"], "1.35.0");

    // The identity was written where Gardener's components look for it.
    let path = "/api/v1/namespaces/kube-system/configmaps/cluster-identity";
    let (_, identity) = call(&operator, Method::GET, path, &Value::Null).await;
    assert_eq!(
        identity["data"],
        json!({"cluster-identity": "test", "origin": "gardener-apiserver"})
    );

    strangers_are_refused(&garden, &replica).await;
    nothing_else_is_served(&garden, &replica).await;
}

async fn strangers_are_refused(garden: &Garden, replica: &Replica) {
    let stranger = garden.user("stranger", &[]);
    let shoots = format!("{CORE}/namespaces/{NAMESPACE}/shoots");
    let (code, refusal) = call(&stranger, Method::GET, &shoots, &Value::Null).await;
    assert_eq!(code, 403, "{refusal}");
    assert!(
        refusal["message"].as_str().unwrap().contains("\"stranger\""),
        "{refusal}"
    );
    assert_eq!(create(&stranger, &shoot("t")).await.0, 403);

    // Straight to the replica: headers without the certificate of a front proxy name no user.
    let root = [("x-remote-user", "root"), ("x-remote-group", "system:masters")];
    let anonymous = replica.anonymous();
    let (code, refusal) = call_with(&anonymous, Method::GET, &shoots, &root, &Value::Null).await;
    assert_eq!(code, 403, "{refusal}");
    assert!(
        refusal["message"].as_str().unwrap().contains("system:anonymous"),
        "{refusal}"
    );
    let certified = replica.client(&credentials(garden, "stranger"));
    let (code, refusal) = call_with(&certified, Method::GET, &shoots, &root, &Value::Null).await;
    assert_eq!(code, 403, "{refusal}");
    assert!(
        refusal["message"].as_str().unwrap().contains("\"stranger\""),
        "{refusal}"
    );
    let unknown = replica.client(&json!({"token": "nobody's"}));
    let (code, _) = call_with(&unknown, Method::GET, &shoots, &root, &Value::Null).await;
    assert_eq!(code, 401);
    // Its own certificate of Kubernetes' authority and its token are good there as well.
    let certified = replica.client(&credentials(garden, OPERATOR));
    assert_eq!(call(&certified, Method::GET, &shoots, &Value::Null).await.0, 200);
    let token = garden.kubectl("admin", &["create", "token", "garden-apiserver", "-n", "garden"], "");
    let account = replica.client(&json!({"token": token.trim()}));
    let (code, refusal) = call(&account, Method::GET, &shoots, &Value::Null).await;
    assert_eq!(code, 403, "{refusal}");
    assert!(
        refusal["message"]
            .as_str()
            .unwrap()
            .contains("system:serviceaccount:garden:garden-apiserver"),
        "{refusal}"
    );
}

async fn nothing_else_is_served(garden: &Garden, replica: &Replica) {
    let anonymous = replica.anonymous();
    for path in [
        "/api",
        "/api/v1/secrets",
        "/apis/apps/v1/deployments",
        "/apis/authorization.k8s.io/v1",
    ] {
        let admin = replica.client(&credentials(garden, "admin"));
        assert_eq!(call(&admin, Method::GET, path, &Value::Null).await.0, 404, "{path}");
    }
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(text(&anonymous, path).await, (200, "ok".to_owned()));
    }
    assert_eq!(text(&anonymous, "/metrics").await.0, 403);
    let admin = replica.client(&credentials(garden, "admin"));
    let (code, metrics) = text(&admin, "/metrics").await;
    assert_eq!(code, 200);
    assert!(
        metrics.contains("apiserver_storage_objects{resource=\"shoots.core.gardener.cloud\"} 1"),
        "{metrics}"
    );
}

/// The credentials in a user's kubeconfig.
pub(crate) fn credentials(garden: &Garden, user: &str) -> Value {
    let text = std::fs::read_to_string(garden.path(&format!("{user}.kubeconfig"))).unwrap();
    let kubeconfig: Value = base_yaml::read_strict(&text).unwrap();
    kubeconfig["users"][0]["user"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_lists_explains_and_prints_the_kinds_of_the_garden() {
    let (garden, _replica, operator) = running(Options::default()).await;
    landscape(&operator).await;
    create_all(&operator, [shoot("s")]).await;
    let kubectl = |words: &[&str]| garden.kubectl(OPERATOR, words, "");

    let listed = kubectl(&["api-resources", "--api-group=core.gardener.cloud", "-o", "name"]);
    for kind in [
        "shoots",
        "seeds",
        "projects",
        "cloudprofiles",
        "controllerinstallations",
        "internalsecrets",
    ] {
        assert!(listed.contains(&format!("{kind}.core.gardener.cloud\n")), "{listed}");
    }
    let listed = kubectl(&["api-resources", "--api-group=security.gardener.cloud"]);
    assert!(
        listed.contains("credentialsbindings") && listed.contains("cb"),
        "{listed}"
    );
    let versions = kubectl(&["api-versions"]);
    assert!(versions.contains("core.gardener.cloud/v1\n") && versions.contains("core.gardener.cloud/v1beta1\n"));

    // Kubernetes reads what is to be explained some time after it has found a group.
    until_described(&operator).await;
    let explained = kubectl(&["explain", "shoot.spec"]);
    assert!(
        explained.contains("provider") && explained.contains("KIND:       Shoot"),
        "{explained}"
    );
    let wide = kubectl(&["get", "shoots", "-A", "-o", "wide"]);
    let heading = wide.lines().next().unwrap();
    assert!(
        heading.contains("CLOUDPROFILE") && heading.contains("K8S VERSION"),
        "{wide}"
    );
    assert!(wide.contains("<pending>"), "{wide}");

    changes_by_kubectl(&garden);
}

fn changes_by_kubectl(garden: &Garden) {
    let kubectl = |words: &[&str]| garden.kubectl(OPERATOR, words, "");
    // Strict validation happens here, as kubectl asks for it.
    let mut unknown = shoot("t");
    unknown["spec"]["bogus"] = json!(1);
    let refused = garden.try_kubectl(
        OPERATOR,
        &["create", "--validate=strict", "-f", "-"],
        &unknown.to_string(),
    );
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && why.contains("bogus"), "{why}");
    kubectl(&[
        "patch",
        "shoot",
        "s",
        "-n",
        NAMESPACE,
        "--type=merge",
        "-p",
        r#"{"spec":{"purpose":"development"}}"#,
    ]);
    let purpose = kubectl(&["get", "shoot", "s", "-n", NAMESPACE, "-o", "jsonpath={.spec.purpose}"]);
    assert_eq!(purpose, "development");
    let applied = json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot",
        "metadata": {"name": "s", "namespace": NAMESPACE, "labels": {"team": "a"}}});
    garden.kubectl(
        OPERATOR,
        &["apply", "--server-side", "--field-manager=test", "-f", "-"],
        &applied.to_string(),
    );
    let selected = kubectl(&["get", "shoots", "-A", "-l", "team=a", "-o", "name"]);
    assert_eq!(selected.trim(), "shoot.core.gardener.cloud/s");
    let bindings = kubectl(&[
        "get",
        "--raw",
        &format!("{SECURITY}/namespaces/{NAMESPACE}/credentialsbindings"),
    ]);
    assert!(bindings.contains("CredentialsBindingList"), "{bindings}");
    // As others, where RBAC lets them.
    let may = garden.try_kubectl(
        "admin",
        &["auth", "can-i", "create", "shoots", "-n", NAMESPACE, "--as=stranger"],
        "",
    );
    assert!(!may.status.success());
    let read = garden.try_kubectl("admin", &["get", "shoots", "-n", NAMESPACE, "--as=stranger"], "");
    assert!(String::from_utf8_lossy(&read.stderr).contains("forbidden"));
}

async fn until_described(operator: &kube::Client) {
    let begun = std::time::Instant::now();
    loop {
        let (code, index) = text(operator, "/openapi/v3").await;
        if code == 200 && index.contains("apis/core.gardener.cloud/v1beta1") {
            return;
        }
        assert!(begun.elapsed() < tests_production::PATIENCE, "{code} {index}");
        tokio::time::sleep(tests_production::LOOK_PAUSE).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_namespaces_are_emptied_of_the_kinds_of_the_garden() {
    let (garden, _replica, operator) = running(Options {
        controllers: true,
        ..Options::default()
    })
    .await;
    landscape(&operator).await;
    create_all(
        &operator,
        [
            json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "InternalSecret",
                "metadata": {"name": "i", "namespace": NAMESPACE}}),
            shoot("s"),
        ],
    )
    .await;
    // A ConfigMap that belongs to the Shoot goes with it.
    let path = format!("{CORE}/namespaces/{NAMESPACE}/shoots/s");
    let (_, found) = call(&operator, Method::GET, &path, &Value::Null).await;
    let owner = json!([{"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot", "name": "s",
        "uid": found["metadata"]["uid"]}]);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "owned", "namespace": NAMESPACE, "ownerReferences": owner}});
    create_all(&operator, [map]).await;
    let confirmed = json!({"metadata": {"annotations": {"confirmation.gardener.cloud/deletion": "true"}}});
    assert_eq!(call(&operator, Method::PATCH, &path, &confirmed).await.0, 200);
    assert_eq!(call(&operator, Method::DELETE, &path, &Value::Null).await.0, 200);
    garden.kubectl(
        OPERATOR,
        &[
            "wait",
            "--for=delete",
            "configmap/owned",
            "-n",
            NAMESPACE,
            "--timeout=120s",
        ],
        "",
    );
    garden.kubectl(OPERATOR, &["delete", "namespace", NAMESPACE, "--timeout=120s"], "");
    let internal = format!("{CORE}/internalsecrets");
    let (code, left) = call(&operator, Method::GET, &internal, &Value::Null).await;
    assert_eq!((code, left["items"].as_array().map(Vec::len)), (200, Some(0)), "{left}");
    // A namespace that was there a moment ago takes nothing.
    let (code, refusal) = create(&operator, &tests_production::objects::internal_secret("late")).await;
    assert_eq!(code, 404, "{refusal}");
}
