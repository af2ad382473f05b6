//! `/openapi/v3`: an index with hashes and one document per group and version. Built-in groups come as Kubernetes
//! publishes them; other kinds are described here. kubectl reads from it whether PATCH takes `fieldValidation`.
//! `/openapi/v2` exists for clients that require it, and describes no kind.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use cluster_access::{CONFIGURATION_PATH, KEYS_PATH};
use http::{HeaderMap, StatusCode, header};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::discovery::documents::{group_names, served_in, version_names};
use crate::kinds::registry::{Kinds, Role, Served};
use crate::state::server_state::ServerState;
use crate::wire::answer::Answer;
use crate::wire::negotiation::JSON;
use crate::wire::status::Status;

/// The media type of the index, which Go detects in kube-apiserver.
const INDEX_MEDIA_TYPE: &str = "text/plain; charset=utf-8";
/// The media type that kubectl requests of `/openapi/v2`.
const V2_MEDIA_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// A Document of gnostic's openapiv2 without paths: swagger (1) is "2.0", info (2) has title (1) and version (2),
/// paths (8) are empty. Every field is a tag, a length and so many bytes.
const V2_DOCUMENT: &[u8] = b"\x0a\x032.0\x12\x10\x0a\x0aKubernetes\x12\x02v1\x42\x00";

/// The document of version 2. kubectl reads it when it cannot find a kind by version 3, does not validate a kind that it
/// lacks, and then reports that no such kind is served.
/// A server in front reads it as JSON and adds it to its own.
pub(crate) fn v2_document(headers: &HeaderMap) -> Answer {
    let accept = headers.get_all(header::ACCEPT).iter();
    let mut accept = accept.filter_map(|value| value.to_str().ok());
    if accept.next().is_some_and(|first| first.starts_with(JSON)) {
        let info = json!({"title": "Kubernetes", "version": "v1"});
        return Answer::value(StatusCode::OK, &json!({"swagger": "2.0", "info": info, "paths": {}}));
    }
    Answer::typed(StatusCode::OK, V2_MEDIA_TYPE, V2_DOCUMENT)
}

pub(crate) fn answer(server: &Arc<ServerState>, rest: &[&str]) -> Result<Answer, Status> {
    let kinds = server.registry.snapshot();
    let issues = server.access.issuer.is_some();
    match rest {
        [] => {
            let own = kinds
                .documents
                .openapi_index
                .get_or_init(|| index(&kinds, issues))
                .clone();
            Ok(Answer::typed(
                StatusCode::OK,
                INDEX_MEDIA_TYPE,
                with_others(server, own),
            ))
        }
        ["api", version] => document(&kinds, "", version),
        ["apis", group, version] => document(&kinds, group, version),
        path => Ok(
            match roots(&kinds, issues).find(|(root, _)| root.split('/').eq(path.iter().copied())) {
                Some((_, document)) => Answer::json(StatusCode::OK, document.get()),
                None => not_found(),
            },
        ),
    }
}

/// The documents of groups and of paths outside of all groups. `issues`: whether the server publishes the documents of its token
/// issuer.
fn roots(kinds: &Kinds, issues: bool) -> impl Iterator<Item = (&'static String, &'static RawValue)> {
    let groups = group_names(kinds);
    let published = [CONFIGURATION_PATH, KEYS_PATH].map(|path| path.strip_prefix('/'));
    let served = move |path: &str| match path.strip_prefix("apis/") {
        Some(group) => groups.iter().any(|name| name == group),
        None if published.contains(&Some(path)) => issues,
        None => true,
    };
    let all = cluster_builtin::openapi_roots().iter();
    all.filter(move |(path, _)| served(path))
        .map(|(path, document)| (path, &**document))
}

/// The response for a document that does not exist: without a body, as from kube-apiserver.
fn not_found() -> Answer {
    Answer::typed(StatusCode::NOT_FOUND, "", Bytes::new())
}

fn document(kinds: &Kinds, group: &str, version: &str) -> Result<Answer, Status> {
    if !version_names(kinds, group).iter().any(|known| known == version) {
        return Ok(not_found());
    }
    let key = format!("{group}/{version}");
    let mut made = kinds.documents.openapi.lock().unwrap_or_else(PoisonError::into_inner);
    let bytes = made
        .entry(key)
        .or_insert_with(|| Bytes::from(build(kinds, group, version).to_string()))
        .clone();
    Ok(Answer::json(StatusCode::OK, bytes))
}

/// The index. A hash covers what the document is made of, not the document, so that a request for the index builds none.
fn index(kinds: &Kinds, issues: bool) -> Bytes {
    let mut paths = Map::new();
    for group in group_names(kinds) {
        for version in version_names(kinds, &group) {
            let path = if group.is_empty() {
                format!("api/{version}")
            } else {
                format!("apis/{group}/{version}")
            };
            let mut digest = Sha256::new();
            for served in served_in(kinds, &group, &version) {
                digest.update(format!("{:?}", served.info()));
                if let Some(openapi) = served.kind.openapi(&version) {
                    digest.update(openapi.to_string());
                }
            }
            paths.insert(path.clone(), entry(&path, digest));
        }
    }
    for (path, document) in roots(kinds, issues) {
        paths.insert(path.clone(), entry(path, Sha256::new().chain_update(document.get())));
    }
    Bytes::from(json!({"paths": paths}).to_string())
}

fn entry(path: &str, digest: Sha256) -> Value {
    let hash: String = digest.finalize().iter().map(|byte| format!("{byte:02X}")).collect();
    json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")})
}

/// The index with what other servers describe of their versions.
fn with_others(server: &ServerState, own: Bytes) -> Bytes {
    let routes = server.aggregation.routes();
    if routes.is_empty() {
        return own;
    }
    let mut index: Value = serde_json::from_slice(&own).unwrap_or_default();
    for ((group, version), route) in routes.iter() {
        let path = match group.as_str() {
            "" => format!("api/{version}"),
            group => format!("apis/{group}/{version}"),
        };
        match (index["paths"].as_object_mut(), route.backend.documents().openapi) {
            (Some(paths), Some(entry)) => drop(paths.insert(path, entry)),
            (Some(paths), None) => drop(paths.remove(&path)),
            (None, _) => {}
        }
    }
    Bytes::from(index.to_string())
}

fn build(kinds: &Kinds, group: &str, version: &str) -> Value {
    let published = cluster_builtin::openapi_v3(group, version);
    if let Some(document) = published.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok()) {
        if document
            .get("paths")
            .is_some_and(|paths| paths.as_object().is_some_and(|paths| !paths.is_empty()))
        {
            return document;
        }
        return describe(kinds, group, version, document);
    }
    describe(kinds, group, version, json!({}))
}

fn describe(kinds: &Kinds, group: &str, version: &str, mut document: Value) -> Value {
    let mut paths: BTreeMap<String, Value> = BTreeMap::new();
    let common = Common::published();
    let mut schemas = common.schemas.clone();
    for served in served_in(kinds, group, version) {
        let name = schema_name(group, version, &served.info().kind);
        schemas.insert(name.clone(), schema(served, version, &common));
        add_paths(&mut paths, served, group, version, &name);
    }
    if let Some(published) = document.pointer("/components/schemas").and_then(Value::as_object) {
        schemas.extend(published.clone());
    }
    document["openapi"] = json!("3.0.0");
    document["info"] = json!({"title": "Kubernetes", "version": "v1"});
    document["paths"] = json!(paths);
    document["components"] = json!({"schemas": schemas});
    document
}

/// `io.gardener.core.v1beta1.Shoot`: the group's parts in reverse order.
fn schema_name(group: &str, version: &str, kind: &str) -> String {
    let mut parts: Vec<&str> = group.split('.').filter(|part| !part.is_empty()).collect();
    parts.reverse();
    parts.extend([version, kind]);
    parts.join(".")
}

fn group_version_kind(served: &Served, version: &str) -> Value {
    json!({"group": served.group(), "version": version, "kind": served.info().kind})
}

/// The fields of every object, as Kubernetes publishes them for a kind of its own.
struct Common {
    /// `apiVersion`, `kind`, `metadata`.
    fields: Map<String, Value>,
    /// The schema that `metadata` refers to, and those that it refers to.
    schemas: Map<String, Value>,
}

impl Common {
    /// Read from a small document.
    fn published() -> Self {
        let bytes = cluster_builtin::openapi_v3("scheduling.k8s.io", "v1");
        let document: Value = bytes
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default();
        let field = |name: &str| {
            let field = document.pointer(&format!(
                "/components/schemas/io.k8s.api.scheduling.v1.PriorityClass/properties/{name}"
            ));
            (name.to_owned(), field.cloned().unwrap_or_else(|| json!({})))
        };
        let fields = Map::from_iter(["apiVersion", "kind", "metadata"].map(field));
        let mut schemas = Map::new();
        let mut wanted = references(&json!(fields));
        while let Some(name) = wanted.pop() {
            let schema = document.pointer(&format!("/components/schemas/{name}"));
            if let Some(schema) = schema.filter(|_| !schemas.contains_key(&name)) {
                wanted.extend(references(schema));
                schemas.insert(name, schema.clone());
            }
        }
        Self { fields, schemas }
    }
}

/// The schemas that one refers to.
fn references(schema: &Value) -> Vec<String> {
    match schema {
        Value::Object(fields) => {
            let own = fields.get("$ref").and_then(Value::as_str);
            let own = own.and_then(|path| path.rsplit('/').next()).map(str::to_owned);
            own.into_iter().chain(fields.values().flat_map(references)).collect()
        }
        Value::Array(items) => items.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}

fn schema(served: &Served, version: &str, common: &Common) -> Value {
    let open = || json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut schema = served.kind.openapi(version).unwrap_or_else(open);
    if let Some(fields) = schema.as_object_mut() {
        fields.insert(
            "x-kubernetes-group-version-kind".to_owned(),
            json!([group_version_kind(served, version)]),
        );
        let properties = fields.entry("properties").or_insert_with(|| json!({}));
        if let Some(properties) = properties.as_object_mut() {
            // The schemas that a definition has for them only restrict names.
            properties.extend(common.fields.clone());
        }
    }
    schema
}

/// Media types of patches. kubectl sends a strategic merge patch to every kind that lists it, and custom resources refuse it.
fn patch_media_types(served: &Served) -> Vec<&'static str> {
    let mut media_types = vec![
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
    ];
    if served.role != Role::Custom {
        media_types.push("application/strategic-merge-patch+json");
    }
    media_types
}

fn add_paths(paths: &mut BTreeMap<String, Value>, served: &Served, group: &str, version: &str, schema: &str) {
    let root = if group.is_empty() {
        format!("/api/{version}")
    } else {
        format!("/apis/{group}/{version}")
    };
    let scope = if served.info().namespaced {
        "/namespaces/{namespace}"
    } else {
        ""
    };
    let collection = format!("{root}{scope}/{}", served.plural());
    let reference = json!({"$ref": format!("#/components/schemas/{schema}")});
    let content = |media: &[&str]| {
        let entries: Map<String, Value> = media
            .iter()
            .map(|media| ((*media).to_owned(), json!({"schema": reference})))
            .collect();
        Value::Object(entries)
    };
    let operation = |action: &str, body: Option<Value>, write: bool| {
        let parameters: &[&str] = if write {
            &["dryRun", "fieldManager", "fieldValidation"]
        } else {
            &[]
        };
        let parameters: Vec<Value> = parameters
            .iter()
            .map(|name| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}}))
            .collect();
        let mut operation = json!({
            "parameters": parameters,
            "responses": {"200": {"description": "OK", "content": content(&["application/json"])}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": group_version_kind(served, version),
        });
        if let Some(body) = body {
            operation["requestBody"] = json!({"content": body});
        }
        operation
    };
    let json_body = || Some(content(&["application/json"]));
    let patches = patch_media_types(served);
    paths.insert(
        collection.clone(),
        json!({"get": operation("list", None, false), "post": operation("post", json_body(), true), "delete": operation("deletecollection", None, false)}),
    );
    paths.insert(
        format!("{collection}/{{name}}"),
        json!({
            "get": operation("get", None, false), "put": operation("put", json_body(), true),
            "patch": operation("patch", Some(content(&patches)), true), "delete": operation("delete", None, false),
        }),
    );
    if served.info().has_status(version) {
        paths.insert(
            format!("{collection}/{{name}}/status"),
            json!({
                "get": operation("get", None, false), "put": operation("put", json_body(), true),
                "patch": operation("patch", Some(content(&patches)), true),
            }),
        );
    }
}
