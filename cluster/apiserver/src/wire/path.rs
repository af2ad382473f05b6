//! From method and path to the target of the request. Pure; knows the shape of Kubernetes' paths and no kind.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/endpoints/request/requestinfo.go)

use cluster_access::ResourceTarget;
use cluster_fields::names::dns_label;
use http::{Method, StatusCode};

use crate::wire::percent::{PathError, decode_percent};
use crate::wire::query::Query;
use crate::wire::status::Status;

/// Longest path that is looked at, in bytes: the longest names that are valid fit several times.
const PATH_BYTES_MAX: usize = 4096;

/// A request, as authorization, routing and audit see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestInfo {
    /// The path without query, decoded.
    pub(crate) path: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; for other paths the
    /// method in lower case.
    pub(crate) verb: &'static str,
    /// What it is about; none for paths such as `/version` and discovery.
    pub(crate) target: Option<Target>,
    /// Whether two slashes stand together in a resource's path: it leads nowhere.
    pub(crate) has_gap: bool,
    /// Whether its namespace is no valid name: a list would be answered as if it were empty.
    pub(crate) has_bad_namespace: bool,
}

/// A resource, one object of it, or a part of that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) group: String,
    pub(crate) version: String,
    /// For the resource `namespaces` itself this is the namespace's own name, as in Kubernetes.
    pub(crate) namespace: Option<String>,
    pub(crate) resource: String,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    /// What follows the subresource: the path behind a proxy.
    pub(crate) rest: Vec<String>,
}

impl Target {
    /// The same as access rules name it.
    pub(crate) fn resource_target(&self) -> ResourceTarget {
        ResourceTarget {
            group: self.group.clone(),
            version: self.version.clone(),
            resource: self.resource.clone(),
            subresource: self.subresource.clone().unwrap_or_default(),
            namespace: self.namespace.clone().unwrap_or_default(),
            name: self.name.clone().unwrap_or_default(),
        }
    }
}

impl RequestInfo {
    pub(crate) fn parse(method: &Method, path: &str, query: &Query) -> Result<Self, PathError> {
        if path.len() > PATH_BYTES_MAX {
            return Err(PathError::TooLong);
        }
        // An encoded slash separates as any other.
        let path = decode_percent(path, false)?;
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let mut info = Self {
            path: path.clone(),
            verb: plain_verb(method),
            target: None,
            has_gap: path.starts_with("//") || (parts.len() > 1 && parts.contains(&"")),
            has_bad_namespace: false,
        };
        if path.starts_with("//") {
            return Ok(info);
        }
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return Ok(info),
        };
        let (legacy_watch, rest) = match rest {
            [] => return Ok(info),
            ["proxy", ..] => return Err(PathError::Proxy),
            ["watch", rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        let mut target = Target {
            group: group.to_owned(),
            version: version.to_owned(),
            ..Target::default()
        };
        let rest = match rest {
            [] => return Ok(info),
            ["namespaces", namespace, rest @ ..] => {
                target.namespace = Some((*namespace).to_owned());
                match rest {
                    [] | ["status" | "finalize"] => &parts[parts.len() - rest.len() - 2..],
                    rest => {
                        info.has_bad_namespace = !namespace.is_empty() && dns_label(namespace).is_some();
                        rest
                    }
                }
            }
            rest => rest,
        };
        let mut rest = rest.iter().map(|part| (*part).to_owned());
        target.resource = rest.next().unwrap_or_default();
        target.name = rest.next();
        target.subresource = rest.next();
        target.rest = rest.collect();
        if target.subresource.as_deref() == Some("proxy") {
            // The path behind a proxy may be any.
            info.has_gap = parts[..parts.len() - target.rest.len()].contains(&"");
        }
        info.verb = verb(method, legacy_watch, &mut target, query);
        info.target = Some(target);
        Ok(info)
    }
}

/// Subresources whose requests last as long as the client wants
/// (kubernetes/kubernetes v1.35 pkg/controlplane/apiserver/config.go, LongRunningFunc).
const LONG_RUNNING: [&str; 5] = ["attach", "exec", "proxy", "log", "portforward"];

impl RequestInfo {
    /// Whether it lasts as long as the client wants, so that nothing may wait for its end.
    pub(crate) fn is_long_running(&self) -> bool {
        let part = self.target.as_ref().and_then(|target| target.subresource.as_deref());
        self.verb == "watch" || part.is_some_and(|part| LONG_RUNNING.contains(&part))
    }
}

fn plain_verb(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "get",
        "HEAD" => "head",
        "POST" => "post",
        "PUT" => "put",
        "PATCH" => "patch",
        "DELETE" => "delete",
        "OPTIONS" => "options",
        _ => "",
    }
}

fn verb(method: &Method, legacy_watch: bool, target: &mut Target, query: &Query) -> &'static str {
    let watch = legacy_watch || query.flag("watch");
    match *method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if target.name.is_none() => "deletecollection",
        Method::DELETE => "delete",
        Method::GET | Method::HEAD => {
            let listed_name = target.name.is_none().then(|| query.exact_name()).flatten();
            let named = target.name.is_some();
            if listed_name.is_some() {
                target.name = listed_name;
            }
            match (watch, named) {
                (true, _) => "watch",
                (false, false) => "list",
                (false, true) => "get",
            }
        }
        _ => "",
    }
}

/// The refusal of a path.
pub(crate) fn bad_path(error: PathError) -> Status {
    match error {
        PathError::TooLong => Status::new(StatusCode::URI_TOO_LONG, "", "the request's path is too long"),
        PathError::Encoding => Status::bad_request("the request's path is not well encoded"),
        PathError::Proxy => Status::not_implemented("the legacy proxy path"),
    }
}

/// 400 for a namespace that is no valid name.
pub(crate) fn bad_namespace() -> Status {
    Status::bad_request(
        "the namespace in the request's path is no valid name: it consists of at most 63 lower case letters, digits and '-'",
    )
}

/// 400 for a name that cannot be a part of a path.
pub(crate) fn check_name(name: &str) -> Result<(), Status> {
    match refuse_name(name) {
        None => Ok(()),
        Some(why) => Err(Status::bad_request(format!("Name parameter invalid: {name:?}: {why}"))),
    }
}

/// Why a name cannot be a part of a path; none when it can.
/// (kubernetes/kubernetes v1.35 staging/src/k8s.io/apimachinery/pkg/api/validation/path)
fn refuse_name(name: &str) -> Option<String> {
    if matches!(name, "." | "..") {
        return Some(format!("may not be '{name}'"));
    }
    let found: Vec<String> = ["/", "%"]
        .into_iter()
        .filter(|part| name.contains(part))
        .map(|part| format!("may not contain '{part}'"))
        .collect();
    (!found.is_empty()).then(|| found.join(";"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: Method, path: &str, query: &str) -> RequestInfo {
        RequestInfo::parse(&method, path, &Query::parse(Some(query))).unwrap()
    }

    fn shown(method: Method, path: &str, query: &str) -> String {
        let info = parse(method, path, query);
        let Some(t) = info.target else {
            return format!("{} {}", info.verb, info.path);
        };
        let or = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let (namespace, name, sub) = (or(t.namespace), or(t.name), or(t.subresource));
        format!(
            "{} {}/{} {namespace} {} {name} {sub}",
            info.verb, t.group, t.version, t.resource
        )
    }

    #[test]
    fn paths_and_methods_become_verbs_and_targets() {
        let table = [
            (Method::GET, "/version", "", "get /version"),
            (Method::GET, "/apis/apps/v1", "", "get /apis/apps/v1"),
            (Method::GET, "/api/v1/pods", "", "list /v1 - pods - -"),
            (
                Method::GET,
                "/api/v1/namespaces/a/pods",
                "watch=1",
                "watch /v1 a pods - -",
            ),
            (
                Method::GET,
                "/api/v1/watch/namespaces/a/pods",
                "",
                "watch /v1 a pods - -",
            ),
            (
                Method::GET,
                "/api/v1/namespaces/a/pods/p%2Flog",
                "",
                "get /v1 a pods p log",
            ),
            (Method::GET, "/api/v1/namespaces/a//pods", "", "get /v1 a  pods -"),
            (Method::GET, "/api/v1/namespaces", "", "list /v1 - namespaces - -"),
            (Method::GET, "/api/v1/namespaces/a", "", "get /v1 a namespaces a -"),
            (
                Method::PUT,
                "/api/v1/namespaces/a/finalize",
                "",
                "update /v1 a namespaces a finalize",
            ),
            (
                Method::POST,
                "/api/v1/namespaces/a/pods/p/binding",
                "",
                "create /v1 a pods p binding",
            ),
            (
                Method::DELETE,
                "/apis/apps/v1/namespaces/a/deployments",
                "",
                "deletecollection apps/v1 a deployments - -",
            ),
            (
                Method::DELETE,
                "/apis/g.io/v1/things/t",
                "",
                "delete g.io/v1 - things t -",
            ),
            (
                Method::GET,
                "/api/v1/nodes",
                "fieldSelector=metadata.name%3Dn&watch=true",
                "watch /v1 - nodes n -",
            ),
            (
                Method::GET,
                "/api/v1/nodes",
                "fieldSelector=metadata.name%3Dn",
                "list /v1 - nodes n -",
            ),
        ];
        for (method, path, query, expected) in table {
            assert_eq!(shown(method, path, query), expected, "{path}");
        }
    }

    #[test]
    fn names_that_would_lead_elsewhere_are_refused() {
        assert_eq!(refuse_name("a.b-c"), None);
        assert_eq!(refuse_name("..").as_deref(), Some("may not be '..'"));
        assert_eq!(refuse_name("a%2").as_deref(), Some("may not contain '%'"));
        assert_eq!(
            refuse_name("/%").as_deref(),
            Some("may not contain '/';may not contain '%'")
        );
    }

    #[test]
    fn broken_encodings_and_endless_paths_are_refused() {
        let query = Query::default();
        let parse = |path: &str| RequestInfo::parse(&Method::GET, path, &query).unwrap_err();
        assert_eq!(parse("/api/v1/pods/%zz"), PathError::Encoding);
        assert_eq!(parse("/api/v1/pods/%f"), PathError::Encoding);
        assert_eq!(parse(&"/a".repeat(5000)), PathError::TooLong);
        let info = RequestInfo::parse(&Method::GET, "/api/v1/namespaces/%2e%2e/pods/%ff", &query).unwrap();
        assert!(info.has_bad_namespace);
        assert_eq!(info.target.unwrap().name.as_deref(), Some("\u{fffd}"));
    }
}
