//! A whole Kubernetes as a value: an API server behind a TLS port of its own, with the controllers and the scheduler
//! that stand beside one and, where it is wanted, a node. For tests of controllers, and for `orangery apiserver`.
//!
//! ```
//! use k8s_openapi::api::core::v1::Namespace;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster = cluster_bare::Cluster::start().await?;
//! let client = cluster.client();
//! let namespaces = kube::Api::<Namespace>::all(client).list(&Default::default()).await?;
//! # assert_eq!(namespaces.items.len(), 4);
//! # Ok(())
//! # }
//! ```
//!
//! Clients of any other kind take [`Cluster::kubeconfig`]. Nothing here reads or writes a file: a cluster that is to
//! outlive the process gets a persistent store and persistent keys.

mod cluster;
mod keys;
mod kubelets;
mod parts;

pub use cluster::{Builder, Cluster};
pub use keys::Keys;
pub use kubelets::{KubeletAccess, pods_of};
