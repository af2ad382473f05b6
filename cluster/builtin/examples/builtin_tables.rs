//! Makes the tables of built-in kinds in `cluster/builtin/data` from Kubernetes' published OpenAPI v3 documents.
//! Arguments: the folder `api/openapi-spec/v3` of a Kubernetes source tree, and the folder to write to.
//! It runs when the tables are renewed (`cargo xtask generate`), never as part of the product.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Map, Value, json};

/// Group and version of every table.
const WANTED: [(&str, &str); 20] = [
    ("", "v1"),
    ("admissionregistration.k8s.io", "v1"),
    ("apiextensions.k8s.io", "v1"),
    ("apiregistration.k8s.io", "v1"),
    ("apps", "v1"),
    ("authentication.k8s.io", "v1"),
    ("authorization.k8s.io", "v1"),
    ("autoscaling", "v1"),
    ("autoscaling", "v2"),
    ("batch", "v1"),
    ("certificates.k8s.io", "v1"),
    ("coordination.k8s.io", "v1"),
    ("discovery.k8s.io", "v1"),
    ("events.k8s.io", "v1"),
    ("networking.k8s.io", "v1"),
    ("node.k8s.io", "v1"),
    ("policy", "v1"),
    ("rbac.authorization.k8s.io", "v1"),
    ("scheduling.k8s.io", "v1"),
    ("storage.k8s.io", "v1"),
];

/// What is described beside groups and versions, by the path below `/openapi/v3/`; groups come from [`WANTED`].
const ROOTS: [&str; 5] = [
    ".well-known/openid-configuration",
    "api",
    "apis",
    "openid/v1/jwks",
    "version",
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(documents), Some(out)) = (arguments.next(), arguments.next()) else {
        return Err("usage: builtin_tables DOCUMENTS OUT".into());
    };
    let mut kinds = Vec::new();
    for (group, version) in WANTED {
        let source = match group {
            "" => format!("api__{version}_openapi.json"),
            group => format!("apis__{group}__{version}_openapi.json"),
        };
        let mut document: Value = serde_json::from_slice(&std::fs::read(documents.join(source))?)?;
        trim(&mut document);
        kinds.extend(kinds_of(group, version, &document));
        let name = match group {
            "" => format!("core_{version}.json.gz"),
            group => format!("{group}_{version}.json.gz"),
        };
        write_compressed(&out.join(name), &serde_json::to_vec(&document)?)?;
    }
    let groups = WANTED.iter().filter(|(group, _)| !group.is_empty());
    let mut roots: BTreeMap<String, Value> = BTreeMap::new();
    let paths = ROOTS.map(str::to_owned).into_iter();
    for path in paths.chain(groups.map(|(group, _)| format!("apis/{group}"))) {
        let source = format!("{}_openapi.json", path.replace('/', "__"));
        let mut document: Value = serde_json::from_slice(&std::fs::read(documents.join(source))?)?;
        trim(&mut document);
        roots.insert(path, document);
    }
    write_compressed(&out.join("roots.json.gz"), &serde_json::to_vec(&roots)?)?;
    let mut index = serde_json::to_vec_pretty(&kinds)?;
    index.push(b'\n');
    std::fs::write(out.join("kinds.json"), index)?;
    Ok(())
}

/// Deterministic: no time stamp, no file name.
fn write_compressed(path: &Path, bytes: &[u8]) -> Result<(), Box<dyn Error>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    std::fs::write(path, encoder.finish()?)?;
    Ok(())
}

/// Leaves out what no client of ours reads: the deprecated watch paths, media types that are not served, the
/// descriptions of parameters that repeat on every path.
fn trim(document: &mut Value) {
    let Some(paths) = document["paths"].as_object_mut() else {
        return;
    };
    paths.retain(|path, _| !path.contains("/watch/"));
    for operations in paths.values_mut() {
        for part in operations.as_object_mut().into_iter().flat_map(|map| map.values_mut()) {
            if let Some(parameters) = part.as_array_mut() {
                parameters.iter_mut().for_each(drop_description);
            }
            if let Some(parameters) = part.get_mut("parameters").and_then(Value::as_array_mut) {
                parameters.iter_mut().for_each(drop_description);
            }
            if let Some(content) = part.pointer_mut("/requestBody/content").and_then(Value::as_object_mut) {
                drop_media(content);
            }
            for response in part
                .get_mut("responses")
                .and_then(Value::as_object_mut)
                .into_iter()
                .flatten()
            {
                if let Some(content) = response.1.get_mut("content").and_then(Value::as_object_mut) {
                    drop_media(content);
                }
            }
        }
    }
}

fn drop_description(parameter: &mut Value) {
    if let Some(map) = parameter.as_object_mut() {
        map.remove("description");
    }
}

fn drop_media(content: &mut Map<String, Value>) {
    content.retain(|media, _| !media.contains("protobuf") && !media.contains("cbor"));
}

/// What the paths show about each kind: its plural, scope, subresources and verbs.
fn kinds_of(group: &str, version: &str, document: &Value) -> Vec<Value> {
    let mut found: BTreeMap<String, (String, bool, Vec<String>, Vec<String>)> = BTreeMap::new();
    let root = if group.is_empty() {
        format!("/api/{version}/")
    } else {
        format!("/apis/{group}/{version}/")
    };
    let Some(paths) = document["paths"].as_object() else {
        return Vec::new();
    };
    for (path, operations) in paths {
        let Some(rest) = path.strip_prefix(&root) else { continue };
        let namespaced = rest.starts_with("namespaces/{namespace}/");
        let rest = rest.strip_prefix("namespaces/{namespace}/").unwrap_or(rest);
        let parts: Vec<&str> = rest.split('/').filter(|part| !part.is_empty()).collect();
        let Some(resource) = parts.first() else { continue };
        let entry = found.entry((*resource).to_owned()).or_default();
        entry.1 |= namespaced;
        if parts.len() >= 3 && parts[1] == "{name}" {
            entry.2.push(parts[2].to_owned());
            continue;
        }
        for operation in operations.as_object().into_iter().flat_map(|map| map.values()) {
            let Some(action) = operation["x-kubernetes-action"].as_str() else {
                continue;
            };
            entry.3.push(verb(action).to_owned());
            if let Some(kind) = operation["x-kubernetes-group-version-kind"]["kind"].as_str() {
                entry.0 = kind.to_owned();
            }
        }
    }
    let mut kinds = Vec::new();
    for (resource, (kind, namespaced, mut subresources, mut verbs)) in found {
        if kind.is_empty() {
            continue;
        }
        for list in [&mut subresources, &mut verbs] {
            list.sort();
            list.dedup();
        }
        kinds.push(
            json!({"group": group, "version": version, "kind": kind, "resource": resource,
            "namespaced": namespaced, "subresources": subresources, "verbs": verbs}),
        );
    }
    kinds
}

fn verb(action: &str) -> &str {
    match action {
        "post" => "create",
        "put" => "update",
        other => other,
    }
}
