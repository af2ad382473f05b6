//! Names, versions, scope and subresources of a kind. Data only.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use base_clock::Entropy;
use cluster_access::{ForeignTokenSpec, IssuedToken, ServiceAccountTokens, User};
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::other_objects::Objects;
use crate::storage::stores::store_name;
use crate::wire::status::Status;

/// Names and shape of a resource.
#[derive(Clone, Debug)]
pub struct ResourceInfo {
    /// API group, empty for core.
    pub group: Cow<'static, str>,
    /// `Shoot`.
    pub kind: Cow<'static, str>,
    /// `ShootList`.
    pub list_kind: Cow<'static, str>,
    /// `shoots`.
    pub plural: Cow<'static, str>,
    /// `shoot`.
    pub singular: Cow<'static, str>,
    /// What people may type instead.
    pub short_names: Vec<Cow<'static, str>>,
    /// Groups of kinds such as `all`.
    pub categories: Vec<Cow<'static, str>>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// In order of preference; exactly one has `storage`.
    pub versions: Vec<Version>,
    /// `status` and others.
    pub subresources: Vec<Subresource>,
}

/// A version of a resource.
#[derive(Clone, Debug)]
pub struct Version {
    /// `v1beta1`.
    pub name: Cow<'static, str>,
    /// Whether clients may use it.
    pub served: bool,
    /// Whether it is the hub, in which objects are stored.
    pub storage: bool,
    /// The `Warning` header for clients that use it.
    pub deprecation_warning: Option<String>,
}

/// A path below an object.
#[derive(Clone, Debug)]
pub struct Subresource {
    /// `status`, `scale`, `adminkubeconfig`.
    pub name: Cow<'static, str>,
    /// The version that has it; none: all of them have.
    pub version: Option<Cow<'static, str>>,
    /// Group, version and kind of the body where it is not the object's own, for discovery: `("autoscaling", "v1", "Scale")`.
    pub body: Option<(Cow<'static, str>, Cow<'static, str>, Cow<'static, str>)>,
    /// What it does.
    pub form: Form,
}

/// What a subresource does.
#[derive(Clone)]
pub enum Form {
    /// GET, PUT and PATCH of the whole object, of which only a part is written.
    Part,
    /// GET, PUT and PATCH of an `autoscaling/v1` Scale over the object.
    Scale(ScalePaths),
    /// POST of a body of its own.
    Action(Arc<dyn Action>),
    /// POST of a body of its own that the server itself deals with (built-in kinds alone).
    Internal,
    /// What the pod's node answers (built-in kinds alone).
    Connect(Connect),
    /// What listens on a node, a pod or a service answers (built-in kinds alone).
    Proxy(Proxied),
    /// Not served, and not in discovery; requests are answered 501 with the given name of the feature.
    Unsupported(&'static str),
}

impl fmt::Debug for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Part => f.write_str("Part"),
            Self::Scale(paths) => f.debug_tuple("Scale").field(paths).finish(),
            Self::Action(_) => f.write_str("Action"),
            Self::Internal => f.write_str("Internal"),
            Self::Connect(what) => f.debug_tuple("Connect").field(what).finish(),
            Self::Proxy(what) => f.debug_tuple("Proxy").field(what).finish(),
            Self::Unsupported(what) => f.debug_tuple("Unsupported").field(what).finish(),
        }
    }
}

/// Where a Scale finds its numbers, as dotted paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    /// `.spec.replicas`
    pub spec_replicas: String,
    /// `.status.replicas`
    pub status_replicas: String,
    /// `.status.selector` (text) or `.spec.selector` (a label selector).
    pub selector: Option<String>,
}

/// A POST below an object: `shoots/adminkubeconfig`.
pub trait Action: Send + Sync {
    /// Answers with the body to return, `apiVersion` and `kind` included; the HTTP code is 201.
    fn run<'a>(&'a self, call: ActionCall<'a>) -> BoxFuture<'a, Result<Value, Status>>;
}

/// The argument of an [`Action`].
pub struct ActionCall<'a> {
    /// The caller; already authorized for verb `create` on the subresource.
    pub user: &'a User,
    /// The version in the path.
    pub version: &'a str,
    /// `None` for cluster-scoped kinds.
    pub namespace: Option<&'a str>,
    /// The object's name.
    pub name: &'a str,
    /// The object, in the hub version; it exists.
    pub object: &'a Value,
    /// What was posted.
    pub body: Value,
    /// Wall-clock time.
    pub now: Timestamp,
    /// Nothing may be changed.
    pub dry_run: bool,
    /// The other objects of this server.
    pub objects: &'a dyn Objects,
    /// Signs tokens with this server's own key.
    pub tokens: TokenIssuer<'a>,
}

/// Issues tokens of identities that are no service accounts, signed with the key that signs those of service accounts: one
/// issuer, whose documents show others how to check either.
#[derive(Clone, Copy)]
pub struct TokenIssuer<'a> {
    pub(crate) tokens: Option<&'a ServiceAccountTokens>,
    pub(crate) entropy: &'a Entropy,
}

impl TokenIssuer<'_> {
    /// Issues a token.
    ///
    /// # Errors
    /// 501 where the server has no key to sign with.
    pub fn issue(&self, spec: &ForeignTokenSpec) -> Result<IssuedToken, Status> {
        let issued = self.tokens.and_then(|tokens| tokens.issue_foreign(spec, self.entropy));
        issued.ok_or_else(|| Status::not_implemented("a TokenRequest without a signing key"))
    }
}

impl ResourceInfo {
    /// A namespaced resource with one version; the other fields are for the caller to change.
    pub fn namespaced(group: &'static str, version: &'static str, kind: &'static str, plural: &'static str) -> Self {
        Self {
            group: group.into(),
            kind: kind.into(),
            list_kind: format!("{kind}List").into(),
            plural: plural.into(),
            singular: kind.to_ascii_lowercase().into(),
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced: true,
            versions: vec![Version::storage(version)],
            subresources: Vec::new(),
        }
    }

    /// A cluster-scoped resource with one version.
    pub fn cluster(group: &'static str, version: &'static str, kind: &'static str, plural: &'static str) -> Self {
        Self {
            namespaced: false,
            ..Self::namespaced(group, version, kind, plural)
        }
    }

    /// Adds short names.
    #[must_use]
    pub fn short(mut self, names: &[&'static str]) -> Self {
        self.short_names.extend(names.iter().map(|name| Cow::Borrowed(*name)));
        self
    }

    /// Adds categories.
    #[must_use]
    pub fn category(mut self, names: &[&'static str]) -> Self {
        self.categories.extend(names.iter().map(|name| Cow::Borrowed(*name)));
        self
    }

    /// Adds a version that is served and not stored, after those there are.
    #[must_use]
    pub fn also(mut self, version: &'static str) -> Self {
        self.versions.push(Version {
            storage: false,
            ..Version::storage(version)
        });
        self
    }

    /// Adds a part: a subresource that is read and written as the whole object.
    #[must_use]
    pub fn part(self, name: &'static str) -> Self {
        self.subresource(name, None, Form::Part)
    }

    /// Adds the `status` part.
    #[must_use]
    pub fn with_status(self) -> Self {
        self.part("status")
    }

    /// Adds an action whose body is of another kind.
    #[must_use]
    pub fn action(
        self,
        name: &'static str,
        body: (&'static str, &'static str, &'static str),
        action: Arc<dyn Action>,
    ) -> Self {
        self.subresource(name, Some(body), Form::Action(action))
    }

    /// Adds any subresource.
    #[must_use]
    pub fn subresource(
        mut self,
        name: &'static str,
        body: Option<(&'static str, &'static str, &'static str)>,
        form: Form,
    ) -> Self {
        let body = body.map(|(group, version, kind)| (group.into(), version.into(), kind.into()));
        self.subresources.push(Subresource {
            name: name.into(),
            version: None,
            body,
            form,
        });
        self
    }

    /// The hub version.
    pub fn storage_version(&self) -> &str {
        let stored = self.versions.iter().find(|version| version.storage);
        stored.or(self.versions.first()).map_or("", |version| &version.name)
    }

    /// `group/version`, or the version alone for core.
    pub fn api_version(&self, version: &str) -> String {
        if self.group.is_empty() {
            version.to_owned()
        } else {
            format!("{}/{version}", self.group)
        }
    }

    /// The version whose [`ResourceInfo::api_version`] that is.
    pub fn version_of(&self, api_version: &str) -> Option<&str> {
        let mut versions = self.versions.iter().map(|version| version.name.as_ref());
        versions.find(|version| self.api_version(version) == api_version)
    }

    /// The subresources of a version.
    pub fn subresources_in(&self, version: &str) -> impl Iterator<Item = &Subresource> {
        let in_version = move |subresource: &&Subresource| {
            let only = subresource.version.as_deref();
            only.is_none_or(|only| only == version)
        };
        self.subresources.iter().filter(in_version)
    }

    /// The subresource of that name in a version.
    pub fn find_subresource(&self, name: &str, version: &str) -> Option<&Subresource> {
        self.subresources_in(version)
            .find(|subresource| subresource.name == name)
    }

    /// Whether a version has the subresource `status`.
    pub fn has_status(&self, version: &str) -> bool {
        self.find_subresource("status", version).is_some()
    }

    /// What the store calls it: `apps/deployments`, `pods`.
    pub fn store_name(&self) -> String {
        store_name(&self.group, &self.plural)
    }
}

impl Version {
    /// The one version, or the hub of several.
    pub fn storage(name: &'static str) -> Self {
        Self {
            name: name.into(),
            served: true,
            storage: true,
            deprecation_warning: None,
        }
    }
}

/// The kinds that have `proxy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proxied {
    /// `nodes/proxy`
    Node,
    /// `pods/proxy`
    Pod,
    /// `services/proxy`
    Service,
}

impl Proxied {
    /// The kind of the options that admission and discovery see.
    pub(crate) fn options(self) -> &'static str {
        match self {
            Self::Node => "NodeProxyOptions",
            Self::Pod => "PodProxyOptions",
            Self::Service => "ServiceProxyOptions",
        }
    }
}

/// What a pod's node is requested to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connect {
    /// Return the output of a container.
    Log,
    /// Run a program in a container.
    Exec,
    /// Connect to the program that runs there.
    Attach,
    /// Forward a port of the pod.
    PortForward,
}

impl Connect {
    /// The kind of the options that admission sees.
    pub(crate) fn options(self) -> &'static str {
        match self {
            Self::Log => "PodLogOptions",
            Self::Exec => "PodExecOptions",
            Self::Attach => "PodAttachOptions",
            Self::PortForward => "PodPortForwardOptions",
        }
    }
}
