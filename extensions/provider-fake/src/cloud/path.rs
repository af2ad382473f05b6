//! Calls as requests of HTTP and back: `/v1/regions/{region}/{collection}` and `.../{id}`; the tags of a list are `tag=key=value`
//! in the query.

use http::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::{Deserialize, Serialize};

use super::api::Call;
use super::error::{CloudError, Reason};
use super::item::{Spec, Tags};
use super::kind::Kind;

/// What stands for itself in a path and a query.
const QUOTED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

#[derive(Serialize, Deserialize)]
struct NewItem {
    spec: Spec,
    #[serde(default)]
    tags: Tags,
}

/// A call on its way.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) method: Method,
    /// Path and query.
    pub(super) target: String,
    pub(super) body: Vec<u8>,
}

fn quoted(text: &str) -> String {
    utf8_percent_encode(text, QUOTED).to_string()
}

fn wrong(what: impl std::fmt::Display) -> CloudError {
    CloudError::new(Reason::InvalidParameter, format!("the request cannot be read: {what}"))
}

/// A call as a request.
pub(super) fn line_of(region: &str, call: &Call) -> Result<Line, CloudError> {
    let collection = format!("/v1/regions/{}/{}", quoted(region), call.kind().plural());
    let one = |id: &str| format!("{collection}/{}", quoted(id));
    let (method, target, body) = match call {
        Call::Create { spec, tags } => {
            let item = NewItem {
                spec: spec.clone(),
                tags: tags.clone(),
            };
            (Method::POST, collection, serde_json::to_vec(&item).map_err(wrong)?)
        }
        Call::Get { id, .. } => (Method::GET, one(id), Vec::new()),
        Call::List { tags, .. } => {
            let pairs = tags
                .iter()
                .map(|(key, value)| format!("tag={}={}", quoted(key), quoted(value)));
            let query: Vec<String> = pairs.collect();
            (Method::GET, format!("{collection}?{}", query.join("&")), Vec::new())
        }
        Call::Change { id, change, .. } => (Method::PATCH, one(id), serde_json::to_vec(change).map_err(wrong)?),
        Call::Delete { id, .. } => (Method::DELETE, one(id), Vec::new()),
    };
    Ok(Line { method, target, body })
}

/// The region and the call of a request.
pub(super) fn call_of(method: &Method, path: &str, query: &str, body: &[u8]) -> Result<(String, Call), CloudError> {
    let parts: Result<Vec<String>, CloudError> = path.split('/').map(plain).collect();
    let parts = parts?;
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let (region, plural, id) = match parts.as_slice() {
        ["", "v1", "regions", region, plural] => (*region, *plural, None),
        ["", "v1", "regions", region, plural, id] => (*region, *plural, Some(*id)),
        _ => return Err(wrong(format!("there is no path {path:?}"))),
    };
    let kind = Kind::of_plural(plural).ok_or_else(|| wrong(format!("there is no collection {plural:?}")))?;
    let call = match (method.as_str(), id) {
        ("POST", None) => {
            let NewItem { spec, tags } = serde_json::from_slice(body).map_err(wrong)?;
            if spec.kind() != kind {
                return Err(wrong(format!("a {} does not belong to {plural}", spec.kind())));
            }
            Call::Create { spec, tags }
        }
        ("GET", None) => Call::List {
            kind,
            tags: tags_of(query)?,
        },
        ("GET", Some(id)) => Call::Get {
            kind,
            id: id.to_owned(),
        },
        ("PATCH", Some(id)) => Call::Change {
            kind,
            id: id.to_owned(),
            change: serde_json::from_slice(body).map_err(wrong)?,
        },
        ("DELETE", Some(id)) => Call::Delete {
            kind,
            id: id.to_owned(),
        },
        _ => return Err(wrong(format!("{method} is not known here"))),
    };
    Ok((region.to_owned(), call))
}

fn plain(quoted: &str) -> Result<String, CloudError> {
    let text = percent_decode_str(quoted).decode_utf8();
    text.map(std::borrow::Cow::into_owned).map_err(wrong)
}

fn tags_of(query: &str) -> Result<Tags, CloudError> {
    let parts = query.split('&').filter(|part| !part.is_empty());
    let tag = |part: &str| {
        let pair = part.strip_prefix("tag=").and_then(|tag| tag.split_once('='));
        let (key, value) = pair.ok_or_else(|| wrong(format!("{part:?} is no tag")))?;
        Ok((plain(key)?, plain(value)?))
    };
    parts.map(tag).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::{ItemChange, NetworkSpec};

    #[test]
    fn every_call_comes_back_from_its_request() {
        let tags = Tags::from([
            ("a/b=c&d".to_owned(), "ä = %".to_owned()),
            ("e".to_owned(), String::new()),
        ]);
        let spec = Spec::Network(NetworkSpec {
            cidr: "10.0.0.0/16".parse().unwrap(),
        });
        let (kind, id) = (Kind::Network, "net-1/2".to_owned());
        let change = ItemChange::Tags(tags.clone());
        for call in [
            Call::Create {
                spec,
                tags: tags.clone(),
            },
            Call::Get { kind, id: id.clone() },
            Call::List { kind, tags },
            Call::List {
                kind,
                tags: Tags::new(),
            },
            Call::Change {
                kind,
                id: id.clone(),
                change,
            },
            Call::Delete { kind, id },
        ] {
            let line = line_of("r 1", &call).unwrap();
            let (path, query) = line.target.split_once('?').unwrap_or((&line.target, ""));
            let back = call_of(&line.method, path, query, &line.body).unwrap();
            assert_eq!(back, ("r 1".to_owned(), call));
        }
    }

    #[test]
    fn requests_that_are_no_calls_are_refused() {
        for (method, path, query, body) in [
            (Method::GET, "/v1/regions/r", "", ""),
            (Method::GET, "/v1/regions/r/clusters", "", ""),
            (Method::PUT, "/v1/regions/r/networks/a", "", ""),
            (Method::GET, "/v1/regions/r/networks", "tag=a", ""),
            (Method::POST, "/v1/regions/r/networks", "", "{}"),
            (
                Method::POST,
                "/v1/regions/r/subnets",
                "",
                r#"{"spec":{"kind":"network","cidr":"10.0.0.0/16"}}"#,
            ),
        ] {
            let error = call_of(&method, path, query, body.as_bytes()).unwrap_err();
            assert_eq!(error.reason, Reason::InvalidParameter, "{method} {path}: {error}");
        }
    }
}
