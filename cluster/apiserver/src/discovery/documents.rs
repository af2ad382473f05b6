//! `/api` and `/apis`: which groups, versions and resources there are, as separate lists and as one aggregated document.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/endpoints/discovery)

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::configuration::aggregation::{Route, Routes};
use crate::discovery::priority::priority;
use crate::kinds::events;
use crate::kinds::registry::{Kinds, Role, Served};
use crate::kinds::resource::{Connect, Form, Subresource};
use crate::state::server_state::ServerState;
use crate::wire::answer::Answer;
use crate::wire::status::Status;
use crate::wire::version_order::version_priority;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Kinds that kube-apiserver v1.35 still stores in version v1beta1, as the storage version hash shows.
const STORED_AS_V1BETA1: [(&str, &str); 2] = [
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("storage.k8s.io", "volumeattributesclasses"),
];

pub(crate) fn answer(server: &Arc<ServerState>, segments: &[&str], headers: &HeaderMap) -> Result<Answer, Status> {
    let kinds = server.registry.snapshot();
    match segments {
        ["api", ..] if !kinds.has_core() => Err(Status::no_such_page()),
        [root @ ("api" | "apis")] if wants_aggregated(headers) => {
            let is_core = *root == "api";
            let routes = server.aggregation.routes();
            let all = || aggregated(&kinds, &routes, |group| group.is_empty() == is_core);
            // Documents of other servers change at any time, so they are not cached.
            let bytes = match (routes.is_empty(), is_core) {
                (true, true) => kinds.documents.aggregated_core.get_or_init(all).clone(),
                (true, false) => kinds.documents.aggregated_groups.get_or_init(all).clone(),
                (false, _) => all(),
            };
            Ok(Answer::typed(StatusCode::OK, AGGREGATED, bytes).with_caching("public"))
        }
        ["api"] => {
            // The address is the one that the client has used.
            let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
            let addresses: Vec<Value> = host
                .map(|host| json!({"clientCIDR": "0.0.0.0/0", "serverAddress": host}))
                .into_iter()
                .collect();
            let body = json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses});
            Ok(Answer::value(StatusCode::OK, &body))
        }
        ["apis"] => {
            let groups: Vec<Value> = groups(&kinds, &server.aggregation.routes())
                .iter()
                .filter(|group| !group.name.is_empty())
                .map(api_group)
                .collect();
            Ok(Answer::value(
                StatusCode::OK,
                &json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}),
            ))
        }
        ["api", version] => resources(&kinds, "", version),
        ["apis", name] => {
            let routes = server.aggregation.routes();
            let groups = groups(&kinds, &routes);
            let group = groups.iter().find(|group| group.name == *name);
            let mut body = api_group(group.ok_or_else(|| kinds.nowhere(name))?);
            body["kind"] = json!("APIGroup");
            body["apiVersion"] = json!("v1");
            Ok(Answer::value(StatusCode::OK, &body))
        }
        ["apis", group, version] => resources(&kinds, group, version),
        ["apis", group, ..] => Err(kinds.nowhere(group)),
        _ => Err(Status::no_such_resource()),
    }
}

/// A group with its versions, preferred first, each with its route if another server serves it.
struct Group<'r> {
    name: String,
    versions: Vec<(String, Option<&'r Route>)>,
}

/// All groups in the order in which clients look for a name
/// (kube-aggregator v0.35 pkg/apis/apiregistration/v1/helper, SortedByGroupAndVersion).
fn groups<'r>(kinds: &Kinds, routes: &'r Routes) -> Vec<Group<'r>> {
    let mut names = group_names(kinds);
    names.extend(routes.keys().map(|(group, _)| group.clone()));
    names.sort();
    names.dedup();
    let mut ordered: Vec<(i64, Group<'r>)> = Vec::new();
    for name in names {
        let defined = kinds.of_group(&name).all(|served| served.role == Role::Custom);
        let defined = defined && kinds.of_group(&name).next().is_some();
        let mut versions: Vec<((i64, i64), String, Option<&Route>)> = Vec::new();
        for version in version_names(kinds, &name) {
            if !routes.contains_key(&(name.clone(), version.clone())) {
                versions.push((priority(&name, &version, defined), version, None));
            }
        }
        for ((_, version), route) in routes.iter().filter(|((group, _), _)| *group == name) {
            let backend = &route.backend;
            let number = (backend.group_priority, backend.version_priority);
            versions.push((number, version.clone(), Some(route)));
        }
        versions.sort_by_key(|((_, number), version, _)| std::cmp::Reverse((*number, version_priority(version))));
        let highest = versions.iter().map(|((number, _), ..)| *number).max();
        let versions = versions
            .into_iter()
            .map(|(_, version, route)| (version, route))
            .collect();
        ordered.push((highest.unwrap_or_default(), Group { name, versions }));
    }
    // Those of one priority stay in the order of their names.
    ordered.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
    ordered.into_iter().map(|(_, group)| group).collect()
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
    for review in kinds.reviews() {
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
    if versions.is_empty() && kinds.reviews().iter().any(|review| review.group() == group) {
        versions.push("v1".to_owned());
    }
    versions
}

fn api_group(group: &Group<'_>) -> Value {
    let name = &group.name;
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|(version, _)| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
        .collect();
    json!({"name": name, "versions": versions, "preferredVersion": versions.first()})
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
        for subresource in supported(served, version) {
            let (body_group, body_version, kind) = body(served, subresource, version);
            let mut entry = json!({
                "name": format!("{}/{}", info.plural, subresource.name), "singularName": "",
                "namespaced": info.namespaced, "kind": kind, "verbs": verbs(subresource),
            });
            if (body_group, body_version) != (group, version) {
                entry["group"] = json!(body_group);
                entry["version"] = json!(body_version);
            }
            list.push(entry);
        }
    }
    for review in kinds
        .reviews()
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
    let mut body = json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": list});
    // The core group is older than the version of such lists.
    if !group.is_empty() {
        body["apiVersion"] = json!("v1");
    }
    Ok(Answer::value(StatusCode::OK, &body))
}

/// A hash by which clients see that the storage version of a kind has changed
/// (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/endpoints/discovery/storageversionhash.go).
fn storage_version_hash(served: &Served) -> String {
    let info = served.info();
    let (group, version) = match served.storage_version.as_str() {
        events::HUB => ("", "v1"),
        // This server stores them in v1, which the hash does not show.
        "v1" if STORED_AS_V1BETA1.contains(&(&*info.group, &*info.plural)) => (&*info.group, "v1beta1"),
        version => (&*info.group, version),
    };
    let stored = format!("{group}/{version}/{}", info.kind);
    let digest = Sha256::digest(stored.as_bytes());
    STANDARD.encode(digest.iter().copied().take(8).collect::<Vec<u8>>())
}

pub(crate) fn served_in<'a>(kinds: &'a Kinds, group: &str, version: &str) -> Vec<&'a Arc<Served>> {
    let found = kinds.groups().find(|(name, _)| *name == group);
    let served = found.into_iter().flat_map(|(_, kinds)| kinds.values());
    served.filter(|served| served.version(version).is_some()).collect()
}

/// Subresources that are supported. Requests to others are answered with 501.
fn supported<'a>(served: &'a Served, version: &'a str) -> impl Iterator<Item = &'a Subresource> {
    let all = served.info().subresources_in(version);
    all.filter(|subresource| !matches!(subresource.form, Form::Unsupported(_)))
}

fn verbs(subresource: &Subresource) -> &'static [&'static str] {
    match subresource.form {
        Form::Part if subresource.name == "finalize" => &["update"],
        Form::Part | Form::Scale(_) => &["get", "patch", "update"],
        Form::Action(_) | Form::Internal => &["create"],
        Form::Connect(Connect::Log) => &["get"],
        Form::Proxy(_) => &["create", "delete", "get", "patch", "update"],
        Form::Connect(_) => &["create", "get"],
        Form::Unsupported(_) => &[],
    }
}

fn body<'a>(served: &'a Served, subresource: &'a Subresource, version: &'a str) -> (&'a str, &'a str, &'a str) {
    match &subresource.body {
        Some((group, version, kind)) => (group, version, kind),
        None => (served.group(), version, &served.info().kind),
    }
}

/// The `responseKind` in the aggregated document. Built-in kinds have no group and version there, as in kube-apiserver: they
/// are those of the document.
fn response_kind(served: Option<&Served>, (group, version, kind): (&str, &str, &str)) -> Value {
    match served.filter(|served| served.role == Role::Custom) {
        Some(_) => json!({"group": group, "version": version, "kind": kind}),
        None => json!({"group": "", "version": "", "kind": kind}),
    }
}

fn aggregated(kinds: &Kinds, routes: &Routes, take: impl Fn(&str) -> bool) -> Bytes {
    let items: Vec<Value> = groups(kinds, routes)
        .iter()
        .filter(|group| take(&group.name))
        .map(|group| {
            let versions: Vec<Value> = group
                .versions
                .iter()
                .map(|(version, route)| match route {
                    None => aggregated_version(kinds, &group.name, version),
                    Some(route) => of_route(version, route),
                })
                .collect();
            let mut metadata = json!({});
            if !group.name.is_empty() {
                metadata["name"] = json!(group.name);
            }
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    let list = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    });
    Bytes::from(list.to_string())
}

/// A version with the resources that the server behind this one returned at its last check.
fn of_route(version: &str, route: &Route) -> Value {
    let freshness = if route.available { "Current" } else { "Stale" };
    let mut entry = json!({"version": version, "freshness": freshness});
    if let Some(resources) = route.backend.documents().resources {
        entry["resources"] = resources;
    }
    entry
}

/// The resources of an APIResourceList as the aggregated document has them.
pub(crate) fn of_list(group: &str, version: &str, list: &[Value]) -> Value {
    let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
    let or = |given: String, other: &str| if given.is_empty() { other.to_owned() } else { given };
    let kind = |entry: &Value| {
        json!({
            "group": or(text(entry, "group"), group), "version": or(text(entry, "version"), version),
            "kind": text(entry, "kind"),
        })
    };
    let mut resources: Vec<Value> = Vec::new();
    for entry in list {
        let name = text(entry, "name");
        if let Some((resource, subresource)) = name.split_once('/') {
            let part = json!({"subresource": subresource, "responseKind": kind(entry), "verbs": entry["verbs"]});
            let of = resources.iter_mut().find(|known| known["resource"] == resource);
            if let Some(fields) = of.and_then(Value::as_object_mut) {
                let parts = fields.entry("subresources").or_insert_with(|| json!([]));
                parts
                    .as_array_mut()
                    .into_iter()
                    .for_each(|parts| parts.push(part.clone()));
            }
            continue;
        }
        let mut resource = json!({
            "resource": name, "responseKind": kind(entry), "singularResource": text(entry, "singularName"),
            "scope": if entry["namespaced"] == true { "Namespaced" } else { "Cluster" }, "verbs": entry["verbs"],
        });
        for field in ["shortNames", "categories"] {
            if entry[field].is_array() {
                resource[field] = entry[field].clone();
            }
        }
        resources.push(resource);
    }
    Value::Array(resources)
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
        let subresources: Vec<Value> = supported(served, version)
            .map(|subresource| {
                let described = body(served, subresource, version);
                let kind = match described {
                    (of_group, of_version, kind) if (of_group, of_version) != (group, version) => {
                        json!({"group": of_group, "version": of_version, "kind": kind})
                    }
                    described => response_kind(Some(served), described),
                };
                json!({"subresource": subresource.name, "verbs": verbs(subresource), "responseKind": kind})
            })
            .collect();
        if !subresources.is_empty() {
            entry["subresources"] = json!(subresources);
        }
        resources.push(entry);
    }
    for review in kinds
        .reviews()
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
