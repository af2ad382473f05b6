//! What a gardenlet, and the extensions of its seed, may read and write in the garden: what belongs to their seed and nothing
//! else, whatever roles say. RBAC cannot say that, for it knows no seed of an object.
//!
//! [`Graph`] holds which object refers to which and which seeds that makes it belong to; [`decide()`] answers a request before
//! it is read, [`admit()`] a write once its object is known. All three are plain functions of what they are given. [`Keeper`]
//! fills a graph by watches and reports when it is complete. Nothing here serves, and nothing writes to an API server.
//!
//! Facts of kinds, paths and verbs: gardener/gardener v1.150 docs/deployment/gardenlet_api_access.md,
//! pkg/admissioncontroller/webhook/{auth/seed,admission/seedrestriction}, pkg/utils/graph. Stricter on purpose: what is not
//! allowed is refused and not left to roles; lists and watches must be narrowed to the seed; what a gardenlet itself writes
//! never opens the way to a Secret that was closed to it before; a Shoot stays where it is.

mod admit;
mod decide;
mod graph;
mod identity;
mod keeper;
mod kinds;
mod objects;
mod refusal;
mod review;
mod rules;
mod tie;

pub use admit::{Write, admit};
pub use decide::{Decision, Request, decide};
pub use graph::Graph;
pub use identity::{BUILTIN_OPERATOR_USER_PREFIX, Identity, Party, Who, identify};
pub use keeper::Keeper;
pub use kinds::Kind;
pub use objects::{
    BackupBucket, BackupEntry, Bastion, CertificateSigningRequest, ControllerDeployment, ControllerInstallation,
    CredentialsBinding, Holder, ManagedSeed, Project, SecretBinding, Seed, Shoot,
};
pub use refusal::Refusal;
pub use review::{BEHIND_MAX, review_access, review_write};
pub use tie::Tie;
