//! What a transcript asks of the API servers, and how kubectl prints it: paths, tables, references and refusals.

use http::{Method, Request, StatusCode};
use kube::client::Body;
use serde_json::Value;

use super::Cluster;

/// A column that is left out: it depends on how fast a machine is.
const AGE: &str = "Age";
/// Spaces between columns, as kubectl prints them.
const COLUMN_GAP: usize = 3;

/// The rows of a table as kubectl prints them, in the order of their names; nothing when there are none.
pub(super) fn printed(table: &Value, shown: impl Fn(&str) -> String) -> String {
    let columns = table["columnDefinitions"].as_array().cloned().unwrap_or_default();
    let has_place = |column: &Value| column["priority"].as_i64().unwrap_or_default() == 0 && column["name"] != AGE;
    let places: Vec<usize> = (0..columns.len()).filter(|&place| has_place(&columns[place])).collect();
    let mut rows: Vec<Vec<String>> = table["rows"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|row| places.iter().map(|&place| shown(&cell(&row["cells"][place]))).collect())
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    rows.sort();
    let heading = |&place: &usize| columns[place]["name"].as_str().unwrap_or_default().to_uppercase();
    rows.insert(0, places.iter().map(heading).collect());
    let width = |place: usize| rows.iter().map(|row| row[place].len()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..places.len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let padded = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<0$}", width + COLUMN_GAP));
        text.push_str(padded.collect::<String>().trim_end());
        text.push('\n');
    }
    text
}

/// Five characters that stand for random ones.
pub(super) fn suffix(of: &str) -> String {
    // FNV-1a: the same on every machine.
    let hash = of.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    format!("{hash:08x}")[..5].to_owned()
}

pub(super) async fn items(cluster: &Cluster, path: &str) -> Vec<Value> {
    let (code, list) = fetch(cluster, path, "application/json").await;
    assert!(code.is_success(), "{path}: {list}");
    list["items"].as_array().cloned().unwrap_or_default()
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "<none>".to_owned(),
        other => other.to_string(),
    }
}

pub(super) fn within(namespace: &str) -> String {
    match namespace {
        "" => String::new(),
        namespace => format!("-n {namespace} "),
    }
}

/// `kind.group/name` of an answer, as kubectl names objects.
pub(super) fn reference(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let group = match text("/apiVersion").split_once('/') {
        Some((group, _)) => format!(".{group}"),
        None => String::new(),
    };
    format!("{}{group}/{}", text("/kind").to_lowercase(), text("/metadata/name"))
}

pub(super) fn refusal(status: &Value) -> String {
    let text = |key: &str| status[key].as_str().unwrap_or_default();
    format!("Error from server ({}): {}\n", text("reason"), text("message"))
}

/// Where an object is written.
pub(super) fn path_of(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let plural = format!("{}s", text("/kind").to_lowercase());
    let (version, namespace) = (text("/apiVersion"), text("/metadata/namespace"));
    let root = if version.contains('/') { "/apis" } else { "/api" };
    let place = match namespace {
        "" => String::new(),
        namespace => format!("/namespaces/{namespace}"),
    };
    format!("{root}/{version}{place}/{plural}/{}", text("/metadata/name"))
}

/// Where the objects of a resource are; `namespace` is empty for those without, and for those of all.
pub(super) fn collection(namespace: &str, resource: &str) -> String {
    let root = match group_of(resource).trim_start_matches('.') {
        "" => "/api/v1".to_owned(),
        "apps" => "/apis/apps/v1".to_owned(),
        // kubectl takes the newest version of a group that has the resource.
        group @ "core.gardener.cloud" if resource != "controllerdeployments" => format!("/apis/{group}/v1beta1"),
        group @ ("extensions.gardener.cloud" | "resources.gardener.cloud") => format!("/apis/{group}/v1alpha1"),
        group => format!("/apis/{group}/v1"),
    };
    match namespace {
        "" => format!("{root}/{resource}"),
        namespace => format!("{root}/namespaces/{namespace}/{resource}"),
    }
}

/// `.group` of a resource that a command names without it.
pub(super) fn group_of(resource: &str) -> &'static str {
    match resource {
        "deployments" => ".apps",
        "controllerdeployments"
        | "controllerinstallations"
        | "controllerregistrations"
        | "namespacedcloudprofiles"
        | "projects"
        | "seeds"
        | "shoots" => ".core.gardener.cloud",
        "extensions" | "operatingsystemconfigs" => ".extensions.gardener.cloud",
        "managedresources" => ".resources.gardener.cloud",
        "clusterroles" | "clusterrolebindings" => ".rbac.authorization.k8s.io",
        _ => "",
    }
}

pub(super) fn singular(resource: &str) -> &str {
    resource.strip_suffix('s').unwrap_or(resource)
}

pub(super) async fn fetch(cluster: &Cluster, path: &str, accept: &str) -> (StatusCode, Value) {
    let request = Request::get(path).header("accept", accept).body(Body::empty()).unwrap();
    answer(cluster, request).await
}

pub(super) async fn send(
    cluster: &Cluster,
    method: Method,
    path: &str,
    media: &str,
    body: &Value,
) -> (StatusCode, Value) {
    let bytes = match body {
        Value::Null => Vec::new(),
        body => serde_json::to_vec(body).unwrap(),
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media);
    let request = request
        .header("accept", "application/json")
        .body(Body::from(bytes))
        .unwrap();
    answer(cluster, request).await
}

async fn answer(cluster: &Cluster, mut request: Request<Body>) -> (StatusCode, Value) {
    if let Some(user) = &cluster.user {
        request.headers_mut().insert("impersonate-user", user.parse().unwrap());
    }
    let response = cluster.client.send(request).await.unwrap();
    let code = response.status();
    let bytes = response.into_body().collect_bytes().await.unwrap();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_is_printed_as_kubectl_prints_it() {
        let table = json!({
            "columnDefinitions": [{"name": "Name", "priority": 0}, {"name": "Wide", "priority": 1},
                {"name": "Ready", "priority": 0}, {"name": "Age", "priority": 0}],
            "rows": [{"cells": ["a", "x", true, "1s"]}, {"cells": ["longer", "x", null, "2s"]}],
        });
        assert_eq!(
            printed(&table, str::to_owned),
            "NAME     READY\na        true\nlonger   <none>\n"
        );
        assert_eq!(
            printed(&json!({"columnDefinitions": [], "rows": []}), str::to_owned),
            ""
        );
    }

    #[test]
    fn objects_are_found_by_their_kind_and_resources_by_their_name() {
        let object =
            json!({"apiVersion": "core.gardener.cloud/v1", "kind": "ControllerDeployment", "metadata": {"name": "a"}});
        assert_eq!(path_of(&object), "/apis/core.gardener.cloud/v1/controllerdeployments/a");
        assert_eq!(reference(&object), "controllerdeployment.core.gardener.cloud/a");
        assert_eq!(collection("n", "secrets"), "/api/v1/namespaces/n/secrets");
        assert_eq!(
            collection("", "managedresources"),
            "/apis/resources.gardener.cloud/v1alpha1/managedresources"
        );
    }
}
