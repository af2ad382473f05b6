//! Helm's charts: their files, their values, what they render and in which order. It sends no request to a registry and
//! knows no cluster.

pub mod chart;
mod dependencies;
pub mod engine;
pub mod lint;
mod manifest;
pub mod render;
pub mod values;

pub use chart::{Chart, ChartError};
pub use dependencies::{DependencyError, process_dependencies};
pub use engine::{Engine, RenderError, Rendered, Setting};
pub use manifest::{HeadError, Hook, HookEvent, INSTALL_ORDER, Manifest, ManifestError, Sorted, sort_manifests};
