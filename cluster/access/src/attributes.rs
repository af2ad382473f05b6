//! The attributes of a request, and the decision. Never decides; see the RBAC index.

use std::sync::Arc;

use crate::User;

/// The attributes of a request, as authorisation sees them. Names as in Kubernetes' SubjectAccessReview.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The caller.
    pub user: Arc<User>,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or any other verb of a
    /// resource; for paths the HTTP method in lower case.
    pub verb: String,
    /// What it is about.
    pub target: Target,
}

/// What a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Objects.
    Resource(ResourceTarget),
    /// A path that is no object, such as `/healthz`.
    Path(String),
}

/// Objects a request is about. Empty text means none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceTarget {
    /// API group; empty for the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Plural, lower case.
    pub resource: String,
    /// Subresource such as `status`.
    pub subresource: String,
    /// Namespace; empty for cluster-scoped objects and requests across namespaces.
    pub namespace: String,
    /// Name of the object; empty for collections.
    pub name: String,
}

impl ResourceTarget {
    /// `pods/log`, or `pods` without a subresource.
    pub fn combined(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }

    /// `deployments.apps`, or `pods` for the core group.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.resource.clone()
        } else {
            format!("{}.{}", self.resource, self.group)
        }
    }
}

impl Attributes {
    /// A request about objects.
    pub fn resource(user: &Arc<User>, verb: &str, target: ResourceTarget) -> Self {
        Self {
            user: user.clone(),
            verb: verb.to_owned(),
            target: Target::Resource(target),
        }
    }

    /// A request about a path.
    pub fn path(user: &Arc<User>, verb: &str, path: &str) -> Self {
        Self {
            user: user.clone(),
            verb: verb.to_owned(),
            target: Target::Path(path.to_owned()),
        }
    }
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Allowed, and by what.
    Allow(String),
    /// Nothing allows it. The text is often empty: that no rule matches needs no explanation.
    Deny(String),
}

impl Decision {
    /// Whether it is allowed.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allow(_))
    }
}

/// The message of the 403 that answers a denied request, word for word as kube-apiserver
/// (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go and
/// apimachinery/pkg/api/errors NewForbidden).
pub fn forbidden_message(attributes: &Attributes, reason: &str) -> String {
    let user = quote(&attributes.user.name);
    let verb = &attributes.verb;
    let (subject, denial) = match &attributes.target {
        Target::Path(path) => (
            "forbidden".to_owned(),
            format!("User {user} cannot {verb} path {}", quote(path)),
        ),
        Target::Resource(target) => {
            let place = if target.namespace.is_empty() {
                "at the cluster scope".to_owned()
            } else {
                format!("in the namespace {}", quote(&target.namespace))
            };
            let what = format!(
                "resource {} in API group {}",
                quote(&target.combined()),
                quote(&target.group)
            );
            let name = if target.name.is_empty() {
                String::new()
            } else {
                format!(" {}", quote(&target.name))
            };
            (
                format!("{}{name} is forbidden", target.qualified()),
                format!("User {user} cannot {verb} {what} {place}"),
            )
        }
    };
    let reason = if reason.is_empty() {
        String::new()
    } else {
        format!(": {reason}")
    };
    format!("{subject}: {denial}{reason}")
}

/// Text in double quotes as Go's `%q` writes it.
pub(crate) fn quote(text: &str) -> String {
    base_go::quoted(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_reads_as_kube_apiservers() {
        let user = Arc::new(User::new("y", &[]));
        let target = ResourceTarget {
            group: "stable.example.org".into(),
            resource: "widgets".into(),
            namespace: "z".into(),
            name: "x".into(),
            ..ResourceTarget::default()
        };
        let text = forbidden_message(&Attributes::resource(&user, "create", target), "");
        assert_eq!(
            text,
            r#"widgets.stable.example.org "x" is forbidden: User "y" cannot create resource "widgets" in API group "stable.example.org" in the namespace "z""#
        );
        let target = ResourceTarget {
            resource: "pods".into(),
            subresource: "log".into(),
            ..ResourceTarget::default()
        };
        let text = forbidden_message(&Attributes::resource(&user, "get", target), "RBAC: x");
        assert_eq!(
            text,
            r#"pods is forbidden: User "y" cannot get resource "pods/log" in API group "" at the cluster scope: RBAC: x"#
        );
        for (path, quoted) in [
            ("/healthz", r#""/healthz""#),
            ("/a'\u{1b}\0\u{ad}", r#""/a'\x1b\x00\u00ad""#),
        ] {
            let text = forbidden_message(&Attributes::path(&user, "get", path), "");
            assert_eq!(text, format!(r#"forbidden: User "y" cannot get path {quoted}"#));
        }
    }
}
