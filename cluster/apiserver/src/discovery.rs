//! `/api` and `/apis`: which groups, versions and resources there are, in the old form and as one aggregated document.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/endpoints/discovery)

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::answer::Answer;
use crate::connect::Connect;
use crate::registry::{Kinds, Role, Served};
use crate::resource::{Form, Subresource};
use crate::reviews::Review;
use crate::server::Inner;
use crate::status::Status;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

pub(crate) fn answer(server: &Arc<Inner>, segments: &[&str], headers: &HeaderMap) -> Result<Answer, Status> {
    let kinds = server.registry.snapshot();
    match segments {
        ["api"] if wants_aggregated(headers) => {
            let bytes = kinds
                .documents
                .aggregated_core
                .get_or_init(|| aggregated(&kinds, |group| group.is_empty()));
            Ok(Answer::typed(StatusCode::OK, AGGREGATED, bytes.clone()).public())
        }
        ["apis"] if wants_aggregated(headers) => {
            let bytes = kinds
                .documents
                .aggregated_groups
                .get_or_init(|| aggregated(&kinds, |group| !group.is_empty()));
            Ok(Answer::typed(StatusCode::OK, AGGREGATED, bytes.clone()).public())
        }
        ["api"] => Ok(Answer::value(
            StatusCode::OK,
            &json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}),
        )),
        ["apis"] => {
            let groups: Vec<Value> = group_names(&kinds)
                .iter()
                .filter(|group| !group.is_empty())
                .map(|group| api_group(&kinds, group))
                .collect();
            Ok(Answer::value(
                StatusCode::OK,
                &json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}),
            ))
        }
        ["api", version] => resources(&kinds, "", version),
        ["apis", group] if group_names(&kinds).iter().any(|known| known == group) => {
            let mut body = api_group(&kinds, group);
            body["kind"] = json!("APIGroup");
            body["apiVersion"] = json!("v1");
            Ok(Answer::value(StatusCode::OK, &body))
        }
        ["apis", group, version] => resources(&kinds, group, version),
        ["apis", group, ..] => Err(kinds.nowhere(group)),
        _ => Err(Status::no_such_resource()),
    }
}

fn wants_aggregated(headers: &HeaderMap) -> bool {
    let accept = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok());
    accept.flat_map(|value| value.split(',')).any(|range| {
        let mut parts = range.split(';').map(str::trim);
        parts.next() == Some("application/json") && {
            let parameters: Vec<&str> = parts.collect();
            ["g=apidiscovery.k8s.io", "v=v2", "as=APIGroupDiscoveryList"]
                .iter()
                .all(|p| parameters.contains(p))
        }
    })
}

/// Groups of stored kinds and of reviews, by name; core is the empty one.
pub(crate) fn group_names(kinds: &Kinds) -> Vec<String> {
    let mut names: Vec<String> = kinds.groups().map(|(group, _)| group.to_owned()).collect();
    for review in Review::ALL {
        if !names.iter().any(|name| name == review.group()) {
            names.push(review.group().to_owned());
        }
    }
    names.sort();
    names
}

/// Versions of a group, preferred first.
pub(crate) fn version_names(kinds: &Kinds, group: &str) -> Vec<String> {
    let mut versions = kinds.versions(group);
    if versions.is_empty() && Review::ALL.iter().any(|review| review.group() == group) {
        versions.push("v1".to_owned());
    }
    versions
}

fn api_group(kinds: &Kinds, group: &str) -> Value {
    let versions: Vec<Value> = version_names(kinds, group)
        .iter()
        .map(|version| json!({"groupVersion": format!("{group}/{version}"), "version": version}))
        .collect();
    json!({"name": group, "versions": versions, "preferredVersion": versions.first()})
}

fn resources(kinds: &Kinds, group: &str, version: &str) -> Result<Answer, Status> {
    if !version_names(kinds, group).iter().any(|known| known == version) {
        return Err(kinds.nowhere(group));
    }
    let mut list = Vec::new();
    for served in served_in(kinds, group, version) {
        let info = served.info();
        list.push(json!({
            "name": info.plural, "singularName": info.singular, "namespaced": info.namespaced, "kind": info.kind,
            "verbs": served.verbs(), "shortNames": info.short_names, "categories": info.categories,
            "storageVersionHash": storage_version_hash(served),
        }));
        for subresource in done(served, version) {
            let (body_group, body_version, kind) = body(served, subresource, version);
            let mut entry = json!({
                "name": format!("{}/{}", info.plural, subresource.name), "singularName": "",
                "namespaced": info.namespaced, "kind": kind, "verbs": verbs(subresource),
            });
            if subresource.body.is_some() {
                entry["group"] = json!(body_group);
                entry["version"] = json!(body_version);
            }
            list.push(entry);
        }
    }
    for review in Review::ALL
        .iter()
        .filter(|review| review.group() == group && version == "v1")
    {
        list.push(json!({
            "name": review.resource(), "singularName": review.kind().to_ascii_lowercase(),
            "namespaced": review.namespaced(), "kind": review.kind(), "verbs": ["create"],
        }));
    }
    for entry in &mut list {
        if let Some(fields) = entry.as_object_mut() {
            fields.retain(|_, value| !value.as_array().is_some_and(Vec::is_empty));
        }
    }
    let group_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    let body = json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": list});
    Ok(Answer::value(StatusCode::OK, &body))
}

/// By what clients see that a kind is stored in another version than before
/// (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/endpoints/discovery/storageversionhash.go).
fn storage_version_hash(served: &Served) -> String {
    let info = served.info();
    let stored = format!("{}/{}/{}", info.group, served.storage_version, info.kind);
    let digest = Sha256::digest(stored.as_bytes());
    STANDARD.encode(digest.iter().copied().take(8).collect::<Vec<u8>>())
}

pub(crate) fn served_in<'a>(kinds: &'a Kinds, group: &str, version: &str) -> Vec<&'a Arc<Served>> {
    let found = kinds.groups().find(|(name, _)| *name == group);
    let served = found.into_iter().flat_map(|(_, kinds)| kinds.values());
    served.filter(|served| served.version(version).is_some()).collect()
}

/// Subresources that do something. Others answer what it is that is missing.
fn done<'a>(served: &'a Served, version: &'a str) -> impl Iterator<Item = &'a Subresource> {
    let all = served.info().subresources_in(version);
    all.filter(|subresource| {
        !matches!(
            subresource.form,
            Form::Unsupported(_) | Form::Connect(Connect::Exec | Connect::PortForward)
        )
    })
}

fn verbs(subresource: &Subresource) -> &'static [&'static str] {
    match subresource.form {
        Form::Part if subresource.name == "finalize" => &["update"],
        Form::Part | Form::Scale(_) => &["get", "patch", "update"],
        Form::Action(_) | Form::Internal => &["create"],
        Form::Connect(Connect::Log) => &["get"],
        Form::Connect(Connect::Exec | Connect::PortForward) | Form::Unsupported(_) => &[],
    }
}

fn body<'a>(served: &'a Served, subresource: &'a Subresource, version: &'a str) -> (&'a str, &'a str, &'a str) {
    match &subresource.body {
        Some((group, version, kind)) => (group, version, kind),
        None => (served.group(), version, &served.info().kind),
    }
}

/// What the aggregated document says of a kind. Those that the server was built with name neither group nor version, as
/// in kube-apiserver: they are those of the document.
fn response_kind(served: Option<&Served>, (group, version, kind): (&str, &str, &str)) -> Value {
    match served.filter(|served| served.role == Role::Custom) {
        Some(_) => json!({"group": group, "version": version, "kind": kind}),
        None => json!({"group": "", "version": "", "kind": kind}),
    }
}

fn aggregated(kinds: &Kinds, take: impl Fn(&str) -> bool) -> Bytes {
    let items: Vec<Value> = group_names(kinds)
        .iter()
        .filter(|group| take(group))
        .map(|group| {
            let versions: Vec<Value> = version_names(kinds, group)
                .iter()
                .map(|version| aggregated_version(kinds, group, version))
                .collect();
            let mut metadata = json!({});
            if !group.is_empty() {
                metadata["name"] = json!(group);
            }
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    let list = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    });
    Bytes::from(list.to_string())
}

fn aggregated_version(kinds: &Kinds, group: &str, version: &str) -> Value {
    let mut resources = Vec::new();
    for served in served_in(kinds, group, version) {
        let info = served.info();
        let mut entry = json!({
            "resource": info.plural,
            "responseKind": response_kind(Some(served), (&info.group, version, &info.kind)),
            "scope": if info.namespaced { "Namespaced" } else { "Cluster" },
            "singularResource": info.singular, "verbs": served.verbs(),
        });
        if !info.short_names.is_empty() {
            entry["shortNames"] = json!(info.short_names);
        }
        if !info.categories.is_empty() {
            entry["categories"] = json!(info.categories);
        }
        let subresources: Vec<Value> = done(served, version)
            .map(|subresource| {
                let (group, version, kind) = body(served, subresource, version);
                let kind = match &subresource.body {
                    Some(_) => json!({"group": group, "version": version, "kind": kind}),
                    None => response_kind(Some(served), (group, version, kind)),
                };
                json!({"subresource": subresource.name, "verbs": verbs(subresource), "responseKind": kind})
            })
            .collect();
        if !subresources.is_empty() {
            entry["subresources"] = json!(subresources);
        }
        resources.push(entry);
    }
    for review in Review::ALL
        .iter()
        .filter(|review| review.group() == group && version == "v1")
    {
        resources.push(json!({
            "resource": review.resource(),
            "responseKind": response_kind(None, (group, "v1", review.kind())),
            "scope": if review.namespaced() { "Namespaced" } else { "Cluster" },
            "singularResource": review.kind().to_ascii_lowercase(), "verbs": ["create"],
        }));
    }
    json!({"version": version, "resources": resources, "freshness": "Current"})
}
