//! Who the caller is and what it may do: authentication (client certificates, service account tokens, bootstrap tokens,
//! anonymous, impersonation) and RBAC with the semantics of kube-apiserver v1.35. Never serves requests, never reads a store:
//! it looks up objects through [`Lookup`] and receives the RBAC objects as [`Change`]s.

mod attributes;
mod authenticate;
mod certificates;
mod error;
pub mod front_proxy;
mod gatekeeper;
mod impersonate;
mod issuer;
mod node;
mod policy;
mod rbac;
mod recent;
mod rules;
mod token;
mod user;

pub use attributes::{Attributes, Decision, ResourceTarget, Target, forbidden_message};
pub use authenticate::{Authenticated, Authenticator, Live, Lookup, overlooked_token};
pub use error::{AuthenticationError, ImpersonationError, TokenFault};
pub use gatekeeper::{Attempt, Gatekeeper, Objection, Opinion, Selectors};
pub use impersonate::Impersonation;
pub use issuer::{CONFIGURATION_PATH, IssuerDocuments, KEYS_PATH};
pub use node::{NodeDecision, Relation, names, node_decision, node_name, node_of};
pub use policy::{BootstrapPolicy, bootstrap_policy};
pub use rbac::{Authorizer, Change, RbacIndex};
pub use rules::not_held;
pub use token::{
    BoundObject, ForeignTokenSpec, IssuedToken, ServiceAccountTokens, TOKEN_VALIDITY_MAX, TOKEN_VALIDITY_MIN, TokenSpec,
};
pub use user::{PeerAddress, PeerCertificates, User, group};
