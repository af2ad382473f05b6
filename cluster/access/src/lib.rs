//! Who asks, and may they: authentication (client certificates, service account tokens, bootstrap tokens,
//! anonymous, impersonation) and RBAC with the semantics of kube-apiserver v1.35. Never serves requests, never reads a store:
//! what it needs to look up it asks for through `Lookup`, and the RBAC objects are told to it as `Change`s.

mod attributes;
mod user;

pub use attributes::{Attributes, Decision, ResourceTarget, Target, forbidden_message};
pub use user::{PeerCertificates, User, group};
