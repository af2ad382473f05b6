//! Tables, metadata alone, discovery, OpenAPI: what clients request beside plain objects.

use http::Request;
use serde_json::{Value, json};

use crate::server::{CONFIG_MAPS, config_map, get, post, send, start};

fn accepting(path: &str, accept: &str) -> Request<Vec<u8>> {
    Request::get(path).header("accept", accept).body(Vec::new()).unwrap()
}

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

#[tokio::test(start_paused = true)]
async fn list_is_a_table_when_requested() {
    let server = start().await;
    let client = server.admin();
    post(&client, CONFIG_MAPS, &config_map("a", &json!({"k": "v", "l": "w"}))).await;
    tokio::time::sleep(std::time::Duration::from_secs(90)).await;
    let (code, table) = send(&client, accepting(CONFIG_MAPS, TABLE)).await;
    assert_eq!((code, &table["kind"]), (200, &json!("Table")), "{table}");
    let headings: Vec<&Value> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| &c["name"])
        .collect();
    assert_eq!(headings, ["Name", "Data", "Age"]);
    assert_eq!(table["rows"][0]["cells"], json!(["a", 2, "90s"]));
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let (_, one) = send(
        &client,
        accepting(&format!("{CONFIG_MAPS}/a?includeObject=Object"), TABLE),
    )
    .await;
    assert_eq!(one["rows"][0]["object"]["data"]["k"], "v");
}

#[tokio::test(start_paused = true)]
async fn metadata_alone_is_returned_when_requested() {
    let server = start().await;
    let client = server.admin();
    post(&client, CONFIG_MAPS, &config_map("a", &json!({"k": "v"}))).await;
    let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let (_, list) = send(&client, accepting(CONFIG_MAPS, accept)).await;
    assert_eq!(
        (&list["kind"], &list["items"][0]["kind"]),
        (&json!("PartialObjectMetadataList"), &json!("PartialObjectMetadata"))
    );
    assert!(list["items"][0].get("data").is_none());
    let (code, _) = send(&client, accepting(CONFIG_MAPS, "application/vnd.kubernetes.protobuf")).await;
    assert_eq!(code, 406);
}

#[tokio::test(start_paused = true)]
async fn separate_and_aggregated_discovery_agree() {
    let server = start().await;
    let client = server.admin();
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let (code, all) = send(&client, accepting("/apis", aggregated)).await;
    assert_eq!((code, &all["kind"]), (200, &json!("APIGroupDiscoveryList")));
    let apps = all["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|group| group["metadata"]["name"] == "apps")
        .unwrap();
    let (_, legacy) = get(&client, "/apis/apps/v1").await;
    for resource in apps["versions"][0]["resources"].as_array().unwrap() {
        let name = &resource["resource"];
        let old = legacy["resources"]
            .as_array()
            .unwrap()
            .iter()
            .find(|old| old["name"] == *name)
            .unwrap();
        assert_eq!(old["verbs"], resource["verbs"], "{name}");
    }
    let (_, core) = send(&client, accepting("/api", aggregated)).await;
    let pods = core["items"][0]["versions"][0]["resources"]
        .as_array()
        .unwrap()
        .iter()
        .find(|r| r["resource"] == "pods")
        .unwrap();
    assert_eq!(
        (&pods["shortNames"], &pods["scope"]),
        (&json!(["po"]), &json!("Namespaced"))
    );
    let (_, groups) = get(&client, "/apis").await;
    let names: Vec<&Value> = groups["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| &group["name"])
        .collect();
    assert!(
        names.contains(&&json!("authorization.k8s.io")) && !names.contains(&&json!("flowcontrol.apiserver.k8s.io"))
    );
}

#[tokio::test(start_paused = true)]
async fn every_entry_of_the_openapi_index_has_a_document() {
    let server = start().await;
    let client = server.admin();
    let (code, index) = get(&client, "/openapi/v3").await;
    assert_eq!(code, 200);
    for (path, entry) in index["paths"].as_object().unwrap() {
        let (code, document) = get(&client, entry["serverRelativeURL"].as_str().unwrap()).await;
        assert_eq!((code, &document["openapi"]), (200, &json!("3.0.0")), "{path}");
    }
    let (_, apps) = get(&client, "/openapi/v3/apis/apps/v1").await;
    let patch = &apps["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Deployment");
    let parameters = patch["parameters"].as_array().unwrap();
    assert!(
        parameters
            .iter()
            .any(|parameter| parameter["name"] == "fieldValidation"),
        "{parameters:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn missing_feature_is_reported_as_missing() {
    let server = start().await;
    let client = server.admin();
    let (code, refused) = get(&client, "/api/v1/namespaces/default/pods/p/resize").await;
    assert_eq!((code, &refused["reason"]), (501, &json!("NotImplemented")));
    assert_eq!(
        get(&client, "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas")
            .await
            .0,
        404
    );
    assert_eq!(get(&client, "/nowhere").await.0, 404);
    let (_, version) = get(&client, "/version").await;
    assert_eq!(
        (&version["gitVersion"], &version["minor"]),
        (&json!("v1.35.0"), &json!("35"))
    );
}

#[tokio::test(start_paused = true)]
async fn creating_a_kind_that_nothing_acts_on_returns_a_warning() {
    let server = start().await;
    let client = server.admin();
    let create = async |path: &str, object: Value| {
        let request = Request::post(path).body(object.to_string().into_bytes()).unwrap();
        let response = client.send(request.map(kube::client::Body::from)).await.unwrap();
        assert_eq!(response.status(), 201, "{path}");
        let warnings = response.headers().get_all("warning").iter();
        warnings
            .map(|warning| warning.to_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"limits.cpu": "1"}}});
    assert_eq!(
        create("/api/v1/namespaces/default/resourcequotas", quota).await,
        [
            "299 - \"of this ResourceQuota only a part counts here: numbers of objects are limited by it; what pods and claims ask for is not\""
        ]
    );
    let secret = |name: &str, type_: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "type": type_,
            "metadata": {"name": name, "annotations": {"kubernetes.io/service-account.name": "default"}}})
    };
    let secrets = "/api/v1/namespaces/default/secrets";
    let refused = create(secrets, secret("a", "kubernetes.io/service-account-token")).await;
    assert_eq!(
        refused,
        [
            "299 - \"a Secret of type kubernetes.io/service-account-token is stored, and nothing acts on it here: it gets no token; `kubectl create token` gives one\""
        ]
    );
    assert_eq!(create(secrets, secret("b", "Opaque")).await, [""; 0]);
    let policy = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "n"},
        "spec": {"podSelector": {}}});
    let path = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
    assert_eq!(create(path, policy).await, [""; 0]);
    let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
    let ingress = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "n"},
        "spec": {"defaultBackend": backend}});
    let path = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
    assert_eq!(create(path, ingress).await.len(), 1);
}
