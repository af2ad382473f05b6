//! Keys, certificates, kubeconfigs, bootstrap tokens, and the plan of a namespace's secrets: what is wanted, what
//! exists, what to generate and what to delete.
//!
//! This crate never talks to an API server, never reads the clock or the operating system's randomness itself
//! (both are arguments), and never prints secret material: [`SecretText`] shows its length and nothing more.
//!
//! Everything generated here is a function of the given [`base_clock::Entropy`] and time, signatures included
//! (RFC 6979), so that a landscape in simulated time replays byte for byte.

mod authority;
mod certificate;
mod error;
mod key;
mod kubeconfig;
mod manager;
mod material;
mod request;
mod ssh;
mod token;
mod x509;

pub use authority::{Authority, CertificateSpec, Issued, Usage, VALIDITY_AUTHORITY, VALIDITY_BACKDATED};
pub use certificate::{Certificate, RENEW_AT_PERCENT, parse_chain, renewal_time, split_bundle};
pub use error::SecretError;
pub use key::{PrivateKey, PublicKey};
pub use kubeconfig::{Credential, KubeconfigSpec, kubeconfig, to_yaml};
pub use manager::{
    Action, Content, Managed, Plan, Reason, Rotation, Wanted, data, generate, label, lookup, plan, text_of,
};
pub use material::SecretText;
pub use request::SigningRequest;
pub use ssh::SshKeyPair;
pub use token::{BootstrapToken, TokenError, password};
