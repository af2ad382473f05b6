//! The user of a request. Never a credential.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use rustls_pki_types::CertificateDer;

/// Where a request comes from, as the port has seen it: an extension of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerAddress(pub IpAddr);

/// Well-known groups and users.
pub mod group {
    /// Everybody who showed a valid credential.
    pub const AUTHENTICATED: &str = "system:authenticated";
    /// Everybody who did not.
    pub const UNAUTHENTICATED: &str = "system:unauthenticated";
    /// Superusers: allowed everything, before RBAC is evaluated.
    pub const MASTERS: &str = "system:masters";
    /// All nodes.
    pub const NODES: &str = "system:nodes";
    /// Whoever showed a bootstrap token.
    pub const BOOTSTRAPPERS: &str = "system:bootstrappers";
    /// All service accounts; with `:<namespace>` behind it those of a namespace.
    pub const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
    /// User name of requests without a credential.
    pub const ANONYMOUS_USER: &str = "system:anonymous";
    /// Prefix of a service account's user name: `system:serviceaccount:<namespace>:<name>`.
    pub const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
}

/// The caller of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// Name; never empty on an authenticated request.
    pub name: String,
    /// Unique id where the credential carries one, else empty.
    pub uid: String,
    /// Groups, in the credential's order.
    pub groups: Vec<String>,
    /// More that the credential says, such as the pod a token is bound to.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// A user with groups.
    pub fn new(name: impl Into<String>, groups: &[&str]) -> Self {
        Self {
            name: name.into(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            ..Self::default()
        }
    }

    /// Whoever shows no credential.
    pub fn anonymous() -> Self {
        Self::new(group::ANONYMOUS_USER, &[group::UNAUTHENTICATED])
    }

    /// The user a service account is.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        let mut user = Self::new(format!("{}{namespace}:{name}", group::SERVICE_ACCOUNT_PREFIX), &[]);
        user.groups = service_account_groups(namespace);
        user.groups.push(group::AUTHENTICATED.to_owned());
        user
    }

    /// Whether the user is in the group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }

    /// Namespace and name when the user is a service account.
    pub fn as_service_account(&self) -> Option<(&str, &str)> {
        split_service_account(&self.name)
    }

    /// Adds `system:authenticated` where it is missing.
    pub(crate) fn authenticated(mut self) -> Self {
        if !self.is_in(group::AUTHENTICATED) {
            self.groups.push(group::AUTHENTICATED.to_owned());
        }
        self
    }
}

pub(crate) fn service_account_groups(namespace: &str) -> Vec<String> {
    vec![
        group::SERVICE_ACCOUNTS.to_owned(),
        format!("{}:{namespace}", group::SERVICE_ACCOUNTS),
    ]
}

pub(crate) fn split_service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(group::SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

/// The certificates a client showed, its own first. A request extension, set where the TLS connection is terminated;
/// that the client holds the private key is proven, who signed the certificate is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerCertificates(pub Arc<Vec<CertificateDer<'static>>>);

impl PeerCertificates {
    /// Wraps a chain.
    pub fn new(chain: Vec<CertificateDer<'static>>) -> Self {
        Self(Arc::new(chain))
    }
}
