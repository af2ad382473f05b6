//! Helm's charts: their files, their values, the order of what they render. It renders nothing itself, asks no registry and
//! knows no cluster.

pub mod chart;
mod dependencies;
mod manifest;
pub mod render;
pub mod values;

pub use chart::{Chart, ChartError};
pub use dependencies::process_dependencies;
pub use manifest::{HeadError, Hook, HookEvent, INSTALL_ORDER, Manifest, ManifestError, Sorted, sort_manifests};
