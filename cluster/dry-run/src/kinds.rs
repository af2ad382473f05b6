//! Where objects of a kind are created: discovery, requested once for each group and version.

use std::collections::BTreeMap;

use api_meta::Fault;
use cluster_bare::Cluster;
use http::Method;
use serde::Deserialize;

use crate::send;

/// What Kubernetes serves and the embedded one does not, in groups of Kubernetes itself.
const SERVED_ELSEWHERE: [(&str, &str); 2] = [("autoscaling/v1", "HorizontalPodAutoscaler"), ("v1", "Binding")];

/// How a kind is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// `/api/v1`, `/apis/apps/v1`
    root: String,
    /// `deployments`
    resource: String,
    pub(crate) is_namespaced: bool,
}

impl Kind {
    /// Namespaces themselves.
    pub(crate) fn of_namespaces() -> Self {
        Self {
            root: "/api/v1".to_owned(),
            resource: "namespaces".to_owned(),
            is_namespaced: false,
        }
    }

    /// Where an object of it is.
    pub(crate) fn path_of(&self, namespace: &str, name: &str) -> String {
        format!("{}/{name}", self.path(namespace))
    }

    /// Where objects of it are created.
    pub(crate) fn path(&self, namespace: &str) -> String {
        let Self { root, resource, .. } = self;
        if self.is_namespaced {
            format!("{root}/namespaces/{namespace}/{resource}")
        } else {
            format!("{root}/{resource}")
        }
    }
}

/// A cache of discovery. Kinds that are added later are not seen.
#[derive(Default)]
pub(crate) struct Kinds {
    /// By group and version; empty if it is not served
    served: BTreeMap<String, Vec<Served>>,
    /// The versions of a group, none if it is not served
    versions: BTreeMap<String, Vec<GroupVersion>>,
}

/// An entry of an `APIResourceList`.
#[derive(Deserialize)]
struct Served {
    name: String,
    kind: String,
    namespaced: bool,
    verbs: Vec<String>,
}

#[derive(Deserialize)]
struct List {
    resources: Vec<Served>,
}

/// The group of an object, as `/apis/GROUP` returns it.
#[derive(Deserialize)]
struct Group {
    versions: Vec<GroupVersion>,
}

#[derive(Clone, Deserialize)]
struct GroupVersion {
    #[serde(rename = "groupVersion")]
    api_version: String,
}

/// What is known of a kind in a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Served(Kind),
    /// It is not served, and why no other server will serve it.
    Gone(String),
    /// Its group belongs to another API.
    Unknown,
}

impl Kinds {
    /// How the kind is served, if it is.
    pub(crate) async fn find(&mut self, cluster: &Cluster, api_version: &str, kind: &str) -> Result<Found, Fault> {
        if let Some(served) = self.served(cluster, api_version, kind).await? {
            return Ok(Found::Served(served));
        }
        if SERVED_ELSEWHERE.contains(&(api_version, kind)) {
            return Ok(Found::Unknown);
        }
        let group = match api_version.split('/').collect::<Vec<_>>()[..] {
            ["v1"] => "",
            [group, version] if is_name(group) && is_name(version) => group,
            _ => {
                return Ok(Found::Gone(format!(
                    "{api_version:?} is no apiVersion: it is v1 or GROUP/VERSION"
                )));
            }
        };
        // Groups without a domain are Kubernetes' own.
        let is_own = !group.contains('.');
        let unserved = format!("Kubernetes does not serve {kind} of {api_version}");
        if group.is_empty() {
            return Ok(Found::Gone(unserved));
        }
        for GroupVersion { api_version: other } in &self.versions(cluster, group).await? {
            if self.served(cluster, other, kind).await?.is_some() {
                return Ok(Found::Gone(format!("{unserved}; it is in {other}")));
            }
        }
        Ok(if is_own { Found::Gone(unserved) } else { Found::Unknown })
    }

    /// The versions in which a group is served, none if it is not.
    async fn versions(&mut self, cluster: &Cluster, group: &str) -> Result<Vec<GroupVersion>, Fault> {
        if let Some(known) = self.versions.get(group) {
            return Ok(known.clone());
        }
        let answer = send(cluster, Method::GET, &format!("/apis/{group}"), String::new()).await?;
        let known = serde_json::from_value(answer.body).map_or_else(|_| Vec::new(), |group: Group| group.versions);
        self.versions.insert(group.to_owned(), known.clone());
        Ok(known)
    }

    async fn served(&mut self, cluster: &Cluster, api_version: &str, kind: &str) -> Result<Option<Kind>, Fault> {
        let Some(root) = root_of(api_version) else {
            return Ok(None);
        };
        if !self.served.contains_key(api_version) {
            let answer = send(cluster, Method::GET, &root, String::new()).await?;
            let served = serde_json::from_value(answer.body).map_or_else(|_| Vec::new(), |list: List| list.resources);
            self.served.insert(api_version.to_owned(), served);
        }
        let is_match = |served: &&Served| {
            served.kind == kind && !served.name.contains('/') && served.verbs.iter().any(|verb| verb == "create")
        };
        let served = self.served[api_version].iter().find(is_match);
        Ok(served.map(|served| Kind {
            root,
            resource: served.name.clone(),
            is_namespaced: served.namespaced,
        }))
    }
}

/// The path below which a version of a group is served. What names none is served nowhere.
fn root_of(api_version: &str) -> Option<String> {
    match api_version.split('/').collect::<Vec<_>>()[..] {
        [version] if is_name(version) => Some(format!("/api/{version}")),
        [group, version] if is_name(group) && is_name(version) => Some(format!("/apis/{group}/{version}")),
        _ => None,
    }
}

/// Whether it stays one part of a path.
fn is_name(part: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    !matches!(part, "" | "." | "..") && part.bytes().all(is_of_name)
}
