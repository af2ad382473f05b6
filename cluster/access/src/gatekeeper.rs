//! Gatekeepers: authorizers of other crates that are called in order before RBAC, as in kube-apiserver's chain, and that
//! may refuse writes as well. It never contains their rules.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/authorization/{authorizer,union})

use std::pin::Pin;
use std::time::Duration;

use serde_json::Value;

use crate::{Attributes, User};

/// One authorizer of the chain. It answers at once, from what is known, and states whether the answer may soon change.
pub trait Gatekeeper: Send + Sync + 'static {
    /// Whether requests of this user are decided here at all. Called for every request.
    fn concerns(&self, user: &User) -> bool;

    /// Whether a request may go on; `selectors` narrow a list, a watch or a deletion of many.
    fn decide(&self, attributes: &Attributes, selectors: &Selectors) -> Opinion;

    /// Whether a write may be stored: called when its object is complete, before other validating admission.
    ///
    /// # Errors
    /// The objection.
    fn admit(&self, attempt: &Attempt<'_>) -> Result<(), Objection>;

    /// Resolves when an answer may differ from that at the time of this call.
    fn news(&self) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opinion {
    /// Allowed, and by what; no other is called.
    Allow(String),
    /// Refused, whatever others would answer.
    Deny(Objection),
    /// The next one decides, at last the rules.
    NoOpinion,
}

/// Why something is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objection {
    /// The reason, for the caller.
    pub why: String,
    /// How long to wait for a change that may allow it; zero when none can.
    pub patience: Duration,
}

/// What objects must have to be among those of a request. All requirements hold; those that are not a plain equality are left
/// out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selectors {
    /// Fields with their values.
    pub fields: Vec<(String, String)>,
    /// Labels with their values.
    pub labels: Vec<(String, String)>,
}

/// A write of one object or of a part of it.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// Who writes.
    pub user: &'a User,
    /// API group; empty for the core group.
    pub group: &'a str,
    /// Plural.
    pub resource: &'a str,
    /// Part of the object; empty for the object itself.
    pub subresource: &'a str,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
    /// As it is to be stored; none when it is deleted.
    pub object: Option<&'a Value>,
    /// As it is stored; none when it is new.
    pub old: Option<&'a Value>,
}
