//! Impersonation headers: what they request, and the resulting user. Never checks whether the caller may; the
//! API server authorises [`Impersonation::requests`] one by one.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderMap;
use percent_encoding::percent_decode_str;

use crate::error::ImpersonationError;
use crate::user::{service_account_groups, split_service_account};
use crate::{Attributes, ResourceTarget, User, group};

const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA_PREFIX: &str = "impersonate-extra-";
const AUTHENTICATION_GROUP: &str = "authentication.k8s.io";

/// The user as whom a request wants to act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impersonation {
    user: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

impl Impersonation {
    /// Reads the headers; `None` when there are none.
    ///
    /// # Errors
    /// [`ImpersonationError`] when they contradict themselves.
    pub fn from_headers(headers: &HeaderMap) -> Result<Option<Self>, ImpersonationError> {
        let mut requested = Self {
            user: String::new(),
            uid: String::new(),
            groups: Vec::new(),
            extra: BTreeMap::new(),
        };
        for (name, value) in headers {
            let name = name.as_str();
            if !name.starts_with("impersonate-") {
                continue;
            }
            let text = value
                .to_str()
                .map_err(|_| ImpersonationError::NotText(name.to_owned()))?
                .to_owned();
            match name {
                USER => requested.user = text,
                UID => requested.uid = text,
                GROUP => requested.groups.push(text),
                _ => {
                    if let Some(key) = name.strip_prefix(EXTRA_PREFIX) {
                        requested.extra.entry(unescape(key)).or_default().push(text);
                    }
                }
            }
        }
        if !requested.user.is_empty() {
            return Ok(Some(requested));
        }
        if requested.uid.is_empty() && requested.groups.is_empty() && requested.extra.is_empty() {
            Ok(None)
        } else {
            Err(ImpersonationError::WithoutUser(requested.printed()))
        }
    }

    /// What is requested beside a user, as Go prints its object references: kind, namespace, name, uid, version, resource
    /// version and field.
    fn printed(&self) -> String {
        let version = format!("{AUTHENTICATION_GROUP}/v1");
        let groups = self.groups.iter().map(|group| format!("{{Group  {group}    }}"));
        let extra = self.extra.iter().flat_map(|(key, values)| {
            let one = |value: &String| format!("{{UserExtra  {value}  {version}  {key}}}");
            values.iter().map(one).collect::<Vec<_>>()
        });
        let uid = Some(&self.uid).filter(|uid| !uid.is_empty());
        let uid = uid.map(|uid| format!("{{UID  {uid}  {version}  }}"));
        groups.chain(extra).chain(uid).collect::<Vec<_>>().join(" ")
    }

    /// What the real user must be allowed, one by one (verb `impersonate`).
    pub fn requests(&self, real: &Arc<User>) -> Vec<Attributes> {
        let attributes = |group: &str, resource: &str, subresource: &str, namespace: &str, name: &str| {
            let target = ResourceTarget {
                group: group.to_owned(),
                version: if group.is_empty() {
                    String::new()
                } else {
                    "v1".to_owned()
                },
                resource: resource.to_owned(),
                subresource: subresource.to_owned(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            };
            Attributes::resource(real, "impersonate", target)
        };
        let mut all = vec![match split_service_account(&self.user) {
            Some((namespace, name)) => attributes("", "serviceaccounts", "", namespace, name),
            None => attributes("", "users", "", "", &self.user),
        }];
        all.extend(self.groups.iter().map(|group| attributes("", "groups", "", "", group)));
        for (key, values) in &self.extra {
            all.extend(
                values
                    .iter()
                    .map(|value| attributes(AUTHENTICATION_GROUP, "userextras", key, "", value)),
            );
        }
        if !self.uid.is_empty() {
            all.push(attributes(AUTHENTICATION_GROUP, "uids", "", "", &self.uid));
        }
        all
    }

    /// The user of the request from then on (groups as
    /// kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/endpoints/filters/impersonation.go).
    pub fn user(&self) -> User {
        let mut groups = self.groups.clone();
        if groups.is_empty()
            && let Some((namespace, _)) = split_service_account(&self.user)
        {
            groups = service_account_groups(namespace);
        }
        let general = if self.user == group::ANONYMOUS_USER {
            group::UNAUTHENTICATED
        } else {
            group::AUTHENTICATED
        };
        if !groups
            .iter()
            .any(|own| own == group::AUTHENTICATED || own == group::UNAUTHENTICATED)
        {
            groups.push(general.to_owned());
        }
        User {
            name: self.user.clone(),
            uid: self.uid.clone(),
            groups,
            extra: self.extra.clone(),
        }
    }
}

/// Header names carry extra keys percent-encoded.
pub(crate) fn unescape(key: &str) -> String {
    percent_decode_str(key).decode_utf8_lossy().into_owned()
}
