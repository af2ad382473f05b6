//! Artefacts of OCI registries, charts above all: pulled by tag or digest, verified, cached on disk. It pushes nothing, runs no
//! programs for credentials itself, and knows neither what is in a chart nor a cluster.
//!
//! Written on `hyper` and not on `oci-client` 0.18: that one reads manifests and tokens whatever their size, sends credentials to
//! any token service that a registry names, retries nothing, and brings reqwest, with aws-lc-rs beside the ring that all else
//! here uses.

mod cache;
mod challenge;
mod chart;
mod client;
mod credentials;
mod error;
mod exchange;
mod helper;
mod manifest;
mod proxy;
mod pull;
mod reference;
#[cfg(test)]
mod tests;
mod token;
mod transport;

pub use cache::{CACHE_BYTES_MAX, Cache};
pub use client::{Client, Identity, Mirror, PULL_TIMEOUT, Settings, SettingsError, Watcher};
pub use credentials::{CONFIG_BYTES_MAX, Keyring, KeyringError};
pub use error::{Error, Kind, Missing};
pub use helper::{Helper, Login};
pub use manifest::Artefact;
pub use proxy::{Proxies, ProxyError};
pub use pull::Pulled;
pub use reference::{Digest, Reference, ReferenceError, SCHEME, tag_of_version, version_of_tag};
