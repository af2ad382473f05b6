//! What users did, as kube-apiserver's audit log recorded it. The log is the measure of rights: whatever asks, and however it is
//! answered, stands there.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tests_parts::Outcome;

/// A request that stands for all like it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    /// User name.
    pub user: String,
    /// Its groups.
    pub groups: BTreeSet<String>,
    /// As RBAC calls it.
    pub verb: String,
    /// API group; empty for core.
    pub group: String,
    /// Plural, with `/SUBRESOURCE` where there is one; empty for a path.
    pub resource: String,
    /// Empty for what is of no namespace.
    pub namespace: String,
    /// Empty for lists and creations.
    pub name: String,
    /// The path, where it is no resource.
    pub path: String,
}

/// The requests of an audit log, each with how often it was refused with 403.
///
/// # Errors
/// A line is no event.
pub fn requests(log: &[u8]) -> Outcome<BTreeMap<Request, u64>> {
    let mut all = BTreeMap::new();
    let lines = log.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    for line in lines {
        let event: Value =
            serde_json::from_slice(line).map_err(|error| format!("no event of an audit log: {error}"))?;
        let refused: &mut u64 = all.entry(request(&event)).or_default();
        *refused += u64::from(event["responseStatus"]["code"] == 403);
    }
    Ok(all)
}

fn request(event: &Value) -> Request {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let object = &event["objectRef"];
    let subresource = text(&object["subresource"]);
    let separator = if subresource.is_empty() { "" } else { "/" };
    let groups = event["user"]["groups"].as_array();
    let path = text(&event["requestURI"]);
    Request {
        user: text(&event["user"]["username"]),
        groups: groups.into_iter().flatten().map(text).collect(),
        verb: text(&event["verb"]),
        group: text(&object["apiGroup"]),
        resource: format!("{}{separator}{subresource}", text(&object["resource"])),
        namespace: text(&object["namespace"]),
        name: text(&object["name"]),
        path: match object.is_null() {
            true => path.split('?').next().unwrap_or_default().to_owned(),
            false => String::new(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_once_with_their_refusals() {
        let event = |code: u16| {
            serde_json::json!({"verb": "get", "requestURI": "/api/v1/namespaces/n/pods/p/log?follow=true",
                "user": {"username": "u", "groups": ["g"]},
                "objectRef": {"resource": "pods", "subresource": "log", "namespace": "n", "name": "p", "apiVersion": "v1"},
                "responseStatus": {"code": code}})
        };
        let log = format!("{}\n{}\n", event(200), event(403));
        let all = requests(log.as_bytes()).unwrap();
        let (request, refused) = all.first_key_value().unwrap();
        assert_eq!((all.len(), *refused), (1, 1));
        assert_eq!((request.resource.as_str(), request.path.as_str()), ("pods/log", ""));
        let discovery = serde_json::json!({"verb": "get", "requestURI": "/apis?timeout=1s", "user": {"username": "u"}});
        assert_eq!(super::request(&discovery).path, "/apis");
    }
}
