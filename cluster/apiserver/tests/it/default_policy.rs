//! The access rules that a server starts with, over a store that another one has left.

use cluster_apiserver::ApiServer;
use cluster_store::MemoryStore;
use serde_json::{Value, json};

use crate::overtaken::{Other, Overtaken};
use crate::server::{call, delete, get, merge, post};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

async fn server(store: &MemoryStore) -> ApiServer {
    ApiServer::builder("test").store(store.clone()).build().await.unwrap()
}

fn own_rule() -> Value {
    json!({"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]})
}

#[tokio::test(start_paused = true)]
async fn defaults_get_back_what_they_lack_and_keep_what_users_have_added() {
    let store = MemoryStore::new();
    let before = server(&store).await;
    let client = before.loopback_client();
    let (role, binding) = (
        format!("{RBAC}/clusterroles/system:basic-user"),
        format!("{RBAC}/clusterrolebindings/system:basic-user"),
    );
    let (_, made) = get(&client, &role).await;
    let poor = json!({"metadata": {"labels": null, "annotations": null}, "rules": [own_rule(), made["rules"][0]]});
    assert_eq!(merge(&client, &role, &poor).await.0, 200);
    let own = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "own"});
    assert_eq!(merge(&client, &binding, &json!({"subjects": [own]})).await.0, 200);
    let selectors = json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"own": "true"}}]}});
    let admin = format!("{RBAC}/clusterroles/admin");
    assert_eq!(merge(&client, &admin, &selectors).await.0, 200);
    before.shutdown().await;

    let after = server(&store).await;
    let client = after.loopback_client();
    let (_, found) = get(&client, &role).await;
    assert_eq!(found["rules"], json!([own_rule(), made["rules"][0], made["rules"][1]]));
    assert_eq!(found["metadata"]["labels"], made["metadata"]["labels"]);
    assert_eq!(found["metadata"]["annotations"], made["metadata"]["annotations"]);
    let (_, found) = get(&client, &binding).await;
    let names = found["subjects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|subject| &subject["name"]);
    assert_eq!(names.collect::<Vec<_>>(), ["own", "system:authenticated"]);
    let (_, found) = get(&client, &admin).await;
    let selectors = found["aggregationRule"]["clusterRoleSelectors"].as_array().unwrap();
    assert_eq!(selectors.len(), 2, "{selectors:?}");
    let rights = json!({"spec": {"user": "somebody", "groups": ["system:authenticated"], "resourceAttributes":
        {"verb": "create", "group": "authorization.k8s.io", "resource": "selfsubjectaccessreviews"}}});
    let (_, review) = post(&client, "/apis/authorization.k8s.io/v1/subjectaccessreviews", &rights).await;
    assert_eq!(review["status"]["allowed"], true, "{review}");

    after.shutdown().await;
    let versions = async |server: &ApiServer| {
        let (_, roles) = get(&server.loopback_client(), &format!("{RBAC}/clusterroles")).await;
        let items = roles["items"].as_array().unwrap().clone();
        items
            .iter()
            .map(|role| role["metadata"]["resourceVersion"].clone())
            .collect::<Vec<_>>()
    };
    let settled = versions(&server(&store).await).await;
    assert_eq!(
        versions(&server(&store).await).await,
        settled,
        "what lacks nothing is not written"
    );
}

#[tokio::test(start_paused = true)]
async fn excluded_defaults_are_not_updated_and_bindings_to_other_roles_are_recreated() {
    let store = MemoryStore::new();
    let before = server(&store).await;
    let client = before.loopback_client();
    let role = format!("{RBAC}/clusterroles/system:discovery");
    let emptied = json!({"metadata": {"annotations": {AUTOUPDATE: "false"}}, "rules": [own_rule()]});
    assert_eq!(merge(&client, &role, &emptied).await.0, 200);
    let binding = format!("{RBAC}/clusterrolebindings/system:monitoring");
    let (_, mut other) = get(&client, &binding).await;
    assert_eq!(delete(&client, &binding).await.0, 200);
    other["roleRef"]["name"] = json!("cluster-admin");
    other["metadata"] = json!({"name": "system:monitoring"});
    let (code, made) = post(&client, &format!("{RBAC}/clusterrolebindings"), &other).await;
    assert_eq!(code, 201, "{made}");
    before.shutdown().await;

    let after = server(&store).await;
    let client = after.loopback_client();
    assert_eq!(get(&client, &role).await.1["rules"], json!([own_rule()]));
    let (_, found) = get(&client, &binding).await;
    assert_eq!(found["roleRef"]["name"], "system:monitoring");
    assert_ne!(found["metadata"]["uid"], made["metadata"]["uid"]);
    let (code, _) = call(&client, http::Method::GET, "/healthz", "application/json", Vec::new()).await;
    assert_eq!(code, 200);
}

#[tokio::test(start_paused = true)]
async fn the_group_of_all_nodes_is_unbound_unless_the_binding_is_excluded() {
    let store = MemoryStore::new();
    let path = format!("{RBAC}/clusterrolebindings/system:node");
    let nodes = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"});
    for (update, left) in [("false", 1), ("true", 0)] {
        let before = server(&store).await;
        let given = json!({"metadata": {"annotations": {AUTOUPDATE: update}}, "subjects": [nodes]});
        let (code, body) = merge(&before.loopback_client(), &path, &given).await;
        assert_eq!(code, 200, "{body}");
        before.shutdown().await;
        let after = server(&store).await;
        let (_, found) = get(&after.loopback_client(), &path).await;
        let subjects = found["subjects"].as_array().map_or(0, Vec::len);
        assert_eq!(subjects, left, "{update}: {found}");
        after.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_starts_while_another_one_writes_the_same_rules() {
    let store = MemoryStore::new();
    let before = server(&store).await;
    let client = before.loopback_client();
    let emptied = json!({"rules": []});
    for role in ["system:discovery", "system:basic-user"] {
        let path = format!("{RBAC}/clusterroles/{role}");
        assert_eq!(merge(&client, &path, &emptied).await.0, 200);
    }
    let nodes = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"});
    let binding = format!("{RBAC}/clusterrolebindings/system:node");
    assert_eq!(merge(&client, &binding, &json!({"subjects": [nodes]})).await.0, 200);
    before.shutdown().await;

    let overtaken = Overtaken::new(
        store,
        [
            ("system:discovery", Other::Deletes),
            ("system:basic-user", Other::Writes),
            ("system:node", Other::Writes),
        ],
    );
    let after = ApiServer::builder("test").store(overtaken.clone()).build().await;
    let client = after.expect("started").loopback_client();
    assert!(overtaken.is_over());
    for role in ["system:discovery", "system:basic-user"] {
        let (_, found) = get(&client, &format!("{RBAC}/clusterroles/{role}")).await;
        assert_ne!(found["rules"], json!([]), "{found}");
    }
    let (_, found) = get(&client, &binding).await;
    assert_eq!(found["subjects"].as_array().map_or(0, Vec::len), 0, "{found}");
    assert_eq!(found["metadata"]["labels"]["by"], "another");
}
