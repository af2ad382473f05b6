//! Parses requests as the server does, but without a server: for programs that record, check or replay requests. It
//! authenticates no client, looks nothing up and knows no kind.

use http::{HeaderMap, Method, Uri};
use serde_json::Value;

use crate::wire::decode::{BODY_BYTES_MAX, decode, encoding};
use crate::wire::negotiation;
use crate::wire::path::{RequestInfo, bad_namespace, bad_path, check_name};
use crate::wire::query::{ListOptions, Purpose, Query};
use crate::wire::status::Status;

pub use crate::wire::selector::{FieldSelector, LabelSelector};

/// What a request is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedRequest {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; for a path that is no resource's
    /// the method in lower case.
    pub verb: &'static str,
    /// The path without query, decoded.
    pub path: String,
    /// The resource, one object of it, or a part of that; none for paths such as `/version` and discovery.
    pub resource: Option<RequestedResource>,
}

/// A resource, one object of it, or a part of that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestedResource {
    /// Empty for the core group.
    pub group: String,
    /// Such as `v1`.
    pub version: String,
    /// For namespaces themselves their own name.
    pub namespace: Option<String>,
    /// The plural, such as `pods`.
    pub resource: String,
    /// The object's name.
    pub name: Option<String>,
    /// Such as `status`.
    pub subresource: Option<String>,
    /// What follows the subresource.
    pub rest: Vec<String>,
}

impl ParsedRequest {
    /// Reads method, target and headers, and the options in the query as far as they can be validated without the kind.
    ///
    /// # Errors
    /// The refusal that the server answers with.
    pub fn read(method: &Method, target: &Uri, headers: &HeaderMap) -> Result<Self, Status> {
        let query = Query::parse(target.query());
        let info = RequestInfo::parse(method, target.path(), &query).map_err(bad_path)?;
        let _ = negotiation::writing(headers, &query);
        let resource = info.target.map(|target| RequestedResource {
            group: target.group,
            version: target.version,
            namespace: target.namespace,
            resource: target.resource,
            name: target.name,
            subresource: target.subresource,
            rest: target.rest,
        });
        if let Some(resource) = &resource {
            if info.has_bad_namespace {
                return Err(bad_namespace());
            }
            check_options(info.verb, &query, headers)?;
            resource.name.as_deref().map_or(Ok(()), check_name)?;
        }
        Ok(Self {
            verb: info.verb,
            path: info.path,
            resource,
        })
    }
}

fn check_options(verb: &str, query: &Query, headers: &HeaderMap) -> Result<(), Status> {
    match verb {
        "get" => query.version().map(drop),
        "list" | "deletecollection" => ListOptions::parse(query, Purpose::List).map(drop),
        "watch" => ListOptions::parse(query, Purpose::Watch).map(drop),
        "create" => query
            .check("CreateOptions", Vec::new())
            .and_then(|()| encoding(headers).map(drop)),
        "update" => query
            .check("UpdateOptions", Vec::new())
            .and_then(|()| encoding(headers).map(drop)),
        "patch" => query.check("PatchOptions", Vec::new()),
        _ => Ok(()),
    }
}

/// The object in a body.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedObject {
    /// The object.
    pub value: Value,
    /// What strict decoding refuses, such as keys that stand twice; the last value counts.
    pub problems: Vec<String>,
}

/// Reads the object in a body by the media type in the headers: JSON, YAML or Kubernetes' protobuf.
///
/// # Errors
/// The refusal that the server answers with: 400, 413, 415.
pub fn read_object(headers: &HeaderMap, body: &[u8]) -> Result<ParsedObject, Status> {
    if body.len() > BODY_BYTES_MAX {
        return Err(Status::too_large(BODY_BYTES_MAX));
    }
    let decoded = decode(body, encoding(headers)?)?;
    Ok(ParsedObject {
        problems: decoded.problems(),
        value: decoded.value,
    })
}
